// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution as a product writes rows of channels, and files want planes of them: heddle-raise-linear puts a transpose behind each product and one
// before the next. Here the first sinks: whatever reads a transposed tensor reads the tensor itself, writes its result in the same order, and leaves the
// transpose behind that, until two of them cancel or an op is met whose order matters.

#include "compiler/optimize/Passes.h"

#include "dialect/Codes.h"
#include "dialect/Entries.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Transposed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace heddle {
#define GEN_PASS_DEF_CHANNELSLAST
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {

using Order = SmallVector<int64_t>;

// What a value is the transpose of: its dimension d is dimension order[d] of `tensor`.
struct Turned {
  Value tensor;
  Order order;
};

class TransposeSinker {
public:
  explicit TransposeSinker(func::FuncOp graph) : b(graph.getContext()) {}
  void sink(Operation *op);

private:
  std::optional<Turned> turned(Value value) {
    auto found = known.find(value);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<Turned> turnedOperand(Operation *op);
  Value inOrder(Value value, ArrayRef<int64_t> order);
  void replace(Value old, Value tensor, ArrayRef<int64_t> order);

  void sinkTranspose(linalg::TransposeOp op);
  void sinkElementwise(Operation *op);
  void sinkExpand(tensor::ExpandShapeOp op);
  void sinkCollapse(tensor::CollapseShapeOp op);
  void sinkPad(tensor::PadOp op);
  void sinkSlice(tensor::ExtractSliceOp op);
  void sinkConcat(tensor::ConcatOp op);
  void sinkReduce(linalg::ReduceOp op);
  void sinkGeneric(linalg::GenericOp op);
  void sinkDim(tensor::DimOp op);
  void sinkCast(tensor::CastOp op);

  OpBuilder b;
  DenseMap<Value, Turned> known;
};

} // namespace

// The first operand that is the transpose of a tensor.
std::optional<Turned> TransposeSinker::turnedOperand(Operation *op) {
  for (Value operand : op->getOperands())
    if (std::optional<Turned> found = turned(operand))
      return found;
  return std::nullopt;
}

// `value` with its dimension d as dimension order[d].
Value TransposeSinker::inOrder(Value value, ArrayRef<int64_t> order) {
  if (std::optional<Turned> from = turned(value); from && from->order == order)
    return from->tensor;
  Order permutation = invertPermutationVector(order);
  RankedTensorType type = shaped(value);
  if (DenseElementsAttr splat; matchPattern(value, m_Constant(&splat)) && splat.isSplat())
    return arith::ConstantOp::create(b, value.getLoc(),
                                     splat.resizeSplat(type.clone(applyPermutation(type.getShape(), permutation))));
  if (auto room = value.getDefiningOp<tensor::EmptyOp>())
    return tensor::EmptyOp::create(b, room.getLoc(), applyPermutation(ArrayRef(room.getMixedSizes()), permutation),
                                   type.getElementType());
  if (auto fill = value.getDefiningOp<linalg::FillOp>())
    return linalg::FillOp::create(b, fill.getLoc(), fill.getInputs()[0], inOrder(fill.getOutputs()[0], order))
        ->getResult(0);
  if (auto spread = value.getDefiningOp<linalg::BroadcastOp>()) {
    // Dimensions of the input are those that are not added, in the order of the result.
    Order added, kept;
    for (int64_t dim : llvm::seq<int64_t>(0, type.getRank()))
      (llvm::is_contained(spread.getDimensions(), dim) ? added : kept).push_back(order[dim]);
    llvm::sort(added);
    Order positions = llvm::to_vector(llvm::seq<int64_t>(0, kept.size()));
    llvm::sort(positions, [&](int64_t x, int64_t y) { return kept[x] < kept[y]; });
    Value input = transposed(b, spread.getLoc(), spread.getInput(), positions);
    return linalg::BroadcastOp::create(b, spread.getLoc(), input, inOrder(spread.getInit(), order), added)
        ->getResult(0);
  }
  return transposed(b, value.getLoc(), value, permutation);
}

// What read `old` reads a transpose of `tensor`.
void TransposeSinker::replace(Value old, Value tensor, ArrayRef<int64_t> order) {
  Value value = transposed(b, tensor.getLoc(), tensor, order);
  if (value != tensor)
    known[value] = {tensor, Order(order)};
  if (value.getType() != old.getType())
    value = tensor::CastOp::create(b, old.getLoc(), old.getType(), value);
  old.replaceAllUsesWith(value);
}

// Those of convolutions, and what is left of others on the way.
void TransposeSinker::sinkTranspose(linalg::TransposeOp op) {
  if (known.contains(op->getResult(0)))
    return;
  if (std::optional<Turned> from = turned(op.getInput()))
    return replace(op->getResult(0), from->tensor, applyPermutation(ArrayRef(from->order), op.getPermutation()));
  Operation *made = op.getInput().getDefiningOp();
  while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp, linalg::TransposeOp>(made))
    made = made->getOperand(0).getDefiningOp();
  // (n, places…, channels) -> (n, channels, places…)
  Order last = llvm::to_vector(llvm::seq<int64_t>(0, op.getPermutation().size()));
  if (last.size() > 2)
    std::rotate(last.begin() + 1, last.end() - 1, last.end());
  if (isa_and_nonnull<LinearOp, IntegerLinearOp>(made) && !isIdentityPermutation(last) &&
      llvm::equal(op.getPermutation(), last))
    known[op->getResult(0)] = {op.getInput(), Order(op.getPermutation())};
}

