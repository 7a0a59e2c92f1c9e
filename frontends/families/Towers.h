// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What CLIP and its kin have in common: a tower that reads texts, one that sees images, and what compares them, each with the same layers. Of a
// model with both, the text tower is what the config says elsewhere ('#' is a layer), the vision tower its second stack ('%'); a vision tower alone
// is both.
#ifndef HEDDLE_FRONTENDS_FAMILIES_TOWERS_H
#define HEDDLE_FRONTENDS_FAMILIES_TOWERS_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

#define HEDDLE_TOWER_LINEAR(name, out, in, when)                                                                       \
  {name ".weight", nullptr, ConfigDim::out, ConfigDim::in, When::when}, {                                              \
    name ".bias", nullptr, ConfigDim::out, ConfigDim::None, When::when                                                 \
  }
#define HEDDLE_TOWER_NORM(name, width, when)                                                                           \
  {name ".weight", nullptr, ConfigDim::width, ConfigDim::None, When::when}, {                                          \
    name ".bias", nullptr, ConfigDim::width, ConfigDim::None, When::when                                               \
  }
// A layer of a tower of `width` and `wide`, those of its feed-forward block.
#define HEDDLE_TOWER_LAYER(layer, width, wide, when)                                                                   \
  HEDDLE_TOWER_NORM(layer "layer_norm1", width, when),                                                                 \
      HEDDLE_TOWER_LINEAR(layer "self_attn.q_proj", width, width, when),                                               \
      HEDDLE_TOWER_LINEAR(layer "self_attn.k_proj", width, width, when),                                               \
      HEDDLE_TOWER_LINEAR(layer "self_attn.v_proj", width, width, when),                                               \
      HEDDLE_TOWER_LINEAR(layer "self_attn.out_proj", width, width, when),                                             \
      HEDDLE_TOWER_NORM(layer "layer_norm2", width, when), HEDDLE_TOWER_LINEAR(layer "mlp.fc1", wide, width, when),    \
      HEDDLE_TOWER_LINEAR(layer "mlp.fc2", width, wide, when)

// What a tower's config leaves out.
struct TowerDefaults {
  int64_t hiddenSize = 768, intermediateSize = 3072, numLayers = 12, numHeads = 12;
  double normEps = 1e-5;
  const char *activation = "quick_gelu";
  int64_t vocabSize = 49408, context = 77; // of texts
  int64_t patch = 32, specialTokens = 1;   // of images
};

// 0, 1, …, which older releases saved.
inline constexpr UnreadTensor towerPositions[] = {{"text_model.embeddings.position_ids"},
                                                  {"vision_model.embeddings.position_ids"}};

// A row of towers; which, and of what, is left to say.
constexpr Family describeTowers(const char *modelType) {
  Family row;
  row.modelType = modelType;
  row.isGraph = true;
  row.unread = towerPositions;
  row.activationKey = nullptr;
  row.rope.hasRope = false;
  return row;
}

// The part of a model with both towers. What text_config_dict and vision_config_dict hold, in older files, counts instead.
JsonObject towerOf(JsonObject &object, const std::string &part);
// Once all of such a part is read: refuses what nobody asked for.
void adoptTower(JsonObject &object, JsonObject &tower, const ModelConfig &config);
// The value of `key`, within a stack's limits, which bound what is allocated by it.
int64_t readBounded(JsonObject &tower, const char *key, int64_t fallback, int64_t high);
// A number of pixels, or one for each side, which must be the same.
int64_t readPatchSide(JsonObject &tower, const char *key, int64_t fallback);
// config.seen.theta, of a tower that rotates patches by their row and column.
void readPlaceRotation(JsonObject &tower, ModelConfig &config);
// hidden_act, or the default's.
Activation readTowerActivation(JsonObject &tower, const TowerDefaults &defaults);
// What the config says elsewhere of the one stack of a tower alone.
void adoptStack(ModelConfig &config, const EncoderConfig &stack);
// The sizes of either tower, or those of a stack alone.
void readTowerStack(JsonObject &tower, EncoderConfig &stack, const TowerDefaults &defaults);
void readTextTower(JsonObject &text, ModelConfig &config, const TowerDefaults &defaults);
void readVisionTower(JsonObject &vision, ModelConfig &config, const TowerDefaults &defaults);
// A vision tower alone, whose sizes are the model's.
void readVisionAlone(JsonObject &vision, ModelConfig &config, const TowerDefaults &defaults);
// Once such a tower is read: what the config says elsewhere of it.
void adoptVision(ModelConfig &config);

// input_ids through the text tower, layers and embeddings under text_model: (texts, sequence, hidden_size), behind its norm.
TensorHandle textStates(ModelBuilder &b, bool causal);
// What the first layer of the vision tower reads, which is x, and what each gives; under vision_model.
std::vector<TensorHandle> visionHiddenStates(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms = {});
// The outputs of a tower beside another: `projected` is what the other's is compared with. `tower`: what transformers calls what the tower gives.
void finishTower(ModelBuilder &b, const std::string &tower, TensorHandle states, TensorHandle projected,
                 const char *embeds);
// The entry that compares; `bias` empty: none is added to what is scaled.
void buildComparison(ModelBuilder &b, const std::string &bias = "");

} // namespace heddle

#endif
