// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/ElementTrace.h"

#include "compiler/raise/WriteLoops.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Whether a body adds the product of its inputs to its output, each as it is or widened to the type that is multiplied. The interface lets any
// chain of unary ops stand between them: a sign, an exponential, a product that was rounded.
static bool addsProduct(linalg::GenericOp op) {
  Block *body = op.getBody();
  auto isInput = [&](Value value) {
    if (Operation *cast = value.getDefiningOp(); isa_and_nonnull<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(cast))
      value = cast->getOperand(0);
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == body && argument.getArgNumber() < 2;
  };
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::AddIOp>(sum))
    return false;
  Value output = body->getArgument(2);
  for (unsigned product : {0u, 1u}) {
    Operation *factors = sum->getOperand(product).getDefiningOp();
    if (sum->getOperand(1 - product) == output && isa_and_nonnull<arith::MulFOp, arith::MulIOp>(factors))
      return llvm::all_of(factors->getOperands(), isInput);
  }
  return false;
}

bool heddle::isContraction(Operation *op) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || !linalg::isaContractionOpInterface(linalgOp))
    return false;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return !generic || addsProduct(generic);
}

static constexpr unsigned maxLevel = 4000;

double heddle::valueAt(DenseElementsAttr elements, int64_t position) {
  if (!isa<FloatType>(elements.getElementType())) {
    APInt number = elements.getValues<APInt>()[position];
    return elements.getElementType().isInteger(1) ? number.getZExtValue() : (double)number.getSExtValue();
  }
  APFloat number = elements.getValues<APFloat>()[position];
  bool lossy;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return number.convertToDouble();
}

std::optional<int64_t> heddle::positionOf(ArrayRef<Expr> indices, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [index, extent] : llvm::zip_equal(indices, shape)) {
    if (!index->isConstant() || index->constant < 0 || index->constant >= extent)
      return std::nullopt;
    position = position * extent + (int64_t)index->constant;
  }
  return position;
}

Expr ElementTrace::foldResult(OpFoldResult value) {
  if (auto attr = dyn_cast<Attribute>(value))
    return exprs.constant(cast<IntegerAttr>(attr).getInt());
  return element(cast<Value>(value));
}

SmallVector<Expr> ElementTrace::indexSymbols(Value value, int64_t first) {
  SmallVector<Expr> symbols;
  for (int64_t d = 0; d < shaped(value).getRank(); ++d)
    symbols.push_back(exprs.symbol(first + d, size(value, d)));
  return symbols;
}

//===- sizes --------------------------------------------------------------===//

// Dimensions that `heddle.dims` gives one name are one: the first argument that has it stands for all.
static std::pair<Value, int64_t> namedDimension(BlockArgument argument, int64_t dimension) {
  auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto nameOf = [&](unsigned index, int64_t d) -> StringAttr {
    auto names = func.getArgAttrOfType<ArrayAttr>(index, "heddle.dims");
    return names && d < (int64_t)names.size() ? dyn_cast<StringAttr>(names[d]) : StringAttr();
  };
  StringAttr name = func ? nameOf(argument.getArgNumber(), dimension) : StringAttr();
  if (!name || name.getValue().empty())
    return {argument, dimension};
  for (BlockArgument other : argument.getOwner()->getArguments())
    if (auto type = dyn_cast<RankedTensorType>(other.getType()))
      for (int64_t d = 0; d < type.getRank(); ++d)
        if (type.isDynamicDim(d) && nameOf(other.getArgNumber(), d) == name)
          return {other, d};
  return {argument, dimension};
}

// What a loop that only inserts elements into a tensor starts with: its result has the same sizes. Null for other loops.
static Value insertedInto(OpResult result) {
  auto loop = cast<scf::ForOp>(result.getOwner());
  unsigned number = result.getResultNumber();
  Value written = loop.getYieldedValues()[number], state = loop.getRegionIterArgs()[number];
  while (written != state) {
    if (auto insert = written.getDefiningOp<tensor::InsertOp>())
      written = insert.getDest();
    else if (written.getDefiningOp<scf::ForOp>())
      written = insertedInto(cast<OpResult>(written));
    else
      return {};
    if (!written)
      return {};
  }
  return loop.getInitArgs()[number];
}

