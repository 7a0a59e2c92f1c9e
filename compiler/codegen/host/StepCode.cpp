// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is a step's and an encode's own on the way to the `llvm` dialect (HostCode.h): fields of heddle_step, and the arena that plan-memory
// divided.

#include "compiler/codegen/host/StepCode.h"

#include "compiler/codegen/host/HostCode.h"
#include "compiler/codegen/host/StepLauncher.h"
#include "compiler/schedule/Passes.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

namespace {

// Where the entry finds an argument, and what its rows are.
struct ArgumentSource {
  size_t field;
  enum { Tokens, Outputs, Sequences, Unknown /* nobody asks for them */ } rows = Tokens;
};

class StepLowering : public HostLowering {
public:
  StepLowering(ModuleOp source, KernelLibrary &kernels, const Target &target)
      : HostLowering(source, kernels, target), rowBytes(source->getAttrOfType<IntegerAttr>(rowBytesAttr).getInt()) {}

private:
  LogicalResult bind() override;
  LogicalResult bindFunction(func::FuncOp func);
  void bindEntryArguments(RawBuilder &b, func::FuncOp entry);
  void bindOutputs(RawBuilder &b, func::FuncOp entry, MutableArrayRef<BlockArgument> destinations,
                   ArrayRef<Value> counts);
  void bindTables(RawBuilder &b, func::FuncOp func);
  LogicalResult bindArena(RawBuilder &b, func::FuncOp func);
  void bindCall(func::CallOp call);
  std::unique_ptr<KernelLauncher> launcherOf(func::FuncOp func) override;
  LogicalResult shareLoops() override;

  const int64_t rowBytes;          // of the arena, for each row that a step may have
  llvm::StringMap<unsigned> calls; // of a function in a step
};

} // namespace

// In their order, caches left out: what a step reads, which is integers, the last of a model with adapters, then what embeddings are given where
// they are, and what it writes, floats.
static constexpr ArgumentSource stepInputs[] = {{offsetof(heddle_step, ids)},
                                                {offsetof(heddle_step, positions)},
                                                {offsetof(heddle_step, output_rows), ArgumentSource::Outputs},
                                                {offsetof(heddle_step, token_types)}};
static constexpr ArgumentSource stepResults[] = {{offsetof(heddle_step, logits), ArgumentSource::Outputs},
                                                 {offsetof(heddle_step, last_hidden_state)}};
static constexpr ArgumentSource encodeArguments[] = {{offsetof(heddle_step, ids)},
                                                     {offsetof(heddle_step, positions)},
                                                     {offsetof(heddle_step, output_rows), ArgumentSource::Outputs},
                                                     {offsetof(heddle_step, sequence_rows), ArgumentSource::Sequences},
                                                     {offsetof(heddle_step, token_types)}};
// Behind them an encode has one of these two, or neither: numbers of tokens that have no ids, or which tokens are global.
static constexpr ArgumentSource patchesArgument = {offsetof(heddle_step, patches)};
static constexpr ArgumentSource givenArgument = {offsetof(heddle_step, patches), ArgumentSource::Unknown};
static constexpr ArgumentSource globalsArgument = {offsetof(heddle_step, globals)};

// The name of a function in machine code: "heddle_step" and "heddle_encode" are entries.
static std::string loweredName(func::FuncOp func) {
  return ("heddle_" + func.getSymName()).str();
}

static Value field(RawBuilder &b, func::FuncOp func, size_t offset, Type type) {
  return b.load(type, b.at(StepFrame(func).context, int64_t(offset)));
}

