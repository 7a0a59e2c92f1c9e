// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/ValueTrace.h"

#include "llvm/ADT/DenseSet.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

Fingerprint Fingerprint::of(const Tensor &tensor) {
  Fingerprint print;
  print.count = tensor.size();
  for (double x : tensor.reals) {
    print.sum += x;
    print.absSum += std::fabs(x);
    print.cubeSum += x * x * x;
    print.absCubeSum += std::fabs(x * x * x);
  }
  return print;
}

// Sums of rounded values differ by far less than this; a bias that is missing, by more.
static bool isNear(double a, double b, double magnitude) {
  return a == b || std::fabs(a - b) <= 1e-5 * magnitude;
}

bool Fingerprint::matches(const Fingerprint &other) const {
  return count == other.count && isNear(sum, other.sum, absSum) && isNear(absSum, other.absSum, absSum) &&
         isNear(cubeSum, other.cubeSum, absCubeSum);
}

void ValueTrace::record(Operation *op, ArrayRef<RuntimeValue> operands, ArrayRef<RuntimeValue> results) {
  // A call gives what an op inside it gave.
  if (isa<WeightOp, func::CallOp>(op))
    return;
  for (const RuntimeValue &result : results) {
    const auto *value = std::get_if<TensorRef>(&result);
    if (!value || !(*value)->isFloat() || (*value)->size() < 2)
      continue;
    Entry entry{op, *value, {}, Fingerprint::of(**value)};
    for (const RuntimeValue &operand : operands)
      if (const auto *tensor = std::get_if<TensorRef>(&operand))
        entry.operands.push_back(tensor->get());
    entries.push_back(std::move(entry));
  }
}

bool ValueTrace::contains(const Fingerprint &fingerprint) const {
  return llvm::any_of(entries, [&](const Entry &entry) { return entry.fingerprint.matches(fingerprint); });
}

Operation *ValueTrace::firstNewOp(const ValueTrace &before) const {
  llvm::DenseSet<const Tensor *> right; // values that `before` has, and those from which one was computed
  Operation *first = nullptr;
  for (const Entry &entry : llvm::reverse(entries)) {
    if (right.contains(entry.value.get()) || before.contains(entry.fingerprint))
      right.insert(entry.operands.begin(), entry.operands.end());
    else
      first = entry.op;
  }
  return first;
}
