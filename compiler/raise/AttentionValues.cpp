// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's second product: which one reads the probabilities, and how its values lie.

#include "compiler/raise/AttentionMatcher.h"

using namespace mlir;
using namespace heddle;

// Finds the loops for which `traced`, an index of the probabilities in loops of the second product, is `target`.
bool AttentionMatcher::solve(Expr traced, Expr target, DenseMap<Expr, Expr> &loops, DenseMap<Expr, Expr> &quotients) {
  auto assign = [&](Expr loop, Expr value) {
    Expr &known = loops[loop];
    if (known && known != value)
      return false;
    known = value;
    return true;
  };
  if (traced->kind == ExprKind::Symbol)
    return assign(traced, target);
  if (traced->isConstant())
    return traced == target;
  if (double offset = constantOf(traced); offset != 0 && offset == constantOf(target)) // keys behind a sink
    return solve(exprs.sub(traced, exprs.constant(offset)), exprs.sub(target, exprs.constant(offset)), loops,
                 quotients);
  if (traced->kind == ExprKind::FloorDiv && traced->arguments[0]->kind == ExprKind::Symbol) {
    quotients[traced] = target;
    return true;
  }
  SmallVector<std::pair<Expr, double>> terms = termsOf(traced);
  if (traced->kind != ExprKind::Sum || constantOf(traced) != 0 || terms.size() != 2)
    return false;
  if (terms[0].first->kind == ExprKind::FloorDiv)
    std::swap(terms[0], terms[1]);
  if (terms[1].first->kind == ExprKind::FloorDiv) { // the remainder of a loop whose quotient came before
    Expr quotient = quotients.lookup(terms[1].first);
    return quotient && terms[0].second == 1 && terms[1].first->arguments[0] == terms[0].first &&
           assign(terms[0].first, exprs.add(exprs.mul(exprs.constant(-terms[1].second), quotient), target));
  }
  if (terms[0].second == 1)
    std::swap(terms[0], terms[1]);
  if (terms[1].second != 1 || terms[0].first->kind != ExprKind::Symbol || terms[1].first->kind != ExprKind::Symbol)
    return false;
  Expr step = exprs.constant(terms[0].second);
  return assign(terms[0].first, exprs.floorDiv(target, step)) && assign(terms[1].first, exprs.remainder(target, step));
}

// Products that read the softmax's result, through ops on elements and loops that take elements in their body.
static SmallVector<OpOperand *> readingContractions(Value result, Operation *&escape) {
  SmallVector<OpOperand *> found;
  SmallVector<Value> work{result};
  llvm::SmallDenseSet<Operation *> seen;
  while (!work.empty()) {
    for (OpOperand &use : work.pop_back_val().getUses()) {
      Operation *reader = use.getOwner(), *user = result.getParentBlock()->findAncestorOpInBlock(*reader);
      if (reader == user && isContraction(user)) {
        found.push_back(&use);
        continue;
      }
      if (!seen.insert(user).second || isa<tensor::DimOp>(user))
        continue;
      if (user->hasTrait<OpTrait::IsTerminator>() || seen.size() > 16) {
        escape = user;
        continue;
      }
      llvm::append_range(work, user->getResults());
    }
  }
  return found;
}

bool AttentionMatcher::findValues() {
  Value result = softmax.getResult()[0];
  Operation *escape = nullptr;
  SmallVector<OpOperand *> uses = readingContractions(result, escape);
  if (escape)
    return because(describe(escape) + " also reads its probabilities");
  if (uses.size() != 1)
    return because(std::to_string(uses.size()) + " products read its probabilities");
  values = Contraction::of(uses[0]->getOwner());
  if (!values)
    return because(describe(uses[0]->getOwner()) + " is no matmul over one axis that starts at 0");
  probabilityOperand = uses[0]->getOperandNumber();
  if (probabilityOperand > 1)
    return because(describe(values->op) + " accumulates into its probabilities");

  unsigned valueOperand = 1 - probabilityOperand;
  SmallVector<Expr> loops;
  for (unsigned loop = 0; loop < values->op.getNumLoops(); ++loop) {
    Expr extent = nullptr;
    for (unsigned operand : {probabilityOperand, valueOperand})
      for (auto [d, expr] :
           llvm::enumerate(values->op.getMatchingIndexingMap(values->op.getDpsInputOperand(operand)).getResults()))
        if (expr == b.getAffineDimExpr(loop) && !extent)
          extent = trace.size(values->input(operand), d);
    loops.push_back(exprs.symbol(firstLoop + loop, extent));
  }
  ElementTrace towards(exprs);
  towards.stopAt(result);
  Expr probability = towards.element(values->input(probabilityOperand), values->indices(probabilityOperand, loops));
  // A guard that turns NaN, which a row without keys gives, into 0 changes nothing else.
  while (probability->kind == ExprKind::Choice && probability->atom()->name == "isnan" &&
         probability->high()->isConstant(0) && probability->atom()->arguments[0] == probability->low()) {
    probability = probability->low();
    isGuarded = true;
  }
  if (probability->kind != ExprKind::Leaf || probability->value != result)
    return because(describe(values->op) + " reads not its probabilities but " + inWords(probability));
  DenseMap<Expr, Expr> solution, quotients;
  for (auto [traced, target] : llvm::zip_equal(probability->arguments, dimensions))
    if (!solve(traced, target, solution, quotients))
      return because(describe(values->op) + " reads its probabilities in another order than rows of keys");
  Expr summed = loops[values->contracted];
  if (summed->kind == ExprKind::Symbol && solution.lookup(summed) != key)
    return because(describe(values->op) + " sums its probabilities over another axis than their keys");
  for (Expr loop : loops) {
    Expr read = solution.lookup(loop);
    if ((read == key && loop->extent != keys) || (read == query && !query->isConstant() && loop->extent != queries))
      return because(describe(values->op) + " reads a part of its probabilities");
  }
  // What is left is the values' own dimension.
  for (Expr loop : loops)
    if (loop->kind == ExprKind::Symbol && !solution.contains(loop)) {
      if (valueDepth)
        return because(describe(values->op) + " has more than one dimension of its own");
      valueDim = loop->extent;
      valueDepth = solution[loop] = exprs.symbol(depthSymbol, loop->extent);
    }
  if (!valueDepth) {
    valueDepth = exprs.constant(0);
    valueDim = exprs.constant(1);
  }
  for (Expr index : values->indices(valueOperand, loops))
    valueIndices.push_back(exprs.substitute(index, solution));
  for (unsigned loop : values->outLoops)
    resultIndices.push_back(exprs.substitute(loops[loop], solution));
  return true;
}
