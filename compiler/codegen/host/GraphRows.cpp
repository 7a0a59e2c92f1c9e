// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop is written in vectors here, rather than left to LLVM's vectoriser, for three reasons: buffers that LLVM cannot tell apart keep
// it from vectorising, functions of `math` become calls there, and a sum of floats must have one order of its terms on every run.
//
// The innermost loop takes `lanes` steps at a time; what is left is one vector under a mask. An operand that stays is read before the
// loop, one that moves on by one element is a vector in memory, any other is gathered.

#include "compiler/codegen/host/GraphRows.h"

#include "compiler/codegen/host/LoopForms.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

// Vectors that a reduction sums side by side: enough to hide the latency of an addition.
static constexpr int64_t partialSums = 4;

// Sums that stay in registers side by side, and so many terms at most in all of them.
static constexpr int64_t mostSums = 4, mostTermsWritten = 128;

namespace {

class LoopEmitter {
public:
  LoopEmitter(OpBuilder &b, linalg::GenericOp op, ArrayRef<LoopBounds> bounds, int64_t lanes)
      : b(op.getLoc(), b), op(op), bounds(bounds), lanes(lanes), kind(innermostLoopOf(op)), termLoop(termsFrom(op)) {}
  void run(ValueRange outer);

private:
  using Values = SmallVector<Value>;
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  VectorType vectorOf(Type element) { return VectorType::get({lanes}, element); }
  Value splat(Value scalar) { return vector::BroadcastOp::create(b, vectorOf(scalar.getType()), scalar); }
  Value constantVector(TypedAttr element) {
    auto type = vectorOf(element.getType());
    return arith::ConstantOp::create(b, type, DenseElementsAttr::get(type, Attribute(element)));
  }
  OpOperand *output(unsigned i) { return op.getDpsInitOperand(i); }

  Values indicesOf(OpOperand &operand, Value innermost);
  Value asBytes(Value buffer);
  Value load(OpOperand &operand);
  void store(Value value, OpOperand &operand);
  Value loadVector(OpOperand &operand, Value at, Value mask);
  void storeVector(Value value, OpOperand &operand, Value at, Value mask);
  Value gather(OpOperand &operand, Value at);
  Value firstLanes(Value count);
  void mapOperands(IRMapping &map, Value at, Value mask);
  void cloneBody(IRMapping &map, Value at, Value mask, bool inVectors);
  Operation *cloneInVectors(Operation &inner, IRMapping &map, Value at, Value mask);
  Value lookup(IRMapping &map, Value value, bool inVectors);

  void emitInnermost();
  void emitElement();
  void emitWrittenOut();
  void emitScalar(Value begin, Value end);
  void emitVectors(function_ref<void(Value at, Value mask)> emit);
  void emitParallel();
  void emitSums(Value at, Value mask);
  void emitSumsOf(ArrayRef<Value> places, Value at, Value mask);
  void emitReduction();
  void emitStep(Value at, Value mask);
  Values terms(Value at, Value mask);
  Value combine(Combination combiner, Value x, Value y);
  Value combineLanes(Combination combiner, Value vector);
  bool hasGathered() {
    return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return isa<MemRefType>(operand.get().getType()) && accessOf(op, operand) == Access::Gathered;
    });
  }

  ImplicitLocOpBuilder b;
  linalg::GenericOp op;
  ArrayRef<LoopBounds> bounds;
  int64_t lanes;
  InnermostLoop kind;
  Values ivs;                         // of the loops that are open
  DenseMap<unsigned, Value> stays;    // by operand: what was read before the innermost loop
  SmallVector<Combination> combiners; // by output
  unsigned termLoop;                  // the first one whose steps are terms
  bool sumsSideBySide = false;        // at several steps of the loop before that one
  std::vector<SmallVector<int64_t>> termPlaces;
  DenseMap<std::pair<unsigned, size_t>, Value>
      everyPlace; // by operand and term: what is the same at all of those steps
};

} // namespace

