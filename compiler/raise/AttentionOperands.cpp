// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/AttentionMatcher.h"
#include "compiler/raise/LayerFinder.h"
#include "compiler/raise/PositionBias.h"
#include "compiler/raise/Weights.h"
#include "dialect/HeddleDialect.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Where along `depth` an element changes from one source to another: 0 and what its decisions compare with.
static SmallVector<int64_t> changesOf(Expr element, Expr depth) {
  std::set<int64_t> starts{0};
  std::function<void(Expr)> visit = [&](Expr part) {
    if (part->kind != ExprKind::Choice)
      return;
    SmallVector<std::pair<Expr, double>> terms = part->atom()->kind == ExprKind::NotBelow
                                                     ? termsOf(part->atom()->arguments[0])
                                                     : SmallVector<std::pair<Expr, double>>();
    if (terms.size() == 1 && terms[0].first == depth && std::abs(terms[0].second) == 1) {
      int64_t offset = (int64_t)constantOf(part->atom()->arguments[0]);
      starts.insert(terms[0].second > 0 ? -offset : offset + 1);
    }
    visit(part->high());
    visit(part->low());
  };
  visit(element);
  return llvm::to_vector(starts);
}

// Where along the depth the parts of a head begin, and where the last one ends.
SmallVector<int64_t> AttentionMatcher::startsOf(Value operand, ArrayRef<Expr> indices, Axis depthAxis) {
  DenseMap<Expr, Expr> firstHead;
  if (head->kind == ExprKind::Symbol)
    firstHead[head] = exprs.constant(0);
  SmallVector<Expr> at = llvm::map_to_vector(indices, [&](Expr index) { return exprs.substitute(index, firstHead); });
  SmallVector<int64_t> starts = changesOf(layout.element(operand, at), depthAxis.index);
  if (!depthAxis.extent->isConstant())
    return {0};
  starts.push_back((int64_t)depthAxis.extent->constant);
  return starts;
}

// Parts whose pairs lie side by side in the source and are read as two halves.
AttentionMatcher::Halves AttentionMatcher::halvesOf(Value operand, ArrayRef<Expr> indices, Axis depthAxis) {
  Halves halves;
  SmallVector<int64_t> starts = startsOf(operand, indices, depthAxis);
  for (size_t p = 0; p + 1 < starts.size(); ++p) {
    int64_t width = starts[p + 1] - starts[p];
    Expr place = exprs.symbol(depthSymbol, exprs.constant(double(width)));
    DenseMap<Expr, Expr> moved{{depthAxis.index, exprs.add(place, exprs.constant(double(starts[p])))}};
    Expr divisor = divisorOf(
        layout.element(operand,
                       llvm::map_to_vector(indices, [&](Expr index) { return exprs.substitute(index, moved); })),
        place);
    if (divisor && divisor->constant * 2 == double(width))
      halves[starts[p]] = width / 2;
  }
  return halves;
}

