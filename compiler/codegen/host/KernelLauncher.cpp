// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernel ops that steps and graphs have in common are called with: a function for each, which reads addresses, sizes and strides
// from its launcher.

#include "compiler/codegen/host/KernelLauncher.h"

#include "compiler/codegen/kernel/ContractionLoops.h"
#include "compiler/weights/PackedLayout.h"
#include "dialect/HeddleDialect.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

Value KernelLauncher::broadcastStride(Value buffer, unsigned axis) {
  return b.select(b.equal(sizeOf(b, buffer, axis), b.constant(1)), b.constant(0), strideOf(b, buffer, axis));
}

Value KernelLauncher::table(ValueRange numbers) {
  Value memory = scratch(numbers.size() * sizeof(int64_t));
  for (auto [index, number] : llvm::enumerate(numbers))
    b.store(number, b.at(memory, int64_t(index * sizeof(int64_t))));
  return memory;
}

LogicalResult KernelLauncher::launchMatmul(PackedMatmulOp op) {
  MatmulCall call;
  call.act = pointer(op.getInput());
  call.actScales = pointer(op.getInputScales());
  call.actSums = pointer(op.getInputSums());
  call.weights = pointer(op.getWeights());
  call.bias = pointer(op.getBias());
  call.out = pointer(op.getInits()[0]);
  call.scratch = threadScratch();
  call.rows = rows(op.getInput());
  call.actStride = rowStride(op.getInput());
  call.outStride = rowStride(op.getInits()[0]);
  call.panelEnd = b.constant(llvm::divideCeil(int64_t(op.getN()), PackedLayout::panelRows));
  call.rounded = pointer(op.getInputRounded());
  call.roundedStride = call.rounded ? rowStride(op.getInputRounded()) : b.constant(0);
  call.isFixed = isFixed();
  call.norm = pointer(op.getNorm());
  unsigned form = op.getInt16() ? MatmulCall::ByRows : MatmulCall::Dense;
  if (op.getRoom()) {
    call.room = pointer(op.getRoom());
    call.roomStride = rowStride(op.getRoom());
    form |= MatmulCall::Prepared;
  }
  if (op.getRounded()) {
    call.outRounded = pointer(op.getRounded());
    call.outRoundedStride = rowStride(op.getRounded());
    form |= MatmulCall::Rounded;
  }
  return launch(op, CallOperands::of(call, form), {{call.rows}, double(op.getN()) * double(op.getK())});
}

static LogicalResult launchIntegerMatmul(IntegerMatmulOp op, KernelLauncher &launcher) {
  IntegerMatmulCall call;
  call.act = launcher.pointer(op.getInput());
  call.zero = launcher.pointer(op.getZero());
  call.weights = launcher.pointer(op.getWeights());
  call.out = launcher.pointer(op.getInits()[0]);
  call.rows = launcher.rows(op.getInput());
  call.actStride = launcher.rowStride(op.getInput());
  call.outStride = launcher.rowStride(op.getInits()[0]);
  call.panelEnd = launcher.b.constant(llvm::divideCeil(int64_t(op.getN()), PackedLayout::panelRows));
  return launcher.launch(op, CallOperands::of(call), {{call.rows}, double(op.getN()) * double(op.getK())});
}

static LogicalResult launchEmbedding(DequantizeOp op, KernelLauncher &launcher) {
  EmbeddingCall call;
  call.ids = launcher.pointer(op.getIds());
  call.weights = launcher.pointer(op.getWeights());
  call.out = launcher.pointer(op.getInits()[0]);
  call.rowEnd = launcher.rows(op.getInits()[0]);
  call.outStride = launcher.rowStride(op.getInits()[0]);
  call.given = launcher.pointer(op.getGiven());
  unsigned form = op.getGiven() ? EmbeddingCall::Given : EmbeddingCall::Plain;
  return launcher.launch(op, CallOperands::of(call, form), {{call.rowEnd}, double(op.getK())});
}

//===- attention over tensors ---------------------------------------------===//

static LogicalResult launchAttention(FlashAttentionOp op, KernelLauncher &launcher) {
  ArrayRef<int64_t> queryAxes = op.getQueryAxes(), keyAxes = op.getKeyAxes();
  FlashAttentionCall call;
  // The address of an operand and the strides of its (batch, heads, sequence), which `axes` names.
  auto setTensor = [&](Value buffer, ArrayRef<int64_t> axes, Value &pointer, std::array<Value *, 3> strides) {
    pointer = launcher.pointer(buffer);
    for (auto [stride, axis] : llvm::zip(strides, axes))
      *stride = strideOf(launcher.b, buffer, axis);
  };
  setTensor(op.getQuery(), queryAxes, call.query, {&call.queryBatch, &call.queryHead, &call.queryRow});
  setTensor(op.getKey(), keyAxes, call.key, {&call.keyBatch, &call.keyHead, &call.keyRow});
  setTensor(op.getValue(), op.getValueAxes(), call.value, {&call.valueBatch, &call.valueHead, &call.valueRow});
  setTensor(op.getInits()[0], op.getOutAxes(), call.out, {&call.outBatch, &call.outHead, &call.outRow});
  call.bias = launcher.pointer(op.getBias());
  call.sinks = launcher.pointer(op.getSinks());
  // A dimension of size 1 is not walked, also where only the run knows that it is 1.
  Value *biasStrides[] = {&call.biasBatch, &call.biasHead, &call.biasRow, &call.biasKey};
  for (auto [axis, stride] : llvm::enumerate(biasStrides))
    *stride = op.getBias() ? launcher.broadcastStride(op.getBias(), axis) : launcher.b.constant(0);
  call.batch = sizeOf(launcher.b, op.getQuery(), queryAxes[0]);
  call.queries = sizeOf(launcher.b, op.getQuery(), queryAxes[2]);
  call.keys = sizeOf(launcher.b, op.getKey(), keyAxes[2]);
  SmallVector<int64_t, 4> shape = op.getQueryShape();
  return launcher.launch(
      op, CallOperands::of(call),
      {{call.batch, call.queries, call.keys}, double(shape[1] * (shape[3] + op.getValueShape()[3]))});
}

