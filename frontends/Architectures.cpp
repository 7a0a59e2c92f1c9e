// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Architectures.h"

namespace heddle {

namespace {

constexpr TensorRule embeddings[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

constexpr TensorRule attention[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", ConfigDim::Queries, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
};

constexpr TensorRule queryKeyNorm[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim},
};

constexpr TensorRule feedForwardNorm[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
};

// gemma2 and gemma3 normalise before and after both halves of a layer.
constexpr TensorRule sandwichNorms[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", ConfigDim::Hidden},
};

constexpr TensorRule feedForward[] = {
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Dense},
    {"model.layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias", ConfigDim::Intermediate, ConfigDim::None,
     When::MlpBias},
    {"model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {"model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None, When::MlpBias},
};

constexpr TensorRule qwenExperts[] = {
    {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

constexpr TensorRule latentAttention[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden,
     When::NoQueryLora},
    {"model.layers.#.self_attn.q_a_proj.weight", "blk.#.attn_q_a.weight", ConfigDim::QueryRank, ConfigDim::Hidden,
     When::QueryLora},
    {"model.layers.#.self_attn.q_a_proj.bias", "blk.#.attn_q_a.bias", ConfigDim::QueryRank, ConfigDim::None,
     When::QueryLoraBias},
    {"model.layers.#.self_attn.q_a_layernorm.weight", "blk.#.attn_q_a_norm.weight", ConfigDim::QueryRank,
     ConfigDim::None, When::QueryLora},
    {"model.layers.#.self_attn.q_b_proj.weight", "blk.#.attn_q_b.weight", ConfigDim::Queries, ConfigDim::QueryRank,
     When::QueryLora},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa.weight", "blk.#.attn_kv_a_mqa.weight", ConfigDim::LatentAndRope,
     ConfigDim::Hidden},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa.bias", "blk.#.attn_kv_a_mqa.bias", ConfigDim::LatentAndRope,
     ConfigDim::None, When::AttentionBias},
    {"model.layers.#.self_attn.kv_a_layernorm.weight", "blk.#.attn_kv_a_norm.weight", ConfigDim::LatentRank},
    {"model.layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_kv_b.weight", ConfigDim::LatentUps, ConfigDim::LatentRank,
     When::WholeUps},
    {"model.layers.#.self_attn.k_b_proj.weight", "blk.#.attn_k_b.weight", ConfigDim::LatentKeyUps, ConfigDim::NopeDim,
     When::SplitUps},
    {"model.layers.#.self_attn.v_b_proj.weight", "blk.#.attn_v_b.weight", ConfigDim::LatentOutput,
     ConfigDim::LatentRank, When::SplitUps},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::LatentOutput},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
};

