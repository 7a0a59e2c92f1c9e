// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution multiplies each window of its input with one matrix, whose rows are the output channels as the file has them:
//
//   out[n, m, o…] = sum over c, k… of x[n, c, o * stride + k * dilation…] * w[m, c, k…]
//
// So it is `linear` over windows, (n, o…, k…, c) seen as rows of k… * c, between two transposes: one that puts the channels of x last, where a
// place of it is a run of them, and one that puts those of the product back before the places. heddle-channels-last carries the second down to the
// next convolution, where both fold to nothing; so does a reader that wants rows, as a vision transformer does. A kernel of one place has no windows: x is
// their rows. Where w is computed, it is a contraction with windows (n, o…, c, k…) of x as it lies. Windows are a loop that only moves elements; where they
// overlap, heddle-tile-windows keeps it from being written as a whole.

#include "compiler/raise/Convolution.h"

#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Weights.h"
#include "dialect/Codes.h"
#include "dialect/Transposed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {

class Convolution {
public:
  explicit Convolution(linalg::GenericOp op)
      : op(op), b(op), loc(op.getLoc()), xMap(op.getIndexingMapsArray()[0]), wMap(op.getIndexingMapsArray()[1]),
        outMap(op.getIndexingMapsArray()[2]), extents(op.getStaticLoopRanges()) {}
  bool classify();
  bool raise();

private:
  bool putsChannelsLast(WeightOp weight);
  Value storedMatrix();
  Value computedMatrix();
  Value contraction(Value rows, Value matrix);
  Value windows();
  void findBias();
  Value placed(Value product);
  SmallVector<OpFoldResult> outSizes() { return tensor::getMixedSizes(b, loc, op.getDpsInits()[0]); }

  linalg::GenericOp op;
  OpBuilder b;
  Location loc;
  AffineMap xMap, wMap, outMap;
  SmallVector<int64_t> extents;
  // Loops: places of a window before and after the channels in the result, elements of a window as the weights have them, and those of
  // one step, as that over a single group.
  SmallVector<unsigned> before, after, columns, units;
  unsigned channel = 0;
  int64_t depth = 1;         // elements of a window
  bool channelsLast = false; // in windows and rows of the matrix
  Value bias;
};

} // namespace

// Finds the role of each loop.
bool Convolution::classify() {
  if (!wMap.isProjectedPermutation() || !outMap.isProjectedPermutation() ||
      !shaped(op.getResult(0)).getElementType().isF32())
    return false;
  bool hasChannel = false;
  auto positions = [](AffineMap map) {
    return llvm::map_range(map.getResults(), [](AffineExpr e) { return cast<AffineDimExpr>(e).getPosition(); });
  };
  for (unsigned loop : positions(outMap)) {
    bool inX = xMap.isFunctionOfDim(loop), inW = wMap.isFunctionOfDim(loop);
    if (inX && inW && extents[loop] == 1)
      units.push_back(loop);
    else if (inX && !inW)
      (hasChannel ? after : before).push_back(loop);
    else if (inW && !inX && !std::exchange(hasChannel, true))
      channel = loop;
    else
      return false;
  }
  SmallVector<unsigned> stored;
  for (unsigned loop : positions(wMap))
    if (!llvm::is_contained(units, loop))
      stored.push_back(loop);
  if (!hasChannel || stored.empty() || stored[0] != channel)
    return false;
  columns.assign(stored.begin() + 1, stored.end());
  for (unsigned loop : columns) {
    if (ShapedType::isDynamic(extents[loop]) || outMap.isFunctionOfDim(loop) || !xMap.isFunctionOfDim(loop))
      return false;
    depth *= extents[loop];
  }
  bool isWhole = before.size() + after.size() + columns.size() + units.size() + 1 == op.getNumLoops();
  return isWhole && depth > 0 && !columns.empty() && !ShapedType::isDynamic(extents[channel]);
}

// Whether windows are to have their channels last: those of images whose channels come first, as in the rows of `weight`.
bool Convolution::putsChannelsLast(WeightOp weight) {
  // Blocks with a scale each lie along the rows as they are.
  std::optional<Codes> codes = Codes::of(weight);
  auto isChannel = [&](AffineExpr index) { return index == b.getAffineDimExpr(columns[0]); };
  return !after.empty() && extents[columns[0]] > 1 && llvm::any_of(xMap.getResults(), isChannel) &&
         !isChannel(xMap.getResults().back()) && !(codes && codes->size && codes->axis == 1);
}

