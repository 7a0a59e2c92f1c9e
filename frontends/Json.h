// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON files of a model's folder, mapped for as long as their values are walked.
#ifndef HEDDLE_FRONTENDS_JSON_H
#define HEDDLE_FRONTENDS_JSON_H

#include "bytes/Json.h"
#include "bytes/MappedFile.h"
#include "frontends/ModelFiles.h"

#include <map>
#include <memory>

namespace heddle {

// What a value of made JSON was made of: its key in the user's file, and the byte at which it lies there.
struct JsonOrigin {
  std::string name;
  uint64_t offset = 0;
};
using JsonOrigins = std::map<std::string, JsonOrigin>; // by key, behind those of the objects around it

struct JsonFile {
  std::shared_ptr<MappedFile> file;
  JsonValue root;
  std::shared_ptr<const JsonOrigins> origins; // null: the JSON is the user's own
};

// The model's file of that name, of at most `maxBytes`. Errors name the file and the byte.
Expected<JsonFile> readJsonFile(ModelFiles &files, const std::string &name, size_t maxBytes,
                                JsonForm form = JsonForm::Standard);

// The same of a config, which may hold Infinity and NaN, as transformers writes them: nowhere in it is a key there twice or a number out of range.
Expected<JsonFile> readConfigFile(ModelFiles &files, const std::string &name, size_t maxBytes);

// JSON that a reader made of what another file says: messages name that file, `path`, and its keys.
Expected<JsonFile> makeJsonFile(const std::string &path, std::string text, JsonOrigins origins);

} // namespace heddle

#endif
