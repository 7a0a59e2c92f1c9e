// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Qwen2-VL (arXiv:2409.12191), Qwen2.5-VL (arXiv:2502.13923) and Qwen3-VL (arXiv:2511.21631), with experts or without: a tower that sees images of any size as they are, its patches
// rotated by their row and column, and a square of them one token. Qwen2.5-VL's patches attend within windows but in some layers, and stand window by window.
// Qwen3-VL adds positions between learned ones, and what some of its layers give to the first layers of the decoder.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"
#include "frontends/families/Towers.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

#define BLOCK "visual.blocks.%."

static constexpr TensorRule patchRules[] = {
    {"visual.patch_embed.proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::PatchWidth, When::Always,
     StoredOrder::Flattened},
    {BLOCK "attn.qkv.weight", nullptr, ConfigDim::EncoderQueriesKeysValues, ConfigDim::EncoderHidden},
    {BLOCK "attn.qkv.bias", nullptr, ConfigDim::EncoderQueriesKeysValues},
    HEDDLE_TOWER_LINEAR(BLOCK "attn.proj", EncoderHidden, EncoderHidden, Always),
};
static constexpr TensorRule blockRules[] = {
    HEDDLE_TOWER_NORM(BLOCK "norm1", EncoderHidden, Always), HEDDLE_TOWER_NORM(BLOCK "norm2", EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.fc1", EncoderIntermediate, EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.fc2", EncoderHidden, EncoderIntermediate, Always)};