// `operand[indices]` as (batch, heads, sequence, depth). With `grouped`, heads that are equal in every group of consecutive ones
// are kept once. Along the depth it may be joined from several sources, each with heads of its own; halves of a part that lie side by side
// where they come from stay so with `sideBySide`.
std::optional<HeadsTensor> AttentionMatcher::operandTensor(Value operand, ArrayRef<Expr> indices, Axis sequence,
                                                           Axis depthAxis, bool grouped, bool sideBySide) {
  Halves halves = halvesOf(operand, indices, depthAxis);
  SmallVector<int64_t> starts = startsOf(operand, indices, depthAxis);
  if (starts.size() == 1)
    return pieceTensor(operand, indices, sequence, depthAxis, grouped);
  SmallVector<HeadsTensor> pieces;
  for (size_t p = 0; p + 1 < starts.size(); ++p) {
    Expr width = exprs.constant(double(starts[p + 1] - starts[p])), place = exprs.symbol(depthSymbol, width);
    SmallVector<Axis> within{{place, width}};
    if (auto half = halves.find(starts[p]); half != halves.end()) {
      Expr length = exprs.constant(double(half->second)), two = exprs.constant(2);
      within = {{exprs.symbol(depthSymbol, length), length}, {exprs.symbol(sideSymbol, two), two}};
      place = exprs.add(within[0].index, exprs.mul(within[1].index, length));
      if (!sideBySide)
        std::swap(within[0], within[1]);
    }
    DenseMap<Expr, Expr> moved{{depthAxis.index, exprs.add(place, exprs.constant(double(starts[p])))}};
    SmallVector<Expr> inPiece =
        llvm::map_to_vector(indices, [&](Expr index) { return exprs.substitute(index, moved); });
    std::optional<HeadsTensor> piece = pieceTensor(operand, inPiece, sequence, within, grouped);
    if (!piece)
      return std::nullopt;
    pieces.push_back(*piece);
    if (piece->factor != pieces[0].factor)
      return because("the parts of a head are scaled differently"), std::nullopt;
  }
  if (pieces.size() == 1)
    return pieces[0];
  HeadsTensor whole{Value(), 1, pieces[0].factor};
  for (const HeadsTensor &piece : pieces)
    whole.heads = std::max(whole.heads, piece.heads);
  SmallVector<Value> parts;
  for (const HeadsTensor &piece : pieces)
    parts.push_back(repeatedHeads(piece, whole.heads));
  whole.tensor = tensor::ConcatOp::create(b, softmax.getLoc(), 3, parts);
  return whole;
}

// Each head `heads / piece.heads` times in a row.
Value AttentionMatcher::repeatedHeads(const HeadsTensor &piece, int64_t heads) {
  if (piece.heads == heads)
    return piece.tensor;
  Location loc = softmax.getLoc();
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, piece.tensor);
  sizes.insert(sizes.begin() + 2, b.getIndexAttr(heads / piece.heads));
  Value init = tensor::EmptyOp::create(b, loc, sizes, shaped(piece.tensor).getElementType());
  Value repeated = linalg::BroadcastOp::create(b, loc, piece.tensor, init, ArrayRef<int64_t>{2}).getResult()[0];
  return tensor::CollapseShapeOp::create(b, loc, repeated, SmallVector<ReassociationIndices>{{0}, {1, 2}, {3}, {4}});
}

// What `operand` moves the elements of, step by step: itself, and at last what is more than a move, such as a concatenation of keys of earlier
// tokens and new ones, or of heads that were made one by one.
static SmallVector<Value> sourcesOf(Value operand) {
  SmallVector<Value> sources{operand};
  while (Operation *op = sources.back().getDefiningOp()) {
    bool isScaled = isa<arith::MulFOp>(op) && numberEverywhere(op->getOperand(0));
    bool moves =
        isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp, linalg::TransposeOp, linalg::BroadcastOp>(
            op);
    if (!moves && !isScaled && !(isa<arith::MulFOp>(op) && numberEverywhere(op->getOperand(1))))
      break;
    sources.push_back(op->getOperand(isScaled ? 1 : 0));
  }
  return sources;
}

static Expr leafOf(Expr element) {
  return factorsOf(element)[0].first;
}

static double factorOf(Expr element) {
  return element->kind == ExprKind::Sum ? element->terms[0].second : 1.0;
}

// Whether the elements are of one tensor, times one factor.
static bool haveOneSource(ArrayRef<Expr> elements) {
  return llvm::all_of(elements, [&](Expr element) {
    return element->kind != ExprKind::Choice && leafOf(element)->kind == ExprKind::Leaf &&
           leafOf(element)->value == leafOf(elements[0])->value && factorOf(element) == factorOf(elements[0]);
  });
}