//===- contractions -------------------------------------------------------===//

namespace {

// Writes the call of one product.
class ContractionLaunch {
public:
  ContractionLaunch(const ContractionLoops &loops, KernelLauncher &launcher) : loops(loops), launcher(launcher) {}
  LogicalResult run();

private:
  using Operand = ContractionLoops::Operand;
  struct MovedOperand {
    Value &stride;
    Operand operand;
  };
  Value sizeOf(const ContractionLoops::Group &group);
  Value strideOf(Operand x, const ContractionLoops::Group &group);
  void setMain(Value &size, const std::vector<ContractionLoops::Group> &groups, ArrayRef<MovedOperand> strides);
  void addOuter(const ContractionLoops::Group &group);

  const ContractionLoops &loops;
  KernelLauncher &launcher;
  ContractionCall call;
  SmallVector<Value> outer;
  LaunchedWork work;
};

} // namespace

Value ContractionLaunch::sizeOf(const ContractionLoops::Group &group) {
  Value size;
  for (unsigned loop : group) {
    Operand x = loops.position(ContractionLoops::A, loop) >= 0 ? ContractionLoops::A : ContractionLoops::B;
    Value one = heddle::sizeOf(launcher.b, loops.buffer(x), loops.position(x, loop));
    size = size ? launcher.b.mul(size, one) : one;
  }
  work.counts.push_back(size);
  return size;
}

Value ContractionLaunch::strideOf(Operand x, const ContractionLoops::Group &group) {
  int64_t at = loops.position(x, group.back());
  return at < 0 ? launcher.b.constant(0) : heddle::strideOf(launcher.b, loops.buffer(x), at);
}

// The last group is the kernel's own loop, or there is none and it runs once; the others are outer loops.
void ContractionLaunch::setMain(Value &size, const std::vector<ContractionLoops::Group> &groups,
                                ArrayRef<MovedOperand> strides) {
  RawBuilder &b = launcher.b;
  size = groups.empty() ? b.constant(1) : sizeOf(groups.back());
  for (auto [stride, x] : strides)
    stride = groups.empty() ? b.constant(0) : strideOf(x, groups.back());
  for (const ContractionLoops::Group &group : ArrayRef(groups).drop_back(groups.empty() ? 0 : 1))
    addOuter(group);
}

void ContractionLaunch::addOuter(const ContractionLoops::Group &group) {
  outer.push_back(sizeOf(group));
  for (Operand x : {ContractionLoops::A, ContractionLoops::B, ContractionLoops::C})
    outer.push_back(strideOf(x, group));
}

LogicalResult ContractionLaunch::run() {
  constexpr Operand a = ContractionLoops::A, b = ContractionLoops::B, c = ContractionLoops::C;
  call.a = launcher.pointer(loops.buffer(a));
  call.b = launcher.pointer(loops.buffer(b));
  call.c = launcher.pointer(loops.buffer(c));
  setMain(call.m, loops.rows, {{call.aRow, a}, {call.cRow, c}});
  setMain(call.n, loops.columns, {{call.bColumn, b}});
  setMain(call.k, loops.depth, {{call.aColumn, a}, {call.bRow, b}});
  for (const ContractionLoops::Group &group : loops.repeats)
    addOuter(group);
  constexpr int64_t numFields = 4; // of a row of `outer`
  call.numOuter = launcher.b.constant(outer.size() / numFields);
  if (!outer.empty())
    call.outer = launcher.table(outer);
  return launcher.launch(loops.op, CallOperands::of(call), work);
}

//===- all ----------------------------------------------------------------===//

bool KernelLauncher::canLaunch(Operation *op) {
  auto loops = dyn_cast<linalg::GenericOp>(op);
  return isa<PackedMatmulOp, IntegerMatmulOp, DequantizeOp, FlashAttentionOp>(op) ||
         (loops && isKernelContraction(loops));
}

LogicalResult KernelLauncher::lower(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](PackedMatmulOp op) { return launchMatmul(op); })
      .Case([&](IntegerMatmulOp op) { return launchIntegerMatmul(op, *this); })
      .Case([&](DequantizeOp op) { return launchEmbedding(op, *this); })
      .Case([&](FlashAttentionOp op) { return launchAttention(op, *this); })
      .Case([&](linalg::GenericOp op) { return ContractionLaunch(*contractionLoopsOf(op), *this).run(); });
}

LogicalResult KernelLauncher::replace(Operation *op) {
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  if (failed(lower(op)))
    return failure();
  op->erase();
  return success();
}
