// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/ProcessorConfig.h"

#include "frontends/huggingface/Config.h"

namespace heddle {

Status readProcessorConfig(ModelFiles &files, const char *part, const std::function<void(JsonObject &)> &read) {
  for (auto [name, key] :
       {std::pair<const char *, const char *>{"preprocessor_config.json", nullptr}, {"processor_config.json", part}}) {
    if (!files.has(name))
      continue;
    Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
    if (!json)
      return json.status();
    JsonObject whole(*json, files.pathOf(name));
    if (key && !whole.has(key))
      continue;
    JsonObject processor = key ? whole.object(key) : whole;
    read(processor);
    HEDDLE_RETURN_IF_ERROR(whole.status());
    return processor.status();
  }
  return Status();
}

} // namespace heddle
