// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The base of passes that work on modules of one stage; StagePass.td is how a Passes.td names it.
#ifndef HEDDLE_COMPILER_CONTRACT_STAGEPASS_H
#define HEDDLE_COMPILER_CONTRACT_STAGEPASS_H

#include "compiler/contract/Stage.h"

#include "mlir/Pass/Pass.h"

namespace heddle {

// A pass on `Op` whose module is behind stage `after`: on another one it fails and says so, before it looks at anything.
template <typename Op, Stage after> class StagePass : public mlir::OperationPass<Op> {
protected:
  explicit StagePass(mlir::TypeID id) : mlir::OperationPass<Op>(id) {}
  StagePass(const StagePass &) = default;
  virtual void runInStage() = 0;

private:
  void runOnOperation() final {
    if (mlir::failed(verifyPassInput(this->getOperation(), after, this->getArgument())))
      return this->signalPassFailure();
    runInStage();
  }
};

} // namespace heddle

#endif