// What has two axes along the depth lies in their order.
std::optional<HeadsTensor> AttentionMatcher::pieceTensor(Value operand, ArrayRef<Expr> indices, Axis sequence,
                                                         ArrayRef<Axis> depthAxes, bool grouped) {
  int64_t all = (int64_t)numHeads->constant;
  auto ofEachHead = [&](ElementTrace &from) { // the source's element for each head
    SmallVector<Expr> elements;
    for (int64_t h = 0; h < all; ++h) {
      SmallVector<Expr> at;
      DenseMap<Expr, Expr> fixed;
      if (head->kind == ExprKind::Symbol)
        fixed[head] = exprs.constant(h);
      for (Expr index : indices)
        at.push_back(exprs.substitute(index, fixed));
      elements.push_back(from.element(operand, at));
    }
    return elements;
  };
  std::string why;
  SmallVector<Expr> perHead = ofEachHead(layout);
  std::optional<HeadsTensor> found = regularHeads(perHead, sequence, depthAxes, grouped, why);
  // Of several sources what joins them is the source, of one with more axes than heads have, which windows of an image cut, what they give.
  bool isCut = haveOneSource(perHead) && leafOf(perHead[0])->arguments.size() > 4;
  SmallVector<Value> sources;
  if (!haveOneSource(perHead) || (isCut && why.empty()))
    sources = sourcesOf(operand);
  for (; !found && !sources.empty(); sources.pop_back()) {
    ElementTrace whole(exprs, TraceDepth::Layout);
    whole.stopAt(sources.back());
    std::string other;
    found = regularHeads(ofEachHead(whole), sequence, depthAxes, grouped, other);
  }
  if (found)
    return found;
  SmallVector<Expr> places{batch, head, sequence.index};
  for (Axis axis : depthAxes)
    places.push_back(axis.index);
  because(why.empty() ? blockingOp(exprs, operand, indices, places, sequence.index) : why);
  return std::nullopt;
}

// The tensor (batch, heads, sequence, depth) whose elements are `perHead` for each head; nothing if they lie in no order, and perhaps
// why.
std::optional<HeadsTensor> AttentionMatcher::regularHeads(ArrayRef<Expr> perHead, Axis sequence,
                                                          ArrayRef<Axis> depthAxes, bool grouped, std::string &why) {
  if (!haveOneSource(perHead))
    return std::nullopt;
  int64_t all = (int64_t)perHead.size();
  Expr first = leafOf(perHead[0]);
  // Heads of a group read the same; groups follow each other at one distance.
  int64_t group = 1;
  while (group < all && leafOf(perHead[group]) == first)
    ++group;
  if (!grouped && all > 1)
    group = 1;
  if (all % group) {
    why = "its heads repeat keys and values unevenly";
    return std::nullopt;
  }
  int64_t groups = all / group;
  Expr index = exprs.symbol(group == 1 ? headSymbol : groupSymbol, exprs.constant(double(groups)));
  SmallVector<Expr> source;
  for (auto [d, base] : llvm::enumerate(first->arguments)) {
    Expr distance = all > group ? exprs.sub(leafOf(perHead[group])->arguments[d], base) : exprs.constant(0);
    for (int64_t h = 0; h < all; ++h) {
      int64_t before = h / group; // groups
      if (leafOf(perHead[h])->arguments[d] != exprs.add(base, exprs.mul(distance, exprs.constant(double(before))))) {
        why = "its heads are in no regular order";
        return std::nullopt;
      }
    }
    source.push_back(exprs.add(base, exprs.mul(distance, index)));
  }
  SmallVector<Axis> axes{{batch, batchSize}, {index, exprs.constant(double(groups))}, sequence};
  axes.append(depthAxes.begin(), depthAxes.end());
  std::string reason;
  Value tensor = arrange(b, softmax.getLoc(), exprs, first->value, source, axes, reason);
  if (!tensor)
    return std::nullopt;
  if (depthAxes.size() > 1)
    tensor = tensor::CollapseShapeOp::create(b, softmax.getLoc(), tensor,
                                             SmallVector<ReassociationIndices>{{0}, {1}, {2}, {3, 4}});
  return HeadsTensor{tensor, groups, factorOf(perHead[0])};
}

