// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The licence of a model, as its files state it: `general.license` of a GGUF file, `license:` of the model card (README.md) of a Hugging
// Face folder. Nothing depends on it but what an output says of itself, so a statement that cannot be read is no error.
#ifndef HEDDLE_FRONTENDS_LICENSE_H
#define HEDDLE_FRONTENDS_LICENSE_H

#include "frontends/ModelFiles.h"

#include <string_view>

namespace heddle {

// `stated` where it is a name, or an expression of names: letters, digits, spaces and "-+._()", at most 128 of them. Else "".
std::string licenseName(std::string_view stated);

// The key `license` of the card's front matter, which stands between two lines "---" at its beginning. "" where it says none.
std::string modelCardLicense(ModelFiles &files);

} // namespace heddle

#endif
