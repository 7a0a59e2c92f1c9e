// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BERTs that rotate. GTE (Zhang et al. 2024, arXiv:2407.19669): a gated feed-forward block, whose stored matrix has the rows that pass, then those
// that gate. Jina Embeddings v3 (Sturua et al. 2024, arXiv:2409.10173) without the adapters of its tasks: XLM-RoBERTa.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Roberta.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule gteRules[] = {
    {"gte.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"gte.embeddings.token_type_embeddings.weight", nullptr, ConfigDim::TokenTypes, ConfigDim::Hidden, When::TokenTypes,
     StoredOrder::Flattened},
    HEDDLE_NORM_RULES("gte.embeddings.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES("gte.encoder.layer.#.attention.qkv_proj", QueriesKeysValues, Hidden),
    HEDDLE_LINEAR_RULES("gte.encoder.layer.#.attention.o_proj", Hidden, Queries),
    HEDDLE_NORM_RULES("gte.encoder.layer.#.attn_ln", Hidden),
    {"gte.encoder.layer.#.mlp.up_gate_proj.weight", nullptr, ConfigDim::GateAndUp, ConfigDim::Hidden},
    HEDDLE_LINEAR_RULES("gte.encoder.layer.#.mlp.down_proj", Hidden, Intermediate),
    HEDDLE_NORM_RULES("gte.encoder.layer.#.mlp_ln", Hidden),
    HEDDLE_BERT_POOLER_RULES("gte."),
};
static constexpr TensorRule gteMaskedRules[] = {
    HEDDLE_LINEAR_RULES("lm_head.dense", Hidden, Hidden),
    HEDDLE_NORM_RULES("lm_head.norm", Hidden),
    {"lm_head.decoder.bias", nullptr, ConfigDim::Vocab},
    {"lm_head.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

// Of heads that are not compiled.
static constexpr UnreadTensor gteUnread[] = {{"gte.embeddings.position_ids"},
                                             {"gte.rotary_emb.*"},
                                             {"lm_head.*", /*isLoss=*/true},
                                             {"classifier.*", /*isLoss=*/true}};

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  config.numKvHeads = config.numHeads;
  config.headDim = object.integer("head_dim").value_or(config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0);
  if (!object.has("head_dim"))
    checkEvenHeads(object, config);
}

// A model without types of tokens says that it has 0.
static void readGteSizes(JsonObject &object, ModelConfig &config) {
  readSizes(object, config);
  config.tokenTypes = object.bounded("type_vocab_size", object.integer("type_vocab_size").value_or(1), 0, 1 << 16);
}

static void readJinaSizes(JsonObject &object, ModelConfig &config) {
  readSizes(object, config);
  config.tokenTypes = object.bounded("type_vocab_size", object.integer("type_vocab_size").value_or(1), 1, 1 << 16);
}

static TensorHandle embed(ModelBuilder &b, const std::string &types, const std::string &norm) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  return b.layerNorm(b.config().tokenTypes ? b.add(x, b.embedTokenTypes(types)) : x, norm);
}

static TensorHandle gteLayer(ModelBuilder &b, TensorHandle x) {
  int64_t width = b.config().intermediateSize;
  x = b.layerNorm(b.add(fusedSelfAttention(b, x, "attention.qkv_proj", "attention.o_proj"), x), "attn_ln");
  TensorHandle both = b.linear(x, "mlp.up_gate_proj");
  TensorHandle gated = b.glu(b.columns(both, width, 2 * width), b.columns(both, 0, width));
  return b.layerNorm(b.add(b.linear(gated, "mlp.down_proj"), x), "mlp_ln");
}

static void buildGte(ModelBuilder &b) {
  TensorHandle x = embed(b, "gte.embeddings.token_type_embeddings.weight", "gte.embeddings.LayerNorm");
  finishBert(b, decoderLayers(b, "gte.encoder.layer.", x, [&](int64_t, TensorHandle x) { return gteLayer(b, x); }));
}

static void buildGteMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "lm_head.dense"), Activation::Gelu), "lm_head.norm");
  b.output("logits", vocabularyLogits(b, x, "lm_head.decoder", "lm_head.decoder.bias"));
}

static void buildPooledClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

