// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON files of a model's folder, mapped for as long as their values are walked.
#ifndef HEDDLE_FRONTENDS_JSON_H
#define HEDDLE_FRONTENDS_JSON_H

#include "bytes/Json.h"
#include "bytes/MappedFile.h"
#include "frontends/ModelFiles.h"

#include <memory>

namespace heddle {

struct JsonFile {
  std::shared_ptr<MappedFile> file;
  JsonValue root;
};

// The model's file of that name, of at most `maxBytes`. Errors name the file and the byte.
Expected<JsonFile> readJsonFile(ModelFiles &files, const std::string &name, size_t maxBytes,
                                JsonForm form = JsonForm::Standard);

// The same of a config, which may hold Infinity and NaN, as transformers writes them: nowhere in it is a key there twice or a number out of range.
Expected<JsonFile> readConfigFile(ModelFiles &files, const std::string &name, size_t maxBytes);

} // namespace heddle

#endif
