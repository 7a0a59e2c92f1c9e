// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// adapter_config.json, as PyPI's peft 0.21 writes it: what of it changes results. A key that does and is not read here is refused by its name.
#ifndef HEDDLE_FRONTENDS_PEFT_ADAPTERCONFIG_H
#define HEDDLE_FRONTENDS_PEFT_ADAPTERCONFIG_H

#include "bytes/Expected.h"
#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

#include <string>
#include <utility>
#include <vector>

namespace heddle {

enum class AdapterKind : uint8_t {
  LoRA, // W + factor * B A (Hu et al. 2021, arXiv:2106.09685)
  IA3,  // products, or what they read, times a learned vector (Liu et al. 2022, arXiv:2205.05638)
  // Tokens before a sequence's own whose embeddings were learned: prompt tuning (Lester et al. 2021, arXiv:2104.08691), and p-tuning (Liu et al.
  // 2021, arXiv:2103.10385), of which what its encoder gives is saved.
  Prompt,
  Prefix // the same whose keys and values were learned, of every layer (Li and Liang 2021, arXiv:2101.00190)
};

// Prompt or Prefix: what has virtual tokens and no modules.
inline bool hasVirtualTokens(AdapterKind kind) {
  return kind == AdapterKind::Prompt || kind == AdapterKind::Prefix;
}

// `numVirtualTokens` and `numHeads` are of Prompt and Prefix, `rank` and below LoRA's.
struct AdapterConfig {
  AdapterKind kind = AdapterKind::LoRA;
  int64_t numVirtualTokens = 0;
  int64_t numHeads = 0; // of keys and values; 0: not said
  double alpha = 8, rank = 8;
  bool isRankStabilized = false; // alpha / sqrt(r) instead of alpha / r (arXiv:2312.03732)
  bool normalizesRows = false;   // DoRA (arXiv:2402.09353): rows have a learned length
  // By the end of a module's name, or the whole of it where the name begins with '^'.
  std::vector<std::pair<std::string, double>> alphaPattern, rankPattern;

  // Of the module's `r` and alpha: what its product of low rank is multiplied by.
  double factorOf(const std::string &module) const;
  double rankOf(const std::string &module) const;
};

// Refuses keys of `value`, which is the object's, that nobody has asked for, but for those that are off (null, false, [], {}).
void refuseUnasked(JsonObject &object, JsonValue value);

// The config in an adapter's folder.
Expected<AdapterConfig> readAdapterConfig(ModelFiles &files);

} // namespace heddle

#endif
