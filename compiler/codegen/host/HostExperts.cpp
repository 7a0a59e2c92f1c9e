// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mixtures of experts: the list of entries, and a product per expert that has any.

#include "compiler/codegen/host/HostFunction.h"

#include "compiler/weights/PackedLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

LogicalResult HostFunction::lowerRoute(RouteExpertsOp op) {
  FailureOr<func::FuncOp> route = kernels.routeExperts(op), group = kernels.groupByExpert(op);
  if (failed(route) || failed(group))
    return failure();
  auto inits = llvm::map_to_vector(op.getInits(), [&](Value init) { return pointerOf(init); });
  Value count = rowCounts.lookup(op.getLogits());
  auto [begin, end] = share(count);
  Value correction = op.getCorrection() ? pointerOf(op.getCorrection()) : null();
  launch(op, *route, {pointerOf(op.getLogits()), correction, inits[0], inits[1], begin, end});
  finishKernel();
  Value isFirstThread = b.equal(arith::ExtSIOp::create(b, b.getI64Type(), thread), b.constant(0));
  b.ifThen(isFirstThread, [&] { launch(op, *group, {inits[0], inits[1], inits[2], inits[3], inits[4], count}); });
  finishKernel();
  return success();
}

// Zeroes columns [begin, end) of an f32 buffer.
void HostFunction::clearColumns(Value buffer, Value begin, Value end) {
  int64_t rowBytes = 4 * rowStride(cast<MemRefType>(buffer.getType()));
  Value zero = arith::ConstantOp::create(b, b.getI8IntegerAttr(0));
  b.loop(b.constant(0), rowCounts.lookup(buffer), 1, [&](Value row) {
    Value first = b.at(b.at(pointerOf(buffer), row, rowBytes), begin, 4);
    LLVM::MemsetOp::create(b, first, zero, b.mul(b.sub(end, begin), 4), /*isVolatile=*/false);
  });
}

// A thread takes the same columns of every expert: what is added to an element comes in the order of experts, from one thread.
LogicalResult HostFunction::lowerExperts(ExpertMatmulOp op) {
  FailureOr<func::FuncOp> kernel = kernels.expertMatmul(op);
  if (failed(kernel))
    return failure();
  bool gathers = op.getActivation().has_value();
  int64_t inputBytes = getElementTypeOrSelf(op.getInput()).getIntOrFloatBitWidth() / 8;
  int64_t n = op.getN(), k = op.getK(), expertBytes = KernelLibrary::expertBytes(op);
  Value output = op.getInits()[0];
  int64_t outStride = gathers ? n : rowStride(cast<MemRefType>(output.getType()));
  int64_t actStride = gathers ? rowStride(cast<MemRefType>(op.getInput().getType())) : k;
  auto [begin, end] = share(b.constant((n + PackedLayout::panelRows - 1) / PackedLayout::panelRows));
  Value first = begin, last = end;
  // Entry `entry` of the list, in the buffer that is in its order.
  auto entryOf = [&](Value buffer, bool isListed, Value entry, int64_t bytes) {
    return !buffer ? null() : isListed ? b.at(pointerOf(buffer), entry, bytes) : pointerOf(buffer);
  };
  b.ifThen(b.lessThan(first, last), [&] {
    if (!gathers && !op.getAccumulate())
      clearColumns(output, b.mul(first, PackedLayout::panelRows),
                   b.min(b.mul(last, PackedLayout::panelRows), b.constant(n)));
    b.loop(0, op.getNumExperts(), 1, [&](Value expert) {
      Value bounds = b.at(pointerOf(op.getOffsets()), expert, 4);
      Value from = b.loadIndex(bounds), to = b.loadIndex(b.at(bounds, 4));
      b.ifThen(b.lessThan(from, to), [&] {
        launch(op, *kernel,
               {entryOf(op.getInput(), !gathers, from, inputBytes * k),
                entryOf(op.getInputScales(), !gathers, from, k / 32 * 4),
                entryOf(op.getInputSums(), !gathers, from, k / 16 * 4),
                b.at(pointerOf(op.getWeights()), expert, expertBytes), null(), entryOf(output, gathers, from, 4 * n),
                b.sub(to, from), b.constant(actStride), b.constant(outStride), first, last,
                entryOf(op.getRowIndex(), true, from, 4), entryOf(op.getRowScale(), true, from, 4)});
      });
    });
  });
  finishKernel();
  return success();
}
