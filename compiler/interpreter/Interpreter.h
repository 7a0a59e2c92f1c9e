// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates functions on tensors and buffers, op by op, from the ops' formulas: plain loops, f64 accumulation, results rounded to the
// element type that the IR gives them. It is the oracle of the tests and of `heddle verify`; kernels are never consulted.
#ifndef HEDDLE_COMPILER_INTERPRETER_INTERPRETER_H
#define HEDDLE_COMPILER_INTERPRETER_INTERPRETER_H

#include "compiler/interpreter/Buffer.h"
#include "compiler/interpreter/KvCache.h"
#include "compiler/interpreter/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <memory>
#include <variant>

namespace heddle {

// A packed weight: W[row][column] through the layout's index formula.
struct PackedWeights {
  std::function<double(int64_t row, int64_t column)> at;
};

// What kv_view gives. Attention reads it row by row; anything else gets a tensor, if the cache holds one sequence.
struct KvView {
  std::shared_ptr<KvCache> cache;
  int64_t layer;
  bool isValue;
};

using TensorRef = std::shared_ptr<const Tensor>;
using RuntimeValue = std::variant<std::monostate, TensorRef, std::shared_ptr<KvCache>, KvView, PackedWeights, Buffer>;

inline RuntimeValue makeValue(Tensor tensor) {
  return std::make_shared<const Tensor>(std::move(tensor));
}

struct InterpreterOptions {
  // The values of a weight: a TensorRef, or PackedWeights. Emits its error at the op.
  std::function<mlir::FailureOr<RuntimeValue>(WeightOp)> weight;
  // How to read the bytes (N, i8) of a weight packed as `format`, an (n, k) matrix. Emits its error at the op.
  std::function<mlir::FailureOr<PackedWeights>(mlir::Operation *, llvm::StringRef format, int64_t n, int64_t k,
                                               TensorRef)>
      packed;
  // Told of every op that ran: its operands and results as they were. For reports; changes nothing.
  std::function<void(mlir::Operation *, llvm::ArrayRef<RuntimeValue> operands, llvm::ArrayRef<RuntimeValue> results)>
      observe;
  // Told of every op on buffers before it runs and, with `hasRun`, once its results are stored. `calls` lead to it, the outermost
  // first; `operands` are as the op has them: buffers are not loaded.
  std::function<mlir::LogicalResult(mlir::Operation *, llvm::ArrayRef<mlir::func::CallOp> calls,
                                    llvm::ArrayRef<RuntimeValue> operands, bool hasRun)>
      observeBuffers;
  // Threads that prefer_splits is asked for; 0: any number that prefers them.
  int64_t threads = 0;
  // Rows of a rope_table whose type does not say them.
  int64_t context = 2048;
  // Rows that the arena of a module with a memory plan has room for.
  int64_t arenaRows = 512;
  // Calls inside calls, before recursion is an error.
  unsigned maxDepth = 64;
};

class Interpreter {
public:
  explicit Interpreter(InterpreterOptions options = {});
  ~Interpreter();

  // Results of `function` on `arguments`: a TensorRef per tensor or scalar (packed weights may be PackedWeights), a Buffer per
  // memref (or a TensorRef, which nobody may write to), a KvCache per !heddle.kv_cache, on which the caller has begun the step. An error is emitted at the op that cannot be evaluated.
  mlir::FailureOr<llvm::SmallVector<RuntimeValue>> call(mlir::func::FuncOp function,
                                                        llvm::ArrayRef<RuntimeValue> arguments);

  const InterpreterOptions &getOptions() const { return options; }
  // Whether evaluation ended at an op that nobody knows.
  bool metUnknownOp() const { return hasMetUnknownOp; }
  // The calls that are running, the outermost first.
  llvm::SmallVector<mlir::func::CallOp> calls;
  // Where the memory plan of `module` puts buffers; empty of meaning until they are written.
  Buffer arena(mlir::ModuleOp module);

private:
  friend class Frame;
  struct Handlers;
  InterpreterOptions options;
  std::unique_ptr<Handlers> handlers;
  bool hasMetUnknownOp = false;
  std::optional<Buffer> arenaBuffer;
  unsigned depth = 0;
};

} // namespace heddle

#endif
