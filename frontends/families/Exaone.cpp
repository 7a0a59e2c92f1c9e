// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// EXAONE 3 and 3.5 (LG AI Research 2024, arXiv:2408.03541): Llama under GPT-2's names.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule rules[] = {
    {"transformer.wte.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.ln_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.ln_1.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.out_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden,
     ConfigDim::Queries},
    {"transformer.h.#.ln_2.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc_0.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc_1.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static constexpr KeyAlias aliases[] = {{"num_layers", "num_hidden_layers"}, {"layer_norm_epsilon", "rms_norm_eps"}};

// Published files call hidden_act so.
static void readActivation(JsonObject &object, ModelConfig &config) {
  const char *key = "activation_function";
  std::optional<std::string> name = object.string(key);
  if (!name)
    return;
  if (std::optional<Activation> activation = activationNamed(*name))
    config.activation = *activation;
  else
    object.fail(key, "is '" + printable(*name, 64) + "', an unknown activation; known: " + knownActivations());
}

static void build(ModelBuilder &b) {
  const Family &family = *b.config().family;
  TensorHandle x = b.embedTokens(family.embedding);
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "ln_1")));
    return b.add(x, feedForward(b, b.rmsNorm(x, "ln_2")));
  });
  finishDecoder(b, b.rmsNorm(x, family.finalNorm));
}

static constexpr Family describeExaone() {
  Family row;
  row.modelType = "exaone";
  row.gguf = "exaone";
  row.rules = {rules};
  row.aliases = aliases;
  row.embedding = "transformer.wte.weight";
  row.finalNorm = "transformer.ln_f";
  row.attention = {"attn.attention.", "q_proj", "k_proj", "v_proj", "out_proj"};
  row.feedForward = {"mlp.", "c_fc_0", "c_fc_1", "c_proj"};
  row.defaults.vocabSize = 102400;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 500000.0;
  row.readers.huggingFaceRest = readActivation;
  row.build = build;
  return row;
}
const Family family::exaone = describeExaone();

} // namespace heddle
