// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// adapter_config.json of a bottleneck adapter, as PyPI's adapters 1.3 writes it. A key that changes results and is not read here is refused by its name.
#ifndef HEDDLE_FRONTENDS_PEFT_BOTTLENECKCONFIG_H
#define HEDDLE_FRONTENDS_PEFT_BOTTLENECKCONFIG_H

#include "frontends/peft/Bottleneck.h"

#include <map>

namespace heddle {

enum class BottleneckScaling : uint8_t { Constant, Learned /* one number */, Channel /* (hidden_size) */ };

struct BottleneckConfig {
  std::string name; // that tensors have it under
  BottleneckWiring wiring;
  bool behindAttention = false, behindCross = false, behindOutput = false; // mh_adapter, cross_adapter, output_adapter
  std::set<int64_t> leftOut;                                               // layers without an adapter
  std::map<int64_t, double> reductions;                                    // of hidden_size, by layer
  double reduction = 0;                                                    // of the others; 0: there are none
  BottleneckScaling scaling = BottleneckScaling::Constant;
  double factor = 1.0; // of Constant

  // Columns of the bottleneck of a layer; 0 where the config does not say it.
  int64_t widthOf(int64_t layer, int64_t hiddenSize) const;
};

// The config in the adapter's folder, compared with its base. `hasCross`: the base has attention to a source.
Expected<BottleneckConfig> readBottleneckConfig(ModelFiles &files, const ModelConfig &base, bool normsBehind,
                                                bool hasCross);

} // namespace heddle

#endif
