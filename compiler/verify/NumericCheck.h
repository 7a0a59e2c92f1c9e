// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the pass that changed what a module computes: evaluates its entry function before and after every pass on the same
// random inputs.
#ifndef HEDDLE_COMPILER_VERIFY_NUMERICCHECK_H
#define HEDDLE_COMPILER_VERIFY_NUMERICCHECK_H

#include "compiler/verify/Compare.h"
#include "compiler/verify/ValueTrace.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace heddle {

// A call of the entry with some of the rows that the inputs have: row r of each result is row rows[r] of the whole's, or, where that is
// -1, of another sequence.
struct StepInputs {
  llvm::SmallVector<RuntimeValue> arguments;
  llvm::SmallVector<int64_t> rows;
};

struct NumericCheckOptions {
  std::string entry; // "": the first public function
  uint64_t seed = 1;
  double limit = 0;        // largest NMSE, 0: nmseLimit of the result's element type
  int64_t dynamicSize = 5; // of each dimension that the entry's type leaves open
  int64_t maxIndex = 4;    // integer inputs are in [0, maxIndex)
  // What an op that the interpreter does not know means: an error, or a remark and the end of the checks.
  bool stopsAtUnknownOps = false;
  // Weights are random, seeded by name, where `interpreter` gives none.
  InterpreterOptions interpreter;
  // The inputs, instead of random ones. They mean the same whatever the type of the entry, so that results of one size are
  // compared across its changes.
  std::function<mlir::FailureOr<llvm::SmallVector<RuntimeValue>>(mlir::func::FuncOp)> inputs;
  // With `inputs`: further calls whose rows must be those of the first; false where there is none behind `step` of them.
  std::function<mlir::FailureOr<bool>(mlir::func::FuncOp, size_t step, StepInputs &)> steps;
};

// Normally distributed floats and small integers, the same for the same seed whatever the machine.
Tensor randomTensor(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, uint64_t seed, int64_t maxIndex);

// Evaluates a module's entry; keeps what the first evaluation gave as the expectation of all later ones.
class NumericCheck {
public:
  explicit NumericCheck(NumericCheckOptions options);

  // Whether `module`, as `stage` leaves it, still computes what it did; else emits an error that names `stage`, the result
  // and its error. The first call, and one after the entry's type changed, sets the expectation. A module that is what the last one
  // was is not evaluated again: most passes of a model find nothing to do.
  mlir::LogicalResult check(mlir::ModuleOp module, llvm::StringRef stage);

  // What the first evaluation gave, empty before it.
  llvm::ArrayRef<RuntimeValue> expectation() const { return expected; }
  // The largest NMSE of the last comparison; none if the last module was not evaluated or set the expectation.
  std::optional<double> lastError() const { return error; }
  // Why evaluations ended (NumericCheckOptions::stopsAtUnknownOps), empty while they go on.
  llvm::StringRef endReason() const { return ended; }

private:
  mlir::FailureOr<llvm::SmallVector<RuntimeValue>> evaluate(mlir::func::FuncOp entry, std::string &message);
  mlir::FailureOr<llvm::SmallVector<RuntimeValue>> call(InterpreterOptions traced, mlir::func::FuncOp entry,
                                                        llvm::ArrayRef<RuntimeValue> inputs);
  mlir::FailureOr<llvm::SmallVector<RuntimeValue>> inputsFor(mlir::func::FuncOp entry);
  mlir::LogicalResult compareResults(mlir::func::FuncOp entry, llvm::ArrayRef<RuntimeValue> results,
                                     llvm::StringRef stage);
  // `whole` is what the expectation is compared with, `what` is said of it.
  mlir::InFlightDiagnostic differs(mlir::func::FuncOp entry, llvm::StringRef stage, unsigned result,
                                   const Difference &difference, double limit);
  double limitFor(const Tensor &expected) const;
  mlir::LogicalResult checkSteps(mlir::func::FuncOp entry, llvm::StringRef stage);

  NumericCheckOptions options;
  llvm::SmallVector<RuntimeValue> expected;
  mlir::FunctionType entryType;
  ValueTrace before, now;         // of the last module that was right, and of the one that is being checked
  std::vector<uintptr_t> content; // of the module that was evaluated last
  std::optional<double> error;
  std::string ended;
  bool metUnknownOp = false;
};

// Checks before the first and after every pass of `pm`, whose context it makes single-threaded: passes on functions run
// while the whole module is read.
void addNumericCheck(mlir::PassManager &pm, NumericCheckOptions options);
// The same for every public function of the module that the passes begin with. A pass on one function is judged by that one.
void addNumericChecks(mlir::PassManager &pm, NumericCheckOptions options);
// The same with a check that others go on with; `report` is told of every pass that it passed.
void addNumericCheck(mlir::PassManager &pm, std::shared_ptr<NumericCheck> check,
                     std::function<void(llvm::StringRef pass)> report = nullptr);

} // namespace heddle

#endif
