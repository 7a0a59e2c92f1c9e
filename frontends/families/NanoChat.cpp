// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nanochat (Karpathy 2025): norms without weights, the first of them of embeddings, and of query and key heads behind their rotation, which goes backwards;
// squared ReLU without a gate, softcapped logits.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"model.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.layers.#.mlp.fc1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
};

static void readRest(JsonObject &object, ModelConfig &config) {
  config.finalSoftcap = readSoftcap(object, "final_logit_softcapping", config.family->defaults.finalSoftcap);
  for (RopeConfig &rope : config.ropes) {
    rope.reversed = true;
    if (rope.scaling == RopeScalingKind::Dynamic) // which programs compute themselves
      object.unsupported(ropeKey(object), "is of type dynamic, which is not supported for " + config.architecture);
  }
}

static TensorHandle attend(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  auto heads = [&](const char *name, int64_t count) {
    return b.splitHeads(b.linear(x, std::string("self_attn.") + name), count);
  };
  TensorHandle q = b.rmsNorm(b.rope(heads("q_proj", c.numHeads)), "self_attn.q_norm");
  TensorHandle k = b.rmsNorm(b.rope(heads("k_proj", c.numKvHeads)), "self_attn.k_norm");
  return b.linear(b.mergeHeads(b.attention(q, k, heads("v_proj", c.numKvHeads))), "self_attn.o_proj");
}

static void buildNanoChat(ModelBuilder &b) {
  TensorHandle x = b.rmsNorm(b.embedTokens("model.embed_tokens.weight"), "model.norm");
  x = decoderLayers(b, "model.layers.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, attend(b, b.rmsNorm(x, "input_layernorm")));
    return b.add(x, feedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
  finishDecoder(b, b.rmsNorm(x, "model.norm"));
}

static constexpr Family describeNanoChat() {
  Family row;
  row.modelType = "nanochat";
  row.rules = {tensorRules, attentionRules};
  row.defaults.finalSoftcap = 15.0;
  row.defaults.activation = Activation::SquaredRelu;
  row.feedForward = {"mlp.", nullptr, "fc1", "fc2"};
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRest = readRest;
  row.build = buildNanoChat;
  return row;
}
const Family family::nanoChat = describeNanoChat();

} // namespace heddle