Expr ElementTrace::size(Value value, int64_t dimension) {
  RankedTensorType type = shaped(value);
  if (!type.isDynamicDim(dimension))
    return exprs.constant(type.getDimSize(dimension));
  llvm::SaveAndRestore deeper(level, level + 1);
  if (level > maxLevel)
    return exprs.size(value, dimension);
  Operation *op = value.getDefiningOp();
  if (!op) {
    auto [argument, d] = namedDimension(cast<BlockArgument>(value), dimension);
    return exprs.size(argument, d);
  }
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return element(empty.getDynamicSize(dimension));
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return element(
        splat.getDynamicSizes()[llvm::count_if(type.getShape().take_front(dimension), ShapedType::isDynamic)]);
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return size(cast.getSource(), dimension);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return size(linalgOp.getDpsInitOperand(cast<OpResult>(value).getResultNumber())->get(), dimension);
  if (auto softmax = dyn_cast<linalg::SoftmaxOp>(op))
    return size(softmax.getInput(), dimension);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return foldResult(expand.getMixedOutputShape()[dimension]);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    int64_t kept = -1;
    for (auto [d, dimSize] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped[d] && ++kept == dimension)
        return foldResult(dimSize);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    Expr product = exprs.constant(1);
    ReassociationIndices group = collapse.getReassociationIndices()[dimension];
    for (int64_t d : group)
      product = exprs.mul(product, size(collapse.getSrc(), d));
    return product;
  }
  if (auto reshape = dyn_cast<tensor::ReshapeOp>(op))
    return element(reshape.getShape(), {exprs.constant(dimension)});
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    Expr total = exprs.constant(0);
    for (Value input : concat.getInputs())
      total = exprs.add(total, size(input, dimension));
    return (int64_t)concat.getDim() == dimension ? total : size(concat.getInputs()[0], dimension);
  }
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return exprs.add(size(pad.getSource(), dimension), exprs.add(foldResult(pad.getMixedLowPad()[dimension]),
                                                                 foldResult(pad.getMixedHighPad()[dimension])));
  if (auto generate = dyn_cast<tensor::GenerateOp>(op)) {
    unsigned dynamicIndex = llvm::count_if(type.getShape().take_front(dimension), ShapedType::isDynamic);
    return element(generate.getDynamicExtents()[dynamicIndex]);
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    if (Value start = listedMask(value) ? Value(loop.getInitArgs()[0]) : insertedInto(cast<OpResult>(value)))
      return size(start, dimension);
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return size(embedding.getIds(), dimension);
  if (isa<LinearOp, RmsNormOp, LayerNormOp, RopeOp, GluOp, SoftcapOp, MoeOp, AttentionOp>(op))
    return size(op->getOperand(0), dimension);
  if (op->hasTrait<OpTrait::Elementwise>())
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        return size(operand, dimension);
  return exprs.size(value, dimension);
}

//===- elements -----------------------------------------------------------===//

Expr ElementTrace::element(Value value, ArrayRef<Expr> indices) {
  llvm::SaveAndRestore deeper(level, level + 1);
  if (stops.contains(value) || exprs.exhausted() || level > maxLevel)
    return exprs.leaf(value, indices);
  std::pair<void *, SmallVector<Expr>> key{value.getAsOpaquePointer(), SmallVector<Expr>(indices)};
  // Inside a reduction its symbols depend on the nesting, which the key does not hold.
  if (auto found = memo.find(key); nesting == 0 && found != memo.end())
    return found->second;
  Expr result = compute(value, indices);
  if (nesting == 0)
    memo[key] = result;
  return result;
}

// Element [row, column] of a stored table of sines and cosines (`heddle.frequencies`), where the column is known; null for others.
static Expr sinusoid(ExprContext &exprs, Value table, Expr row, Expr column) {
  auto weight = table.getDefiningOp<WeightOp>();
  auto frequencies = weight ? weight->getAttrOfType<DenseF64ArrayAttr>("heddle.frequencies") : DenseF64ArrayAttr();
  std::optional<int64_t> place = frequencies ? positionOf({column}, {frequencies.size()}) : std::nullopt;
  if (!place)
    return nullptr;
  bool isCosine = weight->getAttrOfType<DenseBoolArrayAttr>("heddle.cosines")[*place];
  auto amplitude = weight->getAttrOfType<FloatAttr>("heddle.amplitude");
  return exprs.mul(exprs.constant(amplitude ? amplitude.getValueAsDouble() : 1),
                   exprs.call(isCosine ? "cos" : "sin", {exprs.mul(row, exprs.constant(frequencies[*place]))}));
}

Expr ElementTrace::compute(Value value, ArrayRef<Expr> indices) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return exprs.leaf(value, indices);
  if (depth == TraceDepth::Everything) {
    Expr turn = nullptr;
    if (auto embedding = dyn_cast<EmbeddingOp>(op);
        embedding && !embedding.getGiven() && embedding.getScale().convertToDouble() == 1)
      turn = sinusoid(exprs, embedding.getTable(), element(embedding.getIds(), indices.drop_back()), indices.back());
    else if (isa<WeightOp>(op) && indices.size() >= 2)
      turn = sinusoid(exprs, value, indices[indices.size() - 2], indices.back());
    if (turn)
      return turn;
  }
  if (Expr moved = layout(op, value, indices))
    return moved;
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return structured(linalgOp, cast<OpResult>(value).getResultNumber(), indices);
  auto operand = [&](Value part) {
    return element(part, isa<RankedTensorType>(part.getType()) ? indices : ArrayRef<Expr>());
  };
  bool isScalarOp = !isa<RankedTensorType>(value.getType());
  if (op->getNumResults() == 1 && (isScalarOp || op->hasTrait<OpTrait::Elementwise>()))
    if (Expr result = opElement(op, operand))
      return result;
  return exprs.leaf(value, indices);
}

