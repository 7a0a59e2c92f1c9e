// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of any format.
#ifndef HEDDLE_FRONTENDS_READ_READMODEL_H
#define HEDDLE_FRONTENDS_READ_READMODEL_H

#include "frontends/GivenSize.h"
#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"

namespace heddle {

// Reads a GGUF file (any part of a split one), a Hugging Face directory, or an ONNX file. Does not read the tokenizer. `sizes`: of an
// ONNX file's inputs, which leave them open. `use`: of a decoder of the other two.
Expected<Model> readModel(ModelFiles &files, const std::vector<GivenSize> &sizes = {},
                          DecoderUse use = DecoderUse::Stated);
// The decoder of a GGUF file, and what sees images in another, an mmproj.
Expected<Model> readModelWithImages(ModelFiles &files, ModelFiles &mmproj);
// Whether readModel takes the model for an ONNX file: by its content, or by its name.
bool isOnnx(ModelFiles &files);
// The same for who reads nothing else of the model.
Expected<Model> readModel(const std::string &path, DecoderUse use = DecoderUse::Stated);
bool isOnnx(const std::string &path);

} // namespace heddle

#endif
