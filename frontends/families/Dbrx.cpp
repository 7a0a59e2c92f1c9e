// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DBRX (Databricks 2024): LayerNorm without a bias, queries, keys and values of one product that are clipped, experts in every layer, whose matrices lie one
// below another in the files, those of down transposed.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.wte.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.norm_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.blocks.#.norm_attn_norm.norm_1.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"transformer.blocks.#.norm_attn_norm.attn.Wqkv.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"transformer.blocks.#.norm_attn_norm.attn.out_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden,
     ConfigDim::Queries},
    {"transformer.blocks.#.norm_attn_norm.norm_2.weight", "blk.#.attn_output_norm.weight", ConfigDim::Hidden},
    {"transformer.blocks.#.ffn.router.layer.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts,
     ConfigDim::Hidden},
    {"transformer.blocks.#.ffn.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
    {"transformer.blocks.#.ffn.experts.@.v1.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
    {"transformer.blocks.#.ffn.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Always, StoredOrder::Conv1d},
};

static constexpr KeyName keyNames[] = {{"num_hidden_layers", "n_layers"},
                                       {"hidden_size", "d_model"},
                                       {"num_attention_heads", "n_heads"},
                                       {"max_position_embeddings", "max_seq_len"},
                                       {"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr KeyAlias aliases[] = {{"num_attention_heads", "n_heads"},
                                       {"hidden_size", "d_model"},
                                       {"num_hidden_layers", "n_layers"},
                                       {"max_position_embeddings", "max_seq_len"}};

static void readSizes(JsonObject &object, ModelConfig &config) {
  JsonObject attention = object.object("attn_config"), experts = object.object("ffn_config");
  config.numKvHeads = attention.integer("kv_n_heads").value_or(1);
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = experts.integer("ffn_hidden_size").value_or(3584);
  config.normEps = config.family->defaults.normEps; // no key says it
  checkEvenHeads(object, config);
  object.adopt(attention);
  object.adopt(experts);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  JsonObject attention = object.object("attn_config"), experts = object.object("ffn_config");
  config.clipQkv = attention.number("clip_qkv").value_or(0.0);
  if (attention.has("clip_qkv") && !(config.clipQkv > 0.0))
    attention.fail("clip_qkv",
                   "is " + std::to_string(config.clipQkv) + ", expected a positive number, or null for none");
  MoeConfig &moe = config.moe;
  moe.numExperts = experts.bounded("moe_num_experts", experts.integer("moe_num_experts").value_or(4), 1, INT32_MAX);
  moe.expertsPerToken = experts.integer("moe_top_k").value_or(1);
  moe.intermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
  // The order of the norm that weights are divided by.
  const char *norm = "moe_normalize_expert_weights";
  moe.normTopkProb = !experts.isNull(norm);
  if (double order = experts.number(norm).value_or(1.0); order != 1.0)
    experts.unsupported(norm, "is " + std::to_string(order) + ", which is not supported; expected 1, or null for none");
  JsonObject act = experts.object("ffn_act_fn");
  std::string name = act.string("name").value_or("silu");
  if (std::optional<Activation> known = activationNamed(name))
    config.activation = *known;
  else
    act.fail("name", "is '" + printable(name, 64) + "', an unknown activation; known: " + knownActivations());
  for (const JsonObject *part : {&attention, &experts, &act})
    object.adopt(*part);
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  config.clipQkv = keys.number("attention.clamp_kqv", 0.0);
}

static void buildDbrx(ModelBuilder &b) {
  TensorHandle x =
      decoderLayers(b, "transformer.blocks.", b.embedTokens("transformer.wte.weight"), [&](int64_t, TensorHandle x) {
        x = b.add(x, fusedSelfAttention(b, b.layerNorm(x, "norm_attn_norm.norm_1"), "norm_attn_norm.attn.Wqkv",
                                        "norm_attn_norm.attn.out_proj"));
        return b.add(x, b.moe(b.layerNorm(x, "norm_attn_norm.norm_2"), "ffn."));
      });
  finishDecoder(b, b.layerNorm(x, "transformer.norm_f"));
}

static constexpr Family describeDbrx() {
  Family row;
  row.modelType = row.gguf = "dbrx";
  row.hasExperts = true;
  row.embedding = "transformer.wte.weight";
  row.rules = {tensorRules};
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.vocabSize = 32000;
  row.defaults.normEps = 1e-5;
  row.activationKey = nullptr;
  row.norm = NormKind::Layer;
  row.experts = {"ffn.", "w1", "v1", "w2", "router.layer"};
  row.experts.rowsOfAll = "transformer.blocks.#.ffn.experts.mlp.";
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = buildDbrx;
  return row;
}
const Family family::dbrx = describeDbrx();

} // namespace heddle