static constexpr Head gteHeads[] = {
    {"GteForMaskedLM", gteMaskedRules, buildGteMasked, HeadTask::FillMask},
    {"GteForSequenceClassification", classifierRules, buildPooledClassifier, HeadTask::Classify},
    {"GteForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
};

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr Family describe(const char *modelType) {
  Family row = describeBertKin(modelType);
  row.keyNames = keyNames;
  row.rope.hasRope = true;
  return row;
}

static constexpr Family describeGte() {
  Family row = describe("gte");
  row.pooler = "gte.pooler.dense.weight";
  row.heads = gteHeads;
  row.embedding = "gte.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {gteRules};
  row.unread = gteUnread;
  row.defaults.vocabSize = 250048;
  row.defaults.numHeads = 12;
  row.defaults.context = 8192;
  row.defaults.ropeTheta = 160000.0;
  row.readers.huggingFaceSizes = readGteSizes;
  row.build = buildGte;
  return row;
}
const Family family::gte = describeGte();

static constexpr TensorRule jinaRules[] = {
    {"roberta.embeddings.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"roberta.embeddings.token_type_embeddings.weight", "token_types.weight", ConfigDim::TokenTypes, ConfigDim::Hidden,
     When::TokenTypes, StoredOrder::Flattened},
    HEDDLE_NAMED_NORM_RULES("roberta.emb_ln", "token_embd_norm", Hidden),
    HEDDLE_NAMED_LINEAR_RULES("roberta.encoder.layers.#.mixer.Wqkv", "blk.#.attn_qkv", QueriesKeysValues, Hidden),
    HEDDLE_NAMED_LINEAR_RULES("roberta.encoder.layers.#.mixer.out_proj", "blk.#.attn_output", Hidden, Queries),
    HEDDLE_NAMED_NORM_RULES("roberta.encoder.layers.#.norm1", "blk.#.attn_output_norm", Hidden),
    HEDDLE_NAMED_LINEAR_RULES("roberta.encoder.layers.#.mlp.fc1", "blk.#.ffn_up", Intermediate, Hidden),
    HEDDLE_NAMED_LINEAR_RULES("roberta.encoder.layers.#.mlp.fc2", "blk.#.ffn_down", Hidden, Intermediate),
    HEDDLE_NAMED_NORM_RULES("roberta.encoder.layers.#.norm2", "blk.#.layer_output_norm", Hidden),
    HEDDLE_BERT_POOLER_RULES("roberta."),
};
static constexpr UnreadTensor jinaUnread[] = {HEDDLE_ROBERTA_UNREAD("roberta.")};

static TensorHandle jinaLayer(ModelBuilder &b, TensorHandle x) {
  x = b.layerNorm(b.add(fusedSelfAttention(b, x, "mixer.Wqkv", "mixer.out_proj"), x), "norm1");
  TensorHandle wide = b.activation(b.linear(x, "mlp.fc1"));
  return b.layerNorm(b.add(b.linear(wide, "mlp.fc2"), x), "norm2");
}

static void buildJina(ModelBuilder &b) {
  TensorHandle x = embed(b, "roberta.embeddings.token_type_embeddings.weight", "roberta.emb_ln");
  x = decoderLayers(b, "roberta.encoder.layers.", x, [&](int64_t, TensorHandle x) { return jinaLayer(b, x); });
  finishBert(b, x);
}

static constexpr Head jinaHeads[] = {
    {"JinaEmbeddingsV3ForMaskedLM", robertaMaskedRules, buildRobertaMasked, HeadTask::FillMask},
    {"JinaEmbeddingsV3ForSequenceClassification", robertaSequenceRules, buildRobertaClassifier, HeadTask::Classify},
    {"JinaEmbeddingsV3ForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"JinaEmbeddingsV3ForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describeJina() {
  Family row = describe("jina_embeddings_v3");
  row.gguf = "jina-bert-v3";
  row.pooler = "roberta.pooler.dense.weight";
  row.heads = jinaHeads;
  row.embedding = "roberta.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {jinaRules};
  row.unread = jinaUnread;
  row.defaults.vocabSize = 250002;
  row.defaults.numHeads = 16;
  row.defaults.context = 8194;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 20000.0;
  row.readers.huggingFaceSizes = readJinaSizes;
  row.readers.ggufRest = readGgufTokenTypes;
  row.build = buildJina;
  return row;
}
const Family family::jinaEmbeddingsV3 = describeJina();

} // namespace heddle
