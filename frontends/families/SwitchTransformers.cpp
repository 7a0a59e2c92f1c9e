// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Switch Transformers (Fedus et al. 2021, arXiv:2101.03961): T5 with sparse layers, where a token passes the one expert that its router prefers,
// unless as many tokens of its sequence as the expert has room for came before it. Then it passes none.

#include "frontends/families/Families.h"
#include "frontends/families/T5.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule feedForwardRules[] = {
    {"encoder.block.%.layer.1.mlp.wi.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden, When::Dense},
    {"encoder.block.%.layer.1.mlp.wo.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate, When::Dense},
    {"encoder.block.%.layer.1.mlp.router.classifier.weight", nullptr, ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"encoder.block.%.layer.1.mlp.router.classifier.bias", nullptr, ConfigDim::Experts, ConfigDim::None,
     When::RouterBias},
    {"encoder.block.%.layer.1.mlp.experts.expert_@.wi.weight", nullptr, ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"encoder.block.%.layer.1.mlp.experts.expert_@.wo.weight", nullptr, ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
    {"decoder.block.#.layer.2.mlp.wi.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden, When::Dense},
    {"decoder.block.#.layer.2.mlp.wo.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate, When::Dense},
    {"decoder.block.#.layer.2.mlp.router.classifier.weight", nullptr, ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"decoder.block.#.layer.2.mlp.router.classifier.bias", nullptr, ConfigDim::Experts, ConfigDim::None,
     When::RouterBias},
    {"decoder.block.#.layer.2.mlp.experts.expert_@.wi.weight", nullptr, ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"decoder.block.#.layer.2.mlp.experts.expert_@.wo.weight", nullptr, ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

// Of every `step` layers the second is sparse, of every one it is the only one. Where config.json does not say the step, it is that of the number
// of sparse layers.
static std::vector<bool> sparseLayers(JsonObject &object, const char *stepKey, const char *countKey, int64_t layers) {
  int64_t count = object.integer(countKey).value_or(3);
  int64_t step = object.integer(stepKey).value_or(count > 0 ? layers / count : layers);
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < layers; ++layer)
    sparse.push_back(step > 0 && (step == 1 || layer % step == 1));
  return sparse;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readT5Attention(object, config);
  if (config.tieWordEmbeddings)
    scaleT5Logits(config);
  MoeConfig &moe = config.moe;
  moe.numExperts = object.integer("num_experts").value_or(8);
  if (moe.numExperts < 1)
    object.fail("num_experts", "is " + std::to_string(moe.numExperts) + ", expected at least 1");
  moe.capacity = object.integer("expert_capacity").value_or(64);
  if (moe.capacity < 1 || moe.capacity > 1 << 30)
    object.fail("expert_capacity", "is " + std::to_string(moe.capacity) + ", expected 1 to 1073741824");
  if (std::string type = object.string("router_dtype").value_or("float32"); type != "float32")
    object.unsupported("router_dtype", "is '" + printable(type, 64) + "', which is not supported; expected float32");
  moe.hasRouterBias = object.boolean("router_bias").value_or(false);
  moe.expertsPerToken = 1;
  moe.normTopkProb = false;
  moe.intermediateSize = config.intermediateSize;
  config.encoder.layerIsMoe =
      sparseLayers(object, "encoder_sparse_step", "num_sparse_encoder_layers", config.encoder.numLayers);
  moe.layerIsMoe = sparseLayers(object, "decoder_sparse_step", "num_sparse_decoder_layers", config.numHiddenLayers);
}

static void build(ModelBuilder &b) {
  buildT5(b, [&](TensorHandle x, const std::string &scope, int64_t layer, bool isDecoder) {
    const ModelConfig &config = b.config();
    std::string block = scope + "mlp.";
    if ((isDecoder ? config.moe.layerIsMoe : config.encoder.layerIsMoe)[layer])
      return b.moe(x, block);
    return b.linear(b.activation(b.linear(x, block + "wi")), block + "wo");
  });
}

static constexpr KeyAlias aliases[] = {
    {"hidden_size", "d_model"}, {"num_attention_heads", "num_heads"}, {"num_hidden_layers", "num_layers"}};

static constexpr Family describeSwitch() {
  Family row = describeT5("switch_transformers");
  row.aliases = aliases;
  row.rules[2] = feedForwardRules;
  row.hasExperts = true;
  row.experts.gate = nullptr;
  row.experts.up = "wi";
  row.experts.down = "wo";
  row.experts.router = "router.classifier";
  row.experts.expert = "experts.expert_";
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::switchTransformers = describeSwitch();

} // namespace heddle
