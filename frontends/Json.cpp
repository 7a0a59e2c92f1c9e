// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Json.h"

namespace heddle {

Expected<JsonFile> readJsonFile(ModelFiles &files, const std::string &name, size_t maxBytes, JsonForm form) {
  Expected<SharedFile> file = files.open(name);
  if (!file)
    return file.status();
  const std::string &path = (*file)->path();
  if ((*file)->size() > maxBytes)
    return errorIn(path, std::to_string((*file)->size()) + " bytes of JSON, at most " + std::to_string(maxBytes) +
                             " are read");
  std::string error;
  size_t at = 0;
  JsonValue root = JsonValue::parse((*file)->text(), error, &at, form);
  if (!root)
    return errorIn(path, error).atByte(at);
  return JsonFile{*file, root};
}

Expected<JsonFile> readConfigFile(ModelFiles &files, const std::string &name, size_t maxBytes) {
  Expected<JsonFile> json = readJsonFile(files, name, maxBytes, JsonForm::Python);
  std::string error;
  if (json && !isUnambiguousJson(json->root, error))
    return errorIn(json->file->path(), "not valid JSON: " + error);
  return json;
}

} // namespace heddle
