// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a folder says what becomes of sound or images before its model: preprocessor_config.json, or a part of processor_config.json.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_PROCESSORCONFIG_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_PROCESSORCONFIG_H

#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

#include <functional>

namespace heddle {

// Calls `read` with the first that is there; `part` names the object of processor_config.json. Fails where a file is not JSON, or what `read`
// says of the object; without either file nothing is read.
Status readProcessorConfig(ModelFiles &files, const char *part, const std::function<void(JsonObject &)> &read);

} // namespace heddle

#endif
