// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/HostCode.h"

#include "compiler/codegen/cpu/PackedLayout.h"
#include "compiler/codegen/cpu/RawBuilder.h"
#include "compiler/codegen/halide/BufferBuilder.h"
#include "compiler/schedule/Passes.h"
#include "runtime/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

namespace {

// How far apart the rows of a buffer lie, in elements.
int64_t rowStride(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  LogicalResult known = type.getStridesAndOffset(strides, offset);
  assert(succeeded(known) && "buffers of the step have static strides");
  (void)known;
  return strides.front();
}

// Lowers one function.
class HostFunction {
public:
  HostFunction(func::FuncOp func, ModuleOp code, KernelLibrary &kernels, const Target &target, unsigned calls)
      : func(func), code(code), kernels(kernels), target(target), calls(calls), b(func.getLoc(), code.getContext()) {}
  LogicalResult run(bool isStep);

private:
  void begin(bool isStep);
  void mapStepArguments();
  Value field(size_t offset, Type type) { return b.load(type, b.at(context, offset)); }
  LogicalResult lower(Operation *op);
  LogicalResult lowerView(Operation *op);
  LogicalResult lowerMatmul(PackedMatmulOp op);
  LogicalResult lowerRoute(RouteExpertsOp op);
  LogicalResult lowerExperts(ExpertMatmulOp op);
  void clearColumns(Value buffer, Value begin, Value end);
  LogicalResult lowerAttention(OnlineAttentionOp op);
  LogicalResult lowerLatentAttention(OnlineLatentAttentionOp op);
  LogicalResult lowerAppend(KvAppendOp op);
  LogicalResult lowerEmbedding(DequantizeOp op);
  LogicalResult lowerRowWise(KernelCallOp op);
  LogicalResult lowerCall(func::CallOp op);
  void launch(Operation *op, func::FuncOp kernel, SmallVector<Value> arguments);
  // Ends the kernel launched last: waits for all threads, then counts its time.
  void finishKernel();
  // Under --profile, thread 0 reads the clock; `then` gets the time.
  void whenProfiled(function_ref<void(Value)> then);
  void startClock();
  // This thread's [begin, end) of `count` equal parts.
  std::pair<Value, Value> share(Value count);
  Value halideBuffer(MemRefType type, Value pointer, Value rows);
  // Byte offsets of a layer's K and V in a page.
  std::pair<Value, Value> planes(KvCacheType cache, Value layer);
  Value pointerOf(Value buffer) { return pointers.lookup(buffer); }
  Value null();

  func::FuncOp func;
  ModuleOp code;
  KernelLibrary &kernels;
  const Target &target;
  unsigned calls;  // of this function in a step
  RawBuilder b;
  Value context, thread, numThreads, arena, rows, maxRows;
  Value ticks, isProfiled;  // kernel_ticks; thread 0 of a step that has them
  Value lastTime;           // in memory: when the kernel before ended
  unsigned launched = 0;    // index of the kernel launched last
  DenseMap<Value, Value> pointers;  // buffer -> its first element
  DenseMap<Value, Value> rowCounts; // buffer -> rows, i64
  DenseMap<Value, Value> scalars;   // index -> i64
};

} // namespace

static std::string loweredName(func::FuncOp func) {
  return func.getSymName() == "step" ? "heddle_step" : ("heddle_" + func.getSymName()).str();
}

Value HostFunction::null() { return LLVM::ZeroOp::create(b, b.pointerType()); }

void HostFunction::begin(bool isStep) {
  SmallVector<Type> parameters = {b.pointerType(), b.getI32Type(), b.getI32Type()};
  if (!isStep)
    for (Type type : func.getArgumentTypes())
      if (!isa<KvCacheType>(type))
        parameters.push_back(isa<MemRefType>(type) ? b.pointerType() : b.getI64Type());
  func::FuncOp lowered = beginFunction(b, code, loweredName(func), parameters);
  if (!isStep)
    lowered.setPrivate();
  Block &entry = lowered.front();
  context = entry.getArgument(0);
  thread = entry.getArgument(1);
  numThreads = entry.getArgument(2);
  arena = field(offsetof(heddle_step, arena), b.pointerType());
  rows = field(offsetof(heddle_step, rows), b.getI64Type());
  maxRows = field(offsetof(heddle_step, max_rows), b.getI64Type());
  ticks = field(offsetof(heddle_step, kernel_ticks), b.pointerType());
  Value isCounted = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, ticks, null());
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
      rowCounts[argument] = rows;
    } else {
      scalars[argument] = value;
    }
  }
}