static constexpr TensorRule gatedBlockRules[] = {
    {BLOCK "norm1.weight", nullptr, ConfigDim::EncoderHidden},
    {BLOCK "norm2.weight", nullptr, ConfigDim::EncoderHidden},
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.gate_proj", EncoderIntermediate, EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.up_proj", EncoderIntermediate, EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.down_proj", EncoderHidden, EncoderIntermediate, Always)};
#define MERGER                                                                                                         \
  HEDDLE_TOWER_LINEAR("visual.merger.mlp.0", Seen, Seen, Always),                                                      \
      HEDDLE_TOWER_LINEAR("visual.merger.mlp.2", Projection, Seen, Always)
static constexpr TensorRule mergerRules[] = {HEDDLE_TOWER_NORM("visual.merger.ln_q", EncoderHidden, Always), MERGER};
static constexpr TensorRule gatedMergerRules[] = {{"visual.merger.ln_q.weight", nullptr, ConfigDim::EncoderHidden},
                                                  MERGER};

static constexpr TensorRule qwen3Rules[] = {
    {"visual.patch_embed.proj.bias", nullptr, ConfigDim::EncoderHidden},
    {"visual.pos_embed.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderPositions, When::Always,
     StoredOrder::Conv1d},
    HEDDLE_TOWER_NORM(BLOCK "norm1", EncoderHidden, Always),
    HEDDLE_TOWER_NORM(BLOCK "norm2", EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.linear_fc1", EncoderIntermediate, EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(BLOCK "mlp.linear_fc2", EncoderHidden, EncoderIntermediate, Always)};
#define DEEP(name, rows, columns)                                                                                      \
  {"visual.deepstack_merger_list.@." name,                                                                             \
   nullptr,                                                                                                            \
   rows,                                                                                                               \
   columns,                                                                                                            \
   When::Always,                                                                                                       \
   StoredOrder::Plain,                                                                                                 \
   ConfigDim::DeepLayers}
static constexpr TensorRule qwen3MergerRules[] = {
    HEDDLE_TOWER_NORM("visual.merger.norm", EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR("visual.merger.linear_fc1", Seen, Seen, Always),
    HEDDLE_TOWER_LINEAR("visual.merger.linear_fc2", Projection, Seen, Always),
    DEEP("norm.weight", ConfigDim::Seen, ConfigDim::None),
    DEEP("norm.bias", ConfigDim::Seen, ConfigDim::None),
    DEEP("linear_fc1.weight", ConfigDim::Seen, ConfigDim::Seen),
    DEEP("linear_fc1.bias", ConfigDim::Seen, ConfigDim::None),
    DEEP("linear_fc2.weight", ConfigDim::Projection, ConfigDim::Seen),
    DEEP("linear_fc2.bias", ConfigDim::Projection, ConfigDim::None),
};
#undef DEEP

// What all these towers have.
static void readTower(JsonObject &object, ModelConfig &config, const char *width, int64_t hidden,
                      const char *activation) {
  EncoderConfig &stack = config.encoder;
  // The reference takes the common names for its own, and they count.
  auto named = [&](const char *common, const char *own) { return object.has(common) ? common : own; };
  stack.numLayers = readBounded(object, named("num_hidden_layers", "depth"), 32, 4096);
  stack.hiddenSize = readBounded(object, width, hidden, 1 << 20);
  stack.numHeads = readBounded(object, named("num_attention_heads", "num_heads"), 16, 1 << 16);
  stack.normEps = 1e-6;
  TowerDefaults defaults;
  defaults.activation = activation;
  stack.activation = readTowerActivation(object, defaults);
  ImageConfig &image = config.image;
  image.channels = readBounded(object, "in_channels", 3, 64);
  image.patch = readPatchSide(object, "patch_size", 14);
  image.frames = readPatchSide(object, "temporal_patch_size", 2);
  config.seen.side = readBounded(object, "spatial_merge_size", 2, 64);
  config.seen.sideBySide = true;
  image.size = image.patch * config.seen.side;
  image.hasAnySize = true;
  if (object.status().isOk() && stack.hiddenSize % (4 * stack.numHeads))
    object.fail(width, "(" + std::to_string(stack.hiddenSize) + ") must be a multiple of four times num_heads (" +
                           std::to_string(stack.numHeads) + ")");
  if (object.has("head_dim") && object.integer("head_dim").value_or(0) * stack.numHeads != stack.hiddenSize)
    object.unsupported("head_dim", "is not what num_heads leaves of a patch, which is not supported");
  readPlaceRotation(object, config);
  config.vocabSize = 1; // there are no words
}

static void adoptTowerStack(ModelConfig &config) {
  adoptStack(config, config.encoder);
  config.contextLength = config.encoder.contextLength = 1;
}

static void readQwen2Sizes(JsonObject &object, ModelConfig &config) {
  readTower(object, config, "embed_dim", 1280, "quick_gelu");
  object.pass("hidden_size"); // the decoder's
  config.encoder.intermediateSize = config.encoder.hiddenSize * readBounded(object, "mlp_ratio", 4, 1 << 8);
  adoptTowerStack(config);
}

static void readQwen25Sizes(JsonObject &object, ModelConfig &config) {
  readTower(object, config, "hidden_size", 3584, "silu");
  object.pass("out_hidden_size"); // the decoder's
  config.gatesFeedForward = true;
  config.encoder.intermediateSize = readBounded(object, "intermediate_size", 3420, 1 << 24);
  adoptTowerStack(config);
  ImageConfig &image = config.image;
  int64_t window = readBounded(object, "window_size", 112, 1 << 14), unit = std::max<int64_t>(image.size, 1);
  image.window = window / unit * std::max<int64_t>(config.seen.side, 1);
  if (window < unit || image.window > 256)
    object.unsupported("window_size", "is " + std::to_string(window) + ", expected " + std::to_string(unit) +
                                          ", the pixels of a token on a side, to 256 patches");
  std::vector<int64_t> whole = object.integers("fullatt_block_indexes");
  if (!object.has("fullatt_block_indexes"))
    whole = {7, 15, 23, 31};
  config.seen.layersOfAll.clear();
  for (int64_t layer : whole)
    config.seen.layersOfAll.insert(layer);
}

static void readQwen3Sizes(JsonObject &object, ModelConfig &config) {
  readTower(object, config, "hidden_size", 1152, "gelu_pytorch_tanh");
  object.pass("out_hidden_size"); // the decoder's
  config.encoder.intermediateSize = readBounded(object, "intermediate_size", 4304, 1 << 24);
  adoptTowerStack(config);
  constexpr int64_t mostOnSide = 1 << 8;
  int64_t positions = readBounded(object, "num_position_embeddings", 2304, mostOnSide * mostOnSide), side = 1;
  while ((side + 1) * (side + 1) <= positions)
    ++side;
  if (side * side != positions)
    object.unsupported("num_position_embeddings", "is " + std::to_string(positions) + ", expected a square number");
  config.seen.placesOnSide = side;
  config.encoder.contextLength = side * side;
  std::vector<int64_t> deep = object.integers("deepstack_visual_indexes");
  if (!object.has("deepstack_visual_indexes"))
    deep = {8, 16, 24};
  int64_t before = -1;
  for (int64_t layer : deep) {
    if (layer <= before || layer >= config.encoder.numLayers)
      return object.unsupported("deepstack_visual_indexes",
                                "holds " + std::to_string(layer) + ", expected layers below depth (" +
                                    std::to_string(config.encoder.numLayers) + "), each above the one before");
    before = layer;
  }
  config.seen.deepLayers = deep;
}

// What each of Qwen3-VL's layers gives, behind what the first one reads.
static std::vector<TensorHandle> qwen3HiddenStates(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  const EncoderConfig &stack = c.encoder;
  int64_t width = stack.hiddenSize;
  TensorHandle pixels = b.runs("pixel_values", 0, c.image.patchWidth());
  TensorHandle cosines = b.runs("cosines", 0, c.headDim), sines = b.runs("sines", 0, c.headDim);
  TensorHandle places = b.runs("places", 0, stack.contextLength);
  TensorHandle x = b.add(b.linear(pixels, "visual.patch_embed.proj"), b.linear(places, "visual.pos_embed.weight", ""));
  std::vector<TensorHandle> states = {x};
  for (int64_t i = 0; i < stack.numLayers; ++i)
    states.push_back(b.layer(i, "visual.blocks." + std::to_string(i) + ".", states.back(), [&](TensorHandle x) {
      TensorHandle qkv = b.linear(b.layerNorm(x, "norm1", stack.normEps), "attn.qkv");
      auto heads = [&](int64_t part) {
        return b.splitHeads(b.columns(qkv, part * width, (part + 1) * width), stack.numHeads);
      };
      TensorHandle q = b.rotated(heads(0), cosines, sines), k = b.rotated(heads(1), cosines, sines);
      x = b.add(x, b.linear(b.mergeHeads(b.attention(q, k, heads(2))), "attn.proj"));
      TensorHandle wide = b.linear(b.layerNorm(x, "norm2", stack.normEps), "mlp.linear_fc1");
      return b.add(x, b.linear(b.activation(wide, stack.activation), "mlp.linear_fc2"));
    }));
  return states;
}

// What the last layer gives; those before are of no use elsewhere.
static std::vector<TensorHandle> hiddenStates(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  const EncoderConfig &stack = c.encoder;
  bool hasWindows = c.image.window > 0;
  int64_t width = stack.hiddenSize, length = c.image.window * c.image.window;
  TensorHandle pixels = b.runs("pixel_values", length, c.image.patchWidth());
  TensorHandle cosines = b.runs("cosines", length, c.headDim), sines = b.runs("sines", length, c.headDim);
  AttentionTerms inWindow, inAll;
  TensorHandle allCosines, allSines;
  if (hasWindows) {
    TensorHandle mask = b.runs("mask", length, 1);
    inWindow.bias = b.keyBias(mask);
    inAll.bias = b.keyBias(b.joinRuns(mask));
    allCosines = b.joinRuns(cosines), allSines = b.joinRuns(sines);
  }
  auto norm = [&](TensorHandle x, const char *name) {
    return c.gatesFeedForward ? b.rmsNorm(x, name, stack.normEps) : b.layerNorm(x, name, stack.normEps);
  };
  TensorHandle x = b.linear(pixels, "visual.patch_embed.proj");
  for (int64_t i = 0; i < stack.numLayers; ++i)
    x = b.layer(i, "visual.blocks." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      bool isWhole = hasWindows && c.seen.layersOfAll.count(i);
      TensorHandle qkv = b.linear(norm(x, "norm1"), "attn.qkv");
      if (isWhole)
        qkv = b.joinRuns(qkv);
      auto heads = [&](int64_t part) {
        return b.splitHeads(b.columns(qkv, part * width, (part + 1) * width), stack.numHeads);
      };
      TensorHandle cos = isWhole ? allCosines : cosines, sin = isWhole ? allSines : sines;
      TensorHandle q = b.rotated(heads(0), cos, sin), k = b.rotated(heads(1), cos, sin);
      TensorHandle attended = b.mergeHeads(b.attention(q, k, heads(2), isWhole ? inAll : inWindow));
      if (isWhole)
        attended = b.splitRuns(attended, length);
      x = b.add(x, b.linear(attended, "attn.proj"));
      TensorHandle normed = norm(x, "norm2");
      if (!c.gatesFeedForward)
        return b.add(x, b.linear(b.activation(b.linear(normed, "mlp.fc1"), stack.activation), "mlp.fc2"));
      TensorHandle gate = b.linear(normed, "mlp.gate_proj"), up = b.linear(normed, "mlp.up_proj");
      return b.add(x, b.linear(b.glu(gate, up, stack.activation), "mlp.down_proj"));
    });
  return {x};
}

// How such a decoder's tokens rotate, and how images are written in its prompts.
static void readPlaces(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readImageToken(object, text, tower, 151655);
  const RopeConfig &rope = text.ropes[0];
  if (rope.scaling == RopeScalingKind::Dynamic || rope.scaling == RopeScalingKind::Longrope)
    object.unsupported("rope_scaling",
                       "depends on a text's length, which is not supported of a model that sees images");
  constexpr const char *marker = "<|image_pad|>";
  tower.seen.text = {marker, "<|vision_start|><|image_pad|><|vision_end|>", marker, "", "", ""};
}

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  tower.seen.layers = {0};
  RopeConfig &rope = text.ropes[0];
  if (rope.sections.empty())
    rope.sections = {16, 24, 24};
  int64_t rotated = 0;
  for (int64_t section : rope.sections)
    rotated += section > 0 ? section : rope.rotaryDim + 1;
  if (rotated != rope.rotaryDim / 2)
    object.unsupported("mrope_section", "has numbers that do not add up to " + std::to_string(rope.rotaryDim / 2) +
                                            ", half of the numbers of a head");
  readPlaces(object, text, tower);
}

static void readQwen3Joint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  tower.seen.layers = {tower.encoder.numLayers};
  RopeConfig &rope = text.ropes[0];
  rope.sectionsAlternate = true;
  if (rope.sections.empty())
    rope.sections = {24, 20, 20};
  if (rope.sections.size() != 3 || *std::min_element(rope.sections.begin(), rope.sections.end()) < 0 ||
      *std::max_element(rope.sections.begin(), rope.sections.end()) > 1 << 20)
    object.unsupported("mrope_section", "is not three numbers of frequencies");
  constexpr int64_t mostDeep = 64;
  if (auto deep = int64_t(tower.seen.deepLayers.size()); deep > std::min(text.numHiddenLayers, mostDeep))
    object.unsupported("deepstack_visual_indexes",
                       "has " + std::to_string(deep) +
                           " layers, expected up to 64, and one for each layer of text_config at most");
  readPlaces(object, text, tower);
}

// Two linear layers over squares of patches; the norm before is of each patch, or of the squares.
static TensorHandle merged(ModelBuilder &b, TensorHandle x, const std::string &merger, bool normsSquares) {
  const ModelConfig &c = b.config();
  constexpr double eps = 1e-6;
  int64_t square = c.seen.side * c.seen.side;
  x = normsSquares ? b.layerNorm(b.groupTokens(x, square), merger + "norm", eps)
                   : b.groupTokens(b.layerNorm(x, merger + "norm", eps), square);
  return b.linear(b.activation(b.linear(x, merger + "linear_fc1"), Activation::Gelu), merger + "linear_fc2");
}

// A token's row, and behind it those that are added in the decoder.
static void buildQwen3(ModelBuilder &b) {
  b.beginEntry("image", "runs");
  std::vector<TensorHandle> states = qwen3HiddenStates(b), parts = {merged(b, states.back(), "visual.merger.", false)};
  const std::vector<int64_t> &deep = b.config().seen.deepLayers;
  for (size_t i = 0; i < deep.size(); ++i)
    parts.push_back(merged(b, states[size_t(deep[i] + 1)], "visual.deepstack_merger_list." + std::to_string(i) + ".",
                           /*normsSquares=*/true));
  b.output("image_features", parts.size() > 1 ? b.sideBySide(parts) : parts.front());
}

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  const ModelConfig &c = b.config();
  constexpr const char *norm = "visual.merger.ln_q";
  constexpr double eps = 1e-6;
  TensorHandle normed = c.gatesFeedForward ? b.rmsNorm(seen, norm, eps) : b.layerNorm(seen, norm, eps);
  TensorHandle joined = b.groupTokens(normed, c.seen.side * c.seen.side);
  TensorHandle wide = b.activation(b.linear(joined, "visual.merger.mlp.0"), Activation::Gelu);
  b.output("image_features", b.linear(wide, "visual.merger.mlp.2"));
}

