// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// generation_config.json, or what of it stands in config.json: end tokens, defaults of sampling, and what else of it changes answers.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_GENERATIONCONFIG_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_GENERATIONCONFIG_H

#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// config.json as the reference reads keys of generation_config.json in it, which older releases wrote there: what the object itself lacks, its part that
// generates says.
JsonObject statedGeneration(JsonObject &config);
// Reads generation_config.json, which overrides config.json. Where there is none, the keys that `stated`, if it is not null, holds count. The reference
// reads the file alone: defaults of its config classes (forced_eos_token_id of BART) count for no folder.
Status readGenerationDefaults(ModelFiles &files, const JsonObject *stated, ModelConfig &config);

} // namespace heddle

#endif
