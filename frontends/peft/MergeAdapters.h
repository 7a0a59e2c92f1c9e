// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A base and its adapters as one model: what is compiled then knows of no adapter.
#ifndef HEDDLE_FRONTENDS_PEFT_MERGEADAPTERS_H
#define HEDDLE_FRONTENDS_PEFT_MERGEADAPTERS_H

#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"

namespace heddle {

struct Bottlenecks;

struct AdapterUse {
  std::string folder;
  double scale =
      1.0; // of everything that it adds: a factor f of IA3 becomes 1 + scale (f - 1); times the scaling of a bottleneck
};

// What merging did, for those who ask.
struct AdapterMerge {
  std::vector<ModelFiles> files; // of the adapters, in their order
  int64_t changed = 0, replaced = 0;
  // Changed matrices whose blocks in the file would round what is added to them: they are of 16 bits now.
  std::vector<std::string> widened;
  std::shared_ptr<const Bottlenecks> bottlenecks; // what the importer adds to the graph; null: nothing
  std::vector<std::string> warnings;              // of what takes no part
};

// Changes the tensors of `model`, which a reader of a family gave, as the adapters say, one after the other. What is changed lies in a file
// without a name, one tensor after the other, as its base has it, of quantised ones as `wide`. The sum is of f32, made row by row on all
// cores, and the same on any number of them.
Expected<AdapterMerge> mergeAdapters(Model &model, const std::vector<AdapterUse> &uses, TensorType wide);

} // namespace heddle

#endif
