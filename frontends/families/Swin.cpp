// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Swin (Liu et al. 2021, arXiv:2103.14030): patches attend within windows, which every second block moves by half their side, and from stage
// to stage four patches become one that is twice as wide. What is moved off one side of the image comes in at the other, where it
// attends to what came with it alone.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define BLOCK "swin.encoder.layers.#.blocks.@."
#define DOWNSAMPLE "swin.encoder.layers.#.downsample."

static constexpr TensorRule tensorRules[] = {
    {"swin.embeddings.patch_embeddings.projection.weight", nullptr, ConfigDim::StageWidth, ConfigDim::PatchWidth,
     When::Always, StoredOrder::Flattened},
    {"swin.embeddings.patch_embeddings.projection.bias", nullptr, ConfigDim::StageWidth},
    HEDDLE_NORM_RULES("swin.embeddings.norm", StageWidth),
    {"swin.embeddings.position_embeddings", nullptr, ConfigDim::Positions, ConfigDim::StageWidth, When::PositionTable,
     StoredOrder::Flattened},
    HEDDLE_NORM_RULES(BLOCK "layernorm_before", StageWidth),
    {BLOCK "attention.self.query.weight", nullptr, ConfigDim::StageWidth, ConfigDim::StageWidth},
    {BLOCK "attention.self.key.weight", nullptr, ConfigDim::StageWidth, ConfigDim::StageWidth},
    {BLOCK "attention.self.value.weight", nullptr, ConfigDim::StageWidth, ConfigDim::StageWidth},
    {BLOCK "attention.self.query.bias", nullptr, ConfigDim::StageWidth, ConfigDim::None, When::AttentionBias},
    {BLOCK "attention.self.key.bias", nullptr, ConfigDim::StageWidth, ConfigDim::None, When::AttentionBias},
    {BLOCK "attention.self.value.bias", nullptr, ConfigDim::StageWidth, ConfigDim::None, When::AttentionBias},
    {BLOCK "attention.self.relative_position_bias_table", nullptr, ConfigDim::WindowDistances, ConfigDim::StageHeads},
    HEDDLE_LINEAR_RULES(BLOCK "attention.output.dense", StageWidth, StageWidth),
    HEDDLE_NORM_RULES(BLOCK "layernorm_after", StageWidth),
    HEDDLE_LINEAR_RULES(BLOCK "intermediate.dense", StageIntermediate, StageWidth),
    HEDDLE_LINEAR_RULES(BLOCK "output.dense", StageWidth, StageIntermediate),
    {DOWNSAMPLE "norm.weight", nullptr, ConfigDim::MergedWidth, ConfigDim::None, When::Merged},
    {DOWNSAMPLE "norm.bias", nullptr, ConfigDim::MergedWidth, ConfigDim::None, When::Merged},
    {DOWNSAMPLE "reduction.weight", nullptr, ConfigDim::NextStageWidth, ConfigDim::MergedWidth, When::Merged},
    HEDDLE_NORM_RULES("swin.layernorm", Hidden),
};

static constexpr KeyAlias aliases[] = {{"num_attention_heads", "num_heads"}};

static constexpr KeyName keyNames[] = {
    {"hidden_size", "embed_dim"},
    {"num_hidden_layers", "depths"},
    {"num_attention_heads", "num_heads"},
    {"rms_norm_eps", "layer_norm_eps"},
};

// Patches on a side of the image in each stage.
static std::vector<int64_t> gridsOf(const ModelConfig &config) {
  std::vector<int64_t> grids = {config.image.grid()};
  while (grids.size() < config.stages.size())
    grids.push_back((grids.back() + 1) / 2);
  return grids;
}

