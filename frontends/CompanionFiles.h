// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What lies beside the weights of a Hugging Face folder or of an ONNX file and is read with them: config and tokenizer.
#ifndef HEDDLE_FRONTENDS_COMPANIONFILES_H
#define HEDDLE_FRONTENDS_COMPANIONFILES_H

#include <string>
#include <vector>

namespace heddle {

// Names, sorted, of those that `folder` ("": the current one) holds.
std::vector<std::string> companionFiles(const std::string &folder);

} // namespace heddle

#endif
