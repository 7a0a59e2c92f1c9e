// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/ForwardWriter.h"

#include "compiler/raise/Arrange.h"
#include "compiler/raise/ForwardConfig.h"
#include "compiler/raise/LayerFinder.h"
#include "compiler/raise/Weights.h"
#include "dialect/Entries.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;
static constexpr unsigned maxDepth = 1000;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Whether an op computes each element of its result from those at its place in data, and from numbers: clipped heads, and activations that no op
// names.
static bool isElementwise(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 && isData(op->getResult(0)) &&
         llvm::any_of(op->getOperands(), isData) &&
         llvm::all_of(op->getOperands(), [](Value operand) { return isData(operand) || numberEverywhere(operand); });
}

std::pair<Value, double> heddle::scaledOperand(Operation *op) {
  if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(op) || !isa<RankedTensorType>(op->getResult(0).getType()))
    return {};
  Value left = op->getOperand(0), right = op->getOperand(1);
  std::optional<double> number = numberEverywhere(right);
  if (isa<arith::DivFOp>(op))
    return number ? std::pair(left, 1.0 / *number) : std::pair(Value(), 0.0);
  if (number)
    return {left, *number};
  number = numberEverywhere(left);
  return number ? std::pair(right, *number) : std::pair(Value(), 0.0);
}

// Batch and sequence are open, whatever the exporter fixed them to: sizes follow from what is read, and the last one is what `old` has. Activations
// are f32 whatever the graph rounds them to, as in every family: what is stored in 16 bits stays so.
static RankedTensorType opened(ArrayRef<int64_t> shape, Type old) {
  SmallVector<int64_t> sizes(shape);
  sizes.back() = cast<RankedTensorType>(old).getShape().back();
  Type element = getElementTypeOrSelf(old);
  return RankedTensorType::get(sizes, isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32
                                          ? Type(Float32Type::get(old.getContext()))
                                          : element);
}

// Ops between a value and the inputs: of two summands, the one nearer to the inputs is the residual and comes first.
unsigned ForwardWriter::height(Value value) {
  // Those of all values, in order: a chain may be longer than the stack.
  if (heights.empty())
    for (Operation &op : graph.front()) {
      unsigned greatest = 0;
      for (Value operand : op.getOperands())
        greatest = std::max(greatest, heights.lookup(operand));
      for (Value result : op.getResults())
        heights[result] = isData(result) ? greatest + 1 : 0;
    }
  return heights.lookup(value);
}

FailureOr<Value> ForwardWriter::writeWeight(Value old) {
  Operation *op = old.getDefiningOp();
  if (!layerFunc || !isa<WeightOp>(op))
    return b.clone(*op)->getResult(0);
  layerWeights.push_back(old);
  return Value(layerFunc.front().addArgument(old.getType(), old.getLoc()));
}

// What indices (batch, sequence) are, those of one sequence, or of all in one dimension; no element where they are others.
ForwardWriter::Indices ForwardWriter::readIndices(ExprContext &exprs, ElementTrace &trace, Value old) {
  SmallVector<Expr> symbols = trace.indexSymbols(old);
  if (symbols.empty() || symbols.size() > 2 || symbols.back()->kind != ExprKind::Symbol)
    return {};
  Expr tokens = trace.size(graph.getArgument(0), 1);
  if (symbols.size() == 2 || symbols[0]->extent == tokens)
    return {trace.element(old, symbols), symbols.size() == 2 ? symbols[0] : nullptr, symbols.back()};
  Expr batch = exprs.symbol(2, trace.size(graph.getArgument(0), 0)), sequence = exprs.symbol(3, tokens);
  return {trace.element(old, {exprs.add(exprs.mul(batch, tokens), sequence)}), batch, sequence};
}

