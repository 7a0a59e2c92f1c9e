// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of a model whose layers are a norm and a mixer: what both kinds of Mamba read alike.
#ifndef HEDDLE_FRONTENDS_FAMILIES_MAMBASIZES_H
#define HEDDLE_FRONTENDS_FAMILIES_MAMBASIZES_H

#include "frontends/Family.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// What a model without attention and feed-forward blocks has of these.
inline void readNoBlocks(ModelConfig &config) {
  config.numHeads = config.numKvHeads = config.headDim = config.intermediateSize = 1;
}

inline void readMambaSizes(JsonObject &object, ModelConfig &config) {
  config.normEps = object.number("layer_norm_epsilon").value_or(config.family->defaults.normEps);
  readNoBlocks(config);
}

inline void readGgufMambaSizes(GgufKeys &, ModelConfig &config) {
  readNoBlocks(config);
}

} // namespace heddle

#endif
