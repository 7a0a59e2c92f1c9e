// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a model file to the tokenizer in its package, whichever format it comes in; README.md says how each fills the table.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_TOKENIZERREADER_H
#define HEDDLE_FRONTENDS_TOKENIZER_TOKENIZERREADER_H

#include "bytes/Expected.h"
#include "frontends/ModelFiles.h"

#include <string>

namespace heddle {

// The table as a finished FlatBuffer (root package::Tokenizer), or an empty string for a model without a tokenizer. The model is
// a GGUF file, a Hugging Face directory, an ONNX file with the tokenizer's files beside it, or a tokenizer file itself. Everything
// that the runtime would refuse is an error here: what this returns, Tokenizer::create and ChatTemplate::parse accept.
// `vocabSize` is the number of rows in the model's embedding; 0 leaves it to the config.json beside the tokenizer.
Expected<std::string> readTokenizer(ModelFiles &files, int64_t vocabSize = 0);
// The same for who reads nothing else of the model.
Expected<std::string> readTokenizer(const std::string &modelPath);

} // namespace heddle

#endif