static void readStages(JsonObject &object, ModelConfig &config) {
  constexpr size_t mostStages = 16;
  constexpr int64_t mostBlocks = 4096, mostWidth = 1 << 20;
  std::string headsKey = fieldName(config, "num_attention_heads");
  const char *numHeads = headsKey.c_str();
  std::vector<int64_t> depths = object.integers("depths"), heads = object.integers(numHeads);
  if (!object.has("depths"))
    depths = {2, 2, 6, 2};
  if (!object.has(numHeads))
    heads = {3, 6, 12, 24};
  if (depths.empty() || depths.size() > mostStages)
    return object.fail("depths", "has " + std::to_string(depths.size()) + " stages, expected 1 to 16");
  if (heads.size() != depths.size())
    return object.fail(numHeads, "has " + std::to_string(heads.size()) + " entries, expected one for each of the " +
                                     std::to_string(depths.size()) + " depths");
  int64_t width = readSize(object, config, "hidden_size", 96);
  double ratio = object.number("mlp_ratio").value_or(4.0);
  if (!(ratio > 0 && ratio <= 64))
    return object.fail("mlp_ratio", "is not above 0 and at most 64");
  for (size_t stage = 0; stage < depths.size(); ++stage, width *= 2) {
    if (width < 1 || width > mostWidth)
      return object.fail("embed_dim", "gives stage " + std::to_string(stage) + " a width of " + std::to_string(width) +
                                          ", expected 1 to " + std::to_string(mostWidth));
    if (depths[stage] < 1 || depths[stage] > mostBlocks)
      return object.fail("depths", "holds " + std::to_string(depths[stage]) + ", expected 1 to 4096");
    if (heads[stage] < 1 || width % heads[stage] != 0)
      return object.fail(numHeads, "holds " + std::to_string(heads[stage]) + ", expected a divisor of the width " +
                                       std::to_string(width) + " of its stage");
    config.stages.push_back({depths[stage], heads[stage], width, int64_t(ratio * double(width))});
  }
}

static void readSwinSizes(JsonObject &object, ModelConfig &config) {
  for (const char *derived : {"hidden_size", "num_layers"}) // of embed_dim and depths, whatever they say
    object.pass(derived);
  config.image.padsPatches = true;
  readImage(object, config.image, /*patch=*/4);
  readStages(object, config);
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  config.image.window = object.integer("window_size").value_or(7);
  config.hasPositionTable = object.boolean("use_absolute_embeddings").value_or(false);
  if (!object.status().isOk())
    return;
  const StageConfig &last = config.stages.back();
  config.hiddenSize = last.width;
  config.intermediateSize = last.intermediateSize;
  config.numHiddenLayers = int64_t(config.stages.size());
  config.numHeads = config.numKvHeads = last.numHeads;
  config.headDim = last.width / last.numHeads;
  config.vocabSize = 1;
  config.contextLength = config.image.grid() * config.image.grid();
  constexpr int64_t mostWindow = 64; // each pair of its places has a number
  int64_t smallest = std::min(gridsOf(config).back(), mostWindow), window = config.image.window;
  if (window < 1 || window > smallest)
    return object.fail("window_size", "is " + std::to_string(window) + ", expected 1 to " + std::to_string(smallest) +
                                          ", as the last stage has " + std::to_string(gridsOf(config).back()) +
                                          " patches on a side");
  if (config.hasPositionTable && config.image.size % config.image.patch != 0)
    object.unsupported("use_absolute_embeddings", "is true, and patch_size (" + std::to_string(config.image.patch) +
                                                      ") does not divide image_size (" +
                                                      std::to_string(config.image.size) + "), which is not supported");
}

static void readSwinRest(JsonObject &object, ModelConfig &config) {
  config.attentionBias = object.boolean("qkv_bias").value_or(true);
}

namespace {

// How the patches of a stage stand in windows.
class Windows {
public:
  // `shift`: by how many patches the image is moved up and to the left.
  Windows(int64_t grid, int64_t side, int64_t shift)
      : grid(grid), side(side), across((grid + side - 1) / side), shift(shift) {}

  // For each place of a window, window by window, the patch that stands there; -1 where the image has none, which windows are filled with.
  std::vector<int32_t> patches() const {
    return list([&](int64_t row, int64_t column) {
      row = (row + shift) % padded(), column = (column + shift) % padded();
      return row < grid && column < grid ? row * grid + column : -1;
    });
  }
  // Where each patch of the image stands in that list.
  std::vector<int32_t> places() const {
    std::vector<int32_t> at = patches(), inverse(size_t(grid * grid));
    for (size_t place = 0; place < at.size(); ++place)
      if (at[place] >= 0)
        inverse[size_t(at[place])] = int32_t(place);
    return inverse;
  }
  // For each place, which of the parts of the image that were neighbours before they were moved it is in.
  std::vector<int32_t> regions() const {
    if (shift == 0)
      return {};
    auto part = [&](int64_t x) { return int64_t(x >= padded() - side) + int64_t(x >= padded() - shift); };
    return list([&](int64_t row, int64_t column) { return 3 * part(row) + part(column); });
  }
  // For each pair of places of a window, the row of the table for their distance.
  std::vector<int32_t> distances() const {
    std::vector<int32_t> rows;
    for (int64_t query = 0; query < side * side; ++query)
      for (int64_t key = 0; key < side * side; ++key) {
        int64_t down = query / side - key / side + side - 1, right = query % side - key % side + side - 1;
        rows.push_back(int32_t(down * (2 * side - 1) + right));
      }
    return rows;
  }

private:
  int64_t padded() const { return across * side; }
  template <typename At> std::vector<int32_t> list(At at) const {
    std::vector<int32_t> values;
    for (int64_t window = 0; window < across * across; ++window)
      for (int64_t place = 0; place < side * side; ++place)
        values.push_back(int32_t(at(window / across * side + place / side, window % across * side + place % side)));
    return values;
  }

