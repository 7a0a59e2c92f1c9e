// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mixtures of experts: the list of entries, and a product per expert that has any.

#include "compiler/codegen/host/StepLauncher.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/weights/PackedLayout.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

LogicalResult StepLauncher::lowerRoute(RouteExpertsOp op) {
  FailureOr<ArrayRef<func::FuncOp>> emitted = kernels.kernels(op);
  if (failed(emitted))
    return failure();
  func::FuncOp route = (*emitted)[0], group = (*emitted)[1];
  auto inits = llvm::map_to_vector(op.getInits(), [&](Value init) { return pointer(init); });
  Value count = rows(op.getLogits());
  RouteCall choice;
  choice.logits = pointer(op.getLogits());
  choice.correction = pointer(op.getCorrection());
  choice.scales = pointer(op.getScales());
  choice.experts = inits[0];
  choice.weights = inits[1];
  std::tie(choice.rowBegin, choice.rowEnd) = share(count);
  callKernel(op, route, operandsOf(b, b.getLoc(), choice));
  finishKernel(op);
  Value sequences = field(offsetof(heddle_step, sequences), b.pointerType());
  GroupCall list{inits[0], inits[1], inits[2], inits[3], inits[4], count, sequences, numSequences()};
  b.ifThen(b.equal(b.extend(frame.thread), b.constant(0)),
           [&] { callKernel(op, group, operandsOf(b, b.getLoc(), list)); });
  finishKernel(op);
  return success();
}

// Zeroes columns [begin, end) of an f32 buffer.
void StepLauncher::clearColumns(Value buffer, Value begin, Value end) {
  Value rowBytes = b.mul(rowStride(buffer), 4);
  Value memory = pointer(buffer), zero = arith::ConstantOp::create(b, b.getI8IntegerAttr(0));
  b.loop(b.constant(0), rows(buffer), 1, [&](Value row) {
    Value first = b.at(b.at(memory, b.mul(row, rowBytes)), begin, 4);
    LLVM::MemsetOp::create(b, first, zero, b.mul(b.sub(end, begin), 4), /*isVolatile=*/false);
  });
}

// A device does not know on the host which experts have entries.
LogicalResult StepLauncher::lowerDeviceExperts(ExpertMatmulOp op, func::FuncOp kernel) {
  bool gathers = op.getActivation().has_value();
  ExpertsCall call;
  call.act = pointer(op.getInput());
  call.weights = pointer(op.getWeights());
  call.bias = pointer(op.getBias());
  call.out = pointer(op.getInits()[0]);
  call.offsets = pointer(op.getOffsets());
  call.rowIndex = pointer(op.getRowIndex());
  call.rowScale = pointer(op.getRowScale());
  call.rows = rows(op.getRowIndex());
  call.actStride = gathers ? rowStride(op.getInput()) : b.constant(op.getK());
  call.outStride = gathers ? b.constant(op.getN()) : rowStride(op.getInits()[0]);
  callKernel(op, kernel, operandsOf(b, b.getLoc(), call));
  finishKernel(op);
  return success();
}

// A thread takes the same columns of every expert: what is added to an element comes in the order of experts, from one thread.
LogicalResult StepLauncher::lowerExperts(ExpertMatmulOp op) {
  FailureOr<ArrayRef<func::FuncOp>> emitted = kernels.kernels(op);
  if (failed(emitted))
    return failure();
  if (target.isDevice())
    return lowerDeviceExperts(op, emitted->front());
  bool gathers = op.getActivation().has_value();
  int64_t inputBytes = getElementTypeOrSelf(op.getInput()).getIntOrFloatBitWidth() / 8;
  int64_t n = op.getN(), k = op.getK(), weightBytes = expertBytes(op);
  Value output = op.getInits()[0];
  auto [begin, end] = share(b.constant((n + PackedLayout::panelRows - 1) / PackedLayout::panelRows));
  Value first = begin, last = end;
  // Entry `entry` of the list, in the buffer that is in its order.
  auto entryOf = [&](Value buffer, bool isListed, Value entry, int64_t bytes) {
    return !buffer ? Value() : isListed ? b.at(pointer(buffer), entry, bytes) : pointer(buffer);
  };
  b.ifThen(b.lessThan(first, last), [&] {
    if (!gathers && !op.getAccumulate())
      clearColumns(output, b.mul(first, PackedLayout::panelRows),
                   b.min(b.mul(last, PackedLayout::panelRows), b.constant(n)));
    b.loop(0, op.getNumExperts(), 1, [&](Value expert) {
      Value bounds = b.at(pointer(op.getOffsets()), expert, 4);
      Value from = b.loadIndex(bounds), to = b.loadIndex(b.at(bounds, 4));
      b.ifThen(b.lessThan(from, to), [&] {
        MatmulCall call;
        call.act = entryOf(op.getInput(), !gathers, from, inputBytes * k);
        call.actScales = entryOf(op.getInputScales(), !gathers, from, k / 32 * 4);
        call.actSums = entryOf(op.getInputSums(), !gathers, from, k / 16 * 4);
        call.weights = b.at(pointer(op.getWeights()), expert, weightBytes);
        if (op.getBias())
          call.bias = b.at(pointer(op.getBias()), expert, 4 * op.getExpertRows());
        call.out = entryOf(output, gathers, from, 4 * n);
        call.scratch = threadScratch();
        call.rows = b.sub(to, from);
        call.actStride = gathers ? rowStride(op.getInput()) : b.constant(k);
        call.outStride = gathers ? b.constant(n) : rowStride(output);
        call.panelBegin = first;
        call.panelEnd = last;
        call.rowIndex = entryOf(op.getRowIndex(), true, from, 4);
        call.rowScale = entryOf(op.getRowScale(), true, from, 4);
        call.rounded = entryOf(op.getInputRounded(), !gathers, from, 2 * k);
        call.roundedStride = gathers && call.rounded ? rowStride(op.getInputRounded()) : b.constant(k);
        call.isFixed = isFixed();
        unsigned form = MatmulCall::Listed | (op.getInt16() ? MatmulCall::ByRows : 0);
        callKernel(op, emitted->front(), operandsOf(b, b.getLoc(), call, form));
      });
    });
  });
  finishKernel(op);
  return success();
}
