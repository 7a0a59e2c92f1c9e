// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Host code of products: which kernel the rows of a step take, and what it is launched with.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_MATMULHOST_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_MATMULHOST_H

#include "compiler/codegen/targets/cuda/GpuKernels.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"

namespace heddle {

// Whether kernels can read such an input of k columns where it lies: runs of activations are read at once, and rows that are parts of wider ones may
// begin anywhere.
bool readsRowsOf(mlir::Value input, int64_t k);

class MatmulHost {
public:
  // Adds kernels whose names begin with `name` to `gpu`, and their launches to `l`; `call` has what the product is called with.
  MatmulHost(LaunchBuilder &l, GpuKernels &gpu, llvm::StringRef name, const GpuMatmulSpec &spec, const MatmulCall &call)
      : l(l), gpu(gpu), name(name), spec(spec), call(call), b(l.builder()) {}

  // What kernels of few rows take behind the product's own arguments, and what follows on kernels of many, where spec has heads.
  struct Heads {
    llvm::function_ref<void()> addArguments, launchApart;
  };
  // `readsFew`: few rows are prepared as they are read, and heads end their product.
  void run(ScheduleAttr schedule, bool readsFew, Heads heads = {});

private:
  // A kernel for steps of at most maxRows rows.
  struct Version {
    std::string kernel;
    int64_t maxRows, blocksX, blockRows, threads, sharedBytes, blocksZ;
    bool isFixed; // leaves the bits that every other fixed one leaves
  };
  Version buildFewRows(const GpuMatmulSpec &few, TileAttr scheduled, bool isFixed);
  llvm::SmallVector<Version> buildVersions(const GpuMatmulSpec &many, ScheduleAttr schedule, bool manyAlone);
  llvm::SmallVector<Version> buildFew(ScheduleAttr schedule);
  std::string preparationKernel();
  mlir::Value mostRows(const Version &version);
  void prepare();
  void launch(llvm::ArrayRef<Version> versions, mlir::Value act, mlir::Value actStride,
              llvm::function_ref<void()> addMore);

  LaunchBuilder &l;
  GpuKernels &gpu;
  llvm::StringRef name;
  const GpuMatmulSpec &spec;
  MatmulCall call;
  RawBuilder &b;
};

} // namespace heddle

#endif