  int64_t grid, side, across, shift;
};

} // namespace

static TensorHandle buildBlock(ModelBuilder &b, TensorHandle x, const StageConfig &stage, const Windows &windows) {
  TensorHandle normed = b.gatherTokens(b.layerNorm(x, "layernorm_before"), windows.patches());
  WindowTerms terms;
  terms.tokens = b.config().image.window * b.config().image.window;
  terms.table = "attention.self.relative_position_bias_table";
  terms.distances = windows.distances();
  terms.regions = windows.regions();
  TensorHandle attended =
      b.windowAttention(b.linear(normed, "attention.self.query"), b.linear(normed, "attention.self.key"),
                        b.linear(normed, "attention.self.value"), stage.numHeads, terms);
  attended = b.linear(b.gatherTokens(attended, windows.places()), "attention.output.dense");
  x = b.add(attended, x);
  TensorHandle wide = b.activation(b.linear(b.layerNorm(x, "layernorm_after"), "intermediate.dense"));
  return b.add(b.linear(wide, "output.dense"), x);
}

// Four patches that touch, side by side: the upper left one, that below it, and the two to their right; zeros beyond the image.
static std::vector<int32_t> mergedPatches(int64_t grid) {
  std::vector<int32_t> patches;
  for (int64_t row = 0; row < grid; row += 2)
    for (int64_t column = 0; column < grid; column += 2)
      for (auto [down, right] : {std::pair<int64_t, int64_t>{0, 0}, {1, 0}, {0, 1}, {1, 1}})
        patches.push_back(row + down < grid && column + right < grid ? int32_t((row + down) * grid + column + right)
                                                                     : -1);
  return patches;
}

// Of the norms between stages and before the first, whatever config.json says of others.
static constexpr double stageNormEps = 1e-5;

static void buildSwin(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  std::vector<int64_t> grids = gridsOf(c);
  b.beginEntry("graph", "batch");
  TensorHandle x = b.linear(b.pixelPatches(), "swin.embeddings.patch_embeddings.projection");
  x = b.layerNorm(x, "swin.embeddings.norm", stageNormEps);
  if (c.hasPositionTable)
    x = b.addTable(x, "swin.embeddings.position_embeddings");
  for (size_t i = 0; i < c.stages.size(); ++i) {
    std::string scope = "swin.encoder.layers." + std::to_string(i) + ".";
    for (int64_t block = 0; block < c.stages[i].depth; ++block) {
      // A window that is all of the image has nowhere to move.
      bool moves = block % 2 == 1 && grids[i] > c.image.window;
      Windows windows(grids[i], c.image.window, moves ? c.image.window / 2 : 0);
      x = b.layer(block, scope + "blocks." + std::to_string(block) + ".", x,
                  [&](TensorHandle x) { return buildBlock(b, x, c.stages[i], windows); });
    }
    if (i + 1 < c.stages.size()) {
      x = b.layerNorm(b.gatherTokens(x, mergedPatches(grids[i]), /*group=*/4), scope + "downsample.norm", stageNormEps);
      x = b.linear(x, scope + "downsample.reduction");
    }
  }
  x = b.layerNorm(x, "swin.layernorm");
  finishEncoder(b, x, b.meanToken(x));
}

static void buildClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

static constexpr Head heads[] = {{"SwinForImageClassification", classifierRules, buildClassifier, HeadTask::Classify}};

// What follows from the side of a window, what masks patches in pre-training, and heads that are not compiled.
static constexpr UnreadTensor unread[] = {{"swin.encoder.layers.*.relative_position_index"},
                                          {"swin.embeddings.mask_token"},
                                          {"classifier.*", /*isLoss=*/true},
                                          {"decoder.*", /*isLoss=*/true}};

static constexpr Family describeSwin() {
  Family row;
  row.modelType = "swin";
  row.isGraph = true;
  row.heads = heads;
  row.imageProcessor = "ViTImageProcessor";
  row.embedding = "swin.embeddings.patch_embeddings.projection.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.rope.hasRope = false;
  row.readers.huggingFaceAllSizes = readSwinSizes;
  row.readers.huggingFaceRest = readSwinRest;
  row.build = buildSwin;
  return row;
}
const Family family::swin = describeSwin();

} // namespace heddle
