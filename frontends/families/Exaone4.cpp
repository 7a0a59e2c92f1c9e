// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// EXAONE 4.0 (LG AI Research 2025, arXiv:2507.11407): norms behind attention and feed-forward and not before them, norms of query and key
// heads; where layers alternate, three of four have a window, and only they rotate.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// Where the config has no window, no layer has, and all rotate.
static void readRotation(JsonObject &object, ModelConfig &config) {
  if (!object.isNull("sliding_window"))
    rotateInWindowsOnly(config);
}

static void readGgufRotation(GgufKeys &keys, ModelConfig &config) {
  if (keys.has("attention.sliding_window"))
    rotateInWindowsOnly(config);
}

static constexpr Family describeExaone4() {
  Family row;
  row.modelType = "exaone4";
  row.gguf = "exaone4";
  row.rules = {embeddingRules, attentionRules, queryKeyNormRules, normsBehindRules, feedForwardRules};
  row.defaults.numKvHeads = 32;
  row.defaults.normEps = 1e-5;
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.statesFullEvery = true;
  row.readers.huggingFaceRest = readRotation;
  row.readers.ggufRest = readGgufRotation;
  row.build = buildPostNormDecoder;
  return row;
}
const Family family::exaone4 = describeExaone4();

} // namespace heddle