// @step(ids, positions, output_rows, cache, logits, last_hidden_state)
void HostFunction::mapStepArguments() {
  Value numOutputs = field(offsetof(heddle_step, num_outputs), b.getI64Type());
  const std::pair<size_t, Value> sources[] = {{offsetof(heddle_step, ids), rows},
                                              {offsetof(heddle_step, positions), rows},
                                              {offsetof(heddle_step, output_rows), numOutputs},
                                              {0, Value()},
                                              {offsetof(heddle_step, logits), numOutputs},
                                              {offsetof(heddle_step, last_hidden_state), rows}};
  for (auto [argument, source] : llvm::zip(func.getArguments(), sources)) {
    if (isa<KvCacheType>(argument.getType()))
      continue;
    pointers[argument] = field(source.first, b.pointerType());
    rowCounts[argument] = source.second;
  }
}

std::pair<Value, Value> HostFunction::share(Value count) {
  Value index = arith::ExtSIOp::create(b, b.getI64Type(), thread);
  Value threads = arith::ExtSIOp::create(b, b.getI64Type(), numThreads);
  Value part = arith::CeilDivSIOp::create(b, count, threads);
  Value begin = b.min(b.mul(index, part), count);
  return {begin, b.min(b.add(begin, part), count)};
}

// The counter that user code may read: an x86 time stamp, AArch64's virtual timer (its cycle counter traps).
void HostFunction::whenProfiled(function_ref<void(Value)> then) {
  b.ifThen(isProfiled, [&] {
    StringRef clock = target.cpu.isX86() ? "llvm.readcyclecounter" : "llvm.readsteadycounter";
    then(LLVM::CallIntrinsicOp::create(b, b.getI64Type(), b.getStringAttr(clock), ValueRange()).getResult(0));
  });
}

void HostFunction::startClock() {
  whenProfiled([&](Value now) { b.store(now, lastTime); });
}

void HostFunction::finishKernel() {
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

void HostFunction::launch(Operation *op, func::FuncOp kernel, SmallVector<Value> arguments) {
  // A device's kernel also takes what it is enqueued on: the step, or where Halide's own entry is called, its device.
  if (target.isDevice() && isa<KernelCallOp>(op))
    arguments.insert(arguments.begin(), field(offsetof(heddle_step, device), b.pointerType()));
  else if (target.isDevice())
    arguments.push_back(context);
  func::CallOp::create(b, kernel, arguments);
  launched = kernels.record(kernel, op, calls);
}

LogicalResult HostFunction::lowerMatmul(PackedMatmulOp op) {
  FailureOr<func::FuncOp> kernel = kernels.matmul(op);
  if (failed(kernel))
    return failure();
  auto input = cast<MemRefType>(op.getInput().getType()), output = cast<MemRefType>(op.getInits()[0].getType());
  auto optional = [&](Value buffer) { return buffer ? pointerOf(buffer) : null(); };
  int64_t panels = (int64_t(op.getN()) + PackedLayout::panelRows - 1) / PackedLayout::panelRows;
  auto [begin, end] = share(b.constant(panels));
  Value first = begin, last = end;
  b.ifThen(b.lessThan(first, last), [&] {
    launch(op, *kernel,
           {pointerOf(op.getInput()), optional(op.getInputScales()), optional(op.getInputSums()), pointerOf(op.getWeights()),
            optional(op.getBias()), pointerOf(op.getInits()[0]), rowCounts.lookup(op.getInput()), b.constant(rowStride(input)),
            b.constant(rowStride(output)), first, last});
  });
  finishKernel();
  return success();
}

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
  b.ifThen(isFirstThread, [&] {
    launch(op, *group, {inits[0], inits[1], inits[2], inits[3], inits[4], count});
  });
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
      clearColumns(output, b.mul(first, PackedLayout::panelRows), b.min(b.mul(last, PackedLayout::panelRows), b.constant(n)));
    b.loop(0, op.getNumExperts(), 1, [&](Value expert) {
      Value bounds = b.at(pointerOf(op.getOffsets()), expert, 4);
      Value from = b.loadIndex(bounds), to = b.loadIndex(b.at(bounds, 4));
      b.ifThen(b.lessThan(from, to), [&] {
        launch(op, *kernel,
               {entryOf(op.getInput(), !gathers, from, inputBytes * k), entryOf(op.getInputScales(), !gathers, from, k / 32 * 4),
                entryOf(op.getInputSums(), !gathers, from, k / 16 * 4), b.at(pointerOf(op.getWeights()), expert, expertBytes), null(),
                entryOf(output, gathers, from, 4 * n), b.sub(to, from), b.constant(actStride), b.constant(outStride), first, last,
                entryOf(op.getRowIndex(), true, from, 4), entryOf(op.getRowScale(), true, from, 4)});
      });
    });
  });
  finishKernel();
  return success();
}

