// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What each kernel of a scheduled module reads and must leave, from the interpreter, as a binary takes it to replay its steps
// (runtime/model/ReplayFile.h).
#ifndef HEDDLE_COMPILER_VERIFY_KERNELRECORDER_H
#define HEDDLE_COMPILER_VERIFY_KERNELRECORDER_H

#include "compiler/codegen/Codegen.h"
#include "compiler/interpreter/Interpreter.h"
#include "compiler/verify/NumericCheck.h"
#include "runtime/model/ReplayFile.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

// Gives the inputs of one step after the other; false behind the last.
using StepSource = std::function<mlir::FailureOr<bool>(mlir::func::FuncOp, size_t step, StepInputs &)>;

// One result of a kernel, in the order of its bytes in the binary's answer.
struct ReplayedResult {
  std::string name; // "result 0", "keys"
  Tensor expected;
  llvm::BitVector open; // elements that the op's description leaves open; empty: none
  double limit = 0;     // largest NMSE
};

// One launch. Of the launches of an op, only the last has results.
struct ReplayedKernel {
  std::string name;        // of the op, the layer and the weights that it reads
  std::string compiled;    // what the package's kernel table calls it
  std::string allCompiled; // and the op's other launches, whose work the results are as well
  std::vector<ReplayedResult> results;
};

struct Recording {
  std::string file;                    // what the binary replays
  std::vector<ReplayedKernel> kernels; // of all steps, in order of launch
};

class KernelRecorder {
public:
  // `module` after plan-memory, `code` as it was generated of it. Types of results are of `context`. Kernels may round by
  // `leastLimit` whatever their types say.
  KernelRecorder(mlir::ModuleOp module, const GeneratedCode &code, int64_t maxRows, InterpreterOptions options,
                 mlir::MLIRContext &context, double leastLimit);

  // Evaluates the steps as `threads` threads run them. An op that cannot be evaluated has emitted its error.
  mlir::FailureOr<Recording> record(const StepSource &steps, int64_t threads);

private:
  struct Step {
    std::string kernels; // of the file
    int64_t numKernels = 0;
    int64_t rows = 0;
  };
  // The feeds of a step, from the arguments of its entry, as the file has them.
  std::string stepFeeds(llvm::ArrayRef<RuntimeValue> arguments);
  std::string encodeFeeds(llvm::ArrayRef<RuntimeValue> arguments);
  mlir::LogicalResult observe(mlir::Operation *op, llvm::ArrayRef<mlir::func::CallOp> calls,
                              llvm::ArrayRef<RuntimeValue> operands, bool hasRun);
  // What of a step a buffer lies in; none of what the step does not write.
  struct Place {
    ReplayBase base;
    int64_t index = 0; // of an output
  };
  std::optional<Place> baseOf(const Buffer &buffer) const;
  mlir::LogicalResult finish(mlir::Operation *op, llvm::ArrayRef<mlir::func::CallOp> calls,
                             llvm::ArrayRef<RuntimeValue> operands);
  mlir::LogicalResult addBuffers(mlir::Operation *op, llvm::ArrayRef<RuntimeValue> operands, ReplayedKernel &kernel,
                                 std::string &regions, int64_t &numRegions);
  // What an op appends to.
  struct Appended {
    const RuntimeValue &cache, &layer;
    bool hasValues;
  };
  void addCacheRows(mlir::Operation *op, Appended appended, ReplayedKernel &kernel, std::string &regions,
                    int64_t &numRegions);
  // What the last tokens of the step's sequences leave, in the part of a layer's state that is the op's.
  template <typename Op>
  void addStates(Op op, llvm::ArrayRef<RuntimeValue> operands, ReplayedKernel &kernel, std::string &regions,
                 int64_t &numRegions);
  double limitOf(mlir::Operation *op, mlir::Type result) const;

  mlir::ModuleOp module;
  const GeneratedCode &code;
  llvm::DenseMap<mlir::Operation *, std::vector<unsigned>> launches; // by op: indices of its kernels
  int64_t maxRows;
  InterpreterOptions options;
  mlir::MLIRContext &context;
  double leastLimit;

  // Of the running recording:
  Interpreter *interpreter = nullptr;
  Buffer logits, hidden;             // of a step, those that it has
  llvm::SmallVector<Buffer> outputs; // of an encode
  llvm::SmallVector<int64_t> feeds;  // sequences of the running step, in its order
  std::string given;                 // regions of the next kernel
  int64_t numGiven = 0;
  Step step;
  Recording recording;
};

} // namespace heddle

#endif
