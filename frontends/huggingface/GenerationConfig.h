// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// generation_config.json: end tokens, defaults of sampling, and what else of it changes answers.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_GENERATIONCONFIG_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_GENERATIONCONFIG_H

#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"

namespace heddle {

// Reads the file, which overrides config.json; there may be none.
Status readGenerationFile(ModelFiles &files, ModelConfig &config);

} // namespace heddle

#endif