// The weights as rows, one for each channel: the same bytes under another shape. Null if they are computed, or lie otherwise.
Value Convolution::storedMatrix() {
  Value value = op.getInputs()[1];
  while (Operation *made = value.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp, arith::ExtFOp>(made))
      break;
    value = made->getOperand(0);
  }
  auto weight = value.getDefiningOp<WeightOp>();
  // Codes are those of a matrix (frontends/onnx/import/Quantization.cpp).
  Attribute codes = weight ? weight->getAttr(Codes::attrName) : Attribute();
  StorageAttr storage = weight ? weight.getStorage() : StorageAttr();
  if (!storage || storage.getTransposed() || storage.getStride() || storage.getTaps())
    return {};
  RankedTensorType type = shaped(weight);
  if (codes ? type.getShape() != ArrayRef({extents[channel], depth}) : bool(type.getEncoding()))
    return {};
  channelsLast = putsChannelsLast(weight);
  int64_t taps = depth / extents[columns[0]];
  if (channelsLast && taps > 1)
    storage = storage.withTaps(taps);
  auto matrix = RankedTensorType::get({extents[channel], depth}, type.getElementType(), type.getEncoding());
  auto rows = WeightOp::create(b, weight.getLoc(), matrix, weight.getName(), storage);
  if (codes)
    rows->setAttr(Codes::attrName, codes);
  return rows;
}

// The same of weights that are computed.
Value Convolution::computedMatrix() {
  Value value = op.getInputs()[1];
  int64_t rank = shaped(value).getRank(), first = *wMap.getResultPosition(b.getAffineDimExpr(channel)) + 1;
  SmallVector<ReassociationIndices> groups = {llvm::to_vector(llvm::seq<int64_t>(0, first)),
                                              llvm::to_vector(llvm::seq<int64_t>(first, rank))};
  return rank == 2 ? value : tensor::CollapseShapeOp::create(b, loc, value, groups);
}

// out[…, m] = sum over d of rows[…, d] * matrix[m, d]
Value Convolution::contraction(Value rows, Value matrix) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, rows);
  sizes.back() = b.getIndexAttr(extents[channel]);
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  Value init = linalg::FillOp::create(b, loc, zero, room)->getResult(0);
  unsigned rank = sizes.size();
  SmallVector<AffineExpr> ofRows, ofResult;
  for (unsigned d = 0; d + 1 < rank; ++d)
    ofRows.push_back(b.getAffineDimExpr(d));
  AffineExpr m = b.getAffineDimExpr(rank - 1), d = b.getAffineDimExpr(rank);
  ofResult = ofRows;
  ofRows.push_back(d), ofResult.push_back(m);
  auto map = [&](ArrayRef<AffineExpr> exprs) { return AffineMap::get(rank + 1, 0, exprs, b.getContext()); };
  SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
  iterators.push_back(utils::IteratorType::reduction);
  SmallVector<AffineMap> maps = {map(ofRows), map({m, d}), map(ofResult)};
  return linalg::GenericOp::create(b, loc, init.getType(), ValueRange{rows, matrix}, init, maps, iterators,
                                   [](OpBuilder &b, Location loc, ValueRange in) {
                                     Value product = arith::MulFOp::create(b, loc, in[0], in[1]);
                                     Value sum = arith::AddFOp::create(b, loc, in[2], product);
                                     linalg::YieldOp::create(b, loc, sum);
                                   })
      .getResult(0);
}

// The windows as rows: (before…, after, depth), or without `after` where nothing lies behind the channels.
Value Convolution::windows() {
  // Loops of one step are left out.
  SmallVector<unsigned> elements;
  llvm::copy_if(columns, std::back_inserter(elements), [&](unsigned loop) { return extents[loop] != 1; });
  if (elements.empty())
    elements.push_back(columns[0]);
  if (channelsLast)
    std::rotate(elements.begin(), elements.begin() + 1, elements.end());
  SmallVector<unsigned> loops = llvm::to_vector(llvm::concat<unsigned>(before, after, elements));
  SmallVector<AffineExpr> places(op.getNumLoops(), b.getAffineConstantExpr(0));
  for (auto [i, loop] : llvm::enumerate(loops))
    places[loop] = b.getAffineDimExpr(i);
  AffineMap map = xMap.replaceDimsAndSymbols(places, {}, loops.size(), 0);
  // A dimension of size 1 that no loop walks along is joined to the next one.
  Value x = op.getInputs()[0];
  SmallVector<AffineExpr> indices;
  SmallVector<ReassociationIndices> groups;
  ReassociationIndices group;
  for (auto [d, expr] : llvm::enumerate(map.getResults())) {
    group.push_back(d);
    if (isa<AffineConstantExpr>(expr) && shaped(x).getDimSize(d) == 1)
      continue;
    groups.push_back(std::exchange(group, {}));
    indices.push_back(expr);
  }
  if (groups.empty())
    indices.assign(map.getResults().begin(), map.getResults().end());
  else
    groups.back().append(group);
  if (!groups.empty() && int64_t(groups.size()) < shaped(x).getRank())
    x = tensor::CollapseShapeOp::create(b, loc, x, groups);
  if (channelsLast) {
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, indices.size()));
    auto at = llvm::find(indices, b.getAffineDimExpr(loops.size() - 1)) - indices.begin();
    std::rotate(order.begin() + at, order.begin() + at + 1, order.end());
    std::rotate(indices.begin() + at, indices.begin() + at + 1, indices.end());
    x = transposed(b, loc, x, order);
  }
  SmallVector<OpFoldResult> out = outSizes(), sizes;
  for (unsigned loop : llvm::concat<unsigned>(before, after))
    sizes.push_back(out[*outMap.getResultPosition(b.getAffineDimExpr(loop))]);
  for (unsigned loop : elements)
    sizes.push_back(b.getIndexAttr(extents[loop]));
  AffineMap read = simplifyAffineMap(AffineMap::get(loops.size(), 0, indices, b.getContext()));
  Value windows = x;
  if (!read.isIdentity()) {
    Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
    SmallVector<utils::IteratorType> iterators(loops.size(), utils::IteratorType::parallel);
    SmallVector<AffineMap> maps = {read, b.getMultiDimIdentityMap(loops.size())};
    windows = linalg::GenericOp::create(
                  b, loc, room.getType(), x, room, maps, iterators,
                  [](OpBuilder &b, Location loc, ValueRange elements) { linalg::YieldOp::create(b, loc, elements[0]); })
                  .getResult(0);
  }
  // What reads x as it lies may know more, or less, of its sizes than the result says.
  SmallVector<int64_t> shape = decomposeMixedValues(sizes).first;
  if (auto type = RankedTensorType::get(shape, b.getF32Type()); windows.getType() != type)
    windows = tensor::CastOp::create(b, loc, type, windows);
  SmallVector<ReassociationIndices> joined;
  int64_t next = 0;
  for (size_t i = 0; i < before.size(); ++i)
    joined.push_back({next++});
  for (size_t count : {after.size(), elements.size()}) {
    if (count)
      joined.push_back(llvm::to_vector(llvm::seq<int64_t>(next, next + count)));
    next += count;
  }
  return joined.size() == loops.size() ? windows : tensor::CollapseShapeOp::create(b, loc, windows, joined);
}

