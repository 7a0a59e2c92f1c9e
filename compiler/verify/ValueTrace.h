// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where two evaluations of one model part ways: which op of the second gives the first value that the first never had.
#ifndef HEDDLE_COMPILER_VERIFY_VALUETRACE_H
#define HEDDLE_COMPILER_VERIFY_VALUETRACE_H

#include "compiler/interpreter/Interpreter.h"

namespace heddle {

// What a tensor is known by whatever its shape and the order of its elements: passes transpose and reshape, and are right
// to. Values that differ by rounding are the same.
struct Fingerprint {
  int64_t count = 0;
  double sum = 0, absSum = 0, cubeSum = 0, absCubeSum = 0;

  static Fingerprint of(const Tensor &tensor);
  bool matches(const Fingerprint &other) const;
};

// The float tensors of one evaluation, in the order in which ops gave them. Weights are not among them.
class ValueTrace {
public:
  // Install as InterpreterOptions::observe.
  void record(mlir::Operation *op, llvm::ArrayRef<RuntimeValue> operands, llvm::ArrayRef<RuntimeValue> results);

  // The first op whose value `before` does not have and from which no value that `before` has was computed later: what a
  // right pass changes on the way is healed where its result is used. Null if there is none.
  mlir::Operation *firstNewOp(const ValueTrace &before) const;

private:
  struct Entry {
    mlir::Operation *op;
    TensorRef value; // held, so that its address stays its name
    llvm::SmallVector<const Tensor *, 4> operands;
    Fingerprint fingerprint;
  };
  bool contains(const Fingerprint &fingerprint) const;

  std::vector<Entry> entries;
};

} // namespace heddle

#endif