// Token ids or positions, by what they are. An id is not negative, so that counting from the vocabulary's end does not happen.
FailureOr<Value> ForwardWriter::writeIndices(Operation *op, Value old) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  Indices indices = readIndices(exprs, trace, old);
  Expr element = indices.element;
  if (element && element == indices.sequence) // of one sequence, or of each
    return positions;
  if (!element || !indices.batch)
    return cannot(op, "looks up ids that are not (batch, sequence)");
  if (element->kind == ExprKind::Choice && element->atom()->kind == ExprKind::NotBelow &&
      element->atom()->arguments[0] == element->high())
    element = element->high();
  if (element->kind == ExprKind::Leaf && element->value == graph.getArgument(0) &&
      llvm::equal(element->arguments, ArrayRef{indices.batch, indices.sequence}))
    return ids;
  return cannot(op, "reads neither token ids nor their positions");
}

// One number in the sizes of x, as activations have it.
Value ForwardWriter::splatLike(Location loc, double number, Value x) {
  Value scalar = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(number)));
  return tensor::SplatOp::create(b, loc, scalar, tensor::getMixedSizes(b, loc, x));
}

// x times one number.
FailureOr<Value> ForwardWriter::writeScaled(Operation *op) {
  auto [old, factor] = scaledOperand(op);
  FailureOr<Value> x = write(old);
  if (failed(x))
    return failure();
  return Value(arith::MulFOp::create(b, op->getLoc(), *x, splatLike(op->getLoc(), factor, *x)));
}

FailureOr<Value> ForwardWriter::writeElementwise(Operation *op) {
  IRMapping operands;
  Value like;
  for (Value operand : op->getOperands()) {
    if (numberEverywhere(operand))
      continue;
    FailureOr<Value> written = write(operand);
    if (failed(written))
      return failure();
    if (like && shaped(like).getShape() != shaped(*written).getShape())
      return cannot(op, "reads what differs in batch or sequence");
    operands.map(operand, *written);
    like = like ? like : *written;
  }
  if (!like)
    return cannot(op, "is of numbers alone");
  for (Value operand : op->getOperands())
    if (std::optional<double> number = numberEverywhere(operand))
      operands.map(operand, splatLike(op->getLoc(), *number, like));
  Operation *clone = b.clone(*op, operands);
  clone->getResult(0).setType(opened(shaped(like).getShape(), op->getResult(0).getType()));
  return clone->getResult(0);
}

// Of a bias by distance the slopes, one for each head, are numbers that the file says.
FailureOr<Value> ForwardWriter::writePositionBias(PositionBiasOp op) {
  RankedTensorType type = shaped(op.getTable());
  if (type.getRank() != 1)
    return cannot(op, "looks its bias up in buckets");
  ExprContext exprs;
  ElementTrace trace(exprs);
  SmallVector<float> slopes;
  for (int64_t head = 0; head < type.getDimSize(0); ++head) {
    Expr slope = resolveElements(exprs, trace.element(op.getTable(), {exprs.constant(double(head))}));
    if (!slope->isConstant())
      return cannot(op, "has slopes that are computed");
    slopes.push_back(float(slope->constant));
  }
  Location loc = op.getLoc();
  auto elements =
      DenseElementsAttr::get(RankedTensorType::get({type.getDimSize(0)}, b.getF32Type()), ArrayRef<float>(slopes));
  Value table = arith::ConstantOp::create(b, loc, elements), length = tensor::DimOp::create(b, loc, positions, 1);
  auto result = RankedTensorType::get({1, type.getDimSize(0), dynamic, dynamic}, b.getF32Type());
  return Value(PositionBiasOp::create(b, loc, result, table, length, length, DenseI64ArrayAttr(), DenseI64ArrayAttr()));
}