static void build(ModelBuilder &b) {
  project(b, beginSeen(b), {});
}

static void buildTower(ModelBuilder &b) {
  b.beginEntry("image", "runs");
  b.output("last_hidden_state", hiddenStates(b).back());
}

static constexpr Family describeTower(const char *modelType, const char *older) {
  Family row = describeTowers(modelType);
  row.olderPart = older;
  row.imageProcessor = "Qwen2VLImageProcessor";
  row.embedding = "visual.patch_embed.proj.weight";
  row.rules = {patchRules, blockRules};
  row.readers.huggingFaceAllSizes = readQwen2Sizes;
  row.build = buildTower;
  row.hiddenStates = hiddenStates;
  return row;
}
const Family family::qwen2VlVision = describeTower("qwen2_vl_vision", "qwen2_vl");

static constexpr Family describeGatedTower() {
  Family row = describeTower("qwen2_5_vl_vision", "qwen2_5_vl");
  row.rules = {patchRules, gatedBlockRules};
  row.readers.huggingFaceAllSizes = readQwen25Sizes;
  return row;
}
const Family family::qwen25VlVision = describeGatedTower();

static void buildQwen3Tower(ModelBuilder &b) {
  b.beginEntry("image", "runs");
  b.output("last_hidden_state", qwen3HiddenStates(b).back());
}

