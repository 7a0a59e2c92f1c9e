// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// EuroBERT (Boizard et al. 2025, arXiv:2503.05500): Llama's layers, whose tokens see all of their text.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule outerRules[] = {
    {"model.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", nullptr, ConfigDim::Hidden},
};
static constexpr TensorRule maskedRules[] = {
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"lm_head.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::MlpBias},
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("dense", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

// Of heads that are not compiled.
static constexpr UnreadTensor unread[] = {
    {"lm_head.*", /*isLoss=*/true}, {"dense.*", /*isLoss=*/true}, {"classifier.*", /*isLoss=*/true}};

static void readRest(JsonObject &object, ModelConfig &config) {
  std::string pooling = object.string("classifier_pooling").value_or("late");
  if (pooling != "bos" && pooling != "mean" && pooling != "late")
    object.fail("classifier_pooling", "is '" + printable(pooling, 64) + "', expected bos, mean or late");
  config.pooledBy = pooling == "bos"    ? ClassifierPooling::First
                    : pooling == "mean" ? ClassifierPooling::Mean
                                        : ClassifierPooling::Late;
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "model.layers.", x, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x); });
  finishEncoder(b, norm(b, x, b.config().family->finalNorm), TensorHandle());
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", vocabularyLogits(b, x, "lm_head", b.config().mlpBias ? "lm_head.bias" : ""));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  ClassifierPooling pooling = b.config().pooledBy;
  if (pooling != ClassifierPooling::Late)
    x = pooling == ClassifierPooling::Mean ? b.meanToken(x) : b.firstTokens(x);
  x = b.activation(b.linear(x, "dense"), Activation::Gelu);
  if (pooling == ClassifierPooling::Late) // the mean of logits is the logits of the mean
    x = b.meanToken(x);
  b.output("logits", b.linear(x, "classifier"));
}

static constexpr Head heads[] = {
    {"EuroBertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"EuroBertForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"EuroBertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
};

static constexpr Family describe() {
  Family row;
  row.modelType = "eurobert";
  row.isEncoder = true;
  row.heads = heads;
  row.rules = {outerRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.unread = unread;
  row.defaults.vocabSize = 128256;
  row.defaults.numHeads = 12;
  row.defaults.context = 8192;
  row.defaults.normEps = 1e-5;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::euroBert = describe();

} // namespace heddle