// A look-up of position + k in a table is one of the position in the table's rows from k on; null where it is none.
FailureOr<Value> ForwardWriter::writeLaterPositions(EmbeddingOp op) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  Indices indices = readIndices(exprs, trace, op.getIds());
  if (!indices.element || layerFunc)
    return Value();
  Expr first = exprs.sub(indices.element, indices.sequence);
  RankedTensorType table = shaped(op.getTable());
  if (!first->isConstant() || first->constant < 1 || first->constant >= double(table.getDimSize(0)))
    return Value();
  auto axis = [&](unsigned id, double extent) {
    return Axis{exprs.symbol(id, exprs.constant(extent)), exprs.constant(extent)};
  };
  Axis row = axis(0, double(table.getDimSize(0)) - first->constant), column = axis(1, double(table.getDimSize(1)));
  Expr element = trace.element(op.getTable(), {exprs.add(row.index, first), column.index});
  Value later = element->kind == ExprKind::Leaf ? storedPart(b, element, row, column) : Value();
  if (!later)
    return Value();
  IRMapping operands;
  operands.map(op.getIds(), positions);
  operands.map(op.getTable(), later);
  Operation *clone = b.clone(*op, operands);
  clone->getResult(0).setType(opened({dynamic, dynamic, dynamic}, op.getType()));
  return clone->getResult(0);
}

// Stored rows that every sequence of a graph of so many tokens reads, one for each, are a look-up of positions; null for others. Exporters
// fold look-ups of known positions.
Value ForwardWriter::writeRowsOfPositions(Value old) {
  RankedTensorType type = shaped(old);
  int64_t tokens = shaped(graph.getArgument(0)).getDimSize(1);
  bool mayBe = !layerFunc && type.getRank() == 3 && type.getElementType().isF32() && tokens != dynamic &&
               type.getDimSize(1) == tokens &&
               isa_and_nonnull<WeightOp, linalg::BroadcastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(
                   old.getDefiningOp());
  if (!mayBe)
    return {};
  ExprContext exprs;
  ElementTrace trace(exprs, TraceDepth::Layout);
  SmallVector<Expr> symbols = trace.indexSymbols(old);
  Expr element = trace.element(old, symbols);
  if (!exprs.contains(element, symbols[1]))
    return {};
  Value table = storedPart(b, element, {symbols[1], trace.size(old, 1)}, {symbols[2], trace.size(old, 2)});
  if (!table)
    return {};
  return EmbeddingOp::create(b, old.getLoc(), opened({dynamic, dynamic, dynamic}, type), positions, table,
                             b.getF64FloatAttr(1.0));
}

FailureOr<Value> ForwardWriter::write(Value old) {
  if (Value known = map.lookupOrNull(old))
    return known;
  llvm::SaveAndRestore deeper(depth, depth + 1);
  Operation *op = old.getDefiningOp();
  if (op && depth > maxDepth)
    return cannot(op, "lies behind more than " + Twine(maxDepth) + " ops between two layers");
  if (!op) {
    reason = "an argument is read that is no token id";
    return failure();
  }
  Value rows = writeRowsOfPositions(old);
  FailureOr<Value> result = rows ? rows : isStored(old) ? writeWeight(old) : writeOp(op);
  if (succeeded(result))
    map.map(old, *result);
  return result;
}

// One product gives heads (query ‖ key ‖ value): no kernel reads a part of each. The parts of latent attention, whose keys are put together
// of two, are found by the optimize stage.
static bool attendsWithinHeads(AttentionOp op) {
  if (op.getKey().getDefiningOp<tensor::ConcatOp>())
    return false;
  return llvm::any_of(ValueRange{op.getQuery(), op.getKey(), op.getValue()}, [](Value heads) {
    if (auto rope = heads.getDefiningOp<RopeOp>())
      heads = rope.getInput();
    return bool(heads.getDefiningOp<tensor::ExtractSliceOp>());
  });
}

// Activations of batch and sequence in one dimension: in @forward they stand apart.
static bool isRows(Value value) {
  return isData(value) && shaped(value).getRank() == 2;
}