Value AttentionMatcher::biasTensor(Expr bias) {
  Axis axes[] = {{batch, batchSize}, {head, numHeads}, {query, queries}, {key, keys}};
  std::string why;
  // What is the same for all keys of a query cancels, but not against a sink.
  ScorePlaces places{axes[1], axes[2], axes[3]};
  if (std::optional<PositionBias> position = readPositionBias(exprs, bias, places, /*shifts=*/!hasSinks(), mask.causal))
    if (Value tensor = emitPositionBias(b, softmax.getLoc(), exprs, *position, places))
      return tensor;
  if (bias->kind == ExprKind::Leaf && isa<FloatType>(getElementTypeOrSelf(bias->value.getType())))
    if (Value tensor = arrange(b, softmax.getLoc(), exprs, bias->value, bias->arguments, axes, why, /*keepUnit=*/true))
      return tensor;
  Value tensor = emitTensor(b, softmax.getLoc(), exprs, bias, axes, b.getF32Type());
  if (!tensor)
    because("what is added to its scores has no op: it is " + inWords(bias));
  return tensor;
}

// `queries` times what each row of scores is multiplied by; null where that has no op.
Value AttentionMatcher::scaledRows(Value queries) {
  if (!rowScale || rowScale->isConstant(1))
    return queries;
  Axis axes[] = {{batch, batchSize}, {head, numHeads}, {query, this->queries}, {depth, headDim}};
  Location loc = softmax.getLoc();
  Value factor = emitTensor(b, loc, exprs, rowScale, axes, b.getF32Type(), /*repeats=*/true);
  if (!factor || !shaped(queries).getElementType().isF32()) {
    because("what its scores are multiplied by has no op: it is " + inWords(rowScale));
    return {};
  }
  if (factor.getType() != queries.getType())
    factor = tensor::CastOp::create(b, loc, queries.getType(), factor);
  return arith::MulFOp::create(b, loc, queries, factor);
}

// The numbers that `sink` is at each head, where the file says them.
Value AttentionMatcher::knownSinks() {
  SmallVector<float> numbers;
  for (int64_t h = 0; h < (int64_t)numHeads->constant; ++h) {
    DenseMap<Expr, Expr> fixed;
    if (head->kind == ExprKind::Symbol)
      fixed[head] = exprs.constant(double(h));
    Expr number = resolveElements(exprs, exprs.substitute(sink, fixed));
    if (!number->isConstant())
      return {};
    numbers.push_back(float(number->constant));
  }
  auto type = RankedTensorType::get({int64_t(numbers.size())}, b.getF32Type());
  return arith::ConstantOp::create(b, softmax.getLoc(), DenseElementsAttr::get(type, ArrayRef<float>(numbers)));
}

Value AttentionMatcher::sinkTensor() {
  Axis axis{head, numHeads};
  std::string why;
  if (Value stored = storedVectorPart(b, sink, axis))
    return stored;
  if (Value known = knownSinks())
    return known;
  if (sink->kind == ExprKind::Leaf && isa<FloatType>(getElementTypeOrSelf(sink->value.getType())))
    if (Value tensor = arrange(b, softmax.getLoc(), exprs, sink->value, sink->arguments, axis, why))
      return tensor;
  Value tensor = emitTensor(b, softmax.getLoc(), exprs, sink, axis, b.getF32Type(), /*repeats=*/true);
  if (!tensor)
    because("its sinks have no op: each is " + inWords(sink));
  return tensor;
}

// `result` with its heads in two axes, if the second product keeps them so.
Value AttentionMatcher::splitHeads(Value result, SmallVectorImpl<Axis> &axes) {
  Expr inner = nullptr;
  for (Expr index : resultIndices)
    if (head->kind == ExprKind::Symbol && !inner)
      inner = divisorOf(index, head);
  if (!inner)
    return result;
  Expr outer = exprs.floorDiv(numHeads, inner);
  Axis first{exprs.symbol(groupSymbol, outer), outer}, second{exprs.symbol(innerSymbol, inner), inner};
  DenseMap<Expr, Expr> apart{{head, exprs.add(exprs.mul(first.index, inner), second.index)}};
  for (Expr &index : resultIndices)
    index = exprs.substitute(index, apart);
  axes[1] = first;
  axes.insert(axes.begin() + 2, second);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, softmax.getLoc(), result);
  SmallVector<int64_t> shape(shaped(result).getShape());
  sizes[1] = b.getIndexAttr(shape[1] = (int64_t)outer->constant);
  sizes.insert(sizes.begin() + 2, b.getIndexAttr((int64_t)inner->constant));
  shape.insert(shape.begin() + 2, (int64_t)inner->constant);
  SmallVector<ReassociationIndices> groups{{0}, {1, 2}, {3}, {4}};
  return tensor::ExpandShapeOp::create(b, softmax.getLoc(), shaped(result).clone(shape), result, groups, sizes);
}

