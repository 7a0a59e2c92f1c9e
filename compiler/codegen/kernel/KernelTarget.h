// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a target is to the rest of codegen: which ops it has kernels for, what tells them apart, and their code. Each folder of
// targets/ implements it, with a file for each kernel op.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELTARGET_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELTARGET_H

#include "compiler/codegen/machine/Target.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

class GpuKernels;

// The kernels of one model while they are emitted.
class KernelModule {
public:
  // `source` holds the outlined kernels, `code` takes what MLIR emits.
  KernelModule(mlir::ModuleOp source, mlir::ModuleOp code) : source(source), code(code) {}

  // The function of that name, which says all that its code depends on: built if there is none yet.
  mlir::FailureOr<mlir::func::FuncOp> once(llvm::StringRef name,
                                           llvm::function_ref<mlir::FailureOr<mlir::func::FuncOp>()> build);
  // Takes what Halide emitted for the kernel `name`.
  mlir::LogicalResult addObject(llvm::StringRef name, mlir::FailureOr<std::string> object);
  llvm::ArrayRef<std::string> objects() const { return halideObjects; }
  bool isHalide(llvm::StringRef name) const { return halideKernels.contains(name); }

  mlir::ModuleOp source, code;

private:
  std::vector<std::string> halideObjects;
  llvm::StringSet<> halideKernels;
};

using Kernels = llvm::SmallVector<mlir::func::FuncOp, 1>;

// The kernels of one op on one target.
class KernelEmitter {
public:
  virtual ~KernelEmitter() = default;

  // Whether there is a kernel for `op`, the kernel op or a model op that becomes it. If not, `missing` says what of it has none,
  // "with sinks"; empty: the whole op.
  virtual bool canEmit(mlir::Operation *op, std::string &missing) const { return true; }
  // A name that ops share whose kernels are equal: all that these depend on. Fails, with an error at the op, where that is not known.
  virtual mlir::FailureOr<std::string> signature(mlir::Operation *op) const = 0;
  // The functions that the op launches one after the other, `name` or what begins or ends with it, called as KernelCalls.h says; a device's take one parameter more, the
  // `const heddle_step *` on whose device they enqueue. All numbers of hardware are the
  // schedule's (ScheduleTable.h), null for ops that have none there. Errors are at the op.
  virtual mlir::FailureOr<Kernels> emit(mlir::Operation *op, ScheduleAttr schedule, llvm::StringRef name,
                                        KernelModule &module) const = 0;
};

template <typename Op> class KernelEmitterOf : public KernelEmitter {
public:
  mlir::FailureOr<std::string> signature(mlir::Operation *op) const final { return nameOf(llvm::cast<Op>(op)); }
  mlir::FailureOr<Kernels> emit(mlir::Operation *op, ScheduleAttr schedule, llvm::StringRef name,
                                KernelModule &module) const final {
    return build(llvm::cast<Op>(op), schedule, name, module);
  }

protected:
  virtual mlir::FailureOr<std::string> nameOf(Op op) const = 0;
  virtual mlir::FailureOr<Kernels> build(Op op, ScheduleAttr schedule, llvm::StringRef name,
                                         KernelModule &module) const = 0;
};

// The one function of an op that launches no more.
mlir::FailureOr<Kernels> oneKernel(mlir::FailureOr<mlir::func::FuncOp> kernel);

// Whether `op` launches kernels: kernel ops of ours do, and contractions that are products (ContractionLoops.h).
bool isKernelOp(mlir::Operation *op);

class KernelTarget {
public:
  explicit KernelTarget(std::string name) : name(std::move(name)) {}
  virtual ~KernelTarget() = default;

  // Before anything is emitted into `code`.
  virtual void begin(mlir::ModuleOp code) {}
  // Of kernel ops and of the model ops that become them; any other op asks for no kernel. `missing` names what has none:
  // "'heddle.attention' with sinks".
  bool canEmit(mlir::Operation *op, std::string &missing) const;
  // The same for all of a module, or for its graphs or what is none alone: what the first op without a kernel lacks, empty if there is none.
  enum class Part : uint8_t { All, Graphs, Step };
  std::string missingKernel(mlir::ModuleOp module, Part part = Part::All) const;
  mlir::FailureOr<std::string> signature(mlir::Operation *op) const;
  mlir::FailureOr<Kernels> emit(mlir::Operation *op, ScheduleAttr schedule, llvm::StringRef name,
                                KernelModule &module) const;

  // What MLIR emits for a GPU; null for other targets.
  virtual GpuKernels *gpuKernels() { return nullptr; }

protected:
  template <typename Op> void add(std::unique_ptr<KernelEmitter> emitter) {
    emitters[Op::getOperationName()] = std::move(emitter);
  }

private:
  // Null where the target knows no such op.
  const KernelEmitter *emitterFor(mlir::Operation *op) const;

  std::string name; // as given to --target
  llvm::StringMap<std::unique_ptr<KernelEmitter>> emitters;
};

// What schedules are chosen for.
TargetAttr targetAttr(mlir::MLIRContext *context, const CpuTarget &target);
TargetAttr targetAttr(mlir::MLIRContext *context, const Target &target);

} // namespace heddle

#endif
