// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gemma 3 with images (arXiv:2503.19786): SigLIP's patches, of which the mean of each square becomes a token through a norm and a matrix. The tokens of
// one image see each other, whichever comes first.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"

namespace heddle {

#define PROJECTOR "multi_modal_projector."

static constexpr TensorRule projectorRules[] = {
    {PROJECTOR "mm_input_projection_weight", nullptr, ConfigDim::Projection, ConfigDim::Seen, When::Always,
     StoredOrder::Conv1d},
    {PROJECTOR "mm_soft_emb_norm.weight", nullptr, ConfigDim::Seen},
};

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readImageToken(object, text, tower, 262144);
  seeLast(tower);
  int64_t tokens = object.integer("mm_tokens_per_image").value_or(256), onSide = 1, grid = tower.image.grid();
  while ((onSide + 1) * (onSide + 1) <= tokens)
    ++onSide;
  if (tokens < 1 || onSide * onSide != tokens || onSide > grid)
    return object.fail("mm_tokens_per_image", "is " + std::to_string(tokens) +
                                                  ", expected a square number, at most one of each of the " +
                                                  std::to_string(grid * grid) + " patches");
  readSquares(object, tower, "mm_tokens_per_image", grid / onSide, /*sideBySide=*/false);
  tower.seen.seesAhead = true;
  constexpr const char *marker = "<start_of_image>";
  tower.seen.text = {marker, marker, "\n\n<start_of_image><image_soft_token><end_of_image>\n\n", "", "", ""};
}

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  TensorHandle normed = b.rmsNormLessOne(seen, PROJECTOR "mm_soft_emb_norm", b.config().encoder.normEps);
  b.output("image_features", b.linear(normed, PROJECTOR "mm_input_projection_weight", ""));
}

static void build(ModelBuilder &b) {
  project(b, squares(b, beginSeen(b)), {});
}

static constexpr Head heads[] = {{"Gemma3ForConditionalGeneration", projectorRules, project}};

static constexpr Family describeGemma3Seeing() {
  Family row;
  row.modelType = "gemma3";
  row.textModel = "gemma3_text";
  row.towerModel = "siglip_vision_model";
  row.imageProcessor = "Gemma3ImageProcessor";
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = build;
  return row;
}
const Family family::gemma3 = describeGemma3Seeing();

} // namespace heddle