// An elementwise op. A layout trace follows what leaves one operand's element as it is, up to a constant factor.
Expr ElementTrace::opElement(Operation *op, function_ref<Expr(Value)> operand) {
  SmallVector<Expr> operands;
  bool onFloats = isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
  if (depth == TraceDepth::Moves && onFloats)
    return nullptr;
  if (depth == TraceDepth::Layout && onFloats &&
      !isa<arith::ExtFOp, arith::TruncFOp, arith::NegFOp, arith::SelectOp>(op)) {
    if (!isa<arith::MulFOp, arith::DivFOp>(op))
      return nullptr;
    Expr a = operand(op->getOperand(0)), b = operand(op->getOperand(1));
    if (!b->isConstant() && !(isa<arith::MulFOp>(op) && a->isConstant()))
      return nullptr;
    return isa<arith::MulFOp>(op) ? exprs.mul(a, b) : exprs.div(a, b);
  }
  for (Value value : op->getOperands())
    operands.push_back(operand(value));
  return scalarOp(exprs, op, operands);
}

// By how much integers grow along each dimension, where they grow evenly along all, as those of a range, repeated or not; nothing for others.
static std::optional<SmallVector<int64_t>> stepsOf(DenseElementsAttr elements) {
  if (!elements.getElementType().isSignlessInteger() || elements.getElementType().isInteger(1) ||
      elements.getNumElements() == 0)
    return std::nullopt;
  for (const APInt &number : elements.getValues<APInt>())
    if (number.getSignificantBits() > 52) // what an expression holds exactly
      return std::nullopt;
  auto at = [&](int64_t position) { return elements.getValues<APInt>()[position].getSExtValue(); };
  ArrayRef<int64_t> shape = elements.getType().getShape();
  SmallVector<int64_t> strides = computeStrides(shape), steps;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides))
    steps.push_back(extent > 1 ? at(stride) - at(0) : 0);
  for (int64_t i = 0; i < elements.getNumElements(); ++i)
    if (at(i) - at(0) != linearize(delinearize(i, strides), steps))
      return std::nullopt;
  return steps;
}

Expr ElementTrace::constantElement(Value value, DenseElementsAttr elements, ArrayRef<Expr> indices) {
  if (elements.isSplat())
    return exprs.constant(valueAt(elements, 0));
  if (std::optional<int64_t> position = positionOf(indices, elements.getType().getShape()))
    return exprs.constant(valueAt(elements, *position));
  std::optional<SmallVector<int64_t>> steps = stepsOf(elements);
  if (!steps)
    return exprs.leaf(value, indices);
  Expr result = exprs.constant(valueAt(elements, 0));
  for (auto [step, index] : llvm::zip_equal(*steps, indices))
    result = exprs.add(result, exprs.mul(exprs.constant(double(step)), index));
  return result;
}

// Appends the indices of element `linear` among `dimensions` of `source`.
Expr ElementTrace::reshaped(Value source, Expr linear, ArrayRef<int64_t> dimensions, SmallVectorImpl<Expr> &indices) {
  SmallVector<Expr> reversed;
  int64_t wide = llvm::count_if(dimensions, [&](int64_t d) { return !size(source, d)->isConstant(1); });
  for (int64_t d : llvm::reverse(dimensions)) {
    Expr extent = size(source, d);
    if (extent->isConstant(1)) {
      reversed.push_back(exprs.constant(0));
      continue;
    }
    // The first dimension that is not 1 takes what is left.
    reversed.push_back(--wide == 0 ? linear : exprs.remainder(linear, extent));
    linear = exprs.floorDiv(linear, extent);
  }
  indices.append(reversed.rbegin(), reversed.rend());
  return linear;
}