std::pair<Value, Value> HostFunction::planes(KvCacheType cache, Value layer) {
  Value key = b.mul(scalars.lookup(layer), cache.getLayerBytes());
  return {key, b.add(key, cache.getPlaneBytes())};
}

LogicalResult HostFunction::lowerAttention(OnlineAttentionOp op) {
  FailureOr<func::FuncOp> kernel = kernels.attention(op);
  if (failed(kernel))
    return failure();
  auto query = cast<MemRefType>(op.getQuery().getType()), output = cast<MemRefType>(op.getInits()[0].getType());
  auto [key, value] = planes(op.getCache().getType(), op.getLayer());
  launch(op, *kernel,
         {pointerOf(op.getQuery()), pointerOf(op.getInits()[0]), field(offsetof(heddle_step, sequences), b.pointerType()),
          field(offsetof(heddle_step, num_sequences), b.getI64Type()), key, value, b.constant(rowStride(query)),
          b.constant(rowStride(output)), op.getSinks() ? pointerOf(op.getSinks()) : null(), thread, numThreads});
  finishKernel();
  return success();
}

LogicalResult HostFunction::lowerLatentAttention(OnlineLatentAttentionOp op) {
  FailureOr<KernelLibrary::LatentKernels> kernel = kernels.latentAttention(op);
  if (failed(kernel))
    return failure();
  auto first = [&](OperandRange ups) { return ups.empty() ? null() : pointerOf(ups.front()); };
  auto query = cast<MemRefType>(op.getQuery().getType()), output = cast<MemRefType>(op.getInits()[0].getType());
  SmallVector<Value> arguments = {pointerOf(op.getQuery()), pointerOf(op.getInits()[0]), pointerOf(op.getInits()[1]),
                                  first(op.getKeyUps()), op.getKeyFolds() ? pointerOf(op.getKeyFolds()) : null(),
                                  first(op.getValueUps()), field(offsetof(heddle_step, sequences), b.pointerType()),
                                  field(offsetof(heddle_step, num_sequences), b.getI64Type()),
                                  planes(op.getCache().getType(), op.getLayer()).first, b.constant(rowStride(query)),
                                  b.constant(rowStride(output)), field(offsetof(heddle_step, fixed_forms), b.getI64Type()), thread, numThreads};
  for (func::FuncOp body : {kernel->fold, kernel->attend, kernel->project, kernel->rebuild})
    if (body) {
      launch(op, body, arguments);
      finishKernel();
    }
  return success();
}

LogicalResult HostFunction::lowerAppend(KvAppendOp op) {
  FailureOr<func::FuncOp> kernel = kernels.kvAppend(op);
  if (failed(kernel))
    return failure();
  auto keyType = cast<MemRefType>(op.getKey().getType());
  auto valueType = op.getValue() ? cast<MemRefType>(op.getValue().getType()) : keyType;
  auto [key, value] = planes(op.getCache().getType(), op.getLayer());
  auto [begin, end] = share(rows);
  launch(op, *kernel,
         {pointerOf(op.getKey()), op.getValue() ? pointerOf(op.getValue()) : null(), b.constant(rowStride(keyType)), b.constant(rowStride(valueType)),
          field(offsetof(heddle_step, row_sequence), b.pointerType()), field(offsetof(heddle_step, cache_positions), b.pointerType()),
          field(offsetof(heddle_step, sequences), b.pointerType()), key, value, begin, end});
  finishKernel();
  return success();
}

LogicalResult HostFunction::lowerEmbedding(DequantizeOp op) {
  FailureOr<func::FuncOp> kernel = kernels.embedding(op);
  if (failed(kernel))
    return failure();
  auto output = cast<MemRefType>(op.getInits()[0].getType());
  auto [begin, end] = share(rowCounts.lookup(op.getInits()[0]));
  launch(op, *kernel,
         {pointerOf(op.getIds()), pointerOf(op.getWeights()), pointerOf(op.getInits()[0]), begin, end, b.constant(rowStride(output))});
  finishKernel();
  return success();
}

