// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where AdapterHub (PyPI's adapters 1.3) has the bottleneck adapters of a family's layers. A family's graph knows of none (frontends/peft/Bottleneck.h).
#ifndef HEDDLE_FRONTENDS_FAMILIES_ADAPTEDLAYERS_H
#define HEDDLE_FRONTENDS_FAMILIES_ADAPTEDLAYERS_H

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// A stack of layers: linear layers whose results adapters take, and the modules that hold their tensors, behind the name of the layer.
struct AdaptedLayers {
  std::string_view modelType;
  const char *layer; // '#' is its number, '%' that of an encoder's, which are counted first
  const char *attention, *attentionModule, *output, *outputModule;
  bool normsBehind;                                    // a norm stands behind each residual
  const char *cross = nullptr, *crossModule = nullptr; // of attention to a source; null: there is none
};

// Of the model of that model_type, its encoder first; none where AdapterHub, or this table, has none.
std::vector<AdaptedLayers> adaptedLayersOf(std::string_view modelType);
// "bart, bert, …", for messages.
std::string knownAdaptedModels();

} // namespace heddle

#endif
