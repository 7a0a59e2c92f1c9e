// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of one model, each emitted once: by MLIR for products and attention, by Halide for what is row-wise and for what
// a device computes besides. A device's kernels are host functions that enqueue them (DeviceKernels.h).
#ifndef HEDDLE_COMPILER_CODEGEN_KERNELLIBRARY_H
#define HEDDLE_COMPILER_CODEGEN_KERNELLIBRARY_H

#include "compiler/codegen/halide/DeviceKernels.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

// What the package's kernel table says of a kernel.
struct KernelRecord {
  std::string name, kind, emitter, schedule;
  unsigned calls = 0; // in one step
  int64_t flopsPerRow = 0, fixedBytes = 0, bytesPerRow = 0;
};

// One launch in a function of the step.
struct KernelLaunch {
  unsigned kernel;     // index of its record
  mlir::Operation *op; // of the scheduled module
};

class KernelLibrary {
public:
  // `code` takes the kernels that MLIR emits; `source` holds the outlined ones.
  KernelLibrary(mlir::ModuleOp source, mlir::ModuleOp code, const Target &target)
      : source(source), code(code), target(target), device(code, target, halideObjects, halideKernels) {}

  // The function to call for an op: emitted on first use, shared by ops with the same shape, type, epilogue and schedule.
  mlir::FailureOr<mlir::func::FuncOp> matmul(PackedMatmulOp op);
  mlir::FailureOr<mlir::func::FuncOp> routeExperts(RouteExpertsOp op);
  mlir::FailureOr<mlir::func::FuncOp> groupByExpert(RouteExpertsOp op);
  mlir::FailureOr<mlir::func::FuncOp> expertMatmul(ExpertMatmulOp op);
  mlir::FailureOr<mlir::func::FuncOp> attention(OnlineAttentionOp op);
  mlir::FailureOr<mlir::func::FuncOp> combineSplits(CombineSplitsOp op);
  // The bodies that the op's form asks for; null where it asks for the other alone.
  struct LatentKernels {
    mlir::func::FuncOp fold, attend, project, rebuild;
  };
  mlir::FailureOr<LatentKernels> latentAttention(OnlineLatentAttentionOp op);
  mlir::FailureOr<mlir::func::FuncOp> kvAppend(KvAppendOp op);
  mlir::FailureOr<mlir::func::FuncOp> embedding(DequantizeOp op);
  mlir::FailureOr<mlir::func::FuncOp> rowWise(KernelCallOp op);

  // Bytes from the packed weights of one expert to those of the next.
  static int64_t expertBytes(ExpertMatmulOp op);

  // What MLIR emitted for a GPU; null for other targets.
  GpuKernels *gpuKernels() { return device.gpuKernels(); }
  // Objects that Halide emitted.
  llvm::ArrayRef<std::string> objects() const { return halideObjects; }
  // Counts one launch of a kernel by `op`, which runs `times` in a step. Returns the kernel's index in records().
  unsigned record(mlir::func::FuncOp kernel, mlir::Operation *op, unsigned times);
  const llvm::MapVector<mlir::StringAttr, KernelRecord> &records() const { return kernels; }
  llvm::ArrayRef<KernelLaunch> launches() const { return launched; }

private:
  // The kernel of that name, which tells it apart by all that its code depends on: built if there is none yet.
  using Build = llvm::function_ref<mlir::FailureOr<mlir::func::FuncOp>(llvm::StringRef name)>;
  mlir::FailureOr<mlir::func::FuncOp> once(const std::string &name, Build onCpu, Build onDevice);
  mlir::FailureOr<mlir::func::FuncOp> product(mlir::Operation *op, const std::string &name, const MatmulSpec &spec);
  // A product of f32 rows with (n, k) packed as `format`; sets `bytes` to what the matrix takes.
  mlir::FailureOr<mlir::func::FuncOp> plainMatmul(mlir::Operation *op, llvm::StringRef format, int64_t n, int64_t k,
                                                  int64_t &bytes);
  mlir::LogicalResult refuse(mlir::Operation *op, llvm::StringRef what);

  mlir::ModuleOp source, code;
  const Target &target;
  std::vector<std::string> halideObjects;
  llvm::StringSet<> halideKernels; // names of those that Halide emitted
  DeviceKernels device;
  llvm::MapVector<mlir::StringAttr, KernelRecord> kernels;
  std::vector<KernelLaunch> launched;
};

} // namespace heddle

#endif