LoopEmitter::Values LoopEmitter::indicesOf(OpOperand &operand, Value innermost) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  SmallVector<OpFoldResult> at(ivs.begin(), ivs.end());
  if (at.size() < op.getNumLoops())
    at.push_back(innermost ? OpFoldResult(innermost) : OpFoldResult(b.getIndexAttr(0)));
  Values indices;
  for (AffineExpr expr : map.getResults()) {
    OpFoldResult one;
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      one = at[dim.getPosition()];
    else
      one = affine::makeComposedFoldedAffineApply(b, b.getLoc(), AffineMap::get(map.getNumDims(), 0, expr), at);
    indices.push_back(getValueOrCreateConstantIndexOp(b, b.getLoc(), one));
  }
  return indices;
}

// Booleans are bytes in memory; a vector of them would be read as bits.
Value LoopEmitter::asBytes(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.getElementType().isInteger(1))
    return buffer;
  MemRefType bytes = MemRefType::Builder(type).setElementType(b.getI8Type());
  return UnrealizedConversionCastOp::create(b, bytes, buffer).getResult(0);
}

Value LoopEmitter::load(OpOperand &operand) {
  if (!isa<MemRefType>(operand.get().getType()))
    return operand.get();
  return memref::LoadOp::create(b, operand.get(), indicesOf(operand, nullptr));
}

void LoopEmitter::store(Value value, OpOperand &operand) {
  memref::StoreOp::create(b, value, operand.get(), indicesOf(operand, nullptr));
}

Value LoopEmitter::loadVector(OpOperand &operand, Value at, Value mask) {
  Value buffer = asBytes(operand.get());
  VectorType type = vectorOf(cast<MemRefType>(buffer.getType()).getElementType());
  Values indices = indicesOf(operand, at);
  Value value;
  if (mask) {
    Value zero = arith::ConstantOp::create(b, type, b.getZeroAttr(type));
    value = vector::MaskedLoadOp::create(b, type, buffer, indices, mask, zero);
  } else {
    value = vector::LoadOp::create(b, type, buffer, indices);
  }
  if (buffer == operand.get())
    return value;
  Value zero = arith::ConstantOp::create(b, type, b.getZeroAttr(type));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero);
}

void LoopEmitter::storeVector(Value value, OpOperand &operand, Value at, Value mask) {
  if (!isa<VectorType>(value.getType()))
    value = splat(value);
  Value buffer = asBytes(operand.get());
  if (buffer != operand.get())
    value = arith::ExtUIOp::create(b, vectorOf(b.getI8Type()), value);
  Values indices = indicesOf(operand, at);
  if (mask)
    vector::MaskedStoreOp::create(b, buffer, indices, mask, value);
  else
    vector::StoreOp::create(b, value, buffer, indices);
}

Value LoopEmitter::gather(OpOperand &operand, Value at) {
  Values elements;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value step = lane ? Value(arith::AddIOp::create(b, at, index(lane))) : at;
    elements.push_back(memref::LoadOp::create(b, operand.get(), indicesOf(operand, step)));
  }
  return vector::FromElementsOp::create(b, vectorOf(elements[0].getType()), elements);
}

// A mask of the lanes below `count`.
Value LoopEmitter::firstLanes(Value count) {
  auto type = vectorOf(b.getI32Type());
  Value lane = arith::ConstantOp::create(
      b, type, DenseElementsAttr::get(type, ArrayRef(llvm::to_vector(llvm::seq<int32_t>(0, int32_t(lanes))))));
  Value limit = arith::IndexCastOp::create(b, b.getI32Type(), count);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lane, splat(limit));
}

// The operands at step `at` of the innermost loop, or where all loops stand if it is null.
void LoopEmitter::mapOperands(IRMapping &map, Value at, Value mask) {
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    BlockArgument argument = op.getBody()->getArgument(number);
    if (argument.use_empty())
      continue;
    bool isOutput = number >= op.getNumDpsInputs();
    if (!at)
      map.map(argument, load(operand));
    else if (Value known = stays.lookup(number))
      map.map(argument, known);
    else if (isOutput && kind == InnermostLoop::Reduction)
      continue; // read when its terms are summed
    else
      map.map(argument,
              accessOf(op, operand) == Access::Gathered ? gather(operand, at) : loadVector(operand, at, mask));
  }
}

Value LoopEmitter::lookup(IRMapping &map, Value value, bool inVectors) {
  Value mapped = map.lookupOrDefault(value);
  return inVectors && !isa<VectorType>(mapped.getType()) ? splat(mapped) : mapped;
}

