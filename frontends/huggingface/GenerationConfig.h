// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// generation_config.json, or what of it stands in config.json: end tokens, defaults of sampling, and what else of it changes answers.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_GENERATIONCONFIG_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_GENERATIONCONFIG_H

#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// Whether a config.json holds keys of generation_config.json, as older releases of the reference wrote them there.
bool statesGeneration(const JsonObject &config);
// Reads generation_config.json, which overrides config.json. Where there is none, the keys that `object` of config.json holds, if it is not null,
// count, as the reference takes them.
Status readGenerationDefaults(ModelFiles &files, const JsonObject *object, ModelConfig &config);

} // namespace heddle

#endif
