// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-Neo (Black et al. 2021): GPT-2 whose scores are not scaled and whose layers see, as attention_types says, all tokens (global) or the
// last window_size ones (local).

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

#include <algorithm>

namespace heddle {

// Without names in GGUF, which does not know the architecture.
static constexpr TensorRule tensorRules[] = {
    {"transformer.wte.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.wpe.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    {"transformer.ln_f.weight", nullptr, ConfigDim::Hidden},
    {"transformer.ln_f.bias", nullptr, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.ln_1.weight", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_1.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.attention.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.h.#.attn.attention.out_proj.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_2.weight", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_2.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc.bias", nullptr, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.c_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.c_proj.bias", nullptr, ConfigDim::Hidden},
};

// Causal masks, which older releases saved as buffers.
static constexpr UnreadTensor unread[] = {{"transformer.h.#.attn.attention.bias"},
                                          {"transformer.h.#.attn.attention.masked_bias"}};

static constexpr KeyAlias aliases[] = {{"num_attention_heads", "num_heads"}, {"num_hidden_layers", "num_layers"}};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "num_layers"},
    {"num_attention_heads", "num_heads"},
    {"rms_norm_eps", "layer_norm_epsilon"},
    {"sliding_window", "window_size"},
};

// [[["global", "local"], 12]]: twelve times a global layer and a local one; attention_layers, where it is there, says it layer by layer and wins.
static std::vector<std::string> readAttentionTypes(JsonObject &object) {
  if (object.has("attention_layers"))
    return object.strings("attention_layers");
  std::vector<std::string> types;
  JsonValue lists = object.find("attention_types");
  if (!lists) {
    for (int pair = 0; pair < 12; ++pair)
      types.insert(types.end(), {"global", "local"});
    return types;
  }
  auto fail = [&] {
    object.fail("attention_types", "is " + printable(lists.raw(), 64) +
                                       ", expected lists of types (global, local) and how often each repeats");
    return std::vector<std::string>();
  };
  if (!lists.is(JsonKind::Array))
    return fail();
  for (JsonItems list(lists); list.next();) {
    std::vector<std::string> run;
    double times = 0;
    if (!list.value.is(JsonKind::Array))
      return fail();
    JsonItems parts(list.value);
    if (!parts.next() || !parts.value.is(JsonKind::Array))
      return fail();
    for (JsonItems type(parts.value); type.next();)
      run.push_back(type.value.string());
    if (!parts.next() || !parts.value.number(times) || !(times >= 0 && times <= 4096) || parts.next())
      return fail();
    for (int64_t time = 0; time < static_cast<int64_t>(times) && types.size() <= 4096; ++time)
      types.insert(types.end(), run.begin(), run.end());
  }
  return types;
}

static void readWindows(JsonObject &object, ModelConfig &config) {
  config.attentionScale = 1.0;
  int64_t window = object.integer("window_size").value_or(256);
  if (window < 1)
    object.fail("window_size", "is " + std::to_string(window) + ", expected at least 1");
  const char *key = object.has("attention_layers") ? "attention_layers" : "attention_types";
  std::vector<std::string> types = readAttentionTypes(object);
  if (types.size() != config.layerWindow.size())
    return object.fail(key, "names " + std::to_string(types.size()) + " layers, expected num_layers (" +
                                std::to_string(config.numHiddenLayers) + ")");
  for (size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] != "global" && types[layer] != "local")
      return object.fail(key, "holds '" + printable(types[layer], 64) + "', expected global or local");
    config.layerWindow[layer] = types[layer] == "local" ? window : 0;
  }
}

static void buildGptNeo(ModelBuilder &b) {
  TensorHandle x = b.add(b.embedTokens("transformer.wte.weight"), b.embedPositions("transformer.wpe.weight"));
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.layerNorm(x, "ln_1")));
    return b.add(x, feedForward(b, b.layerNorm(x, "ln_2")));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.ln_f"));
}

static constexpr Family describeGptNeo() {
  Family row;
  row.modelType = "gpt_neo";
  row.embedding = "transformer.wte.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.widening = 4;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.activationKey = "activation_function";
  row.attention = {"attn.attention.", "q_proj", "k_proj", "v_proj", "out_proj"};
  row.feedForward = {"mlp.", nullptr, "c_fc", "c_proj"};
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readWindows;
  row.build = buildGptNeo;
  return row;
}
const Family family::gptNeo = describeGptNeo();

} // namespace heddle
