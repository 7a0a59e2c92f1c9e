// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Jina Embeddings v2 (Guenther et al. 2023, arXiv:2310.19923): BERT without positions, whose scores fall with the distance to both sides (ALiBi), with gated feed-forward
// blocks. Its folders bring code of their own: GGUF files alone are read. A slope falls to one side only where it is one, so that a table has what each distance takes.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/DistanceBias.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace heddle {

static constexpr const char *distanceTable = "bert.distances.weight";

#define LAYER "bert.encoder.layer.#."
static constexpr TensorRule tensorRules[] = {
    {"bert.embeddings.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"bert.embeddings.token_type_embeddings.weight", "token_types.weight", ConfigDim::TokenTypes, ConfigDim::Hidden,
     When::TokenTypes, StoredOrder::Flattened},
    HEDDLE_NAMED_NORM_RULES("bert.embeddings.LayerNorm", "token_embd_norm", Hidden),
    HEDDLE_NAMED_LINEAR_RULES(LAYER "attention.self.query", "blk.#.attn_q", Queries, Hidden),
    HEDDLE_NAMED_LINEAR_RULES(LAYER "attention.self.key", "blk.#.attn_k", KeyValues, Hidden),
    HEDDLE_NAMED_LINEAR_RULES(LAYER "attention.self.value", "blk.#.attn_v", KeyValues, Hidden),
    HEDDLE_NAMED_LINEAR_RULES(LAYER "attention.output.dense", "blk.#.attn_output", Hidden, Queries),
    HEDDLE_NAMED_NORM_RULES(LAYER "attention.output.LayerNorm", "blk.#.attn_output_norm", Hidden),
    {LAYER "mlp.gate.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {LAYER "mlp.up.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    HEDDLE_NAMED_LINEAR_RULES(LAYER "mlp.wo", "blk.#.ffn_down", Hidden, Intermediate),
    HEDDLE_NAMED_NORM_RULES(LAYER "output.LayerNorm", "blk.#.layer_output_norm", Hidden),
    {distanceTable, nullptr, ConfigDim::Buckets, ConfigDim::Heads, When::DistancesShared},
};
static constexpr UnreadTensor unread[] = {{"cls.*", /*isLoss=*/true}};

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  readGgufTokenTypes(keys, config);
  constexpr double usual = 8.0;
  config.alibiMaxBias = keys.number("attention.max_alibi_bias", usual);
  if (!(config.alibiMaxBias > 0.0))
    keys.fail(keys.full("attention.max_alibi_bias") + " is " + std::to_string(config.alibiMaxBias) +
              ", expected a positive number");
  config.contextLength = std::min(config.contextLength, DistanceBias::maxDistance);
}

// A row for each distance of the context.
static Status addDistances(Model &model) {
  ModelConfig &config = model.config;
  config.relativeBuckets = config.contextLength;
  config.sharesDistances = true;
  std::vector<float> slopes = alibiSlopes(config.numHeads, config.alibiMaxBias);
  return addTensor(model, distanceTable, TensorInfo{TensorType::F32, {config.relativeBuckets, config.numHeads}},
                   "what scores get for distances", [&](std::vector<char> &row, int64_t distance) {
                     std::vector<float> numbers;
                     numbers.reserve(slopes.size());
                     for (float slope : slopes)
                       numbers.push_back(-slope * static_cast<float>(distance));
                     memcpy(row.data(), numbers.data(), row.size());
                   });
}

static DistanceBias toBothSides(int64_t distances) {
  DistanceBias bias;
  bias.table = distanceTable;
  bias.rows.push_back(distances - 1);
  for (int64_t distance = 2 - distances; distance < distances; ++distance) {
    bias.starts.push_back(distance);
    bias.rows.push_back(std::abs(distance));
  }
  return bias;
}

static void build(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  AttentionTerms terms;
  terms.positions = toBothSides(c.relativeBuckets);
  TensorHandle x = b.embedTokens(c.family->embedding);
  if (c.tokenTypes)
    x = b.add(x, b.embedTokenTypes("bert.embeddings.token_type_embeddings.weight"));
  x = b.layerNorm(x, "bert.embeddings.LayerNorm");
  x = decoderLayers(b, "bert.encoder.layer.", x, [&](int64_t, TensorHandle x) {
    auto heads = [&](const char *name) { return b.splitHeads(b.linear(x, name), c.numHeads); };
    TensorHandle q = heads("attention.self.query"), k = heads("attention.self.key"), v = heads("attention.self.value");
    TensorHandle attended = b.linear(b.mergeHeads(b.attention(q, k, v, terms)), "attention.output.dense");
    x = b.layerNorm(b.add(attended, x), "attention.output.LayerNorm");
    TensorHandle gate = b.linear(x, "mlp.gate"), up = b.linear(x, "mlp.up");
    return b.layerNorm(b.add(b.linear(b.glu(gate, up), "mlp.wo"), x), "output.LayerNorm");
  });
  finishEncoder(b, x, TensorHandle());
}

static constexpr Family describe() {
  Family row = describeBertKin("jina-bert-v2");
  row.gguf = "jina-bert-v2";
  row.isGgufOnly = true;
  row.embedding = "bert.embeddings.word_embeddings.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.readers.ggufRest = readGgufRest;
  row.addTensors = addDistances;
  row.build = build;
  return row;
}
const Family family::jinaBertV2 = describe();

} // namespace heddle
