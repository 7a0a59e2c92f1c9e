// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DeBERTa v2 and v3 (He et al. 2020, arXiv:2006.03654; 2021, arXiv:2111.09543): BERT's layers, to whose scores the distance of query and key
// adds what its embedding, projected as a key, gives for the query, and, projected as a query, for the key. DeBERTa's first version has one matrix for
// queries, keys and values, stored head by head, no bias of keys, and a distance for each of its embeddings.

#include "frontends/families/Bert.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {

// Of the convolution: a token, and the one on each side.
static constexpr int64_t convTaps = AudioConfig::taps;

#define LAYER "deberta.encoder.layer.#."
#define SELF LAYER "attention.self."
#define LINEAR_WHEN(name, when)                                                                                        \
  {name ".weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden, When::when}, {                                      \
    name ".bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::when                                             \
  }
static constexpr TensorRule projectionRules[] = {
    HEDDLE_LINEAR_RULES(SELF "query_proj", Queries, Hidden),
    HEDDLE_LINEAR_RULES(SELF "key_proj", Queries, Hidden),
    HEDDLE_LINEAR_RULES(SELF "value_proj", Queries, Hidden),
};
static constexpr TensorRule tensorRules[] = {
    {"deberta.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding},
    {"deberta.embeddings.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Embedding,
     When::PositionTable},
    {"deberta.embeddings.token_type_embeddings.weight", nullptr, ConfigDim::TokenTypes, ConfigDim::Embedding,
     When::TokenTypes},
    {"deberta.embeddings.embed_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Embedding, When::Projected},
    HEDDLE_NORM_RULES("deberta.embeddings.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES(LAYER "attention.output.dense", Hidden, Queries),
    HEDDLE_NORM_RULES(LAYER "attention.output.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES(LAYER "intermediate.dense", Intermediate, Hidden),
    HEDDLE_LINEAR_RULES(LAYER "output.dense", Hidden, Intermediate),
    HEDDLE_NORM_RULES(LAYER "output.LayerNorm", Hidden),
};
// What the products of tokens with distances are made of, by addDistances.
static constexpr TensorRule distanceRules[] = {
    {"deberta.encoder.rel_embeddings.weight", nullptr, ConfigDim::Buckets, ConfigDim::Hidden, When::Distances},
    {"deberta.encoder.LayerNorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::DistanceNorm},
    {"deberta.encoder.LayerNorm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::DistanceNorm},
    LINEAR_WHEN(SELF "pos_key_proj", DistanceKeys),
    LINEAR_WHEN(SELF "pos_query_proj", DistanceQueries),
};
#define CONV "deberta.encoder.conv."
static constexpr TensorRule convRules[] = {
    {CONV "conv.weight", nullptr, ConfigDim::Hidden, ConfigDim::HiddenWindow, When::NeighbourConv,
     StoredOrder::Flattened},
    {CONV "conv.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NeighbourConv},
    {CONV "LayerNorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NeighbourConv},
    {CONV "LayerNorm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NeighbourConv},
};
static constexpr TensorRule firstRules[] = {
    {SELF "in_proj.weight", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::Hidden, When::Always,
     StoredOrder::ByKvHead},
    {SELF "q_bias", nullptr, ConfigDim::Queries},
    {SELF "v_bias", nullptr, ConfigDim::Queries},
    {"deberta.encoder.rel_embeddings.weight", nullptr, ConfigDim::Buckets, ConfigDim::Hidden, When::Distances},
    {SELF "pos_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden, When::DistanceKeys},
    LINEAR_WHEN(SELF "pos_q_proj", DistanceQueries),
};

#define TRANSFORM_RULES(name, width)                                                                                   \
  HEDDLE_LINEAR_RULES(name "dense", width, Hidden), HEDDLE_NORM_RULES(name "LayerNorm", width)
static constexpr TensorRule maskedRules[] = {
    TRANSFORM_RULES("cls.predictions.transform.", Embedding),
    {"cls.predictions.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Tied},
    {"cls.predictions.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding, When::Untied},
    {"cls.predictions.decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Untied},
};
static constexpr TensorRule newMaskedRules[] = {TRANSFORM_RULES("lm_predictions.lm_head.", Hidden),
                                                {"lm_predictions.lm_head.bias", nullptr, ConfigDim::Vocab}};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("pooler.dense", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {
    {"deberta.embeddings.position_ids"},
    {"deberta.embeddings.position_embeddings.weight"}, // of a model that does not add them
    {"cls.predictions.decoder.bias"},                  // the other bias again where embeddings are tied
    {"cls.predictions.bias"},
    {"cls.*", /*isLoss=*/true},
    {"lm_predictions.*", /*isLoss=*/true},
    {"mask_predictions.*", /*isLoss=*/true},
    {"pooler.*", /*isLoss=*/true},
    {"classifier.*", /*isLoss=*/true},
    {"qa_outputs.*", /*isLoss=*/true},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  config.tokenTypes = object.integer("type_vocab_size").value_or(0);
  constexpr int64_t mostTypes = 1 << 16, widest = 1 << 20;
  if (config.tokenTypes < 0 || config.tokenTypes > mostTypes)
    object.fail("type_vocab_size",
                "is " + std::to_string(config.tokenTypes) + ", expected 0 to " + std::to_string(mostTypes));
  checkEvenHeads(object, config);
  int64_t embedding = object.integer("embedding_size").value_or(config.hiddenSize);
  if (embedding < 1 || embedding > widest)
    object.fail("embedding_size", "is " + std::to_string(embedding) + ", expected 1 to " + std::to_string(widest));
  config.embeddingSize = embedding == config.hiddenSize ? 0 : embedding;
  config.hasPositionTable = object.boolean("position_biased_input").value_or(true);
  for (auto [key, expected] : {std::pair<const char *, int64_t>{"attention_head_size", config.headDim},
                               {"pooler_hidden_size", config.hiddenSize}})
    if (int64_t size = object.integer(key).value_or(expected); size != expected)
      object.unsupported(key, "is " + std::to_string(size) + ", which is not supported; expected " +
                                  std::to_string(expected));
}

// Of the convolution that is computed beside the first layer (`ConvLayer` of the reference).
static void readConv(JsonObject &object, ModelConfig &config) {
  int64_t kernel = object.integer("conv_kernel_size").value_or(0), groups = object.integer("conv_groups").value_or(1);
  std::string activation = object.string("conv_act").value_or("tanh");
  if (kernel <= 0)
    return;
  config.neighbourConv = activationNamed(activation);
  if (!config.neighbourConv)
    object.fail("conv_act",
                "is '" + printable(activation, 64) + "', an unknown activation; known: " + knownActivations());
  for (auto [key, size, expected] :
       {std::tuple<const char *, int64_t, int64_t>{"conv_kernel_size", kernel, convTaps}, {"conv_groups", groups, 1}})
    if (size != expected)
      object.unsupported(key, "is " + std::to_string(size) + ", which is not supported; expected " +
                                  std::to_string(expected));
}

// Words of "a|b", or of a list.
static std::vector<std::string> wordsOf(JsonObject &object, const char *key) {
  if (!object.find(key).is(JsonKind::String))
    return object.strings(key);
  std::vector<std::string> words(1);
  for (char c : object.string(key).value_or("")) {
    if (c == '|')
      words.emplace_back();
    else if (c != ' ')
      words.back() += char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return words;
}

static void readDistances(JsonObject &object, ModelConfig &config, bool isFirst) {
  DistanceConfig &distances = config.distances;
  for (const std::string &word : wordsOf(object, "pos_att_type")) {
    distances.asKeys |= word == "c2p";
    distances.asQueries |= word == "p2c";
    if (word != "c2p" && word != "p2c" && !word.empty())
      object.fail("pos_att_type", "holds '" + printable(word, 64) + "', expected c2p and p2c");
  }
  for (const std::string &word : isFirst ? std::vector<std::string>() : wordsOf(object, "norm_rel_ebd")) {
    distances.isNormed |= word == "layer_norm";
    if (word != "layer_norm" && word != "none" && !word.empty())
      object.fail("norm_rel_ebd", "holds '" + printable(word, 64) + "', expected none or layer_norm");
  }
  if (!isFirst) {
    distances.sharesProjections = object.boolean("share_att_key").value_or(false);
    distances.buckets = std::max<int64_t>(object.integer("position_buckets").value_or(-1), 0);
  }
  config.relativeDistance = object.integer("max_relative_positions").value_or(-1);
  if (config.relativeDistance < 1)
    config.relativeDistance = config.contextLength;
  int64_t terms = 1 + distances.asKeys + distances.asQueries;
  config.attentionScale = 1.0 / std::sqrt(double(config.headDim * terms));
  if (!object.boolean("relative_attention").value_or(false))
    return;
  constexpr int64_t most = 1024;
  int64_t span = distances.buckets ? distances.buckets : config.relativeDistance;
  const char *key = distances.buckets ? "position_buckets" : "max_relative_positions";
  if (span < 4 || span > most)
    object.fail(key, "is " + std::to_string(span) + ", expected 4 to " + std::to_string(most));
  else if (distances.buckets && config.relativeDistance <= distances.buckets / 2 + 1)
    object.fail("max_relative_positions", "is " + std::to_string(config.relativeDistance) +
                                              ", expected more than half of the " + std::to_string(span) +
                                              " position_buckets and 1");
  else if (config.contextLength > DistanceBias::maxDistance)
    object.fail("max_position_embeddings", "is " + std::to_string(config.contextLength) + ", expected at most " +
                                               std::to_string(DistanceBias::maxDistance) + " where distances count");
  config.relativeBuckets = 2 * span;
}

static void buildNewMasked(ModelBuilder &b, TensorHandle x, TensorHandle pooled);
static constexpr Head newMasked = {"DebertaV2ForMaskedLM", newMaskedRules, buildNewMasked, HeadTask::FillMask};

static void readHeads(JsonObject &object, ModelConfig &config) {
  std::string activation = object.string("pooler_hidden_act").value_or("gelu");
  if (std::optional<Activation> known = activationNamed(activation))
    config.headActivation = *known;
  else
    object.fail("pooler_hidden_act",
                "is '" + printable(activation, 64) + "', an unknown activation; known: " + knownActivations());
  bool isLegacy = object.boolean("legacy").value_or(true);
  if (!config.head || config.head->task != HeadTask::FillMask || isLegacy)
    return;
  config.head = &newMasked;
  if (config.embeddingSize)
    object.unsupported("legacy", "is false, which is not supported where embedding_size is not hidden_size");
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readDistances(object, config, /*isFirst=*/false);
  readConv(object, config);
  readHeads(object, config);
}

static void readFirst(JsonObject &object, ModelConfig &config) {
  readDistances(object, config, /*isFirst=*/true);
  readHeads(object, config);
  if (object.boolean("talking_head").value_or(false))
    object.unsupported("talking_head", "is true, which is not supported; expected false");
}

// The row of the embeddings for `distance`, query position - key position, in f32 as the reference computes it.
static int64_t distanceRow(const ModelConfig &config, int64_t distance) {
  int64_t span = config.relativeBuckets / 2, bucket = distance, far = std::abs(distance);
  int64_t half = config.distances.buckets / 2;
  if (config.distances.buckets && far > half) {
    float range = std::log(float(double(config.relativeDistance - 1) / double(half)));
    float step = std::ceil(std::log(float(far) / float(half)) / range * float(half - 1));
    bucket = (int64_t(step) + half) * (distance < 0 ? -1 : 1);
  }
  return std::clamp<int64_t>(bucket + span, 0, config.relativeBuckets - 1);
}

static DistanceBias distanceRows(const ModelConfig &config) {
  DistanceBias runs;
  for (int64_t distance = -config.contextLength; distance <= config.contextLength; ++distance) {
    int64_t row = distanceRow(config, distance);
    if (!runs.rows.empty() && row == runs.rows.back())
      continue;
    if (!runs.rows.empty())
      runs.starts.push_back(distance);
    runs.rows.push_back(row);
  }
  return runs;
}

// (rows, columns) of a stored tensor, as f32.
static std::vector<float> numbersOf(const Model &model, const std::string &name) {
  const TensorInfo &tensor = *model.checkpoint.find(name);
  size_t count = 1;
  for (int64_t size : tensor.shape)
    count *= size_t(size);
  std::vector<float> numbers(count);
  dequantize(tensor.type, model.checkpoint.data(tensor), count, numbers.data());
  return numbers;
}

// Each row of `width` numbers as a LayerNorm leaves it.
static void normRows(std::vector<float> &rows, const std::vector<float> &weight, const std::vector<float> &bias,
                     double eps) {
  size_t width = weight.size();
  for (size_t row = 0; row < rows.size(); row += width) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i)
      mean += rows[row + i];
    mean /= double(width);
    for (size_t i = 0; i < width; ++i)
      variance += (rows[row + i] - mean) * (rows[row + i] - mean);
    double factor = 1 / std::sqrt(variance / double(width) + eps);
    for (size_t i = 0; i < width; ++i)
      rows[row + i] = float((rows[row + i] - mean) * factor * weight[i] + bias[i]);
  }
}

// The sum of a[i] b[i], in as many sums side by side as make vectors.
static float dot(const float *a, const float *b, size_t count) {
  constexpr size_t lanes = 16;
  float sums[lanes] = {}, total = 0;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i)
    total += a[i] * b[i];
  for (float sum : sums)
    total += sum;
  return total;
}

// Embeddings of distances, projected by `projection` and scaled as scores are, head after head: (num_heads * rows, head_dim). Zeros without one.
static Status addProjected(Model &model, const std::vector<float> &embeddings, const std::string &projection,
                           const std::string &name) {
  const ModelConfig &config = model.config;
  size_t hidden = size_t(config.hiddenSize), headDim = size_t(config.headDim), rows = size_t(config.relativeBuckets);
  std::vector<float> weight, bias;
  if (!projection.empty()) {
    weight = numbersOf(model, projection + ".weight");
    bias = model.checkpoint.find(projection + ".bias") ? numbersOf(model, projection + ".bias")
                                                       : std::vector<float>(hidden);
  }
  std::vector<float> numbers(headDim);
  return addTensor(model, name, TensorInfo{TensorType::F32, {config.numHeads * config.relativeBuckets, config.headDim}},
                   "projected distances", [&](std::vector<char> &out, int64_t index) {
                     const float *embedding = &embeddings[size_t(index) % rows * hidden];
                     for (size_t d = 0; d < headDim && !weight.empty(); ++d) {
                       size_t column = size_t(index) / rows * headDim + d;
                       numbers[d] = (dot(&weight[column * hidden], embedding, hidden) + bias[column]) *
                                    float(config.attentionScale);
                     }
                     memcpy(out.data(), numbers.data(), out.size());
                   });
}

// No token takes part in what distances are projected to: it is computed once, while the model is read.
static Status addDistances(Model &model, const std::string &keys, const std::string &queries) {
  const ModelConfig &config = model.config;
  const DistanceConfig &distances = config.distances;
  if (!config.relativeBuckets || !(distances.asKeys || distances.asQueries))
    return Status();
  std::vector<float> embeddings = numbersOf(model, "deberta.encoder.rel_embeddings.weight");
  if (distances.isNormed)
    normRows(embeddings, numbersOf(model, "deberta.encoder.LayerNorm.weight"),
             numbersOf(model, "deberta.encoder.LayerNorm.bias"), config.normEps);
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    std::string scope = "deberta.encoder.layer." + std::to_string(layer) + ".attention.self.";
    HEDDLE_RETURN_IF_ERROR(
        addProjected(model, embeddings, distances.asKeys ? scope + keys : "", scope + "distance_keys"));
    HEDDLE_RETURN_IF_ERROR(
        addProjected(model, embeddings, distances.asQueries ? scope + queries : "", scope + "distance_queries"));
  }
  return Status();
}

// What scores get so that a token attends to the one beside it alone, or to none at the end of a text: minus infinity, and 0 at its distance.
static constexpr const char *oneDistance = CONV "one_distance.weight";

static Status addConv(Model &model) {
  HEDDLE_RETURN_IF_ERROR(splitTaps(model, CONV "conv.weight"));
  return addTensor(model, oneDistance, TensorInfo{TensorType::F32, {2, model.config.numHeads}},
                   "distances of neighbours", [](std::vector<char> &row, int64_t index) {
                     std::vector<float> numbers(row.size() / sizeof(float), index ? 0.0f : -HUGE_VALF);
                     memcpy(row.data(), numbers.data(), row.size());
                   });
}

static Status addOwnTerms(Model &model) {
  if (model.config.neighbourConv)
    HEDDLE_RETURN_IF_ERROR(addConv(model));
  bool isShared = model.config.distances.sharesProjections;
  return addDistances(model, isShared ? "key_proj" : "pos_key_proj", isShared ? "query_proj" : "pos_query_proj");
}

// Of the first version: also the biases of queries, keys, which have none, and values, head by head as the matrix has its rows.
static Status addFirstTerms(Model &model) {
  const ModelConfig &config = model.config;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    std::string scope = "deberta.encoder.layer." + std::to_string(layer) + ".attention.self.";
    std::vector<float> queries = numbersOf(model, scope + "q_bias"), values = numbersOf(model, scope + "v_bias"),
                       numbers;
    for (auto begin = ptrdiff_t(0); begin < ptrdiff_t(queries.size()); begin += config.headDim) {
      numbers.insert(numbers.end(), queries.begin() + begin, queries.begin() + begin + config.headDim);
      numbers.resize(numbers.size() + size_t(config.headDim));
      numbers.insert(numbers.end(), values.begin() + begin, values.begin() + begin + config.headDim);
    }
    TensorInfo all{TensorType::F32, {int64_t(numbers.size())}};
    all.rowOrder = RowOrder::ByKvHead;
    HEDDLE_RETURN_IF_ERROR(
        addTensor(model, scope + "in_proj.bias", all, "biases of queries and values",
                  [&](std::vector<char> &row, int64_t) { memcpy(row.data(), numbers.data(), row.size()); }));
  }
  return addDistances(model, "pos_proj", "pos_q_proj");
}

static TensorHandle attention(ModelBuilder &b, TensorHandle x, const DistanceBias &runs) {
  const ModelConfig &config = b.config();
  const std::string block = "attention.self.";
  bool isApart = b.has(block + "query_proj.weight");
  TensorHandle all = isApart ? x : b.linear(x, block + "in_proj.weight", block + "in_proj.bias");
  auto project = [&](const char *name, int64_t part) {
    int64_t width = config.hiddenSize;
    return isApart ? b.linear(x, block + name) : b.columns(all, part * width, (part + 1) * width);
  };
  TensorHandle query = project("query_proj", 0), key = project("key_proj", 1), value = project("value_proj", 2);
  AttentionTerms terms;
  if (!runs.rows.empty()) {
    std::vector<TensorHandle> products;
    auto multiply = [&](TensorHandle tokens, const std::string &name) {
      for (int64_t head = 0; head < config.numHeads; ++head)
        products.push_back(b.linear(b.columns(tokens, head * config.headDim, (head + 1) * config.headDim), name, "",
                                    head * config.relativeBuckets, config.relativeBuckets));
    };
    multiply(query, "attention.self.distance_keys");
    multiply(key, "attention.self.distance_queries");
    terms.ofTokens = b.sideBySide(products);
    terms.positions = runs;
  }
  auto heads = [&](TensorHandle x) { return b.splitHeads(x, config.numHeads); };
  TensorHandle attended = b.attention(heads(query), heads(key), heads(value), terms);
  return b.linear(b.mergeHeads(attended), "attention.output.dense");
}

// What each token's neighbour at `distance` before it is, zeros where the text has none: the value of the only key whose score is not minus infinity.
static TensorHandle neighbours(ModelBuilder &b, TensorHandle x, int64_t distance) {
  AttentionTerms terms;
  terms.positions.table = oneDistance;
  terms.positions.starts = {distance, distance + 1};
  terms.positions.rows = {0, 1, 0};
  TensorHandle heads = b.splitHeads(x, b.config().numHeads);
  return b.mergeHeads(b.attention(heads, heads, heads, terms));
}

// The first layer, and behind it what a convolution makes of its input: each tap of that is a linear layer of one token.
static TensorHandle convolvedLayer(ModelBuilder &b, TensorHandle x, const std::string &scope,
                                   const ModelBuilder::LayerBody &body) {
  ModelBuilder::LayerValues seen = b.layer(0, scope, ModelBuilder::LayerValues{x}, [&](const auto &inputs) {
    return ModelBuilder::LayerValues{body(inputs[0]), neighbours(b, inputs[0], 1), neighbours(b, inputs[0], -1)};
  });
  int64_t hidden = b.config().hiddenSize;
  TensorHandle taps[convTaps] = {seen[1], x, seen[2]}, sum;
  for (int64_t tap = 0; tap < convTaps; ++tap) {
    TensorHandle part = b.linear(taps[tap], CONV "conv.weight", tap ? "" : CONV "conv.bias", tap * hidden, hidden);
    sum = tap ? b.add(sum, part) : part;
  }
  return b.layerNorm(b.add(seen[0], b.activation(sum, *b.config().neighbourConv)), CONV "LayerNorm");
}

static void build(ModelBuilder &b) {
  const ModelConfig &config = b.config();
  const std::string scope = "deberta.embeddings.";
  TensorHandle x = b.embedTokens(config.family->embedding);
  if (config.hasPositionTable)
    x = b.add(x, b.embedPositions(scope + "position_embeddings.weight"));
  if (config.tokenTypes)
    x = b.add(x, b.embedTokenTypes(scope + "token_type_embeddings.weight"));
  if (config.embeddingSize)
    x = b.linear(x, scope + "embed_proj");
  x = b.layerNorm(x, scope + "LayerNorm");
  DistanceBias runs;
  if (config.relativeBuckets && (config.distances.asKeys || config.distances.asQueries))
    runs = distanceRows(config);
  for (int64_t i = 0; i < config.numHiddenLayers; ++i) {
    std::string layer = "deberta.encoder.layer." + std::to_string(i) + ".";
    auto body = [&](TensorHandle x) { return bertLayer(b, x, attention(b, x, runs)); };
    x = i == 0 && config.neighbourConv ? convolvedLayer(b, x, layer, body) : b.layer(i, layer, x, body);
  }
  finishEncoder(b, x, TensorHandle());
}

static TensorHandle transformed(ModelBuilder &b, TensorHandle x, const std::string &scope) {
  return b.layerNorm(b.activation(b.linear(x, scope + "dense")), scope + "LayerNorm");
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = transformed(b, x, "cls.predictions.transform.");
  b.output("logits", vocabularyLogits(b, x, "cls.predictions.decoder", "cls.predictions.bias"));
}

static void buildNewMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = transformed(b, x, "lm_predictions.lm_head.");
  b.output("logits", b.linear(x, b.config().family->embedding, "lm_predictions.lm_head.bias"));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.activation(b.linear(b.firstTokens(x), "pooler.dense"), b.config().headActivation);
  b.output("logits", b.linear(x, "classifier"));
}

static constexpr Head heads[] = {
    {"DebertaV2ForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"DebertaV2ForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"DebertaV2ForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"DebertaV2ForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describe() {
  Family row = describeBertKin("deberta-v2");
  row.heads = heads;
  row.embedding = "deberta.embeddings.word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {tensorRules, projectionRules, distanceRules, convRules};
  row.unread = unread;
  row.defaults.vocabSize = 128100;
  row.defaults.numHeads = 24;
  row.defaults.normEps = 1e-7;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addOwnTerms;
  row.build = build;
  return row;
}
const Family family::debertaV2 = describe();

static constexpr Head firstHeads[] = {
    {"DebertaForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"DebertaForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"DebertaForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"DebertaForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describeFirst() {
  Family row = describe();
  row.modelType = "deberta";
  row.heads = firstHeads;
  row.rules = {tensorRules, firstRules};
  row.defaults.vocabSize = 50265;
  row.defaults.numHeads = 12;
  row.readers.huggingFaceRest = readFirst;
  row.addTensors = addFirstTerms;
  return row;
}
const Family family::deberta = describeFirst();

} // namespace heddle
