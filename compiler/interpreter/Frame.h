// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inside the interpreter: the values of a running function, and the table of ops that each file of the folder fills.
#ifndef HEDDLE_COMPILER_INTERPRETER_FRAME_H
#define HEDDLE_COMPILER_INTERPRETER_FRAME_H

#include "compiler/interpreter/Interpreter.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace heddle {

// Values by SSA name. Before an op's handler runs, its operands are there and of the kind that their type says; after it,
// its results must be.
class Frame {
public:
  explicit Frame(Interpreter &interpreter) : interpreter(interpreter) {}

  // Runs the ops of `block` after binding its arguments; `out` gets the operands of its terminator.
  mlir::LogicalResult run(mlir::Block &block, llvm::ArrayRef<RuntimeValue> arguments,
                          llvm::SmallVectorImpl<RuntimeValue> &out);

  const Tensor &tensor(mlir::Value value) const { return *tensorRef(value); }
  const TensorRef &tensorRef(mlir::Value value) const { return std::get<TensorRef>(values.find(value)->second); }
  const RuntimeValue &value(mlir::Value value) const { return values.find(value)->second; }
  int64_t integer(mlir::Value value) const { return tensor(value).integers[0]; }

  void set(mlir::Value value, Tensor tensor) { values[value] = makeValue(std::move(tensor)); }
  void set(mlir::Value value, RuntimeValue runtimeValue) { values[value] = std::move(runtimeValue); }

  // Emits the error of an op that nobody knows.
  mlir::LogicalResult unknown(mlir::Operation *op, llvm::StringRef where = "");
  void forget(mlir::Value value) { values.erase(value); }

  Interpreter &getInterpreter() { return interpreter; }

private:
  mlir::LogicalResult execute(mlir::Operation *op);
  mlir::LogicalResult evaluate(mlir::Operation *op);
  void releaseAfter(mlir::Operation *op);
  llvm::SmallVector<RuntimeValue> valuesOf(mlir::ValueRange range);

  Interpreter &interpreter;
  llvm::DenseMap<mlir::Value, RuntimeValue> values;
};

using Handler = std::function<mlir::LogicalResult(Frame &, mlir::Operation *)>;

class HandlerTable {
public:
  template <typename Op> void add(mlir::LogicalResult (*handler)(Frame &, Op)) {
    handlers[Op::getOperationName()] = [handler](Frame &frame, mlir::Operation *op) {
      return handler(frame, llvm::cast<Op>(op));
    };
  }
  void add(llvm::StringRef name, Handler handler) { handlers[name] = std::move(handler); }
  const Handler *find(llvm::StringRef name) const {
    auto found = handlers.find(name);
    return found == handlers.end() ? nullptr : &found->second;
  }

private:
  llvm::StringMap<Handler> handlers;
};

void addModelHandlers(HandlerTable &table);
void addAttentionHandlers(HandlerTable &table);
void addCacheHandlers(HandlerTable &table);
void addStateHandlers(HandlerTable &table);
void addLatentAttentionHandlers(HandlerTable &table);
void addKernelHandlers(HandlerTable &table);
void addTensorHandlers(HandlerTable &table);
void addLinalgHandlers(HandlerTable &table);
void addControlFlowHandlers(HandlerTable &table);
void addBufferHandlers(HandlerTable &table);

// Whether an op works on what buffers hold, rather than on where they lie.
bool readsBuffers(mlir::Operation *op);

// An op on buffers as one on tensors, beside it in its block for as long as this lives.
class TensorForm {
public:
  TensorForm(Frame &frame, mlir::Operation *op);
  ~TensorForm();
  TensorForm(const TensorForm &) = delete;
  mlir::Operation *operator*() const { return form; }
  mlir::LogicalResult verifyApart(mlir::Operation *op) const;
  mlir::LogicalResult storeResults();

private:
  Frame &frame;
  mlir::Operation *form;
  llvm::SmallVector<mlir::Operation *> carriers;
  llvm::SmallVector<mlir::Value> destinations;
};

// linalg ops with a payload: named ones and generic.
mlir::LogicalResult evaluateStructured(Frame &frame, mlir::Operation *op);
// arith, math and index arithmetic, on scalars and on tensors of one shape. An op that no one knows ends here, in an error.
mlir::LogicalResult evaluateElementwise(Frame &frame, mlir::Operation *op);

// An element-wise op (arith, math, index arithmetic) on one element; none for other ops. The result is not rounded yet.
using ScalarFunction = std::function<mlir::FailureOr<Scalar>(llvm::ArrayRef<Scalar>)>;
ScalarFunction scalarFunctionOf(mlir::Operation *op);

// The payload of a linalg op or of tensor.pad and tensor.generate, ready to run once per element.
class ScalarBody {
public:
  // `exact`: floats are not rounded between ops, as the accumulator of a reduction is f64; truncf always rounds.
  static mlir::FailureOr<ScalarBody> prepare(Frame &frame, mlir::Block &block, bool exact);
  // `yielded` gets the terminator's operands. `index` is what linalg.index reads.
  mlir::LogicalResult run(llvm::ArrayRef<Scalar> arguments, llvm::ArrayRef<int64_t> index,
                          llvm::SmallVectorImpl<Scalar> &yielded);

private:
  struct Step {
    mlir::Operation *op;
    ScalarFunction function; // none for linalg.index and tensor.extract
    llvm::SmallVector<unsigned> operands;
    TensorRef source;      // of tensor.extract
    int64_t dimension = 0; // of linalg.index
    bool rounds = true;
  };
  mlir::LogicalResult runStep(const Step &step, llvm::ArrayRef<int64_t> index, Scalar &result);

  llvm::SmallVector<Scalar> slots; // arguments, then captured scalars and steps' results in order of preparation
  std::vector<Step> steps;
  llvm::SmallVector<unsigned> stepSlots, yields;
  llvm::SmallVector<Scalar> operandBuffer;
};

// The rows of heads that the op rotates: its input, or the product that it makes of it.
mlir::FailureOr<Tensor> rowsOfHeads(Frame &frame, RotateAppendOp op);
// The layer of `cache` that `op` names, or an error that it has none of that number.
mlir::FailureOr<int64_t> layerOf(Frame &frame, mlir::Operation *op, const KvCache &cache, mlir::Value layer);

// A matrix product's right side: W[row][column] of a plain or packed weight.
mlir::FailureOr<PackedWeights> packedWeights(Frame &frame, mlir::Operation *op, mlir::Value weights,
                                             llvm::StringRef format, int64_t n, int64_t k);

} // namespace heddle

#endif
