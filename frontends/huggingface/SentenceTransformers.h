// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// modules.json and what it names: how sentence-transformers makes an embedding of the hidden states of an encoder.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_SENTENCETRANSFORMERS_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_SENTENCETRANSFORMERS_H

#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"

namespace heddle {

// Of tokenizer_config.json, which may list every added token.
constexpr size_t maxTokenizerConfigBytes = 16 << 20;

// config.pooling of an encoder. A folder without modules.json pools the mean, as sentence-transformers does with it; modules that are
// neither the encoder, pooling nor normalisation are refused.
Status readPooling(ModelFiles &files, ModelConfig &config);

} // namespace heddle

#endif