void TransposeSinker::sinkElementwise(Operation *op) {
  std::optional<Turned> first = turnedOperand(op);
  if (!first || op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return;
  Order order = first->order;
  RankedTensorType type = shaped(op->getResult(0));
  IRMapping map;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      map.map(operand, inOrder(operand, order));
  Operation *copy = b.clone(*op, map);
  copy->getResult(0).setType(type.clone(applyPermutation(type.getShape(), invertPermutationVector(order))));
  replace(op->getResult(0), copy->getResult(0), order);
}

// Each dimension in parts, where it stands.
void TransposeSinker::sinkExpand(tensor::ExpandShapeOp op) {
  std::optional<Turned> from = turned(op.getSrc());
  if (!from)
    return;
  auto groups = op.getReassociationIndices();
  SmallVector<OpFoldResult> sizes = op.getMixedOutputShape(), newSizes;
  SmallVector<ReassociationIndices> newGroups;
  Order order(sizes.size());
  SmallVector<int64_t> shape;
  for (int64_t dim : invertPermutationVector(from->order)) {
    ReassociationIndices &group = newGroups.emplace_back();
    for (int64_t part : groups[dim]) {
      group.push_back(newSizes.size());
      order[part] = newSizes.size();
      newSizes.push_back(sizes[part]);
      shape.push_back(op.getResultType().getDimSize(part));
    }
  }
  Value parts =
      tensor::ExpandShapeOp::create(b, op.getLoc(), op.getResultType().clone(shape), from->tensor, newGroups, newSizes);
  replace(op.getResult(), parts, order);
}

// Dimensions that are neighbours in the tensor as well; those of size 1 may join any.
void TransposeSinker::sinkCollapse(tensor::CollapseShapeOp op) {
  std::optional<Turned> from = turned(op.getSrc());
  if (!from)
    return;
  auto groups = op.getReassociationIndices();
  RankedTensorType type = shaped(from->tensor);
  // The dimension of the result that each one of the tensor is part of; none of size 1 decides.
  SmallVector<int64_t> owner(type.getRank(), -1);
  for (auto [dim, group] : llvm::enumerate(groups)) {
    auto isWide = [&](int64_t part) { return type.getDimSize(from->order[part]) != 1; };
    bool hasWide = llvm::any_of(group, isWide);
    int64_t last = -1;
    for (int64_t part : group) {
      int64_t at = from->order[part];
      if (hasWide && !isWide(part))
        continue;
      // In order, with nothing but single steps between.
      for (int64_t between = last + 1; last >= 0 && between < at; ++between)
        if (type.getDimSize(between) != 1)
          return;
      if (at < last)
        return;
      owner[at] = dim;
      last = at;
      if (!hasWide)
        break;
    }
  }
  SmallVector<ReassociationIndices> newGroups;
  ReassociationIndices leading; // single steps before the first group
  int64_t current = -1;
  Order order(groups.size());
  SmallVector<int64_t> shape;
  for (auto [at, dim] : llvm::enumerate(owner)) {
    bool isFirst = dim >= 0 && !llvm::is_contained(ArrayRef(owner).take_front(at), dim);
    if (dim < 0 && newGroups.empty()) {
      leading.push_back(at);
    } else if (isFirst) {
      order[dim] = newGroups.size();
      shape.push_back(op.getResultType().getDimSize(dim));
      newGroups.push_back(std::exchange(leading, {}));
      newGroups.back().push_back(at);
      current = dim;
    } else if (dim < 0 || dim == current) {
      newGroups.back().push_back(at);
    } else {
      return; // a single step that is a dimension of its own lies between
    }
  }
  if (newGroups.size() != groups.size())
    return;
  Value whole =
      tensor::CollapseShapeOp::create(b, op.getLoc(), op.getResultType().clone(shape), from->tensor, newGroups);
  replace(op.getResult(), whole, order);
}

void TransposeSinker::sinkPad(tensor::PadOp op) {
  std::optional<Turned> from = turned(op.getSource());
  Value number = op.getConstantPaddingValue();
  if (!from || !number)
    return;
  Order permutation = invertPermutationVector(from->order);
  RankedTensorType type = op.getResultType();
  Value padded = tensor::PadOp::create(b, op.getLoc(), type.clone(applyPermutation(type.getShape(), permutation)),
                                       from->tensor, applyPermutation(ArrayRef(op.getMixedLowPad()), permutation),
                                       applyPermutation(ArrayRef(op.getMixedHighPad()), permutation), number);
  replace(op.getResult(), padded, from->order);
}

void TransposeSinker::sinkSlice(tensor::ExtractSliceOp op) {
  std::optional<Turned> from = turned(op.getSource());
  if (!from || op.getType().getRank() != op.getSourceType().getRank())
    return;
  Order permutation = invertPermutationVector(from->order);
  auto inTensor = [&](ArrayRef<OpFoldResult> list) { return applyPermutation(list, permutation); };
  RankedTensorType type = op.getType();
  Value part = tensor::ExtractSliceOp::create(
      b, op.getLoc(), type.clone(applyPermutation(type.getShape(), permutation)), from->tensor,
      inTensor(op.getMixedOffsets()), inTensor(op.getMixedSizes()), inTensor(op.getMixedStrides()));
  replace(op.getResult(), part, from->order);
}

void TransposeSinker::sinkConcat(tensor::ConcatOp op) {
  std::optional<Turned> first = turnedOperand(op);
  if (!first)
    return;
  Order order = first->order;
  SmallVector<Value> parts;
  for (Value part : op.getInputs())
    parts.push_back(inOrder(part, order));
  RankedTensorType type = op.getResultType();
  Value whole = tensor::ConcatOp::create(b, op.getLoc(),
                                         type.clone(applyPermutation(type.getShape(), invertPermutationVector(order))),
                                         order[op.getDim()], parts);
  replace(op.getResult(), whole, order);
}

// What is left of the dimensions keeps their order.
void TransposeSinker::sinkReduce(linalg::ReduceOp op) {
  std::optional<Turned> from = op.getInputs().size() == 1 ? turned(op.getInputs()[0]) : std::nullopt;
  if (!from || op->getNumResults() != 1)
    return;
  Order reduced, kept;
  for (auto [dim, at] : llvm::enumerate(from->order))
    (llvm::is_contained(op.getDimensions(), int64_t(dim)) ? reduced : kept).push_back(at);
  llvm::sort(reduced);
  Order order;
  for (int64_t at : kept)
    order.push_back(llvm::count_if(kept, [&](int64_t other) { return other < at; }));
  auto sum =
      linalg::ReduceOp::create(b, op.getLoc(), ValueRange{from->tensor}, ValueRange{inOrder(op.getInits()[0], order)},
                               reduced, [&](OpBuilder &b, Location, ValueRange arguments) {
                                 IRMapping map;
                                 map.map(op.getBody()->getArguments(), arguments);
                                 for (Operation &inner : *op.getBody())
                                   b.clone(inner, map);
                               });
  replace(op->getResult(0), sum->getResult(0), order);
}

// The stored weights of a convolution in groups, (out_channels, in_channels, taps), are read along out_channels by loops that write channels
// last: they are turned in the file's place. `map` says how the loops move along `weights`.
static Value outChannelsLast(OpBuilder &b, Value weights, AffineMap &map, ArrayRef<utils::IteratorType> iterators) {
  Value stored = weights;
  while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(stored.getDefiningOp()))
    stored = stored.getDefiningOp()->getOperand(0);
  auto weight = stored.getDefiningOp<WeightOp>();
  StorageAttr storage = weight ? weight.getStorage() : StorageAttr();
  RankedTensorType type = shaped(weights);
  if (!storage || weight->hasAttr(Codes::attrName) || shaped(weight).getEncoding() || !type.hasStaticShape() ||
      storage.getTransposed() || storage.getStride() || storage.getTaps() || !map.isProjectedPermutation())
    return {};
  auto isReduced = [&](AffineExpr index) {
    return iterators[cast<AffineDimExpr>(index).getPosition()] == utils::IteratorType::reduction;
  };
  size_t split = llvm::find_if(map.getResults(), isReduced) - map.getResults().begin();
  if (split == 0 || !llvm::all_of(map.getResults().drop_front(split), isReduced))
    return {};
  Order order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  std::rotate(order.begin(), order.begin() + split, order.end());
  // Single steps first: the last dimension is to be one to walk along.
  std::stable_partition(order.end() - split, order.end(), [&](int64_t dim) { return type.getDimSize(dim) == 1; });
  SmallVector<int64_t> shape = applyPermutation(type.getShape(), order);
  ReassociationIndices inner, outer;
  int64_t columns = 1;
  for (int64_t dim : llvm::seq<int64_t>(0, type.getRank())) {
    bool isOuter = dim < int64_t(shape.size() - split);
    (isOuter ? outer : inner).push_back(dim);
    columns *= isOuter ? 1 : shape[dim];
  }
  if (outer.empty() || columns < 2 || type.getNumElements() == 0)
    return {};
  map = AffineMap::get(map.getNumDims(), 0, applyPermutation(map.getResults(), order), map.getContext());
  auto matrix = RankedTensorType::get({type.getNumElements() / columns, columns}, type.getElementType());
  Value turned = WeightOp::create(b, weight.getLoc(), matrix, weight.getName(), storage.getTurned());
  return tensor::ExpandShapeOp::create(b, weights.getLoc(), type.clone(shape), turned,
                                       ArrayRef<ReassociationIndices>{outer, inner});
}