FailureOr<Value> ForwardWriter::writeExpand(tensor::ExpandShapeOp op, Value source) {
  SmallVector<ReassociationIndices> groups = op.getReassociationIndices();
  if (isRows(op.getSrc()) && groups[0].size() == 2) { // batch and sequence are apart already
    int64_t second = groups[0].pop_back_val();
    groups.insert(groups.begin() + 1, ReassociationIndices{second});
    if (llvm::all_of(groups, [](auto &group) { return group.size() == 1; }))
      return source;
  } else if (groups[0].size() != 1 || isRows(op.getSrc())) {
    return cannot(op, "splits the batch");
  }
  SmallVector<OpFoldResult> sizes, old = tensor::getMixedSizes(b, op.getLoc(), source);
  SmallVector<int64_t> shape;
  for (auto [g, group] : llvm::enumerate(groups))
    for (int64_t d : group) {
      bool isWhole =
          llvm::all_of(group, [&](int64_t other) { return other == d || op.getType().getDimSize(other) == 1; });
      if (!isWhole && shaped(source).isDynamicDim(g) && op.getType().getDimSize(d) != 1)
        return cannot(op, "splits a dimension of dynamic size");
      shape.push_back(isWhole ? shaped(source).getDimSize(g) : op.getType().getDimSize(d));
      sizes.push_back(isWhole ? old[g] : OpFoldResult(b.getIndexAttr(shape.back())));
    }
  return Value(tensor::ExpandShapeOp::create(b, op.getLoc(), opened(shape, op.getType()), source, groups, sizes));
}

FailureOr<Value> ForwardWriter::writeCollapse(tensor::CollapseShapeOp op, Value source) {
  SmallVector<ReassociationIndices> groups = op.getReassociationIndices();
  auto isStatic = [&](int64_t d) { return !shaped(source).isDynamicDim(d); };
  if (isRows(op.getResult()) && groups[0].size() == 2 && llvm::none_of(groups[0], isStatic) &&
      llvm::all_of(groups[1], isStatic)) { // batch and sequence stay apart
    int64_t second = groups[0].pop_back_val();
    groups.insert(groups.begin() + 1, ReassociationIndices{second});
    if (llvm::all_of(groups, [](auto &group) { return group.size() == 1; }))
      return source;
  } else if (groups[0].size() != 1 || isRows(op.getResult())) {
    return cannot(op, "joins the batch with another axis");
  }
  SmallVector<int64_t> shape;
  for (auto &group : groups) {
    shape.push_back(1);
    for (int64_t d : group) {
      int64_t size = shaped(source).getDimSize(d);
      if (size != 1 && shape.back() != 1 && (size == dynamic || shape.back() == dynamic))
        return cannot(op, "joins the sequence with another axis");
      shape.back() = shape.back() == 1 ? size : size == 1 ? shape.back() : shape.back() * size;
    }
  }
  return Value(tensor::CollapseShapeOp::create(b, op.getLoc(), opened(shape, op.getType()), source, groups));
}

