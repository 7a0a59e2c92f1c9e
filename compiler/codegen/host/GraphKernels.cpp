// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/GraphKernels.h"

#include "compiler/codegen/host/GraphLauncher.h"

using namespace mlir;
using namespace heddle;

static bool hasAdjacentColumns(Value buffer) {
  auto [strides, offset] = cast<MemRefType>(buffer.getType()).getStridesAndOffset();
  return strides.back() == 1;
}

void heddle::gatherKernelOperands(func::FuncOp graph) {
  graph.walk([&](PackedMatmulOp op) {
    if (hasAdjacentColumns(op.getInput()))
      return;
    OpBuilder b(op);
    auto type = cast<MemRefType>(op.getInput().getType());
    SmallVector<Value> sizes;
    for (auto [axis, size] : llvm::enumerate(type.getShape()))
      if (ShapedType::isDynamic(size))
        sizes.push_back(memref::DimOp::create(b, op.getLoc(), op.getInput(), axis));
    auto dense = MemRefType::get(type.getShape(), type.getElementType());
    Value copy = memref::AllocOp::create(b, op.getLoc(), dense, sizes);
    memref::CopyOp::create(b, op.getLoc(), op.getInput(), copy);
    op.getInputMutable().assign(copy);
  });
}

LogicalResult heddle::lowerKernels(func::FuncOp graph, KernelLibrary &kernels) {
  SmallVector<Operation *> ops;
  graph.walk([&](Operation *op) {
    if (KernelLauncher::canLower(op))
      ops.push_back(op);
  });
  GraphLauncher launcher(graph, kernels);
  for (Operation *op : ops)
    if (failed(launcher.replace(op)))
      return failure();
  return success();
}
