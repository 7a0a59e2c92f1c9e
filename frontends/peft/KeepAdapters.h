// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several adapters beside one base, of which each token of a run has its own or none. Of LoRA: y = W x + B (m * (A x)). A holds the rows of all
// adapters, one below the other, B their columns side by side, and m is 1 where a row is the token's adapter's and 0 elsewhere, so that the
// others add zeros and no bit. VirtualTokens.h says what the others do.
#ifndef HEDDLE_FRONTENDS_PEFT_KEEPADAPTERS_H
#define HEDDLE_FRONTENDS_PEFT_KEEPADAPTERS_H

#include "frontends/peft/MergeAdapters.h"

#include <algorithm>

namespace heddle {

struct NamedAdapter {
  std::string name; // what a run calls it
  AdapterUse use;
};

// In the order of the adapters.
struct KeptAdapters {
  std::vector<ModelFiles> files;
  std::vector<int64_t> virtualTokens; // that a sequence of each begins with
  int64_t mostVirtualTokens() const {
    return virtualTokens.empty() ? 0 : *std::max_element(virtualTokens.begin(), virtualTokens.end());
  }
};

// What the tensors are called that keepAdapters adds: (numbers, R) of 0 and 1, whose row 0 is of none of them; and of a matrix
// NAME (out, in) A (R, in) and B (out, R), of an embedding NAME (vocabulary, width) A transposed, (vocabulary, R), and B (width, R).
inline constexpr const char *adapterMask = "lora.mask", *adapterDown = ".lora_A", *adapterUp = ".lora_B";

// Adds them to the checkpoint of `model`, which generates, under the names of its weights; a head that is tied to the embeddings has those
// of its own.
Expected<KeptAdapters> keepAdapters(Model &model, const std::vector<NamedAdapter> &adapters);

} // namespace heddle

#endif
