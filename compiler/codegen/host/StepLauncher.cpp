// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/StepLauncher.h"

#include "compiler/schedule/Passes.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

std::pair<Value, Value> heddle::kindOfStep(RawBuilder &b, Value step) {
  auto number = [&](size_t offset) { return b.load(b.getI64Type(), b.at(step, int64_t(offset))); };
  Value asMany =
      LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, number(offsetof(heddle_step, waits_for_each)), b.constant(0));
  Value one = b.equal(number(offsetof(heddle_step, rows)), b.constant(1));
  return {asMany, b.select(asMany, arith::ConstantOp::create(b, b.getBoolAttr(false)), one)};
}

StepLauncher::StepLauncher(func::FuncOp func, KernelLibrary &kernels, const Target &target, unsigned calls,
                           const DenseMap<Operation *, Operation *> &sources)
    : KernelLauncher(func, kernels), target(target), calls(calls), sources(sources), frame(func) {
  b.setInsertionPointToStart(&func.front());
  std::tie(waitsForEach, isOneRow) = kindOfStep(b, frame.context);
  profile = field(offsetof(heddle_step, kernel_profile), b.pointerType());
  Value isCounted = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, profile, noBuffer(b, b.getLoc()));
  Value isFirst = b.equal(b.extend(frame.thread), b.constant(0));
  isProfiled = arith::AndIOp::create(b, isCounted, isFirst);
  lastTime = b.stackScratch(sizeof(uint64_t));
  arrivalTime = b.stackScratch(sizeof(uint64_t));
  startClock();
}

// Each thread has its own.
Value StepLauncher::scratch(size_t bytes) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&func.front());
  return b.stackScratch(int64_t(bytes));
}

Value StepLauncher::threadScratch() {
  Value stride = field(offsetof(heddle_step, scratch_stride), b.getI64Type());
  return b.at(field(offsetof(heddle_step, scratch), b.pointerType()), b.mul(b.extend(frame.thread), stride));
}

Value StepLauncher::isFixed() {
  return field(offsetof(heddle_step, fixed_forms), b.getI64Type());
}

Value StepLauncher::sequences(KvCacheType cache) {
  size_t offset = cache.getCross() ? offsetof(heddle_step, sources) : offsetof(heddle_step, sequences);
  return field(offset, b.pointerType());
}

Value StepLauncher::numSequences() {
  return field(offsetof(heddle_step, num_sequences), b.getI64Type());
}

std::pair<Value, Value> StepLauncher::share(Value count) {
  Value index = b.extend(frame.thread), threads = b.extend(frame.numThreads);
  Value part = arith::CeilDivSIOp::create(b, count, threads);
  Value begin = b.min(b.mul(index, part), count);
  return {begin, b.min(b.add(begin, part), count)};
}

// The counter that user code may read: an x86 time stamp, AArch64's virtual timer (its cycle counter traps).
void StepLauncher::whenProfiled(function_ref<void(Value)> then) {
  b.ifThen(isProfiled, [&] {
    StringRef clock = target.cpu.isX86() ? "llvm.readcyclecounter" : "llvm.readsteadycounter";
    then(LLVM::CallIntrinsicOp::create(b, b.getI64Type(), b.getStringAttr(clock), ValueRange()).getResult(0));
  });
}

void StepLauncher::startClock() {
  whenProfiled([&](Value now) { b.store(now, lastTime); });
}

Value StepLauncher::rowsOf(Operation *op) {
  SmallVector<Value> buffers;
  if (auto destinations = dyn_cast<DestinationStyleOpInterface>(op))
    llvm::append_range(buffers, destinations.getDpsInits());
  llvm::append_range(buffers, op->getOperands());
  for (Value buffer : buffers)
    if (auto type = dyn_cast<MemRefType>(buffer.getType()); type && type.getRank() && type.isDynamicDim(0))
      return rows(buffer);
  return b.constant(1);
}

void StepLauncher::waitForThreads(Operation *op, bool isLast) {
  auto wait = [&] {
    Value wait = field(offsetof(heddle_step, barrier_wait), b.pointerType());
    Value barrier = field(offsetof(heddle_step, barrier), b.pointerType());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {b.pointerType(), b.getI32Type()});
    LLVM::CallOp::create(b, type, ValueRange{wait, barrier, frame.thread});
  };
  bool runsOn = isLast && op->hasAttr(runsOnAttr), runsOnOfOneRow = isLast && op->hasAttr(runsOnOfOneRowAttr);
  if (!runsOn && !runsOnOfOneRow)
    wait();
  else if (runsOn && runsOnOfOneRow)
    b.ifThen(waitsForEach, wait);
  else if (runsOn)
    b.ifThen(arith::OrIOp::create(b, isOneRow, waitsForEach), wait);
  else
    b.ifThen(isManyRows(), wait);
}

// Or one that is computed as many are.
Value StepLauncher::isManyRows() {
  return arith::XOrIOp::create(b, isOneRow, arith::ConstantOp::create(b, b.getBoolAttr(true)));
}

void StepLauncher::finishKernel(Operation *op, bool isLast) {
  auto count = [&](size_t offset, Value addend) {
    Value counter = b.at(profile, int64_t(launched * sizeof(heddle_kernel_profile) + offset));
    b.store(b.add(b.load(b.getI64Type(), counter), addend), counter);
  };
  // Launches are counted before the wait, so that who observes kernels there knows which one has run. A device's kernel has run when the wait
  // for it ends.
  whenProfiled([&](Value now) {
    if (!target.isDevice())
      b.store(now, arrivalTime);
    count(offsetof(heddle_kernel_profile, launches), b.constant(1));
    count(offsetof(heddle_kernel_profile, rows), rowsOf(op));
  });
  waitForThreads(op, isLast);
  whenProfiled([&](Value now) {
    Value arrival = target.isDevice() ? now : b.load(b.getI64Type(), arrivalTime);
    count(offsetof(heddle_kernel_profile, ticks), b.sub(arrival, b.load(b.getI64Type(), lastTime)));
    count(offsetof(heddle_kernel_profile, wait_ticks), b.sub(now, arrival));
    b.store(now, lastTime);
  });
}

