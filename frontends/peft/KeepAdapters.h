// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several adapters beside one base, of which each token of a run has its own or none: y = W x + B (m * (A x)). A holds the rows of all
// adapters, one below the other, B their columns side by side, and m is 1 where a row is the token's adapter's and 0 elsewhere, so that the
// others add zeros and no bit.
#ifndef HEDDLE_FRONTENDS_PEFT_KEEPADAPTERS_H
#define HEDDLE_FRONTENDS_PEFT_KEEPADAPTERS_H

#include "frontends/peft/MergeAdapters.h"

namespace heddle {

struct NamedAdapter {
  std::string name; // what a run calls it
  AdapterUse use;
};

// What the tensors are called that keepAdapters adds: (adapters + 1, R) of 0 and 1, whose row 0 is of none of them; and of a matrix
// NAME (out, in) A (R, in) and B (out, R), of an embedding NAME (vocabulary, width) A transposed, (vocabulary, R), and B (width, R).
inline constexpr const char *adapterMask = "lora.mask", *adapterDown = ".lora_A", *adapterUp = ".lora_B";

// Adds them to the checkpoint of `model`, which generates, under the names of its weights; a head that is tied to the embeddings has those
// of its own. `outFiles` gets the files of the adapters, in their order.
Status keepAdapters(Model &model, const std::vector<NamedAdapter> &adapters, std::vector<ModelFiles> &outFiles);

} // namespace heddle

#endif
