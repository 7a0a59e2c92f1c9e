// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gated delta rule (arXiv:2412.06464) of layers that keep a state in the place of attention. Families differ in what projects its inputs.
#ifndef HEDDLE_FRONTENDS_FAMILIES_DELTARULE_H
#define HEDDLE_FRONTENDS_FAMILIES_DELTARULE_H

#include "frontends/families/ModelBuilder.h"

namespace heddle {

// Queries, keys and values behind their convolution, and of each value head what becomes its step and, by a sigmoid, how much of a difference is added.
struct DeltaInputs {
  TensorHandle q, k, v;
  TensorHandle steps, betas;
};

// What queries read of the states, value heads side by side: (batch, sequence, RecurrentConfig::values()). Tensors of steps and rates are in `block`.
TensorHandle deltaRule(ModelBuilder &b, const DeltaInputs &in, const std::string &block);

} // namespace heddle

#endif