FailureOr<Value> ForwardWriter::writeOp(Operation *op) {
  Location loc = op->getLoc();
  if (isa<tensor::CastOp, arith::ExtFOp, arith::TruncFOp>(op))
    return write(op->getOperand(0));
  if (scaledOperand(op).first)
    return writeScaled(op);
  if (isElementwise(op))
    return writeElementwise(op);
  if (auto bias = dyn_cast<PositionBiasOp>(op))
    return writePositionBias(bias);
  if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
    FailureOr<Value> later = writeLaterPositions(embedding);
    if (failed(later) || *later)
      return later;
  }
  IRMapping operands;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type || operand.getDefiningOp<tensor::EmptyOp>())
      continue; // sizes, written anew
    bool isIndices = isa<IntegerType>(type.getElementType()) && !type.getElementType().isInteger(1);
    FailureOr<Value> written = isIndices ? writeIndices(op, operand) : write(operand);
    if (failed(written))
      return failure();
    operands.map(operand, *written);
  }
  auto operand = [&](unsigned i) { return operands.lookup(op->getOperand(i)); };
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return writeExpand(expand, operand(0));
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return writeCollapse(collapse, operand(0));
  // What is the same for every sequence of a batch, as embeddings of positions, is computed for each in @forward.
  if (auto repeat = dyn_cast<linalg::BroadcastOp>(op); repeat && repeat.getDimensions() == ArrayRef<int64_t>{0}) {
    if (auto lookup = repeat.getInput().getDefiningOp<EmbeddingOp>(); lookup && isRows(lookup.getResult()))
      return operand(0);
    if (auto join = repeat.getInput().getDefiningOp<tensor::CollapseShapeOp>())
      if (join.getSrcType().getRank() == 3 && join.getSrcType().getDimSize(0) == 1 && isRows(repeat.getInput()))
        return write(join.getSrc());
  }
  bool movesRows = isa<linalg::TransposeOp, linalg::BroadcastOp, tensor::ConcatOp, tensor::ExtractSliceOp>(op) &&
                   (isRows(op->getOperand(0)) || isRows(op->getResult(0)));
  if (movesRows)
    return cannot(op, "moves rows of joined batches");
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    if (transpose.getPermutation()[0] != 0)
      return cannot(op, "moves the batch");
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, operand(0)), permuted;
    for (int64_t axis : transpose.getPermutation())
      permuted.push_back(sizes[axis]);
    Value init = tensor::EmptyOp::create(b, loc, permuted, shaped(operand(0)).getElementType());
    return Value(linalg::TransposeOp::create(b, loc, operand(0), init, transpose.getPermutation()).getResult()[0]);
  }
  if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op)) { // heads of latent attention that share a key
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, operand(0));
    for (int64_t d : broadcast.getDimensions()) {
      if (d == 0 || shaped(op->getResult(0)).isDynamicDim(d))
        return cannot(op, "repeats along the batch or a dimension of dynamic size");
      sizes.insert(sizes.begin() + d, b.getIndexAttr(shaped(op->getResult(0)).getDimSize(d)));
    }
    Value init = tensor::EmptyOp::create(b, loc, sizes, shaped(operand(0)).getElementType());
    return Value(linalg::BroadcastOp::create(b, loc, operand(0), init, broadcast.getDimensions()).getResult()[0]);
  }
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    if (llvm::all_of(op->getOperands(), isStored)) // norms of heads, each with a weight of its own
      return b.clone(*op, operands)->getResult(0);
    if ((int64_t)concat.getDim() + 1 != concat.getResultType().getRank())
      return cannot(op, "joins tensors along another dimension than their last");
    SmallVector<Value> parts =
        llvm::map_to_vector(op->getOperands(), [&](Value part) { return operands.lookup(part); });
    if (!llvm::all_equal(llvm::map_range(parts, [](Value part) { return shaped(part).getShape().drop_back(); })))
      return cannot(op, "joins what differs in batch or sequence");
    return Value(tensor::ConcatOp::create(b, loc, opened(shaped(parts[0]).getShape(), concat.getType()),
                                          concat.getDim(), parts));
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, operand(0)), offsets = slice.getMixedOffsets();
    bool lastOnly =
        slice.getSourceType().getRank() == slice.getType().getRank() && slice.hasUnitStride() &&
        llvm::all_of(ArrayRef(offsets).drop_back(), [](OpFoldResult o) { return isConstantIntValue(o, 0); }) &&
        slice.getSourceType().getShape().drop_back() == slice.getType().getShape().drop_back();
    if (!lastOnly)
      return cannot(op, "slices more than its last dimension");
    sizes.back() = slice.getMixedSizes().back();
    return Value(tensor::ExtractSliceOp::create(b, loc, opened(shaped(operand(0)).getShape(), slice.getType()),
                                                operand(0), offsets, sizes, slice.getMixedStrides()));
  }
  if (auto attention = dyn_cast<AttentionOp>(op); attention && attendsWithinHeads(attention))
    return cannot(op, "takes its query, key or value out of heads in which others lie beside it");
  bool isRowwise = isa<EmbeddingOp, LinearOp, RmsNormOp, LayerNormOp, GluOp, SoftcapOp, RopeOp, AttentionOp, MoeOp>(op);
  if (!isRowwise)
    return cannot(op, "is no part of a decoder's step");
  auto shapeOf = [&](Value old) { return shaped(operands.lookup(old)).getShape(); };
  bool differs = isa<GluOp>(op) && !llvm::all_equal(llvm::map_range(op->getOperands(), shapeOf));
  if (auto attention = dyn_cast<AttentionOp>(op))
    differs = !llvm::all_equal(
        llvm::map_range(ValueRange{attention.getQuery(), attention.getKey(), attention.getValue()}, [&](Value old) {
          return std::pair(shapeOf(old)[0], shapeOf(old)[2]);
        })); // (batch, heads, sequence, head_dim)
  if (differs)
    return cannot(op, "reads what differs in batch or sequence");
  SmallVector<int64_t> shape(shaped(operand(0)).getShape());
  if (isa<EmbeddingOp>(op))
    shape.push_back(dynamic);
  Operation *clone = b.clone(*op, operands);
  clone->getResult(0).setType(opened(shape, op->getResult(0).getType()));
  return clone->getResult(0);
}

