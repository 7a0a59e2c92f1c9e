// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Idefics3 (arXiv:2408.12637) and SmolVLM (arXiv:2504.05299): a SigLIP whose patches become tokens square by square, all numbers of a square side by
// side, through one matrix. A larger image is cut into tiles, each an image of its own, beside the whole.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"

namespace heddle {

static constexpr TensorRule connectorRules[] = {
    {"connector.modality_projection.proj.weight", nullptr, ConfigDim::Projection, ConfigDim::Seen},
};

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readImageToken(object, text, tower, 128257);
  seeLast(tower);
  readSquares(object, tower, "scale_factor", object.integer("scale_factor").value_or(2), /*sideBySide=*/true);
#define FAKE "<fake_token_around_image>"
  tower.seen.text = {"<image>", "<image>", FAKE "<global-img><image>" FAKE, FAKE "<row_{row}_col_{column}><image>",
                     "\n",      "\n\n"};
#undef FAKE
}

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  b.output("image_features", b.linear(seen, "connector.modality_projection.proj"));
}

static void build(ModelBuilder &b) {
  project(b, squares(b, beginSeen(b)), {});
}

static constexpr Head idefics3Heads[] = {{"Idefics3ForConditionalGeneration", connectorRules, project}};
static constexpr Head smolvlmHeads[] = {{"SmolVLMForConditionalGeneration", connectorRules, project}};

static constexpr Family describeIdefics3() {
  Family row;
  row.modelType = "idefics3";
  row.textModel = "llama";
  row.towerModel = "idefics3_vision";
  row.towerPrefix = "vision_model.";
  row.projectorPrefix = "connector.";
  row.imageProcessor = "Idefics3ImageProcessor";
  row.heads = idefics3Heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = build;
  return row;
}
const Family family::idefics3 = describeIdefics3();

static constexpr Family describeSmolVlm() {
  Family row = describeIdefics3();
  row.modelType = "smolvlm";
  row.towerModel = "smolvlm_vision";
  row.imageProcessor = "SmolVLMImageProcessor";
  row.heads = smolvlmHeads;
  return row;
}
const Family family::smolvlm = describeSmolVlm();

} // namespace heddle
