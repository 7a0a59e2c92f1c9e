// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hugging Face directories: config.json, generation_config.json, safetensors.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_HUGGINGFACE_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_HUGGINGFACE_H

#include "frontends/Family.h"
#include "frontends/ModelFiles.h"

namespace heddle {

// A model of one of `families`. Tensors keep their published names, with these brought to one form: checkpoints of bare models get their prefix, text
// models within multimodal ones lose theirs, and experts that lie fused in one tensor become one tensor each.
// Before that, `restoreQuantized` gives weights that are stored in parts their own names.
using RestoreTensors = Status (*)(ModelFiles &files, Model &model);
Expected<Model> readHuggingFace(ModelFiles &files, const FamilyList &families, RestoreTensors restoreQuantized,
                                DecoderUse use);

// What tensors under the names of their rules say of their shapes and order, of a file that stores them as Hugging Face's do.
void noteStoredOrder(Model &model);

// The names that readHuggingFace may have given to a tensor that some class of the family calls `name`.
std::vector<std::string> canonicalNames(const Family &family, const std::string &name);

} // namespace heddle

#endif