// An entry that needs none of the last ones does not have them.
void StepLowering::bindEntryArguments(RawBuilder &b, func::FuncOp entry) {
  auto number = [&](size_t offset) { return field(b, entry, offset, b.getI64Type()); };
  Value counts[] = {number(offsetof(heddle_step, rows)), number(offsetof(heddle_step, num_outputs)),
                    number(offsetof(heddle_step, num_sequences)), b.constant(INT64_MAX)};
  bool isEncode = entry.getSymName() == "encode";
  SmallVector<BlockArgument> buffers;
  llvm::copy_if(entry.getArguments().drop_front(StepFrame::numArguments), std::back_inserter(buffers),
                [](Value argument) { return isa<MemRefType>(argument.getType()); });
  auto bind = [&](ArrayRef<BlockArgument> arguments, ArrayRef<ArgumentSource> sources) {
    for (auto [argument, source] : llvm::zip(arguments, sources)) {
      Value address = field(b, entry, source.field, b.pointerType());
      Value(argument).replaceAllUsesWith(
          bufferAt(b, address, cast<MemRefType>(argument.getType()), counts[source.rows]));
    }
  };
  auto isInteger = [](BlockArgument argument) { return getElementTypeOrSelf(argument.getType()).isInteger(); };
  if (!isEncode) {
    size_t numRead = llvm::count_if(buffers, isInteger);
    bind(ArrayRef(buffers).take_front(numRead), stepInputs);
    ArrayRef<BlockArgument> numbers = ArrayRef(buffers).drop_front(numRead);
    bind(numbers.drop_back(std::size(stepResults)), givenArgument);
    bind(numbers.take_back(std::size(stepResults)), stepResults);
    return;
  }
  ArrayRef<BlockArgument> inputs = ArrayRef(buffers).drop_back(outputsOf(entry).size());
  SmallVector<ArgumentSource> sources{ArrayRef(encodeArguments)};
  if (inputs.size() > sources.size())
    sources.push_back(isInteger(inputs.back()) ? globalsArgument : patchesArgument);
  bind(inputs, sources);
  bindOutputs(b, entry, MutableArrayRef(buffers).drop_front(inputs.size()), counts);
}

// Destinations stand behind what an encode reads, in the order of its outputs.
void StepLowering::bindOutputs(RawBuilder &b, func::FuncOp entry, MutableArrayRef<BlockArgument> destinations,
                               ArrayRef<Value> counts) {
  SmallVector<EncodeOutput> said = outputsOf(entry);
  Value outputs = field(b, entry, offsetof(heddle_step, outputs), b.pointerType());
  for (auto [i, destination] : llvm::enumerate(destinations)) {
    Value address = b.load(b.pointerType(), b.at(outputs, int64_t(i * sizeof(void *))));
    destination.replaceAllUsesWith(
        bufferAt(b, address, cast<MemRefType>(destination.getType()),
                 counts[said[i].ofSequences ? ArgumentSource::Outputs : ArgumentSource::Tokens]));
  }
}

// Tables of angles are read as a whole: nobody asks for their rows.
void StepLowering::bindTables(RawBuilder &b, func::FuncOp func) {
  Value tables = field(b, func, offsetof(heddle_step, rope_tables), b.pointerType());
  func.walk([&](bufferization::ToBufferOp op) {
    auto table = op.getTensor().getDefiningOp<RopeTableOp>();
    if (!table)
      return;
    Value address = b.load(b.pointerType(), b.at(tables, table.getTable() * int64_t(sizeof(void *))));
    op.replaceAllUsesWith(bufferAt(b, address, cast<MemRefType>(op.getType()), b.constant(INT64_MAX)));
    op.erase();
  });
  func.walk([](RopeTableOp op) { op.erase(); });
}

