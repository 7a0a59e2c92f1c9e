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

// Whether the folder is one of sentence-transformers, which embeds texts.
bool isSentenceTransformer(ModelFiles &files);
// config.pooling of what encodes. A folder without modules.json pools the mean, as sentence-transformers does with it; modules other than the
// model, pooling, dense layers and normalisation, in this order, are refused.
Status readPooling(ModelFiles &files, ModelConfig &config);
// The tensors of config.pooling's dense layers, each (out, in) and (out), from the safetensors file in its layer's folder.
Status readDenseTensors(ModelFiles &files, Model &model);

} // namespace heddle

#endif
