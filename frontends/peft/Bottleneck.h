// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bottleneck adapters as PyPI's adapters 1.3 (AdapterHub) saves them: adapter_config.json, and adapter.safetensors or pytorch_adapter.bin. Behind attention and behind the
// feed-forward block of a layer stand up(activation(down(x))) and a residual (Houlsby et al. 2019, arXiv:1902.00751; Pfeiffer et al. 2020,
// arXiv:2005.00247), or beside them (He et al. 2021, arXiv:2110.04366). No weight holds that: the importer adds it to the graph.
#ifndef HEDDLE_FRONTENDS_PEFT_BOTTLENECK_H
#define HEDDLE_FRONTENDS_PEFT_BOTTLENECK_H

#include "bytes/Expected.h"
#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"

#include <set>

namespace heddle {

// Where the residual around a bottleneck begins, in the order of what a block does: what the block gives, the same with the layer's residual
// added, and that behind the layer's norm, where the config applies these before the adapter.
enum class BottleneckResidual : uint8_t { BeforeNorm, PostAdd, AfterNorm };

// How a bottleneck is wired; keys of AdapterHub's BnConfig.
struct BottleneckWiring {
  Activation activation = Activation::Relu;     // non_linearity
  bool isParallel = false;                      // it reads what the block's residual is
  bool originalBefore = false;                  // original_ln_before: the layer's residual and norm stand before it
  bool originalAfter = true;                    // original_ln_after: and behind it
  bool normsBefore = false, normsAfter = false; // ln_before, ln_after: norms of its own
  BottleneckResidual residual = BottleneckResidual::BeforeNorm; // residual_before_ln
  bool residualBeforeNorm = false; // adapter_residual_before_ln: its residual is added before ln_after
};

// What the importer adds. `places` are linear layers whose results the adapter takes, by their whole names; the tensors of one are called
// PLACE + the names below + ".weight" and ".bias".
struct Bottlenecks {
  BottleneckWiring wiring;
  bool normsBehind = false; // of the base: a norm stands behind each residual
  std::set<std::string> places;
};
inline constexpr const char *bottleneckNormBefore = ".adapter_norm_before", *bottleneckDown = ".adapter_down",
                            *bottleneckUp = ".adapter_up", *bottleneckNormAfter = ".adapter_norm_after";
inline constexpr double bottleneckNormEps = 1e-5; // PyTorch's
// Whether that is the name of a tensor of a bottleneck.
inline bool isOfBottleneck(std::string_view name) {
  return name.find(".adapter_") != std::string_view::npos;
}

// Whether the folder's adapter_config.json is AdapterHub's.
bool isAdapterHub(ModelFiles &files);

// Adds the adapter's tensors to the checkpoint of `model`; `scale` times what it adds to its residual. `outWarnings` are of what lies in the folder
// and takes no part.
Expected<Bottlenecks> addBottlenecks(Model &model, ModelFiles &files, double scale,
                                     std::vector<std::string> &outWarnings);

} // namespace heddle

#endif