// The arena is (max_rows) rows of what the step's rows need, then what does not depend on them.
LogicalResult StepLowering::bindArena(RawBuilder &b, func::FuncOp func) {
  Value arena = field(b, func, offsetof(heddle_step, arena), b.pointerType());
  Value maxRows = field(b, func, offsetof(heddle_step, max_rows), b.getI64Type());
  Value fixed = b.at(arena, b.mul(maxRows, rowBytes));
  Value isOneRow = kindOfStep(b, StepFrame(func).context).second;
  WalkResult walk = func.walk([&](memref::AllocOp op) {
    RawBuilder atOp(op.getLoc(), op);
    Value address;
    if (auto offset = op->getAttrOfType<IntegerAttr>(offsetAttr))
      address = atOp.at(fixed, offset.getInt());
    else if (auto offset = op->getAttrOfType<IntegerAttr>(rowOffsetAttr))
      address = atOp.at(arena, atOp.mul(maxRows, offset.getInt()));
    else
      return WalkResult(op->emitError("buffer has no place in the arena"));
    if (op->hasAttr(privateAttr)) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&func.front());
      address = atOp.select(isOneRow, b.stackScratch(bytesOfRow(op.getType())), address);
    }
    SmallVector<Value> sizes;
    for (Value size : op.getDynamicSizes())
      sizes.push_back(toInteger(atOp, size));
    op.replaceAllUsesWith(bufferAt(atOp, address, op.getType(), sizes));
    op.erase();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

// Caches are the step's: nobody passes them on.
void StepLowering::bindCall(func::CallOp call) {
  RawBuilder b(call.getLoc(), call);
  StepFrame frame(call->getParentOfType<func::FuncOp>());
  SmallVector<Value> operands = {frame.context, frame.thread, frame.numThreads};
  for (Value operand : call.getOperands())
    if (!isa<KvCacheType>(operand.getType()))
      operands.push_back(operand);
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  auto bound = func::CallOp::create(b, loweredName(callee), TypeRange(), operands);
  ++calls[bound.getCallee()];
  sources[bound] = sources.lookup(call);
  call.erase();
}

LogicalResult StepLowering::bindFunction(func::FuncOp func) {
  bool isEntry = func.isPublic();
  RawBuilder b(func.getLoc(), func.getContext());
  b.setInsertionPointToStart(&func.front());
  const Type frame[] = {b.pointerType(), b.getI32Type(), b.getI32Type()};
  static_assert(std::size(frame) == StepFrame::numArguments);
  for (auto [index, type] : llvm::enumerate(frame))
    (void)func.insertArgument(index, type, {}, func.getLoc());
  if (isEntry)
    bindEntryArguments(b, func);
  llvm::BitVector bound(func.getNumArguments());
  for (BlockArgument argument : func.getArguments().drop_front(StepFrame::numArguments)) {
    // Ops read nothing but its type.
    if (isa<KvCacheType>(argument.getType()))
      argument.replaceAllUsesWith(UnrealizedConversionCastOp::create(b, argument.getType(), ValueRange()).getResult(0));
    if (isEntry || isa<KvCacheType>(argument.getType()))
      bound.set(argument.getArgNumber());
  }
  (void)func.eraseArguments(bound);
  bindWeights(func, field(b, func, offsetof(heddle_step, weights), b.pointerType()));
  bindTables(b, func);
  // What it returns are buffers that it was called with.
  func.front().getTerminator()->setOperands({});
  func.setType(b.getFunctionType(func.getArgumentTypes(), {}));
  return bindArena(b, func);
}

LogicalResult StepLowering::bind() {
  for (func::FuncOp graph : graphEntries(*code))
    graph.erase();
  SmallVector<func::FuncOp> functions;
  for (auto func : code->getOps<func::FuncOp>())
    if (!func->hasAttr("heddle.kernel"))
      functions.push_back(func);
  if (func::FuncOp entry = raggedEntry(*code); entry.getSymName() == "encode") {
    int64_t inputs = int64_t(entry.getNumArguments()) - int64_t(outputsOf(entry).size());
    if (int64_t most = std::size(encodeArguments); inputs < most || inputs > most + 1)
      return entry.emitError("has ") << inputs << " arguments that heddle.outputs does not name, expected " << most
                                     << ", or " << most + 1 << " where it takes images or has global tokens";
  }
  for (func::FuncOp func : functions)
    if (failed(bindFunction(func)))
      return failure();
  SmallVector<func::CallOp> layers;
  code->walk([&](func::CallOp call) { layers.push_back(call); });
  for (func::CallOp call : layers)
    bindCall(call);
  for (func::FuncOp func : functions) {
    if (func.isPublic())
      calls[loweredName(func)] = 1;
    func.setName(loweredName(func));
  }
  return success();
}

std::unique_ptr<KernelLauncher> StepLowering::launcherOf(func::FuncOp func) {
  return std::make_unique<StepLauncher>(func, kernels, target, calls.lookup(func.getSymName()), sources);
}

// Every thread would run them.
LogicalResult StepLowering::shareLoops() {
  WalkResult walk = code->walk([](linalg::LinalgOp op) {
    op->emitError("host code has no form for this op");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

FailureOr<OwningOpRef<ModuleOp>> heddle::buildStepCode(ModuleOp source, KernelLibrary &kernels, const Target &target) {
  for (func::FuncOp entry : raggedEntries(source))
    kernels.addEntry(loweredName(entry));
  return StepLowering(source, kernels, target).run();
}