bool AttentionMatcher::emit() {
  b.setInsertionPoint(values->op);
  SmallVector<Expr> loops(scores->op.getNumLoops());
  for (auto [loop, index] : llvm::zip_equal(scores->outLoops, score->arguments))
    loops[loop] = index;
  loops[scores->contracted] = depth;
  unsigned keyOperand = 1 - queryOperand, valueOperand = 1 - probabilityOperand;
  Axis ofQueries{query, queries}, ofKeys{key, keys}, ofDepth{depth, headDim};
  SmallVector<Expr> queryIndices = scores->indices(queryOperand, loops),
                    keyIndices = scores->indices(keyOperand, loops);
  Value queryInput = scores->input(queryOperand), keyInput = scores->input(keyOperand);
  // The order of what is summed is free: pairs that both put apart in two halves stay side by side.
  bool sideBySide = halvesOf(queryInput, queryIndices, ofDepth) == halvesOf(keyInput, keyIndices, ofDepth);
  auto q = operandTensor(queryInput, queryIndices, ofQueries, ofDepth, /*grouped=*/false, sideBySide);
  auto k = q ? operandTensor(keyInput, keyIndices, ofKeys, ofDepth, /*grouped=*/true, sideBySide) : std::nullopt;
  auto v =
      k ? operandTensor(values->input(valueOperand), valueIndices, ofKeys, {valueDepth, valueDim}, /*grouped=*/true)
        : std::nullopt;
  if (!v)
    return false;
  q->tensor = scaledRows(q->tensor);
  if (!q->tensor)
    return false;
  scale *= q->factor * k->factor;
  if (v->factor != 1)
    return because("its values are scaled by " + std::to_string(v->factor));
  if (k->heads != v->heads)
    return because("it has " + std::to_string(k->heads) + " heads of keys and " + std::to_string(v->heads) +
                   " of values");
  Value bias = mask.bias ? biasTensor(mask.bias) : Value();
  if (mask.bias && !bias)
    return false;
  Value sinks = sink ? sinkTensor() : Value();
  if (sink && !sinks)
    return false;
  RankedTensorType type = shaped(q->tensor);
  SmallVector<int64_t> shape(type.getShape());
  shape[3] = shaped(v->tensor).getShape()[3];
  auto attr = MaskAttr::get(b.getContext(), mask.causal, mask.window);
  Location loc = softmax.getLoc();
  Value old = values->op->getResult(0);
  // Products of 16-bit floats give f32, which is rounded after them.
  type = type.clone(shape, shaped(old).getElementType());
  Value result = AttentionOp::create(b, loc, type, q->tensor, k->tensor, v->tensor, bias, Value(), sinks, Value(),
                                     Value(), ValueRange(), attr, b.getF64FloatAttr(scale), b.getF64FloatAttr(softcap),
                                     DenseI64ArrayAttr(), DenseI64ArrayAttr());
  SmallVector<Axis> axes{{batch, batchSize}, {head, numHeads}, {query, queries}, {valueDepth, valueDim}};
  result = splitHeads(result, axes);
  std::string why;
  Value arranged = arrangeAs(b, loc, exprs, result, axes, resultIndices, shaped(old), why);
  if (!arranged)
    return because(describe(values->op) + ": " + why);
  old.replaceAllUsesWith(arranged);
  return true;
}
