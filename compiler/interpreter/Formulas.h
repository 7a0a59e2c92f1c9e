// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas that several ops share.
#ifndef HEDDLE_COMPILER_INTERPRETER_FORMULAS_H
#define HEDDLE_COMPILER_INTERPRETER_FORMULAS_H

#include "dialect/HeddleDialect.h"

#include <optional>

namespace heddle {

double activate(ActivationKind kind, double x);
// The same where each number of the formula but 0.5 and 1 is what `stored` makes of it, as a graph that rounds them has it.
double activate(ActivationKind kind, double x, llvm::function_ref<double(double)> stored);
// activation(gate) * up, bounded where `gating` says so.
double activateGated(ActivationKind kind, GatingAttr gating, double gate, double up);

// sums[i] += a @ row(i), of k numbers each, in their order: every sum is what it would be alone. Several grow at a time, as an addition waits for
// the one before it.
void addDots(const double *a, llvm::function_ref<const double *(int64_t)> row, int64_t k,
             llvm::MutableArrayRef<double> sums);

// x / sqrt(mean(x^2) + eps) * (weight + offset), in place.
void normalise(llvm::MutableArrayRef<double> x, llvm::ArrayRef<double> weight, double eps, double offset);

// exp(v) / sum exp(v), in place.
void softmax(llvm::MutableArrayRef<double> values);

// The experts of a token and their weights, as `moe` chooses them from the router's logits; `correction` and `scales` may be empty.
llvm::SmallVector<std::pair<int64_t, double>> routeToken(llvm::ArrayRef<double> logits,
                                                         llvm::ArrayRef<double> correction,
                                                         llvm::ArrayRef<double> scales, int64_t topK, bool normalize,
                                                         RoutingAttr routing);

// One query of one head against the keys of its sequence.
struct AttentionRow {
  int64_t keys = 0;     // in the sequence
  int64_t position = 0; // of the query among them
  double scale = 1, softcap = 0;
  bool causal = false;
  int64_t window = 0, ahead = 0, chunk = 0;
  std::optional<double> sink;
  llvm::ArrayRef<double> query;                              // (head_dim)
  std::function<llvm::ArrayRef<double>(int64_t)> key, value; // [key]: (head_dim)
  std::function<double(int64_t)> bias;                       // [key], or none
  std::function<bool(int64_t)> isGlobal;                     // [key]: it is seen whatever the mask says; or none

  bool sees(int64_t j) const {
    return (isGlobal && isGlobal(j)) || ((!causal || j <= position) && (!window || position - window < j) &&
                                         (!ahead || j < position + ahead) && (!chunk || position / chunk <= j / chunk));
  }
};

// softmax(cap(scale * query @ key^T) + bias) @ value over the keys that are seen; zeros where there is none.
void attend(const AttentionRow &row, llvm::MutableArrayRef<double> out);

} // namespace heddle

#endif