// A copy of `inner` on vectors.
Operation *LoopEmitter::cloneInVectors(Operation &inner, IRMapping &map, Value at, Value mask) {
  if (auto load = dyn_cast<memref::LoadOp>(inner)) {
    Values indices;
    for (Value place : load.getIndices().drop_back())
      indices.push_back(map.lookupOrDefault(place));
    indices.push_back(at);
    VectorType type = vectorOf(load.getType());
    Value buffer = map.lookupOrDefault(load.getMemRef());
    if (!mask)
      return vector::LoadOp::create(b, type, buffer, indices);
    Value zero = arith::ConstantOp::create(b, type, b.getZeroAttr(type));
    return vector::MaskedLoadOp::create(b, type, buffer, indices, mask, zero);
  }
  IRMapping own(map);
  for (Value operand : inner.getOperands())
    own.map(operand, lookup(map, operand, true));
  // A term of a sum is rounded once.
  if (auto add = dyn_cast<arith::AddFOp>(inner); add && termLoop < op.getNumLoops())
    for (auto [product, other] : {std::pair(add.getRhs(), add.getLhs()), std::pair(add.getLhs(), add.getRhs())})
      if (auto mul = product.getDefiningOp<arith::MulFOp>(); mul && product.hasOneUse())
        return math::FmaOp::create(b, lookup(map, mul.getLhs(), true), lookup(map, mul.getRhs(), true),
                                   own.lookup(other));
  Operation *copy = b.clone(inner, own);
  for (Value made : copy->getResults())
    made.setType(vectorOf(made.getType()));
  return copy;
}

// All ops of the body but those that combine terms; numbers that depend on no vector stay numbers.
void LoopEmitter::cloneBody(IRMapping &map, Value at, Value mask, bool inVectors) {
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (inVectors && llvm::any_of(combiners, [&](Combination c) { return c.op == &inner; }))
      continue;
    if (auto place = dyn_cast<linalg::IndexOp>(inner)) {
      Value value = place.getDim() < ivs.size() ? ivs[place.getDim()] : at;
      if (inVectors && place.getDim() + 1 == op.getNumLoops()) {
        auto type = vectorOf(b.getIndexType());
        Value lane = arith::ConstantOp::create(
            b, type, DenseElementsAttr::get(type, ArrayRef(llvm::to_vector(llvm::seq<int64_t>(0, lanes)))));
        value = arith::AddIOp::create(b, splat(value), lane);
      }
      map.map(place.getResult(), value);
      continue;
    }
    bool isWide = inVectors && llvm::any_of(inner.getOperands(), [&](Value operand) {
                    return isa<VectorType>(map.lookupOrDefault(operand).getType());
                  });
    Operation *copy = isWide ? cloneInVectors(inner, map, at, mask) : b.clone(inner, map);
    map.map(inner.getResults(), copy->getResults());
  }
}

// One element, all loops being open.
void LoopEmitter::emitElement() {
  IRMapping map;
  mapOperands(map, nullptr, nullptr);
  cloneBody(map, nullptr, nullptr, false);
  for (auto [i, value] : llvm::enumerate(op.getBody()->getTerminator()->getOperands()))
    store(map.lookupOrDefault(value), *output(i));
}

// Every element of the loops that are not open yet, whose bounds are constants.
void LoopEmitter::emitWrittenOut() {
  if (ivs.size() == bounds.size())
    return emitElement();
  auto [begin, end] = bounds[ivs.size()];
  for (int64_t at = *getConstantIntValue(begin), last = *getConstantIntValue(end); at < last; ++at) {
    ivs.push_back(index(at));
    emitWrittenOut();
    ivs.pop_back();
  }
}