LogicalResult ForwardWriter::writeLayer(unsigned layer) {
  Value input = boundaries[layer], output = boundaries[layer + 1];
  OpBuilder::InsertPoint caller = b.saveInsertionPoint();
  IRMapping callerMap = map;
  Value callerIds = ids, callerPositions = positions, x = map.lookup(input);
  b.setInsertionPoint(forward);
  layerFunc = func::FuncOp::create(b, output.getLoc(), "layer_" + std::to_string(layer),
                                   b.getFunctionType({x.getType(), positions.getType()}, {x.getType()}));
  layerFunc.setPrivate();
  Block *entry = layerFunc.addEntryBlock();
  b.setInsertionPointToEnd(entry);
  map = IRMapping();
  map.map(input, entry->getArgument(0));
  ids = Value();
  positions = entry->getArgument(1);
  FailureOr<Value> result = write(output);
  if (failed(result))
    return failure();
  func::ReturnOp::create(b, output.getLoc(), *result);
  layerFunc.setType(b.getFunctionType(entry->getArgumentTypes(), {(*result).getType()}));

  b.restoreInsertionPoint(caller);
  map = callerMap;
  ids = callerIds;
  positions = callerPositions;
  func::FuncOp callee = layerFunc;
  layerFunc = {};
  SmallVector<Value> arguments{x, positions};
  for (Value weight : layerWeights)
    arguments.push_back(b.clone(*weight.getDefiningOp())->getResult(0));
  layerWeights.clear();
  map.map(output, func::CallOp::create(b, output.getLoc(), callee, arguments).getResult(0));
  return success();
}

LogicalResult ForwardWriter::run() {
  graph.walk([&](arith::AddFOp add) {
    if (isData(add.getLhs()) && isData(add.getRhs()) && height(add.getLhs()) > height(add.getRhs())) {
      Value first = add.getLhs();
      add.getLhsMutable().assign(add.getRhs());
      add.getRhsMutable().assign(first);
    }
  });
  Operation *terminator = graph.front().getTerminator();
  Value logits = terminator->getOperand(0);
  auto grid = RankedTensorType::get({dynamic, dynamic}, b.getI32Type());
  b.setInsertionPointAfter(graph);
  forward =
      func::FuncOp::create(b, graph.getLoc(), "forward",
                           b.getFunctionType({grid, grid}, {opened({dynamic, dynamic, dynamic}, logits.getType())}));
  // A graph of so many tokens says nothing of others.
  if (int64_t tokens = shaped(graph.getArgument(0)).getDimSize(1); tokens != dynamic)
    forward->setAttr(mostTokensAttr, b.getI64IntegerAttr(tokens));
  Block *entry = forward.addEntryBlock();
  ids = entry->getArgument(0);
  positions = entry->getArgument(1);
  b.setInsertionPointToEnd(entry);
  if (failed(write(boundaries[0])))
    return failure();
  for (unsigned layer = 0; layer + 1 < boundaries.size(); ++layer)
    if (failed(writeLayer(layer)))
      return failure();
  FailureOr<Value> result = write(logits);
  if (failed(result))
    return failure();
  func::ReturnOp::create(b, terminator->getLoc(), *result);
  return success();
}
