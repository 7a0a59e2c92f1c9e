// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weights of a Hugging Face directory: one safetensors file (bytes/Safetensors.h), or shards that an index names.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_SAFETENSORS_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_SAFETENSORS_H

#include "frontends/Checkpoint.h"
#include "frontends/ModelFiles.h"

namespace heddle {

// Adds the file's tensors to `checkpoint`. A name that is there already is an error (a tensor in two shards), as are more tensors than
// one file may have.
Status readSafetensors(SharedFile file, Checkpoint &checkpoint);

// Reads model.safetensors in the model's folder, or the shards that model.safetensors.index.json names there. Shards must be plain file
// names.
Expected<Checkpoint> readSafetensorsDirectory(ModelFiles &files);

} // namespace heddle

#endif