void LoopEmitter::emitScalar(Value begin, Value end) {
  auto loop = scf::ForOp::create(b, begin, end, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ivs.push_back(loop.getInductionVar());
  emitElement();
  ivs.pop_back();
}

// `lanes` elements from step `at`, those of `mask` if there is one.
void LoopEmitter::emitStep(Value at, Value mask) {
  IRMapping map;
  mapOperands(map, at, mask);
  cloneBody(map, at, mask, true);
  for (auto [i, value] : llvm::enumerate(op.getBody()->getTerminator()->getOperands()))
    storeVector(map.lookupOrDefault(value), *output(i), at, mask);
}

// The end of the whole steps of `width` from `begin`.
static Value wholeSteps(OpBuilder &b, Location loc, Value begin, Value end, int64_t width) {
  if (std::optional<int64_t> first = getConstantIntValue(begin), last = getConstantIntValue(end); first && last)
    return arith::ConstantIndexOp::create(b, loc, *first + std::max<int64_t>(*last - *first, 0) / width * width);
  Value length = arith::SubIOp::create(b, loc, end, begin), step = arith::ConstantIndexOp::create(b, loc, width);
  Value rest = arith::RemUIOp::create(b, loc, length, step);
  return arith::SubIOp::create(b, loc, end, rest);
}

static bool isKnownEmpty(Value begin, Value end) {
  std::optional<int64_t> first = getConstantIntValue(begin), last = getConstantIntValue(end);
  return first && last && *first >= *last;
}

// `emit` at each vector of the innermost loop, the last one under a mask.
void LoopEmitter::emitVectors(function_ref<void(Value at, Value mask)> emit) {
  auto [begin, end] = bounds.back();
  Value whole = wholeSteps(b, b.getLoc(), begin, end, lanes);
  if (!isKnownEmpty(begin, whole)) {
    auto loop = scf::ForOp::create(b, begin, whole, index(lanes));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    emit(loop.getInductionVar(), nullptr);
  }
  if (isKnownEmpty(whole, end))
    return;
  if (hasGathered())
    return emitScalar(whole, end);
  Value isLeft = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, whole, end);
  auto branch = scf::IfOp::create(b, isLeft, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emit(whole, firstLanes(arith::SubIOp::create(b, end, whole)));
}

void LoopEmitter::emitParallel() {
  if (termLoop == op.getNumLoops())
    return emitVectors([&](Value at, Value mask) { emitStep(at, mask); });
  // The places of the terms, the last loop fastest.
  SmallVector<int64_t> steps = op.getStaticLoopRanges();
  termPlaces = {{}};
  for (int64_t extent : ArrayRef(steps).drop_back().drop_front(termLoop)) {
    std::vector<SmallVector<int64_t>> longer;
    for (ArrayRef<int64_t> place : termPlaces)
      for (int64_t step = 0; step < extent; ++step)
        llvm::append_range(longer.emplace_back(place), ArrayRef(step));
    termPlaces = std::move(longer);
  }
  emitVectors([&](Value at, Value mask) { emitSums(at, mask); });
}

// The sums of one vector: of one step of the loops before the terms or, side by side, of all steps of the last one of these.
void LoopEmitter::emitSums(Value at, Value mask) {
  everyPlace.clear();
  if (!sumsSideBySide)
    return emitSumsOf({}, at, mask);
  // What is the same at all steps is read before them.
  for (size_t term = 0; term < termPlaces.size(); ++term) {
    Values outer = ivs;
    ivs.push_back(index(0));
    for (int64_t step : termPlaces[term])
      ivs.push_back(index(step));
    for (OpOperand *operand : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(operand);
      if (!isa<MemRefType>(operand->get().getType()) || map.isFunctionOfDim(termLoop - 1) ||
          op.getMatchingBlockArgument(operand).use_empty())
        continue;
      bool isUniform = accessOf(op, *operand) == Access::Uniform;
      everyPlace[{operand->getOperandNumber(), term}] = isUniform ? load(*operand) : loadVector(*operand, at, mask);
    }
    ivs = outer;
  }
  auto [begin, end] = bounds[termLoop - 1];
  for (int64_t width : {std::clamp<int64_t>(mostTermsWritten / int64_t(termPlaces.size()), 1, mostSums), int64_t(1)}) {
    Value whole = wholeSteps(b, b.getLoc(), begin, end, width);
    if (isKnownEmpty(begin, whole))
      continue;
    auto loop = scf::ForOp::create(b, begin, whole, index(width));
    begin = whole;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Values places;
    for (int64_t i = 0; i < width; ++i)
      places.push_back(
          affine::makeComposedAffineApply(b, b.getLoc(), b.getAffineDimExpr(0) + i, {loop.getInductionVar()}));
    emitSumsOf(places, at, mask);
  }
}

// The sums at `places` of the loop before the terms, or at the one that is open if there are none.
void LoopEmitter::emitSumsOf(ArrayRef<Value> places, Value at, Value mask) {
  Values outer = ivs;
  size_t numSums = std::max<size_t>(places.size(), 1);
  std::vector<Values> sums(numSums); // by place and output
  auto open = [&](size_t sum, ArrayRef<int64_t> term) {
    ivs = outer;
    if (!places.empty())
      ivs.push_back(places[sum]);
    for (int64_t step : term)
      ivs.push_back(index(step));
  };
  for (size_t sum = 0; sum < numSums; ++sum) {
    open(sum, termPlaces.front());
    for (OpOperand &output : op.getDpsInitsMutable())
      sums[sum].push_back(loadVector(output, at, mask));
  }
  for (size_t term = 0; term < termPlaces.size(); ++term)
    for (size_t sum = 0; sum < numSums; ++sum) {
      open(sum, termPlaces[term]);
      IRMapping map;
      for (OpOperand *input : op.getDpsInputOperands()) {
        BlockArgument argument = op.getMatchingBlockArgument(input);
        if (argument.use_empty())
          continue;
        Value known = everyPlace.lookup({input->getOperandNumber(), term});
        bool isOne = !isa<MemRefType>(input->get().getType()) || accessOf(op, *input) == Access::Uniform;
        map.map(argument, known ? known : isOne ? load(*input) : loadVector(*input, at, mask));
      }
      map.map(op.getRegionOutputArgs(), sums[sum]);
      cloneBody(map, at, mask, true);
      for (auto [i, value] : llvm::enumerate(op.getBody()->getTerminator()->getOperands()))
        sums[sum][i] = lookup(map, value, true);
    }
  for (size_t sum = 0; sum < numSums; ++sum) {
    open(sum, termPlaces.front());
    for (auto [i, output] : llvm::enumerate(op.getDpsInitsMutable()))
      storeVector(sums[sum][i], output, at, mask);
  }
  ivs = outer;
}

Value LoopEmitter::combine(Combination combiner, Value x, Value y) {
  IRMapping map;
  bool termIsFirst = combiner.op->getOperand(0) == combiner.term;
  map.map(combiner.op->getOperand(0), termIsFirst ? y : x);
  map.map(combiner.op->getOperand(1), termIsFirst ? x : y);
  Operation *made = b.clone(*combiner.op, map);
  made->getResult(0).setType(x.getType());
  return made->getResult(0);
}

// Halves fold onto each other until one number is left.
Value LoopEmitter::combineLanes(Combination combiner, Value vector) {
  for (int64_t width = lanes / 2; width >= 1; width /= 2) {
    SmallVector<int64_t> low = llvm::to_vector(llvm::seq<int64_t>(0, width)),
                         high = llvm::to_vector(llvm::seq<int64_t>(width, 2 * width));
    Value first = vector::ShuffleOp::create(b, vector, vector, low),
          second = vector::ShuffleOp::create(b, vector, vector, high);
    vector = combine(combiner, first, second);
  }
  return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{0});
}

