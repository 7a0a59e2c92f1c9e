// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors of a clip file under the names of a tower's rules.
#ifndef HEDDLE_FRONTENDS_MMPROJ_CLIPTENSORS_H
#define HEDDLE_FRONTENDS_MMPROJ_CLIPTENSORS_H

#include "frontends/gguf/Gguf.h"
#include "frontends/mmproj/Projector.h"

namespace heddle {

// The tensors that `tower` and its head ask for. What the file has apart, or in another order, is put together in a file without a name; any other tensor
// that nothing asks for keeps its own name.
Expected<Checkpoint> takeClipTensors(const GgufFile &file, const Projector &projector, const ModelConfig &tower);

} // namespace heddle

#endif
