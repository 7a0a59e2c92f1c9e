// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Json.h"

#include "frontends/UnnamedFile.h"

#include <algorithm>

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
  return JsonFile{*file, root, nullptr};
}

Expected<JsonFile> readConfigFile(ModelFiles &files, const std::string &name, size_t maxBytes) {
  Expected<JsonFile> json = readJsonFile(files, name, maxBytes, JsonForm::Python);
  std::string error;
  if (json && !isUnambiguousJson(json->root, error))
    return errorIn(json->file->path(), "not valid JSON: " + error);
  return json;
}

Expected<JsonFile> makeJsonFile(const std::string &path, std::string text, JsonOrigins origins) {
  constexpr size_t alignment = 64; // of what is added to an unnamed file: blanks fill it up
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  UnnamedFile unnamed(path);
  Checkpoint mapped;
  uint64_t offset = 0;
  auto fill = [&](int64_t, int64_t, uint8_t *out) { std::copy(text.begin(), text.end(), out); };
  HEDDLE_RETURN_IF_ERROR(unnamed.add(/*rows=*/1, int64_t(text.size()), text.size(), fill, offset));
  HEDDLE_RETURN_IF_ERROR(unnamed.addTo(mapped));
  std::string error;
  JsonValue root = JsonValue::parse(mapped.files.front()->text(), error);
  if (!root)
    return errorIn(path, error);
  return JsonFile{mapped.files.front(), root, std::make_shared<const JsonOrigins>(std::move(origins))};
}

} // namespace heddle