// Loops read the tensor instead; what they write along its dimensions is written in their order.
void TransposeSinker::sinkGeneric(linalg::GenericOp op) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<Value> inputs(op.getInputs());
  auto mapIn = [&](ArrayRef<AffineExpr> indices, ArrayRef<int64_t> permutation) {
    return AffineMap::get(op.getNumLoops(), 0, applyPermutation(indices, permutation), op.getContext());
  };
  // Of the first tensor that is read, how the loops move along it.
  std::optional<AffineMap> first;
  for (auto [input, map] : llvm::zip(inputs, MutableArrayRef(maps).drop_back(op.getNumDpsInits()))) {
    std::optional<Turned> from = turned(input);
    if (!from)
      continue;
    map = mapIn(map.getResults(), invertPermutationVector(from->order));
    input = from->tensor;
    if (!first)
      first = map;
  }
  AffineMap outMap = maps.back();
  op.walk([&](tensor::ExtractOp read) {
    std::optional<Turned> from = turned(read.getTensor());
    if (!from || first || !outMap.isIdentity() || outMap.getNumResults() != from->order.size())
      return;
    first = mapIn(outMap.getResults(), invertPermutationVector(from->order));
  });
  if (!first || op->getNumResults() != 1 || !outMap.isProjectedPermutation() ||
      outMap.getNumResults() > first->getNumResults())
    return;
  // A loop of the result belongs where it first moves along the tensor; others stay behind those that they follow, but single steps, which come
  // first: the last dimension is to be one to walk along.
  SmallVector<int64_t> places;
  SmallVector<int64_t> extents = op.getStaticLoopRanges();
  for (AffineExpr index : outMap.getResults()) {
    unsigned loop = cast<AffineDimExpr>(index).getPosition();
    auto found = llvm::find_if(first->getResults(), [&](AffineExpr e) { return e.isFunctionOfDim(loop); });
    bool moves = found != first->getResults().end(), isSingle = !moves && extents[loop] == 1;
    places.push_back(moves                        ? 2 * (found - first->getResults().begin())
                     : isSingle || places.empty() ? -1
                                                  : places.back() + 1);
  }
  Order permutation =
      llvm::to_vector(llvm::seq<int64_t>(0, places.size())); // of the result, in the order of the tensor
  llvm::stable_sort(permutation, [&](int64_t x, int64_t y) { return places[x] < places[y]; });
  Order order = invertPermutationVector(permutation);
  maps.back() = mapIn(outMap.getResults(), permutation);
  Value init = inOrder(op.getDpsInits()[0], order);
  if (!isIdentityPermutation(order))
    for (auto [input, map] : llvm::zip(inputs, MutableArrayRef(maps).drop_back(1)))
      if (isa<RankedTensorType>(input.getType()))
        if (Value channelsLast = outChannelsLast(b, input, map, op.getIteratorTypesArray()))
          input = channelsLast;
  auto loops =
      linalg::GenericOp::create(b, op.getLoc(), init.getType(), inputs, init, maps, op.getIteratorTypesArray());
  IRMapping map;
  op.getRegion().cloneInto(&loops.getRegion(), map);
  loops.walk([&](tensor::ExtractOp read) {
    std::optional<Turned> from = turned(read.getTensor());
    if (!from)
      return;
    SmallVector<Value> indices =
        applyPermutation(ArrayRef(SmallVector<Value>(read.getIndices())), invertPermutationVector(from->order));
    read.getTensorMutable().assign(from->tensor);
    read.getIndicesMutable().assign(indices);
  });
  replace(op.getResult(0), loops.getResult(0), order);
}