constexpr TensorRule deepseekExperts[] = {
    {"model.layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts, ConfigDim::None,
     When::Correction},
    {"model.layers.#.mlp.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Shared},
    {"model.layers.#.mlp.shared_experts.gate_proj.bias", "blk.#.ffn_gate_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"model.layers.#.mlp.shared_experts.up_proj.bias", "blk.#.ffn_up_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"model.layers.#.mlp.shared_experts.down_proj.bias", "blk.#.ffn_down_shexp.bias", ConfigDim::Hidden,
     ConfigDim::None, When::SharedBias},
};

// w1 gates, w3 is "up", w2 is "down".
constexpr TensorRule mixtralExperts[] = {
    {"model.layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden},
    {"model.layers.#.block_sparse_moe.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
    {"model.layers.#.block_sparse_moe.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate},
    {"model.layers.#.block_sparse_moe.experts.@.w3.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
};

constexpr TensorRule phi3Layer[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::GateAndUp, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

constexpr TensorRule gpt2[] = {
    {"transformer.wte.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.wpe.weight", "position_embd.weight", ConfigDim::Positions, ConfigDim::Hidden},
    {"transformer.ln_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"transformer.ln_f.bias", "output_norm.bias", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.ln_1.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.ln_1.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden},
    {"transformer.h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues, ConfigDim::Hidden,
     When::Always, true},
    {"transformer.h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues},
    {"transformer.h.#.attn.c_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries,
     When::Always, true},
    {"transformer.h.#.attn.c_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden},
    {"transformer.h.#.ln_2.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.ln_2.bias", "blk.#.ffn_norm.bias", ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden, When::Always,
     true},
    {"transformer.h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Always, true},
    {"transformer.h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden},
};

template <size_t n> constexpr TensorRules list(const TensorRule (&rules)[n]) {
  return {rules, n};
}

ConfigDefaults withDefaults(int64_t kvHeads, int64_t headDim, int64_t context, int64_t window, double eps,
                            double theta) {
  ConfigDefaults defaults;
  defaults.numKvHeads = kvHeads;
  defaults.headDim = headDim;
  defaults.context = context;
  defaults.slidingWindow = window;
  defaults.normEps = eps;
  defaults.ropeTheta = theta;
  return defaults;
}

ConfigDefaults gemmaDefaults(int64_t context) {
  ConfigDefaults defaults = withDefaults(4, 256, context, 4096, 1e-6, 10000.0);
  defaults.activation = Activation::GeluTanh;
  defaults.tied = true;
  return defaults;
}

ConfigDefaults gemma3Defaults() {
  ConfigDefaults defaults = gemmaDefaults(131072);
  defaults.vocabSize = 262208;
  defaults.numHeads = 8;
  defaults.ropeTheta = 1e6;
  return defaults;
}

ConfigDefaults gpt2Defaults() {
  ConfigDefaults defaults = withDefaults(0, 0, 1024, 0, 1e-5, 10000.0);
  defaults.activation = Activation::GeluTanh;
  defaults.tied = true;
  return defaults;
}

// deepseek2 is one architecture in GGUF, and its files say all of what differs.
Architecture deepseek(const char *name, ConfigDefaults defaults) {
  Architecture architecture = {name,
                               "deepseek2",
                               defaults,
                               {list(embeddings), list(latentAttention), list(feedForwardNorm), list(feedForward),
                                list(qwenExperts), list(deepseekExperts)},
                               true};
  architecture.isLatent = true;
  return architecture;
}

const std::vector<Architecture> &table() {
  static const std::vector<Architecture> architectures = {
      deepseek("deepseek_v2", withDefaults(0, 0, 2048, 0, 1e-6, 1e4)),
      deepseek("deepseek_v3", withDefaults(0, 0, 4096, 0, 1e-6, 1e4)),
      {"gemma2",
       "gemma2",
       gemmaDefaults(8192),
       {list(embeddings), list(attention), list(sandwichNorms), list(feedForward)},
       false,
       true},
      {"gemma3_text",
       "gemma3",
       gemma3Defaults(),
       {list(embeddings), list(attention), list(queryKeyNorm), list(sandwichNorms), list(feedForward)},
       false,
       true},
      {"gpt2", "gpt2", gpt2Defaults(), {list(gpt2)}, false, false, false},
      {"llama",
       "llama",
       withDefaults(0, 0, 2048, 0, 1e-6, 1e4),
       {list(embeddings), list(attention), list(feedForwardNorm), list(feedForward)},
       true},
      {"mistral",
       "llama",
       withDefaults(8, 0, 131072, 4096, 1e-6, 1e4),
       {list(embeddings), list(attention), list(feedForwardNorm), list(feedForward)},
       true},
      {"mixtral",
       "llama",
       withDefaults(8, 0, 131072, 0, 1e-5, 1e6),
       {list(embeddings), list(attention), list(feedForwardNorm), list(mixtralExperts)},
       true},
      {"phi3",
       "phi3",
       withDefaults(0, 0, 4096, 0, 1e-5, 1e4),
       {list(embeddings), list(phi3Layer), list(feedForwardNorm)}},
      {"qwen2",
       "qwen2",
       withDefaults(32, 0, 32768, 4096, 1e-6, 1e4),
       {list(embeddings), list(attention), list(feedForwardNorm), list(feedForward)}},
      {"qwen3",
       "qwen3",
       withDefaults(32, 128, 32768, 4096, 1e-6, 1e4),
       {list(embeddings), list(attention), list(queryKeyNorm), list(feedForwardNorm), list(feedForward)}},
      {"qwen3_moe",
       "qwen3moe",
       withDefaults(4, 0, 32768, 4096, 1e-6, 1e4),
       {list(embeddings), list(attention), list(queryKeyNorm), list(feedForwardNorm), list(feedForward),
        list(qwenExperts)}},
  };
  return architectures;
}

} // namespace

const Architecture *findArchitecture(std::string_view modelType) {
  for (const Architecture &architecture : table())
    if (modelType == architecture.name)
      return &architecture;
  return nullptr;
}

const Architecture *findGgufArchitecture(std::string_view name, bool hasExperts) {
  if (name == "llama")
    return findArchitecture(hasExperts ? "mixtral" : "llama");
  for (const Architecture &architecture : table())
    if (name == architecture.gguf)
      return &architecture;
  return nullptr;
}

std::string knownArchitectures(bool gguf) {
  std::string names;
  for (const Architecture &architecture : table()) {
    std::string name = gguf ? architecture.gguf : architecture.name;
    if ((", " + names).find(", " + name + ", ") == std::string::npos)
      names += name + ", ";
  }
  return names.substr(0, names.size() - 2);
}

std::string tensorName(const char *pattern, int64_t layer, int64_t expert) {
  std::string name;
  for (const char *c = pattern; *c; ++c) {
    if (*c == '#')
      name += std::to_string(layer);
    else if (*c == '@')
      name += std::to_string(expert);
    else
      name += *c;
  }
  return name;
}

int64_t dimension(ConfigDim dim, const ModelConfig &config) {
  switch (dim) {
  case ConfigDim::None:
    return 1;
  case ConfigDim::Vocab:
    return config.vocabSize;
  case ConfigDim::Positions:
    return config.contextLength;
  case ConfigDim::Hidden:
    return config.hiddenSize;
  case ConfigDim::Queries:
    return config.numHeads * config.headDim;
  case ConfigDim::KeyValues:
    return config.numKvHeads * config.headDim;
  case ConfigDim::QueriesKeysValues:
    return (config.numHeads + 2 * config.numKvHeads) * config.headDim;
  case ConfigDim::HeadDim:
    return config.headDim;
  case ConfigDim::Intermediate:
    return config.intermediateSize;
  case ConfigDim::GateAndUp:
    return 2 * config.intermediateSize;
  case ConfigDim::Experts:
    return config.moe.numExperts;
  case ConfigDim::ExpertIntermediate:
    return config.moe.intermediateSize;
  case ConfigDim::SharedIntermediate:
    return config.moe.sharedIntermediateSize;
  case ConfigDim::QueryRank:
    return config.latent.qLoraRank;
  case ConfigDim::LatentRank:
    return config.latent.kvLoraRank;
  case ConfigDim::LatentAndRope:
    return config.latent.kvLoraRank + config.latent.qkRopeHeadDim;
  case ConfigDim::LatentUps:
    return config.numHeads * (config.latent.qkNopeHeadDim + config.latent.vHeadDim);
  case ConfigDim::LatentKeyUps:
    return config.numHeads * config.latent.kvLoraRank;
  case ConfigDim::LatentOutput:
    return config.numHeads * config.latent.vHeadDim;
  case ConfigDim::NopeDim:
    return config.latent.qkNopeHeadDim;
  }
  return 1;
}

bool applies(const TensorRule &rule, const ModelConfig &config, int64_t layer) {
  bool sparse = static_cast<size_t>(layer) < config.moe.layerIsMoe.size() && config.moe.layerIsMoe[layer];
  switch (rule.when) {
  case When::Always:
    return true;
  case When::Untied:
    return !config.tieWordEmbeddings;
  case When::AttentionBias:
    return config.attentionBias;
  case When::OutputBias:
    return config.attentionOutputBias;
  case When::MlpBias:
    return config.mlpBias && !sparse;
  case When::Dense:
    return !sparse;
  case When::Sparse:
    return sparse;
  case When::Correction:
    return sparse && config.moe.hasCorrection;
  case When::Shared:
    return sparse && config.moe.sharedIntermediateSize > 0;
  case When::SharedBias:
    return sparse && config.mlpBias && config.moe.sharedIntermediateSize > 0;
  case When::QueryLora:
    return config.latent.qLoraRank > 0;
  case When::QueryLoraBias:
    return config.latent.qLoraRank > 0 && config.attentionBias;
  case When::NoQueryLora:
    return config.latent.qLoraRank == 0;
  case When::WholeUps:
    return !config.latent.splitUps;
  case When::SplitUps:
    return config.latent.splitUps;
  }
  return true;
}

} // namespace heddle