void StepLauncher::callKernel(Operation *op, func::FuncOp kernel, SmallVector<Value> arguments) {
  // A device's kernel also takes what it is enqueued on: the step, or where Halide's own entry is called, its device.
  if (target.isDevice() && isa<KernelCallOp>(op))
    arguments.insert(arguments.begin(), field(offsetof(heddle_step, device), b.pointerType()));
  else if (target.isDevice())
    arguments.push_back(frame.context);
  func::CallOp::create(b, kernel, arguments);
  launched = kernels.recordInStep(kernel, sources.lookup(op), calls);
}

LogicalResult StepLauncher::launch(Operation *op, const CallOperands &call, const LaunchedWork &) {
  FailureOr<ArrayRef<func::FuncOp>> emitted = kernels.kernels(op);
  if (failed(emitted))
    return failure();
  for (func::FuncOp kernel : *emitted) {
    CallOperands part = call;
    if (part.has(ParameterKind::PartEnd)) {
      Value &begin = part.at(ParameterKind::PartBegin), &end = part.at(ParameterKind::PartEnd);
      std::tie(begin, end) = share(end);
      b.ifThen(b.lessThan(begin, end), [&] { callKernel(op, kernel, part.complete(b, b.getLoc())); });
    } else {
      part.at(ParameterKind::Thread) = frame.thread;
      part.at(ParameterKind::NumThreads) = frame.numThreads;
      callKernel(op, kernel, part.complete(b, b.getLoc()));
    }
    finishKernel(op, kernel == emitted->back());
  }
  return success();
}

LogicalResult StepLauncher::lowerAppend(KvAppendOp op) {
  KvAppendCall call;
  call.key = pointer(op.getKey());
  call.value = pointer(op.getValue());
  call.keyStride = rowStride(op.getKey());
  call.valueStride = op.getValue() ? rowStride(op.getValue()) : call.keyStride;
  call.rowSequence = field(offsetof(heddle_step, row_sequence), b.pointerType());
  call.cachePositions = field(offsetof(heddle_step, cache_positions), b.pointerType());
  call.sequences = sequences(op.getCache().getType());
  std::tie(call.kOffset, call.vOffset) = planes(op.getCache().getType(), op.getLayer());
  call.rowEnd = rows(op.getKey());
  return launch(op, CallOperands::of(call));
}

LogicalResult StepLauncher::lowerRotateAppend(RotateAppendOp op) {
  RotateAppendCall call;
  unsigned form = op.getQueryNorm() ? RotateAppendCall::Normed : RotateAppendCall::Plain;
  call.input = pointer(op.getInput());
  call.out = pointer(op.getInits()[0]);
  call.positions = pointer(op.getPositions());
  call.table = pointer(op.getTable());
  std::tie(call.kOffset, call.vOffset) = planes(op.getCache().getType(), op.getLayer());
  call.inputStride = rowStride(op.getInput());
  call.outStride = rowStride(op.getInits()[0]);
  call.rowEnd = rows(op.getInput());
  call.queryNorm = pointer(op.getQueryNorm());
  call.keyNorm = pointer(op.getKeyNorm());
  if (op.getWeights()) {
    form |= RotateAppendCall::Product;
    call.weights = pointer(op.getWeights());
    call.bias = pointer(op.getBias());
    call.norm = pointer(op.getNorm());
    call.product = pointer(op.getProductRoom());
    call.productStride = rowStride(op.getProductRoom());
  }
  if (op.getRoom()) {
    form |= RotateAppendCall::Prepared;
    call.room = pointer(op.getRoom());
    call.roomStride = rowStride(op.getRoom());
  }
  return launch(op, CallOperands::of(call, form));
}

bool StepLauncher::canLaunch(Operation *op) {
  return KernelLauncher::canLaunch(op) ||
         isa<RouteExpertsOp, ExpertMatmulOp, OnlineAttentionOp, CombineSplitsOp, PreferSplitsOp, RaggedAttentionOp,
             OnlineLatentAttentionOp, KvAppendOp, RotateAppendOp, RaggedConvOp, RaggedLinearAttentionOp, KernelCallOp,
             func::CallOp>(op);
}

LogicalResult StepLauncher::lower(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](RouteExpertsOp op) { return lowerRoute(op); })
      .Case([&](ExpertMatmulOp op) { return lowerExperts(op); })
      .Case([&](OnlineAttentionOp op) { return lowerAttention(op); })
      .Case([&](RaggedAttentionOp op) { return lowerRaggedAttention(op); })
      .Case([&](CombineSplitsOp op) { return lowerCombine(op); })
      .Case([&](PreferSplitsOp op) { return lowerPreference(op); })
      .Case([&](OnlineLatentAttentionOp op) { return lowerLatentAttention(op); })
      .Case([&](KvAppendOp op) { return lowerAppend(op); })
      .Case([&](RotateAppendOp op) { return lowerRotateAppend(op); })
      .Case([&](RaggedConvOp op) { return lowerConv(op); })
      .Case([&](RaggedLinearAttentionOp op) { return lowerLinearAttention(op); })
      .Case([&](KernelCallOp op) { return lowerRowWise(op); })
      .Case([&](func::CallOp op) {
        b.clone(*op);
        startClock(); // the callee counted its own kernels
        return success();
      })
      .Default([&](Operation *op) { return KernelLauncher::lower(op); });
}
