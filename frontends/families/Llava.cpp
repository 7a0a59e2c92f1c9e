// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLaVA (Liu et al. 2023, arXiv:2304.08485; 1.5: arXiv:2310.03744): any decoder, and any tower whose hidden states become tokens of its
// prompts through two linear layers. Decoder and tower are those of their own rows.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"

namespace heddle {

static constexpr TensorRule projectorRules[] = {HEDDLE_SEEN_PROJECTOR};

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  b.output("image_features", projected(b, seen));
}

static constexpr Head heads[] = {{"LlavaForConditionalGeneration", projectorRules, project}};

static constexpr Family describeLlava() {
  Family row;
  row.modelType = "llava";
  row.textModel = "llama";
  row.towerModel = "clip_vision_model";
  row.heads = heads;
  row.readers.huggingFaceJoint = readProjector;
  row.build = buildSeen;
  return row;
}
const Family family::llava = describeLlava();

} // namespace heddle