// What each output sums at the steps from `at`; nothing in lanes that the mask leaves out.
LoopEmitter::Values LoopEmitter::terms(Value at, Value mask) {
  IRMapping map;
  mapOperands(map, at, mask);
  cloneBody(map, at, mask, true);
  Values values;
  for (Combination combiner : combiners) {
    Value term = lookup(map, combiner.term, true);
    if (mask)
      term = arith::SelectOp::create(b, mask, term, constantVector(*arith::getNeutralElement(combiner.op)));
    values.push_back(term);
  }
  return values;
}

void LoopEmitter::emitReduction() {
  auto [begin, end] = bounds.back();
  size_t outputs = combiners.size();
  Values sums; // (partialSums, outputs)
  for (int64_t i = 0; i < partialSums; ++i)
    for (Combination combiner : combiners)
      sums.push_back(constantVector(*arith::getNeutralElement(combiner.op)));
  auto addTerms = [&](MutableArrayRef<Value> sums, Value at, Value mask) {
    for (auto [sum, combiner, term] : llvm::zip(sums, combiners, terms(at, mask)))
      sum = combine(combiner, sum, term);
  };
  // Several vectors at a time, then one.
  for (int64_t wide : {partialSums, int64_t(1)}) {
    Value whole = wholeSteps(b, b.getLoc(), begin, end, wide * lanes);
    if (isKnownEmpty(begin, whole))
      continue;
    ValueRange initial = ValueRange(sums).take_front(wide * outputs);
    auto loop = scf::ForOp::create(b, begin, whole, index(wide * lanes), initial);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Values next(loop.getRegionIterArgs());
      for (int64_t i = 0; i < wide; ++i) {
        Value at =
            i ? Value(arith::AddIOp::create(b, loop.getInductionVar(), index(i * lanes))) : loop.getInductionVar();
        addTerms(MutableArrayRef(next).slice(i * outputs, outputs), at, nullptr);
      }
      scf::YieldOp::create(b, next);
    }
    llvm::copy(loop.getResults(), sums.begin());
    begin = whole;
  }
  bool hasScalarRest = hasGathered();
  if (!hasScalarRest && !isKnownEmpty(begin, end)) {
    MutableArrayRef<Value> first = MutableArrayRef(sums).take_front(outputs);
    Value isLeft = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, begin, end);
    auto branch = scf::IfOp::create(b, TypeRange(ValueRange(first)), isLeft, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, first);
    b.setInsertionPointToStart(branch.thenBlock());
    Values next(first);
    addTerms(next, begin, firstLanes(arith::SubIOp::create(b, end, begin)));
    scf::YieldOp::create(b, next);
    llvm::copy(branch.getResults(), first.begin());
  }
  for (auto [i, combiner] : llvm::enumerate(combiners)) {
    Value low = combine(combiner, sums[i], sums[outputs + i]),
          high = combine(combiner, sums[2 * outputs + i], sums[3 * outputs + i]);
    Value total = combineLanes(combiner, combine(combiner, low, high));
    store(combine(combiner, load(*output(i)), total), *output(i));
  }
  if (hasScalarRest)
    emitScalar(begin, end);
}