static constexpr Family describeQwen3Tower(const char *modelType, const char *older) {
  Family row = describeTower(modelType, older);
  row.rules = {patchRules, qwen3Rules};
  row.readers.huggingFaceAllSizes = readQwen3Sizes;
  row.build = buildQwen3Tower;
  row.hiddenStates = qwen3HiddenStates;
  return row;
}
const Family family::qwen3VlVision = describeQwen3Tower("qwen3_vl_vision", "qwen3_vl");
const Family family::qwen3VlMoeVision = describeQwen3Tower("qwen3_vl_moe_vision", "qwen3_vl_moe");

static constexpr Head qwen3MoeHeads[] = {{"Qwen3VLMoeForConditionalGeneration", qwen3MergerRules}};
static constexpr Head qwen3Heads[] = {{"Qwen3VLForConditionalGeneration", qwen3MergerRules}};
static constexpr Head qwen2Heads[] = {{"Qwen2VLForConditionalGeneration", mergerRules, project}};
static constexpr Head qwen25Heads[] = {{"Qwen2_5_VLForConditionalGeneration", gatedMergerRules, project}};

static constexpr Family describeSeeing(const char *modelType, const char *tower, Listing<Head> heads) {
  Family row;
  row.modelType = modelType;
  row.textModel = modelType;
  row.towerModel = tower;
  row.towerPrefix = row.projectorPrefix = "visual.";
  row.mayBeFlat = true;
  row.imageProcessor = "Qwen2VLImageProcessor";
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = build;
  return row;
}
const Family family::qwen2VlSeeing = describeSeeing("qwen2_vl", "qwen2_vl_vision", qwen2Heads);
const Family family::qwen25VlSeeing = describeSeeing("qwen2_5_vl", "qwen2_5_vl_vision", qwen25Heads);

static constexpr Family describeQwen3Seeing(const char *modelType, const char *tower, Listing<Head> heads) {
  Family row = describeSeeing(modelType, tower, heads);
  row.readers.huggingFaceJoint = readQwen3Joint;
  row.build = buildQwen3;
  return row;
}
const Family family::qwen3VlSeeing = describeQwen3Seeing("qwen3_vl", "qwen3_vl_vision", qwen3Heads);
const Family family::qwen3VlMoeSeeing = describeQwen3Seeing("qwen3_vl_moe", "qwen3_vl_moe_vision", qwen3MoeHeads);

} // namespace heddle
