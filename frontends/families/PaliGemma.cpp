// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PaliGemma (arXiv:2407.07726) and PaliGemma 2 (arXiv:2412.03555): SigLIP's patches as tokens of a Gemma through one matrix. All tokens of a prompt with
// images see each other; the answer is causal.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"
#include "frontends/families/Towers.h"

namespace heddle {

static constexpr TensorRule projectorRules[] = {
    HEDDLE_TOWER_LINEAR("multi_modal_projector.linear", Projection, Seen, Always),
};

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readImageToken(object, text, tower, 256000);
  seeLast(tower);
  if (int64_t width = object.integer("projection_dim").value_or(2048); width != text.hiddenSize)
    object.unsupported("projection_dim", "is " + std::to_string(width) + ", expected hidden_size of text_config (" +
                                             std::to_string(text.hiddenSize) + ")");
  tower.seen.promptSeesAhead = true;
  SeenText &written = tower.seen.text;
  written.marker = written.unmentioned = written.whole = "<image>";
  written.startsBehind = true;
  written.end = "\n";
}

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  b.output("image_features", b.linear(seen, "multi_modal_projector.linear"));
}

static constexpr Head heads[] = {{"PaliGemmaForConditionalGeneration", projectorRules, project}};

static constexpr Family describePaliGemma() {
  Family row;
  row.modelType = "paligemma";
  row.textModel = "gemma";
  row.towerModel = "siglip_vision_model";
  row.capsLogits = row.promptSeesAhead = true;
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = buildSeen;
  return row;
}
const Family family::paliGemma = describePaliGemma();

} // namespace heddle
