// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of an entry from buffers to the `llvm` dialect. It is one for all kinds of entries; what a kind says itself is how the runtime
// calls it, where its buffers lie, how its kernels run and what it calls back (StepCode.cpp, GraphCode.cpp).
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_HOSTCODE_H
#define HEDDLE_COMPILER_CODEGEN_HOST_HOSTCODE_H

#include "compiler/codegen/host/KernelLauncher.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace heddle {

// Registers what lowering an entry needs.
void registerHostCodeModels(mlir::DialectRegistry &registry);

class HostLowering {
public:
  // `source`: the scheduled module. Kernels that the entry asks for are emitted into the library's module of code.
  HostLowering(mlir::ModuleOp source, KernelLibrary &kernels, const Target &target);
  virtual ~HostLowering() = default;
  // A module in the `llvm` dialect with the entry's functions, which declares the kernels that these call.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> run();

protected:
  // Leaves functions of this entry alone, which take what the runtime calls them with: what the call brings or the plan places are buffers
  // there.
  virtual mlir::LogicalResult bind() = 0;
  // Says where the life of a buffer ends that has no place yet.
  virtual mlir::LogicalResult releaseBuffers() { return mlir::success(); }
  virtual std::unique_ptr<KernelLauncher> launcherOf(mlir::func::FuncOp func) = 0;
  // Makes functions of loops that threads share.
  virtual mlir::LogicalResult shareLoops() = 0;
  // Ops that end a call or ask for memory, by now all in the form in which they run, become calls of the runtime.
  virtual void callRuntime() {}

  mlir::LogicalResult runPasses(llvm::function_ref<void(mlir::OpPassManager &)> add);
  // Weights become buffers behind `base`, in `func`.
  void bindWeights(mlir::func::FuncOp func, mlir::Value base);

  mlir::OwningOpRef<mlir::ModuleOp> code; // begins as a copy of the scheduled module
  KernelLibrary &kernels;
  const Target &target;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> sources; // op of the copy -> of the scheduled module

private:
  void gatherOperands();
  void expandCopies();
  void castOpenGroups();
  mlir::LogicalResult launchKernels();
  void declareKernels();
  void expandMath();
};

} // namespace heddle

#endif
