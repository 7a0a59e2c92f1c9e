// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/StepCode.h"

#include "compiler/codegen/host/StepLowering.h"
#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

static SmallVector<int64_t> stridesOf(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  LogicalResult known = type.getStridesAndOffset(strides, offset);
  assert(succeeded(known) && "buffers of the step have static strides");
  (void)known;
  return strides;
}

int64_t heddle::rowStrideOf(MemRefType type) {
  return stridesOf(type).front();
}

static std::string loweredName(func::FuncOp func) {
  return func == raggedEntry(func->getParentOfType<ModuleOp>()) ? "heddle_step" : ("heddle_" + func.getSymName()).str();
}

// Rows are the one dimension of which only the run knows the size.
Value StepLowering::size(Value buffer, unsigned axis) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.isDynamicDim(axis) ? rowCounts.lookup(buffer) : b.constant(type.getDimSize(axis));
}

Value StepLowering::stride(Value buffer, unsigned axis) {
  return b.constant(stridesOf(cast<MemRefType>(buffer.getType()))[axis]);
}

// Each thread has its own.
Value StepLowering::scratch(size_t bytes) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(context.getParentBlock());
  return b.stackScratch(bytes);
}

Value StepLowering::sequences() {
  return field(offsetof(heddle_step, sequences), b.pointerType());
}

Value StepLowering::numSequences() {
  return field(offsetof(heddle_step, num_sequences), b.getI64Type());
}

void StepLowering::begin(bool isStep) {
  SmallVector<Type> parameters = {b.pointerType(), b.getI32Type(), b.getI32Type()};
  if (!isStep)
    for (Type type : func.getArgumentTypes())
      if (!isa<KvCacheType>(type))
        parameters.push_back(isa<MemRefType>(type) ? b.pointerType() : b.getI64Type());
  func::FuncOp lowered = beginFunction(b, kernels.code(), loweredName(func), parameters);
  if (isStep)
    kernels.addEntry(lowered.getSymName());
  else
    lowered.setPrivate();
  Block &entry = lowered.front();
  context = entry.getArgument(0);
  thread = entry.getArgument(1);
  numThreads = entry.getArgument(2);
  arena = field(offsetof(heddle_step, arena), b.pointerType());
  stepRows = field(offsetof(heddle_step, rows), b.getI64Type());
  maxRows = field(offsetof(heddle_step, max_rows), b.getI64Type());
  int64_t rowBytes = func->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(rowBytesAttr).getInt();
  fixedArena = b.at(arena, b.mul(maxRows, rowBytes));
  ticks = field(offsetof(heddle_step, kernel_ticks), b.pointerType());
  Value isCounted = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, ticks, noBuffer(b, b.getLoc()));
  Value isFirst = b.equal(arith::ExtSIOp::create(b, b.getI64Type(), thread), b.constant(0));
  isProfiled = arith::AndIOp::create(b, isCounted, isFirst);
  lastTime = b.stackScratch(sizeof(uint64_t));
  startClock();
  if (isStep)
    return mapStepArguments();
  unsigned index = 3;
  for (BlockArgument argument : func.getArguments()) {
    if (isa<KvCacheType>(argument.getType()))
      continue;
    Value value = entry.getArgument(index++);
    if (isa<MemRefType>(argument.getType())) {
      pointers[argument] = value;
      rowCounts[argument] = stepRows;
    } else {
      scalars[argument] = value;
    }
  }
}

namespace {
// Where the entry finds an argument, and what its rows are.
struct ArgumentSource {
  size_t field;
  enum { Tokens, Outputs, Sequences } rows = Tokens;
};
} // namespace

static constexpr ArgumentSource stepArguments[] = {{offsetof(heddle_step, ids)},
                                                   {offsetof(heddle_step, positions)},
                                                   {offsetof(heddle_step, output_rows), ArgumentSource::Outputs},
                                                   {0}, // the cache
                                                   {offsetof(heddle_step, logits), ArgumentSource::Outputs},
                                                   {offsetof(heddle_step, last_hidden_state)}};
static constexpr ArgumentSource encodeArguments[] = {{offsetof(heddle_step, ids)},
                                                     {offsetof(heddle_step, positions)},
                                                     {offsetof(heddle_step, output_rows), ArgumentSource::Outputs},
                                                     {offsetof(heddle_step, sequence_rows), ArgumentSource::Sequences},
                                                     {offsetof(heddle_step, token_types)},
                                                     {offsetof(heddle_step, last_hidden_state)},
                                                     {offsetof(heddle_step, pooler_output), ArgumentSource::Outputs}};