// `rows` null: the buffer has no rows, or is read as a whole.
Value HostFunction::halideBuffer(MemRefType type, Value pointer, Value rows) {
  SmallVector<BufferDim> dims;
  int64_t stride = 1;
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) { // innermost first
    bool isRows = type.isDynamicDim(axis);
    if (axis == 0)
      stride = type.getRank() > 1 ? rowStride(type) : 1;
    dims.push_back({isRows && rows ? rows : b.constant(isRows ? INT32_MAX : type.getDimSize(axis)), b.constant(stride)});
    stride *= isRows ? 1 : type.getDimSize(axis);
  }
  return buildBuffer(b, target.isDevice(), bufferElement(type.getElementType()), pointer, dims);
}

LogicalResult HostFunction::lowerRowWise(KernelCallOp op) {
  FailureOr<func::FuncOp> kernel = kernels.rowWise(op);
  if (failed(kernel))
    return failure();
  auto callee = func->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(op.getCallee());
  auto [begin, end] = share(rowCounts.lookup(op.getInits()[0]));
  Value first = begin, last = end;
  b.ifThen(b.lessThan(first, last), [&] {
    SmallVector<Value> buffers;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      auto type = cast<MemRefType>(operand.getType());
      bool isWhole = index < callee.getNumArguments() && callee.getArgAttr(index, "heddle.whole");
      if (isWhole || type.hasStaticShape()) {
        buffers.push_back(halideBuffer(type, pointerOf(operand), Value()));
        continue;
      }
      int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8 * (type.getRank() > 1 ? rowStride(type) : 1);
      buffers.push_back(halideBuffer(type, b.at(pointerOf(operand), first, bytes), b.sub(last, first)));
    }
    launch(op, *kernel, buffers);
  });
  finishKernel();
  return success();
}

LogicalResult HostFunction::lowerCall(func::CallOp op) {
  SmallVector<Value> arguments = {context, thread, numThreads};
  for (Value operand : op.getOperands())
    if (!isa<KvCacheType>(operand.getType()))
      arguments.push_back(isa<MemRefType>(operand.getType()) ? pointerOf(operand) : scalars.lookup(operand));
  func::CallOp::create(b, "heddle_" + op.getCallee().str(), TypeRange(), arguments);
  startClock(); // the callee counted its own kernels
  return success();
}

// Ops that say where a buffer lies.
LogicalResult HostFunction::lowerView(Operation *op) {
  if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
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
    pointers[toBuffer] = b.at(base, weight.getStorage().getOffset());
    return success();
  }
  if (auto table = toBuffer.getTensor().getDefiningOp<RopeTableOp>()) {
    Value tables = field(offsetof(heddle_step, rope_tables), b.pointerType());
    pointers[toBuffer] = b.load(b.pointerType(), b.at(tables, table.getTable() * sizeof(void *)));
    return success();
  }
  return op->emitError("buffer of a tensor that is neither a weight nor a table");
}

LogicalResult HostFunction::lower(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](PackedMatmulOp op) { return lowerMatmul(op); })
      .Case([&](RouteExpertsOp op) { return lowerRoute(op); })
      .Case([&](ExpertMatmulOp op) { return lowerExperts(op); })
      .Case([&](OnlineAttentionOp op) { return lowerAttention(op); })
      .Case([&](OnlineLatentAttentionOp op) { return lowerLatentAttention(op); })
      .Case([&](KvAppendOp op) { return lowerAppend(op); })
      .Case([&](DequantizeOp op) { return lowerEmbedding(op); })
      .Case([&](KernelCallOp op) { return lowerRowWise(op); })
      .Case([&](func::CallOp op) { return lowerCall(op); })
      .Case<memref::AllocOp, memref::SubViewOp, memref::CastOp, bufferization::ToBufferOp>([&](Operation *op) { return lowerView(op); })
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

LogicalResult HostFunction::run(bool isStep) {
  begin(isStep);
  for (Operation &op : func.front())
    if (failed(lower(&op)))
      return failure();
  return success();
}

LogicalResult heddle::buildHostCode(ModuleOp source, ModuleOp code, KernelLibrary &kernels, const Target &target) {
  llvm::StringMap<unsigned> calls;
  source.walk([&](func::CallOp call) { ++calls[call.getCallee()]; });
  for (auto func : source.getOps<func::FuncOp>()) {
    if (func->hasAttr("heddle.kernel"))
      continue;
    bool isStep = func.getSymName() == "step";
    if (failed(HostFunction(func, code, kernels, target, isStep ? 1 : calls[func.getSymName()]).run(isStep)))
      return failure();
  }
  return success();
}
