// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the readers know about each architecture: names in GGUF, defaults that config files leave out, and the tensors
// that must be there with their shapes. The table is data; nothing else in the readers asks for an architecture by name
// where a row can say it.
#ifndef HEDDLE_FRONTENDS_ARCHITECTURES_H
#define HEDDLE_FRONTENDS_ARCHITECTURES_H

#include "frontends/ModelConfig.h"

namespace heddle {

// A dimension of a tensor in terms of the config.
enum class ConfigDim : uint8_t {
  None,
  Vocab,
  Positions,
  Hidden,
  Queries /* num_heads x head_dim */,
  KeyValues /* num_kv_heads x head_dim */,
  QueriesKeysValues,
  HeadDim,
  Intermediate,
  GateAndUp /* 2 x intermediate_size */,
  Experts,
  ExpertIntermediate,
  SharedIntermediate,
  QueryRank /* q_lora_rank */,
  LatentRank /* kv_lora_rank */,
  LatentAndRope /* kv_lora_rank + qk_rope_head_dim */,
  LatentUps /* num_heads x (qk_nope_head_dim + v_head_dim) */,
  LatentKeyUps /* num_heads x kv_lora_rank */,
  LatentOutput /* num_heads x v_head_dim */,
  NopeDim /* qk_nope_head_dim */,
};

// When a tensor is required. `Dense`, `Sparse`, `Correction`, `Shared` and `SharedBias` speak of a layer.
enum class When : uint8_t {
  Always,
  Untied,
  AttentionBias,
  OutputBias,
  MlpBias,
  Dense,
  Sparse,
  Correction /* e_score_correction_bias of a sparse layer */,
  Shared /* shared experts of a sparse layer */,
  SharedBias,
  QueryLora,
  QueryLoraBias,
  NoQueryLora,
  WholeUps /* kv_b_proj in one tensor */,
  SplitUps,
};

// A tensor: '#' stands for the layer, '@' for the expert. Where `name` has an '@' and `gguf` has none, GGUF stacks the
// experts in one tensor (experts, out, in).
struct TensorRule {
  const char *name;
  const char *gguf;
  ConfigDim rows;
  ConfigDim columns = ConfigDim::None; // None: a vector
  When when = When::Always;
  bool conv1d = false; // Hugging Face's file stores (columns, rows)
};

struct TensorRules {
  const TensorRule *begin() const { return first; }
  const TensorRule *end() const { return first + count; }
  const TensorRule *first = nullptr;
  size_t count = 0;
};

// Values of keys that config.json may leave out; 0 for none. They are the defaults of Hugging Face's config classes.
struct ConfigDefaults {
  int64_t vocabSize = 0, numHeads = 0;
  int64_t numKvHeads = 0; // 0: num_attention_heads
  int64_t headDim = 0;    // 0: hidden_size / num_attention_heads
  int64_t context = 2048, slidingWindow = 0;
  double normEps = 1e-6, ropeTheta = 10000.0;
  Activation activation = Activation::Silu;
  bool tied = false;
};

struct Architecture {
  const char *name; // Hugging Face's model_type
  const char *gguf; // general.architecture
  ConfigDefaults defaults;
  TensorRules rules[6];
  bool interleavedInGguf = false; // the writer permutes rows of q and k for interleaved rotary embedding
  bool offsetNorm = false;        // Hugging Face stores norm weights less 1
  bool hasRope = true;
  bool isLatent = false; // multi-head latent attention
};

const Architecture *findArchitecture(std::string_view modelType);
// "gemma2, gemma3_text, …", for messages.
std::string knownArchitectures(bool gguf);
// The architecture of a GGUF file; `hasExperts` tells mixtral from llama.
const Architecture *findGgufArchitecture(std::string_view name, bool hasExperts);

// `pattern` with its '#' and '@' replaced.
std::string tensorName(const char *pattern, int64_t layer, int64_t expert);

// The value of `dim`; 1 for None. All sizes are bounded by validateSizes, so that products do not wrap.
int64_t dimension(ConfigDim dim, const ModelConfig &config);

// Whether a rule applies to a layer (any layer for rules without '#').
bool applies(const TensorRule &rule, const ModelConfig &config, int64_t layer);

// Calls visit(rule, layer, expert) for each tensor that the config asks for, until it returns a failure.
template <typename Visit>
Status forEachTensor(const Architecture &architecture, const ModelConfig &config, Visit visit) {
  for (const TensorRules &rules : architecture.rules) {
    for (const TensorRule &rule : rules) {
      std::string_view name = rule.name;
      int64_t layers = name.find('#') == std::string_view::npos ? 1 : config.numHiddenLayers;
      int64_t experts = name.find('@') == std::string_view::npos ? 1 : config.moe.numExperts;
      for (int64_t layer = 0; layer < layers; ++layer)
        for (int64_t expert = 0; expert < experts && applies(rule, config, layer); ++expert)
          HEDDLE_RETURN_IF_ERROR(visit(rule, layer, expert));
    }
  }
  return Status();
}

} // namespace heddle

#endif