void TransposeSinker::sinkDim(tensor::DimOp op) {
  std::optional<Turned> from = turned(op.getSource());
  std::optional<int64_t> dim = op.getConstantIndex();
  if (from && dim && *dim < int64_t(from->order.size()))
    op.replaceAllUsesWith(tensor::DimOp::create(b, op.getLoc(), from->tensor, from->order[*dim]).getResult());
}

void TransposeSinker::sinkCast(tensor::CastOp op) {
  std::optional<Turned> from = turned(op.getSource());
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!from || !type)
    return;
  Order permutation = invertPermutationVector(from->order);
  Value cast =
      tensor::CastOp::create(b, op.getLoc(), type.clone(applyPermutation(type.getShape(), permutation)), from->tensor);
  replace(op.getResult(), cast, from->order);
}

void TransposeSinker::sink(Operation *op) {
  b.setInsertionPoint(op);
  if (OpTrait::hasElementwiseMappableTraits(op) || isa<GluOp, SoftcapOp>(op))
    return sinkElementwise(op);
  llvm::TypeSwitch<Operation *, void>(op)
      .Case([&](linalg::TransposeOp op) { sinkTranspose(op); })
      .Case([&](tensor::ExpandShapeOp op) { sinkExpand(op); })
      .Case([&](tensor::CollapseShapeOp op) { sinkCollapse(op); })
      .Case([&](tensor::PadOp op) { sinkPad(op); })
      .Case([&](tensor::ExtractSliceOp op) { sinkSlice(op); })
      .Case([&](tensor::ConcatOp op) { sinkConcat(op); })
      .Case([&](linalg::ReduceOp op) { sinkReduce(op); })
      .Case([&](linalg::GenericOp op) { sinkGeneric(op); })
      .Case([&](tensor::DimOp op) { sinkDim(op); })
      .Case([&](tensor::CastOp op) { sinkCast(op); });
}

namespace {
struct ChannelsLast : heddle::impl::ChannelsLastBase<ChannelsLast> {
  void runInStage() override {
    for (func::FuncOp graph : graphEntries(getOperation())) {
      TransposeSinker sinker(graph);
      for (Operation &op : llvm::make_early_inc_range(graph.front()))
        sinker.sink(&op);
    }
  }
};
} // namespace
