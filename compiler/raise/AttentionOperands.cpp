// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/AttentionMatcher.h"
#include "dialect/HeddleDialect.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) { return cast<RankedTensorType>(value.getType()); }

// `operand[indices]` as (batch, heads, sequence, depth). With `grouped`, heads that are equal in every group of consecutive ones
// are kept once; `heads` says how many there are.
Value AttentionMatcher::operandTensor(Value operand, ArrayRef<Expr> indices, Expr sequence, Expr length, Expr depthIndex, Expr width,
                                      bool grouped, int64_t &heads) {
  int64_t all = (int64_t)numHeads->constant;
  SmallVector<Expr> perHead; // the source's element for each head
  for (int64_t h = 0; h < all; ++h) {
    SmallVector<Expr> at;
    DenseMap<Expr, Expr> fixed;
    if (head->kind == ExprKind::Symbol)
      fixed[head] = exprs.constant(h);
    for (Expr index : indices)
      at.push_back(exprs.substitute(index, fixed));
    perHead.push_back(layout.element(operand, at));
  }
  auto leafOf = [](Expr element) { return factorsOf(element)[0].first; };
  auto factorOf = [](Expr element) { return element->kind == ExprKind::Sum ? element->terms[0].second : 1.0; };
  Expr first = leafOf(perHead[0]);
  for (Expr element : perHead)
    if (element->kind == ExprKind::Choice || leafOf(element)->kind != ExprKind::Leaf || leafOf(element)->value != first->value ||
        factorOf(element) != factorOf(perHead[0]))
      return because(blockingOp(exprs, operand, indices, {batch, head, sequence, depthIndex}, sequence)), Value();
  // Heads of a group read the same; groups follow each other at one distance.
  int64_t group = 1;
  while (group < all && leafOf(perHead[group]) == first)
    ++group;
  if (!grouped && all > 1)
    group = 1;
  if (all % group)
    return because("its heads repeat keys and values unevenly"), Value();
  Expr index = exprs.symbol(group == 1 ? headSymbol : groupSymbol, exprs.constant(all / group));
  SmallVector<Expr> source;
  for (auto [d, base] : llvm::enumerate(first->arguments)) {
    Expr distance = all > group ? exprs.sub(leafOf(perHead[group])->arguments[d], base) : exprs.constant(0);
    for (int64_t h = 0; h < all; ++h)
      if (leafOf(perHead[h])->arguments[d] != exprs.add(base, exprs.mul(distance, exprs.constant(h / group))))
        return because("its heads are in no regular order"), Value();
    source.push_back(exprs.add(base, exprs.mul(distance, index)));
  }
  heads = all / group;
  scale *= operand == values->input(1 - probabilityOperand) ? 1 : factorOf(perHead[0]);
  if (operand == values->input(1 - probabilityOperand))
    valueScale = factorOf(perHead[0]);
  Axis axes[] = {{batch, batchSize}, {index, exprs.constant(heads)}, {sequence, length}, {depthIndex, width}};
  std::string why;
  Value result = arrange(b, softmax.getLoc(), exprs, first->value, source, axes, why);
  if (!result)
    because(blockingOp(exprs, operand, indices, {batch, head, sequence, depthIndex}, sequence));
  return result;
}

Value AttentionMatcher::biasTensor(Expr bias) {
  Axis axes[] = {{batch, batchSize}, {head, numHeads}, {query, queries}, {key, keys}};
  std::string why;
  if (bias->kind == ExprKind::Leaf && isa<FloatType>(getElementTypeOrSelf(bias->value.getType())))
    if (Value tensor = arrange(b, softmax.getLoc(), exprs, bias->value, bias->arguments, axes, why, /*keepUnit=*/true))
      return tensor;
  Value tensor = emitTensor(b, softmax.getLoc(), exprs, bias, axes, b.getF32Type());
  if (!tensor)
    because("what is added to its scores has no op: " + toString(bias));
  return tensor;
}

Value AttentionMatcher::sinkTensor() {
  Axis axis{head, numHeads};
  std::string why;
  if (sink->kind == ExprKind::Leaf && isa<FloatType>(getElementTypeOrSelf(sink->value.getType())))
    if (Value tensor = arrange(b, softmax.getLoc(), exprs, sink->value, sink->arguments, axis, why))
      return tensor;
  Value tensor = emitTensor(b, softmax.getLoc(), exprs, sink, axis, b.getF32Type(), /*repeats=*/true);
  if (!tensor)
    because("its sinks have no op: " + toString(sink));
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
  int64_t heads, keyHeads, valueHeads;
  unsigned keyOperand = 1 - queryOperand;
  Value v, q, k;
  q = operandTensor(scores->input(queryOperand), scores->indices(queryOperand, loops), query, queries, depth, headDim, false, heads);
  if (q)
    k = operandTensor(scores->input(keyOperand), scores->indices(keyOperand, loops), key, keys, depth, headDim, true, keyHeads);
  if (k)
    v = operandTensor(values->input(1 - probabilityOperand), valueIndices, key, keys, valueDepth, valueDim, true, valueHeads);
  if (!v)
    return false;
  if (valueScale != 1)
    return because("its values are scaled by " + std::to_string(valueScale));
  if (keyHeads != valueHeads)
    return because("it has " + std::to_string(keyHeads) + " heads of keys and " + std::to_string(valueHeads) + " of values");
  Value bias;
  if (mask.bias && !(bias = biasTensor(mask.bias)))
    return false;
  Value sinks;
  if (sink && !(sinks = sinkTensor()))
    return false;
  SmallVector<int64_t> shape(shaped(q).getShape());
  shape[3] = shaped(v).getShape()[3];
  auto attr = MaskAttr::get(b.getContext(), mask.causal, mask.window);
  Location loc = softmax.getLoc();
  Value result = AttentionOp::create(b, loc, shaped(q).clone(shape), q, k, v, bias, sinks, attr, b.getF64FloatAttr(scale),
                                     b.getF64FloatAttr(softcap));
  SmallVector<Axis> axes{{batch, batchSize}, {head, numHeads}, {query, queries}, {valueDepth, valueDim}};
  result = splitHeads(result, axes);
  std::string why;
  Value old = values->op->getResult(0);
  Value arranged = arrangeAs(b, loc, exprs, result, axes, resultIndices, shaped(old), why);
  if (!arranged)
    return because(describe(values->op) + ": " + why);
  old.replaceAllUsesWith(arranged);
  return true;
}