Expr ElementTrace::concatenated(tensor::ConcatOp op, ArrayRef<Expr> indices) {
  unsigned dim = op.getDim();
  Expr begin = exprs.constant(0), result = nullptr;
  SmallVector<Expr> starts;
  for (Value input : op.getInputs()) {
    starts.push_back(begin);
    begin = exprs.add(begin, size(input, dim));
  }
  for (int64_t i = op.getInputs().size() - 1; i >= 0; --i) {
    Expr reached = exprs.notBelow(indices[dim], starts[i]);
    if (reached->isConstant(0))
      continue;
    SmallVector<Expr> inner(indices);
    inner[dim] = exprs.sub(indices[dim], starts[i]);
    Expr piece = element(op.getInputs()[i], inner);
    if (reached->isConstant(1) && !result)
      return piece;
    // Later pieces decide first: `result` holds where they were reached.
    result = result ? result : piece;
    if (result != piece) {
      Expr laterReached = exprs.notBelow(indices[dim], starts[i + 1]);
      result = exprs.select(laterReached, result, piece);
    }
    if (reached->isConstant(1))
      break;
  }
  return result;
}

Expr ElementTrace::padded(tensor::PadOp op, ArrayRef<Expr> indices) {
  Value padding = op.getConstantPaddingValue();
  if (!padding)
    return exprs.leaf(op.getResult(), indices);
  Expr inside = exprs.constant(1);
  SmallVector<Expr> inner;
  for (auto [d, low] : llvm::enumerate(op.getMixedLowPad())) {
    inner.push_back(exprs.sub(indices[d], foldResult(low)));
    inside = exprs.mul(inside, exprs.notBelow(inner.back(), exprs.constant(0)));
    inside = exprs.mul(inside, exprs.notBelow(exprs.sub(size(op.getSource(), d), exprs.constant(1)), inner.back()));
  }
  return exprs.select(inside, element(op.getSource(), inner), element(padding));
}

// Ops that move elements; null for others.
Expr ElementTrace::layout(Operation *op, Value value, ArrayRef<Expr> indices) {
  Attribute attr;
  if (matchPattern(op, m_Constant(&attr))) {
    if (auto elements = dyn_cast<DenseElementsAttr>(attr))
      return constantElement(value, elements, indices);
    if (auto integer = dyn_cast<IntegerAttr>(attr))
      return exprs.constant(integer.getType().isInteger(1) ? (double)integer.getValue().getZExtValue()
                                                           : (double)integer.getInt());
    if (auto real = dyn_cast<FloatAttr>(attr))
      return exprs.constant(real.getValueAsDouble());
  }
  SmallVector<Expr> inner;
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    if (std::optional<int64_t> d = dim.getConstantIndex())
      return size(dim.getSource(), *d);
    return nullptr;
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return element(cast.getSource(), indices);
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return element(splat.getInput());
  if (isa<scf::ForOp>(op))
    return isa<RankedTensorType>(value.getType()) ? writtenElement(*this, value, indices) : nullptr;
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    for (const ReassociationIndices &group : expand.getReassociationIndices()) {
      Expr linear = exprs.constant(0);
      for (int64_t d : group)
        linear = exprs.add(exprs.mul(linear, size(value, d)), indices[d]);
      inner.push_back(linear);
    }
    return element(expand.getSrc(), inner);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    for (auto [d, group] : llvm::enumerate(collapse.getReassociationIndices()))
      reshaped(collapse.getSrc(), indices[d], group, inner);
    if (collapse.getReassociationIndices().empty())
      inner.assign(shaped(collapse.getSrc()).getRank(), exprs.constant(0));
    return element(collapse.getSrc(), inner);
  }
  if (auto reshape = dyn_cast<tensor::ReshapeOp>(op)) {
    Expr linear = exprs.constant(0);
    for (auto [d, index] : llvm::enumerate(indices))
      linear = exprs.add(exprs.mul(linear, size(value, d)), index);
    reshaped(reshape.getSource(), linear, llvm::to_vector(llvm::seq<int64_t>(0, shaped(reshape.getSource()).getRank())),
             inner);
    return element(reshape.getSource(), inner);
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    const Expr *next = indices.begin();
    for (unsigned d = 0; d < dropped.size(); ++d) {
      Expr offset = foldResult(slice.getMixedOffsets()[d]);
      Expr step = foldResult(slice.getMixedStrides()[d]);
      inner.push_back(dropped[d] ? offset : exprs.add(offset, exprs.mul(*next++, step)));
    }
    return element(slice.getSource(), inner);
  }
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return concatenated(concat, indices);
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return padded(pad, indices);
  if (auto elements = dyn_cast<tensor::FromElementsOp>(op)) {
    std::optional<int64_t> position = positionOf(indices, shaped(value).getShape());
    return position ? element(elements.getElements()[*position]) : nullptr;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    for (Value index : extract.getIndices())
      inner.push_back(element(index));
    return element(extract.getTensor(), inner);
  }
  if (auto generate = dyn_cast<tensor::GenerateOp>(op)) {
    DenseMap<Value, Expr> bound;
    for (auto [argument, index] : llvm::zip_equal(generate.getBody().getArguments(), indices))
      bound[argument] = index;
    return scalar(generate.getBody().front().getTerminator()->getOperand(0), bound, {});
  }
  return nullptr;
}