void LoopEmitter::emitInnermost() {
  if (kind == InnermostLoop::Scalar)
    return emitScalar(bounds.back().begin, bounds.back().end);
  for (OpOperand &operand : op->getOpOperands()) {
    bool isOutput = operand.getOperandNumber() >= op.getNumDpsInputs();
    if (termLoop < op.getNumLoops())
      break;
    if (!isOutput && (!isa<MemRefType>(operand.get().getType()) || accessOf(op, operand) == Access::Uniform))
      stays[operand.getOperandNumber()] = load(operand);
  }
  if (kind == InnermostLoop::Parallel)
    return emitParallel();
  for (unsigned i = 0; i < op.getNumDpsInits(); ++i)
    combiners.push_back(combinationOf(op, i));
  emitReduction();
}

void LoopEmitter::run(ValueRange outer) {
  ivs = Values(outer);
  // Loops of one step may be open already.
  if (termLoop < bounds.size())
    termLoop = std::max<unsigned>(termLoop, outer.size());
  size_t writtenOut = writtenOutFrom(op), first = std::min<size_t>(termLoop, bounds.size() - 1);
  sumsSideBySide = termLoop < bounds.size() && outer.size() < termLoop &&
                   op.getIteratorTypesArray()[termLoop - 1] == utils::IteratorType::parallel;
  for (size_t loop = outer.size(); loop + sumsSideBySide < first && loop < writtenOut; ++loop) {
    auto made = scf::ForOp::create(b, bounds[loop].begin, bounds[loop].end, index(1));
    b.setInsertionPointToStart(made.getBody());
    ivs.push_back(made.getInductionVar());
  }
  if (writtenOut < bounds.size() || ivs.size() == bounds.size())
    emitWrittenOut();
  else
    emitInnermost();
}

void heddle::emitInnerLoops(OpBuilder &b, linalg::GenericOp op, ValueRange outer, ArrayRef<LoopBounds> bounds,
                            int64_t lanes) {
  OpBuilder::InsertionGuard guard(b);
  LoopEmitter(b, op, bounds, lanes).run(outer);
}