// An entry that needs none of the last ones does not have them.
void StepLowering::mapStepArguments() {
  Value numOutputs = field(offsetof(heddle_step, num_outputs), b.getI64Type());
  Value counts[] = {stepRows, numOutputs, numSequences()};
  bool isEncode = func.getSymName() == "encode";
  ArrayRef<ArgumentSource> sources = isEncode ? ArrayRef(encodeArguments) : ArrayRef(stepArguments);
  for (auto [argument, source] : llvm::zip(func.getArguments(), sources)) {
    if (isa<KvCacheType>(argument.getType()))
      continue;
    pointers[argument] = field(source.field, b.pointerType());
    rowCounts[argument] = counts[source.rows];
  }
}

std::pair<Value, Value> StepLowering::share(Value count) {
  Value index = arith::ExtSIOp::create(b, b.getI64Type(), thread);
  Value threads = arith::ExtSIOp::create(b, b.getI64Type(), numThreads);
  Value part = arith::CeilDivSIOp::create(b, count, threads);
  Value begin = b.min(b.mul(index, part), count);
  return {begin, b.min(b.add(begin, part), count)};
}

// The counter that user code may read: an x86 time stamp, AArch64's virtual timer (its cycle counter traps).
void StepLowering::whenProfiled(function_ref<void(Value)> then) {
  b.ifThen(isProfiled, [&] {
    StringRef clock = target.cpu.isX86() ? "llvm.readcyclecounter" : "llvm.readsteadycounter";
    then(LLVM::CallIntrinsicOp::create(b, b.getI64Type(), b.getStringAttr(clock), ValueRange()).getResult(0));
  });
}

void StepLowering::startClock() {
  whenProfiled([&](Value now) { b.store(now, lastTime); });
}

void StepLowering::finishKernel() {
  Value wait = field(offsetof(heddle_step, barrier_wait), b.pointerType());
  Value barrier = field(offsetof(heddle_step, barrier), b.pointerType());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {b.pointerType(), b.getI32Type()});
  LLVM::CallOp::create(b, type, ValueRange{wait, barrier, thread});
  whenProfiled([&](Value now) {
    Value counter = b.at(ticks, launched * sizeof(uint64_t));
    Value time = b.sub(now, b.load(b.getI64Type(), lastTime));
    b.store(b.add(b.load(b.getI64Type(), counter), time), counter);
    b.store(now, lastTime);
  });
}

void StepLowering::callKernel(Operation *op, func::FuncOp kernel, SmallVector<Value> arguments) {
  // A device's kernel also takes what it is enqueued on: the step, or where Halide's own entry is called, its device.
  if (target.isDevice() && isa<KernelCallOp>(op))
    arguments.insert(arguments.begin(), field(offsetof(heddle_step, device), b.pointerType()));
  else if (target.isDevice())
    arguments.push_back(context);
  func::CallOp::create(b, kernel, arguments);
  launched = kernels.recordInStep(kernel, op, calls);
}

LogicalResult StepLowering::launch(Operation *op, const CallOperands &call, const LaunchedWork &) {
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
      part.at(ParameterKind::Thread) = thread;
      part.at(ParameterKind::NumThreads) = numThreads;
      callKernel(op, kernel, part.complete(b, b.getLoc()));
    }
    finishKernel();
  }
  return success();
}

LogicalResult StepLowering::lowerAppend(KvAppendOp op) {
  KvAppendCall call;
  call.key = pointer(op.getKey());
  call.value = pointer(op.getValue());
  call.keyStride = rowStride(op.getKey());
  call.valueStride = op.getValue() ? rowStride(op.getValue()) : call.keyStride;
  call.rowSequence = field(offsetof(heddle_step, row_sequence), b.pointerType());
  call.cachePositions = field(offsetof(heddle_step, cache_positions), b.pointerType());
  call.sequences = sequences();
  std::tie(call.kOffset, call.vOffset) = planes(op.getCache().getType(), op.getLayer());
  call.rowEnd = stepRows;
  return launch(op, CallOperands::of(call));
}

LogicalResult StepLowering::lowerCall(func::CallOp op) {
  SmallVector<Value> arguments = {context, thread, numThreads};
  for (Value operand : op.getOperands())
    if (!isa<KvCacheType>(operand.getType()))
      arguments.push_back(isa<MemRefType>(operand.getType()) ? pointerOf(operand) : scalars.lookup(operand));
  func::CallOp::create(b, "heddle_" + op.getCallee().str(), TypeRange(), arguments);
  startClock(); // the callee counted its own kernels
  return success();
}

