// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// X-MOD (Pfeiffer et al. 2022, arXiv:2205.06266): RoBERTa whose layers end in a bottleneck adapter for each language, of which those of the config's
// default_language are compiled; some norm what attention and the feed-forward block read.

#include "frontends/families/Families.h"
#include "frontends/families/Roberta.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

static constexpr TensorRule tensorRules[] = {HEDDLE_BERT_RULES("roberta.")};
static constexpr TensorRule lastNormRules[] = {
    {"roberta.encoder.LayerNorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
    {"roberta.encoder.LayerNorm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm}};
// Those of the language are read under another name, which no rule can hold.
static constexpr UnreadTensor unread[] = {HEDDLE_ROBERTA_UNREAD("roberta."),
                                          {"roberta.encoder.layer.#.output.adapter_modules.*"}};

static void readRest(JsonObject &object, ModelConfig &config) {
  refuseOtherBerts(object, config);
  config.normsBefore = config.hasFinalNorm = object.boolean("pre_norm").value_or(false);
  for (auto [key, expected] :
       {std::pair("adapter_layer_norm", false), {"adapter_reuse_layer_norm", true}, {"ln_before_adapter", true}})
    if (bool value = object.boolean(key).value_or(expected); value != expected)
      object.unsupported(key, std::string("is ") + (value ? "true" : "false") + ", which is not supported; expected " +
                                  (expected ? "true" : "false"));
  int64_t factor = object.integer("adapter_reduction_factor").value_or(2);
  if (factor < 1 || factor > config.hiddenSize)
    return object.fail("adapter_reduction_factor", "is " + std::to_string(factor) + ", expected 1 to hidden_size (" +
                                                       std::to_string(config.hiddenSize) + ")");
  config.adapterSize = config.hiddenSize / factor;
  std::vector<std::string> languages = object.strings("languages");
  if (!object.has("languages"))
    languages = {"en_XX"};
  config.language = object.string("default_language").value_or("");
  if (config.language.empty())
    return object.unsupported("default_language", "is missing, which is not supported: expected one of languages");
  if (std::find(languages.begin(), languages.end(), config.language) == languages.end())
    object.fail("default_language", "is '" + printable(config.language, 64) + "', expected one of languages");
}

// Gives the adapters of the language names that do not hold it.
static Status nameAdapters(Model &model) {
  const ModelConfig &config = model.config;
  Checkpoint &checkpoint = model.checkpoint;
  int64_t hidden = config.hiddenSize, narrow = config.adapterSize;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    std::string scope = "roberta.encoder.layer." + std::to_string(layer) + ".output.";
    for (const auto &[part, shape] : {std::pair<const char *, std::vector<int64_t>>{"dense1.weight", {narrow, hidden}},
                                      {"dense1.bias", {narrow}},
                                      {"dense2.weight", {hidden, narrow}},
                                      {"dense2.bias", {hidden}}}) {
      std::string name = scope + "adapter_modules." + config.language + "." + part;
      const TensorInfo *found = checkpoint.find(name);
      if (!found)
        return errorIn(model.sourcePath, "tensor " + printable(name, 256) + " is missing").ofTensor(name);
      TensorInfo tensor = *found;
      if (tensor.shape != shape)
        return errorIn(model.sourcePath, "tensor " + printable(name, 256) + " has shape " + shapeText(tensor.shape) +
                                             ", the config asks for " + shapeText(shape))
            .ofTensor(name);
      checkpoint.tensors.emplace(scope + "adapter." + part, std::move(tensor));
    }
  }
  return Status();
}

static TensorHandle adapt(ModelBuilder &b, TensorHandle x) {
  auto dense = [&](TensorHandle x, const std::string &name) {
    return b.linear(x, "output.adapter." + name + ".weight", "output.adapter." + name + ".bias");
  };
  return b.add(dense(b.activation(dense(x, "dense1")), "dense2"), x);
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  bool isBefore = b.config().normsBefore;
  auto before = [&](TensorHandle x, const char *norm) { return isBefore ? b.layerNorm(x, norm) : x; };
  auto behind = [&](TensorHandle x, const char *norm) { return isBefore ? x : b.layerNorm(x, norm); };
  x = behind(b.add(bertAttention(b, before(x, "attention.output.LayerNorm")), x), "attention.output.LayerNorm");
  TensorHandle wide = b.activation(b.linear(before(x, "output.LayerNorm"), "intermediate.dense"));
  x = b.layerNorm(b.add(b.linear(wide, "output.dense"), x),
                  "output.LayerNorm"); // which the adapter reads, in either form
  return behind(adapt(b, x), "output.LayerNorm");
}

static void build(ModelBuilder &b) {
  TensorHandle x = bertEmbeddings(b, "roberta.");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "roberta.encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x); });
  finishBert(b, b.config().hasFinalNorm ? b.layerNorm(x, "roberta.encoder.LayerNorm") : x);
}

static constexpr Head heads[] = {HEDDLE_ROBERTA_HEADS("Xmod")};

static constexpr Family describe() {
  Family row = describeBertKin("xmod");
  row.pooler = "roberta.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "roberta.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {tensorRules, lastNormRules};
  row.unread = unread;
  row.defaults.vocabSize = 30522;
  row.readers.huggingFaceSizes = readRobertaSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = nameAdapters;
  row.build = build;
  return row;
}
const Family family::xmod = describe();

} // namespace heddle
