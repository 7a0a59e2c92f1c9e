// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SqueezeBERT (Iandola et al. 2020, arXiv:2006.11316): BERT whose linear layers are convolutions over one token, in groups: each computes its part of
// the columns from the same part of what it reads.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <tuple>

namespace heddle {

#define LAYER "transformer.encoder.layers.#."
#define GROUPED(name, out, group)                                                                                      \
  {LAYER name ".weight", nullptr, ConfigDim::out, ConfigDim::group, When::Always, StoredOrder::Flattened}, {           \
    LAYER name ".bias", nullptr, ConfigDim::out                                                                        \
  }
static constexpr TensorRule tensorRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES("transformer."),
    GROUPED("attention.query", Hidden, QueryGroup),
    GROUPED("attention.key", Hidden, KeyGroup),
    GROUPED("attention.value", Hidden, ValueGroup),
    GROUPED("post_attention.conv1d", Hidden, OutputGroup),
    HEDDLE_NORM_RULES(LAYER "post_attention.layernorm", Hidden),
    GROUPED("intermediate.conv1d", Intermediate, UpGroup),
    GROUPED("output.conv1d", Hidden, DownGroup),
    HEDDLE_NORM_RULES(LAYER "output.layernorm", Hidden),
    HEDDLE_BERT_POOLER_RULES("transformer."),
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_BERT_SEQUENCE_RULES("transformer.")};
// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {{"transformer.embeddings.position_ids"}, HEDDLE_BERT_UNREAD_HEADS};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  if (int64_t size = object.integer("embedding_size").value_or(768); size != config.hiddenSize)
    object.fail("embedding_size",
                "is " + std::to_string(size) + ", expected hidden_size (" + std::to_string(config.hiddenSize) + ")");
  GroupConfig &groups = config.groups;
  for (auto [key, count, usual, in, out] :
       {std::tuple<const char *, int64_t &, int64_t, int64_t, int64_t>{"q_groups", groups.query, 4, config.hiddenSize,
                                                                       config.hiddenSize},
        {"k_groups", groups.key, 4, config.hiddenSize, config.hiddenSize},
        {"v_groups", groups.value, 4, config.hiddenSize, config.hiddenSize},
        {"post_attention_groups", groups.output, 1, config.hiddenSize, config.hiddenSize},
        {"intermediate_groups", groups.up, 4, config.hiddenSize, config.intermediateSize},
        {"output_groups", groups.down, 4, config.intermediateSize, config.hiddenSize}}) {
    constexpr int64_t most = 64;
    count = object.bounded(key, object.integer(key).value_or(usual), 1, most);
    if (in % count || out % count)
      return object.fail(key, "(" + std::to_string(count) + ") must divide " + std::to_string(in) + " and " +
                                  std::to_string(out) + ", what the layer reads and gives");
  }
}

static TensorHandle grouped(ModelBuilder &b, TensorHandle x, const std::string &name, int64_t groups, int64_t in,
                            int64_t out) {
  if (groups == 1)
    return b.linear(x, name);
  std::vector<TensorHandle> parts;
  parts.reserve(size_t(groups));
  for (int64_t group = 0; group < groups; ++group)
    parts.push_back(b.linear(b.columns(x, group * in / groups, (group + 1) * in / groups), name + ".weight",
                             name + ".bias", group * out / groups, out / groups));
  return b.sideBySide(parts);
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  const GroupConfig &groups = c.groups;
  constexpr double eps = 1e-12; // whatever config.json says of the other norms
  int64_t width = c.hiddenSize, wide = c.intermediateSize;
  auto heads = [&](const char *name, int64_t count) {
    return b.splitHeads(grouped(b, x, name, count, width, width), c.numHeads);
  };
  TensorHandle q = heads("attention.query", groups.query), k = heads("attention.key", groups.key),
               v = heads("attention.value", groups.value);
  TensorHandle attended =
      grouped(b, b.mergeHeads(b.attention(q, k, v)), "post_attention.conv1d", groups.output, width, width);
  x = b.layerNorm(b.add(attended, x), "post_attention.layernorm", eps);
  TensorHandle inner = b.activation(grouped(b, x, "intermediate.conv1d", groups.up, width, wide));
  return b.layerNorm(b.add(grouped(b, inner, "output.conv1d", groups.down, wide, width), x), "output.layernorm", eps);
}

static void build(ModelBuilder &b) {
  TensorHandle x = bertEmbeddings(b, "transformer.");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "transformer.encoder.layers." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x); });
  finishBert(b, x);
}

static constexpr Head heads[] = {
    {"SqueezeBertForMaskedLM", bertMaskedRules, buildBertMasked, HeadTask::FillMask},
    {"SqueezeBertForSequenceClassification", sequenceRules, buildBertClassifier, HeadTask::Classify},
    {"SqueezeBertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"SqueezeBertForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describe() {
  Family row = describeBertKin("squeezebert");
  row.pooler = "transformer.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "transformer.embeddings.word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.defaults.vocabSize = 30522;
  row.readers.huggingFaceSizes = readSizes;
  row.build = build;
  return row;
}
const Family family::squeezeBert = describe();

} // namespace heddle