// A stored vector that is added along the channels, behind the op or the reshape that drops its group.
void Convolution::findBias() {
  Value sum = op.getResult(0);
  int64_t axis = *outMap.getResultPosition(b.getAffineDimExpr(channel));
  if (auto collapse = sum.hasOneUse() ? dyn_cast<tensor::CollapseShapeOp>(*sum.user_begin()) : nullptr) {
    for (auto [d, group] : llvm::enumerate(collapse.getReassociationIndices()))
      if (llvm::is_contained(group, axis)) {
        for (int64_t other : group)
          if (other != axis && shaped(sum).getDimSize(other) != 1)
            return;
        axis = d;
        break;
      }
    sum = collapse.getResult();
  }
  auto add = sum.hasOneUse() ? dyn_cast<arith::AddFOp>(*sum.user_begin()) : nullptr;
  if (!add)
    return;
  Value other = add.getLhs() == sum ? add.getRhs() : add.getLhs();
  ExprContext exprs;
  ElementTrace layout(exprs, TraceDepth::Layout);
  SmallVector<Expr> symbols = layout.indexSymbols(other);
  bias = storedBias(layout.element(other, symbols), symbols[axis]);
  if (!bias)
    return;
  // The sum is what the product with a bias gives: its readers take the other summand.
  add.getResult().replaceAllUsesWith(sum);
  // Where it is stored around the op's branch, it stays.
  Operation *made = bias.getDefiningOp(), *inBlock = op->getBlock()->findAncestorOpInBlock(*made);
  if (inBlock && op->isBeforeInBlock(inBlock))
    made->moveBefore(op);
}

// (before…, after, channels) as the op's result has them.
Value Convolution::placed(Value product) {
  auto type = shaped(op.getResult(0));
  int64_t lead = before.size();
  if (!after.empty()) {
    SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, lead + 2));
    std::swap(permutation[lead], permutation[lead + 1]);
    product = transposed(b, loc, product, permutation);
  }
  // A dimension of one step goes with the next one.
  SmallVector<ReassociationIndices> groups(shaped(product).getRank());
  ReassociationIndices pending;
  size_t group = 0;
  for (auto [d, expr] : llvm::enumerate(outMap.getResults())) {
    unsigned loop = cast<AffineDimExpr>(expr).getPosition();
    pending.push_back(d);
    if (llvm::is_contained(units, loop))
      continue;
    group = llvm::find(before, loop) - before.begin();
    if (llvm::is_contained(after, loop))
      group = lead + 1;
    groups[group].append(std::exchange(pending, {}));
  }
  groups[group].append(pending);
  if (type.getRank() == int64_t(groups.size()))
    return product;
  return tensor::ExpandShapeOp::create(b, loc, type, product, groups, outSizes());
}

bool Convolution::raise() {
  Value matrix = storedMatrix(), product;
  if (matrix) {
    findBias();
    Value rows = windows();
    SmallVector<int64_t> shape(shaped(rows).getShape());
    shape.back() = extents[channel];
    product = LinearOp::create(b, loc, shaped(rows).clone(shape), rows, ValueRange{matrix},
                               bias ? ValueRange{bias} : ValueRange());
  } else {
    product = contraction(windows(), computedMatrix());
  }
  op.getResult(0).replaceAllUsesWith(placed(product));
  op->erase();
  return true;
}

bool heddle::raiseConvolution(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || !op.hasPureTensorSemantics() ||
      !linalg::isaConvolutionOpInterface(op))
    return false;
  Convolution convolution(op);
  return convolution.classify() && convolution.raise();
}