// Ops that say where a buffer lies.
LogicalResult StepLowering::lowerView(Operation *op) {
  if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
    if (auto fixed = op->getAttrOfType<IntegerAttr>(offsetAttr)) {
      pointers[alloc] = b.at(fixedArena, fixed.getInt());
      return success();
    }
    auto offset = op->getAttrOfType<IntegerAttr>(rowOffsetAttr);
    if (!offset)
      return op->emitError("buffer has no place in the arena");
    pointers[alloc] = b.at(arena, b.mul(maxRows, offset.getInt()));
    rowCounts[alloc] = scalars.lookup(alloc.getDynamicSizes()[0]);
    return success();
  }
  if (auto view = dyn_cast<memref::SubViewOp>(op)) {
    auto type = view.getType();
    ArrayRef<int64_t> offsets = view.getStaticOffsets();
    if (offsets.size() != 2 || offsets[0] != 0 || ShapedType::isDynamic(offsets[1]))
      return op->emitError("view must be a window of columns");
    pointers[view] = b.at(pointerOf(view.getSource()), offsets[1] * type.getElementType().getIntOrFloatBitWidth() / 8);
    rowCounts[view] = rowCounts.lookup(view.getSource());
    return success();
  }
  if (auto cast = dyn_cast<memref::CastOp>(op)) {
    pointers[cast] = pointerOf(cast.getSource());
    rowCounts[cast] = rowCounts.lookup(cast.getSource());
    return success();
  }
  auto toBuffer = cast<bufferization::ToBufferOp>(op);
  if (auto weight = toBuffer.getTensor().getDefiningOp<WeightOp>()) {
    Value base = field(offsetof(heddle_step, weights), b.pointerType());
    pointers[toBuffer] = b.at(base, weight.getPacking().getOffset());
    return success();
  }
  if (auto table = toBuffer.getTensor().getDefiningOp<RopeTableOp>()) {
    Value tables = field(offsetof(heddle_step, rope_tables), b.pointerType());
    pointers[toBuffer] = b.load(b.pointerType(), b.at(tables, table.getTable() * sizeof(void *)));
    return success();
  }
  return op->emitError("buffer of a tensor that is neither a weight nor a table");
}

LogicalResult StepLowering::lowerOp(Operation *op) {
  if (canLower(op))
    return lower(op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](RouteExpertsOp op) { return lowerRoute(op); })
      .Case([&](ExpertMatmulOp op) { return lowerExperts(op); })
      .Case([&](OnlineAttentionOp op) { return lowerAttention(op); })
      .Case([&](RaggedAttentionOp op) { return lowerRaggedAttention(op); })
      .Case([&](CombineSplitsOp op) { return lowerCombine(op); })
      .Case([&](PreferSplitsOp op) { return lowerPreference(op); })
      .Case([&](scf::IfOp op) { return lowerBranch(op); })
      .Case([&](scf::YieldOp) { return success(); })
      .Case([&](OnlineLatentAttentionOp op) { return lowerLatentAttention(op); })
      .Case([&](KvAppendOp op) { return lowerAppend(op); })
      .Case([&](KernelCallOp op) { return lowerRowWise(op); })
      .Case([&](func::CallOp op) { return lowerCall(op); })
      .Case<memref::AllocOp, memref::SubViewOp, memref::CastOp, bufferization::ToBufferOp>(
          [&](Operation *op) { return lowerView(op); })
      .Case([&](memref::DimOp op) {
        scalars[op] = rowCounts.lookup(op.getSource());
        return success();
      })
      .Case([&](arith::ConstantIndexOp op) {
        scalars[op] = b.constant(op.value());
        return success();
      })
      .Case<WeightOp, RopeTableOp>([](Operation *) { return success(); })
      .Case([&](func::ReturnOp) {
        func::ReturnOp::create(b);
        return success();
      })
      .Default([](Operation *op) { return op->emitError("host code has no form for this op"); });
}

LogicalResult StepLowering::run(bool isStep) {
  begin(isStep);
  for (Operation &op : func.front())
    if (failed(lowerOp(&op)))
      return failure();
  return success();
}

LogicalResult heddle::buildStepCode(ModuleOp source, KernelLibrary &kernels, const Target &target) {
  llvm::StringMap<unsigned> calls;
  source.walk([&](func::CallOp call) { ++calls[call.getCallee()]; });
  for (auto func : source.getOps<func::FuncOp>()) {
    if (func->hasAttr("heddle.kernel"))
      continue;
    bool isStep = func == raggedEntry(source);
    if (failed(StepLowering(func, kernels, target, isStep ? 1 : calls[func.getSymName()]).run(isStep)))
      return failure();
  }
  return success();
}
