// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is known about integers, the decisions that follow from it, and reductions.

#include "compiler/raise/Expr.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

using Terms = SmallVector<std::pair<Expr, double>>;

//===- integers -----------------------------------------------------------===//

// Whether `term` is an index, or the quotient of a number that is not negative: one of a negative number may round to anything below 0, as
// lengths do that are rounded up to a multiple.
bool ExprContext::isNatural(Expr term) {
  return term->kind == ExprKind::Symbol ||
         (term->kind == ExprKind::FloorDiv && isNotBelowZero(term->arguments[0]) == true &&
          isNotBelowZero(sub(term->arguments[1], constant(1))) == true);
}

// At most `expr`, wherever its symbols are: positive ones at 0, negative ones at their end. Null where a term has no bound.
Expr ExprContext::lowerBound(Expr expr) {
  for (int round = 0; round < 4; ++round) { // a bound may bring in other symbols
    double value = constantOf(expr);
    Terms kept, ends;
    for (auto &[term, factor] : termsOf(expr)) {
      if (factor > 0 && isNatural(term))
        continue;
      if (term->kind == ExprKind::Symbol && term->extent)
        ends.push_back({term->extent, factor});
      else if (term->kind == ExprKind::Product && factor > 0 && llvm::all_of(term->terms, [](auto &part) {
                 return part.first->kind == ExprKind::Symbol || part.first->kind == ExprKind::Size;
               })) {
        if (llvm::all_of(term->terms, [](auto &part) { return part.first->kind == ExprKind::Size; }))
          kept.push_back({term, factor});
      } else
        kept.push_back({term, factor});
    }
    expr = sum(value, kept);
    for (auto &[end, factor] : ends)
      expr = add(expr, mul(constant(factor), sub(end, constant(1))));
    if (ends.empty())
      break;
  }
  double value = constantOf(expr);
  for (auto &[term, factor] : termsOf(expr)) {
    bool isSize = term->kind == ExprKind::Size ||
                  (term->kind == ExprKind::Product &&
                   llvm::all_of(term->terms, [](auto &part) { return part.first->kind == ExprKind::Size; }));
    if (!isSize || factor < 0)
      return nullptr;
    value += factor; // sizes are at least 1
  }
  return constant(value);
}

std::optional<bool> ExprContext::isNotBelowZero(Expr expr) {
  if (Expr low = lowerBound(expr); low && low->constant >= 0)
    return true;
  if (Expr low = lowerBound(sub(constant(-1), expr)); low && low->constant >= 0)
    return false;
  return std::nullopt;
}

Expr ExprContext::floorDiv(Expr a, Expr b) {
  return lift({a, b}, [&](ArrayRef<Expr> plain) -> Expr {
    Expr x = plain[0], y = plain[1];
    if (y->isConstant(1) || x->isConstant(0))
      return x;
    if (x->isConstant() && y->isConstant())
      return constant(std::floor(x->constant / y->constant));
    // What is divisible comes out; the rest may be smaller than the divisor.
    Expr quotient = constant(0), rest = constant(0);
    double value = constantOf(x);
    if (y->isConstant()) {
      quotient = constant(std::floor(value / y->constant));
      rest = constant(value - quotient->constant * y->constant);
    } else {
      rest = constant(value);
    }
    for (auto &[term, factor] : termsOf(x)) {
      Expr part = sum(0, {{term, factor}});
      if (y->isConstant() && std::fmod(factor, y->constant) == 0) {
        quotient = add(quotient, sum(0, {{term, factor / y->constant}}));
        continue;
      }
      Expr divided = mul(part, power(y, -1));
      if (!y->isConstant() && divided->isInteger)
        quotient = add(quotient, divided);
      else
        rest = add(rest, part);
    }
    if (isNotBelowZero(rest) == true && isNotBelowZero(sub(sub(y, constant(1)), rest)) == true)
      return quotient;
    if (rest->isConstant() && y->isConstant())
      return add(quotient, constant(std::floor(rest->constant / y->constant)));
    // floor((step a + b) / (step c)) is floor(a / c), where b is below the step.
    for (auto &[stepped, step] : termsOf(rest)) {
      if (!y->isConstant() || y->constant <= 0 || step <= 1 || std::fmod(y->constant, step) != 0)
        continue;
      double digits = std::floor(constantOf(rest) / step);
      Expr high = constant(digits), low = constant(constantOf(rest) - digits * step);
      for (auto &[term, factor] : termsOf(rest)) {
        bool isStepped = std::fmod(factor, step) == 0;
        Expr &part = isStepped ? high : low;
        part = add(part, sum(0, {{term, isStepped ? factor / step : factor}}));
      }
      if (isNotBelowZero(low) == true && isNotBelowZero(sub(constant(step - 1), low)) == true)
        return add(quotient, floorDiv(high, constant(y->constant / step)));
    }
    ExprNode node(ExprKind::FloorDiv);
    node.arguments = {rest, y};
    node.isInteger = true;
    return add(quotient, intern(std::move(node)));
  });
}

//===- decisions ----------------------------------------------------------===//

Expr ExprContext::lift(ArrayRef<Expr> arguments, function_ref<Expr(ArrayRef<Expr>)> build) {
  Expr first = nullptr;
  for (Expr argument : arguments)
    if (argument->kind == ExprKind::Choice && (!first || argument->atom()->id < first->id))
      first = argument->atom();
  if (!first || exhausted())
    return build(arguments);
  auto branch = [&](bool holds) {
    SmallVector<Expr> plain;
    for (Expr argument : arguments)
      plain.push_back(assume(argument, first, holds));
    return lift(plain, build);
  };
  Expr high = branch(true), low = branch(false);
  return choice(first, high, low);
}

static void forEachSymbol(Expr expr, function_ref<void(Expr)> visit) {
  DenseSet<Expr> seen;
  SmallVector<Expr> work{expr};
  while (!work.empty()) {
    Expr part = work.pop_back_val();
    if (!seen.insert(part).second)
      continue;
    if (part->kind == ExprKind::Symbol)
      visit(part);
    llvm::append_range(work, part->arguments);
    llvm::append_range(work, llvm::make_first_range(part->terms));
  }
}

Expr ExprContext::choice(Expr atom, Expr high, Expr low) {
  Expr wholeHigh = high, wholeLow = low;
  high = assume(high, atom, true);
  low = assume(low, atom, false);
  if (high == low)
    return high;
  // Where one end is at most a point, and the other end is the same there, there is no decision.
  if (assume(wholeLow, atom, true) == high)
    return wholeLow;
  if (assume(wholeHigh, atom, false) == low)
    return wholeHigh;
  ExprNode node(ExprKind::Choice);
  node.arguments = {atom, high, low};
  node.isInteger = high->isInteger && low->isInteger;
  return intern(std::move(node));
}

// `expr` where `atom` holds, or does not: decisions that follow are taken, a symbol with one value left is replaced.
Expr ExprContext::assume(Expr expr, Expr atom, bool holds) {
  if (atom->kind != ExprKind::NotBelow && expr->kind != ExprKind::Choice)
    return expr;
  if (atom->kind == ExprKind::NotBelow) {
    Expr bound = atom->arguments[0]; // bound >= 0, or -bound - 1 >= 0
    Expr fact = holds ? bound : sub(constant(-1), bound);
    Terms terms = termsOf(fact);
    bool isRanged =
        terms.size() == 1 && (terms[0].first->kind == ExprKind::Symbol || terms[0].first->kind == ExprKind::Size);
    if (isRanged) {
      Expr index = terms[0].first;
      std::optional<Expr> point;
      if (index->kind == ExprKind::Size && terms[0].second == -1 && constantOf(fact) == 1) // size <= 1
        point = constant(1);
      if (index->kind == ExprKind::Symbol && terms[0].second == -1 && constantOf(fact) == 0) // index <= 0
        point = constant(0);
      if (terms[0].second == 1 && index->extent &&
          index->extent->isConstant(1 - constantOf(fact))) // index >= extent - 1
        point = constant(-constantOf(fact));
      DenseMap<Expr, Expr> map;
      if (point && contains(expr, index))
        map[index] = *point;
      if (point && index->kind == ExprKind::Size) // what counts up to a size of 1 is 0
        forEachSymbol(expr, [&](Expr symbol) {
          if (symbol->extent == index)
            map[symbol] = constant(0);
        });
      if (!map.empty())
        return substitute(expr, map);
    }
    if (expr->kind != ExprKind::Choice)
      return expr;
    if (expr->atom() != atom && expr->atom()->kind == ExprKind::NotBelow) {
      // fact >= 0 decides other >= 0 if other - fact >= 0, and refutes it if -other - 1 - fact >= 0.
      Expr other = expr->atom()->arguments[0];
      if (isNotBelowZero(sub(other, fact)) == true)
        return assume(expr->high(), atom, holds);
      if (isNotBelowZero(sub(sub(constant(-1), other), fact)) == true)
        return assume(expr->low(), atom, holds);
    }
  }
  if (expr->atom() == atom)
    return assume(holds ? expr->high() : expr->low(), atom, holds);
  Expr high = assume(expr->high(), atom, holds), low = assume(expr->low(), atom, holds);
  if (high == expr->high() && low == expr->low())
    return expr;
  return choice(expr->atom(), high, low);
}

Expr ExprContext::notBelow(Expr a, Expr b) {
  return lift({a, b}, [&](ArrayRef<Expr> plain) -> Expr {
    Expr difference = sub(plain[0], plain[1]);
    if (std::optional<bool> known = isNotBelowZero(difference))
      return constant(*known);
    // One of x >= 0 and -x - 1 >= 0 is the atom: the one whose first coefficient is positive.
    bool isNegated = termsOf(difference)[0].second < 0;
    ExprNode node(ExprKind::NotBelow);
    node.arguments = {isNegated ? sub(constant(-1), difference) : difference};
    node.isInteger = true;
    Expr atom = intern(std::move(node));
    return choice(atom, constant(!isNegated), constant(isNegated));
  });
}

Expr ExprContext::equal(Expr a, Expr b) {
  return mul(notBelow(a, b), notBelow(b, a));
}

Expr ExprContext::condition(Expr opaque) {
  return lift({opaque}, [&](ArrayRef<Expr> plain) -> Expr {
    if (plain[0]->isConstant())
      return constant(plain[0]->constant != 0);
    if (plain[0]->kind == ExprKind::NotBelow)
      return notBelow(plain[0]->arguments[0], constant(0));
    return choice(plain[0], constant(1), constant(0));
  });
}

Expr ExprContext::select(Expr condition, Expr high, Expr low) {
  return lift({condition, high, low}, [&](ArrayRef<Expr> plain) -> Expr {
    if (plain[0]->isConstant())
      return plain[0]->constant != 0 ? plain[1] : plain[2];
    return choice(plain[0], plain[1], plain[2]);
  });
}

//===- reductions ---------------------------------------------------------===//

// For how many values of `index` the atom holds; null if it does not follow.
Expr ExprContext::countWhere(Expr atom, Expr index) {
  if (atom->kind != ExprKind::NotBelow)
    return nullptr;
  Expr difference = atom->arguments[0];
  for (double sign : {1, -1}) {
    Expr rest = sub(difference, mul(constant(sign), index));
    if (contains(rest, index))
      continue;
    // index <= rest, or index >= -rest
    Expr end = sign < 0 ? add(rest, constant(1)) : mul(constant(-1), rest);
    if (isNotBelowZero(end) == true && isNotBelowZero(sub(index->extent, end)) == true)
      return sign < 0 ? end : sub(index->extent, end);
  }
  return nullptr;
}

// Whether every end of a diagram is a constant: the greatest (or least) of them, else nothing.
static std::optional<double> extremeEnd(Expr expr, bool greatest) {
  if (expr->kind != ExprKind::Choice)
    return expr->isConstant() ? std::optional(expr->constant) : std::nullopt;
  std::optional<double> high = extremeEnd(expr->high(), greatest), low = extremeEnd(expr->low(), greatest);
  if (!high || !low)
    return std::nullopt;
  return greatest ? std::max(*high, *low) : std::min(*high, *low);
}

// The greatest (or least) end of a diagram if some value of `index` provably reaches it, whatever else is decided; null if it does
// not follow. Tried are both ends of the range and where an atom turns: so a causal row has a visible key, the query's own.
Expr ExprContext::reachedExtreme(bool greatest, Expr index, Expr body) {
  std::optional<double> extreme = extremeEnd(body, greatest);
  if (!extreme || !index->extent)
    return nullptr;
  SmallVector<Expr> places{constant(0), sub(index->extent, constant(1))};
  std::function<void(Expr)> collect = [&](Expr part) {
    if (part->kind != ExprKind::Choice)
      return;
    for (double sign : {1, -1})
      if (part->atom()->kind == ExprKind::NotBelow)
        if (Expr rest = sub(part->atom()->arguments[0], mul(constant(sign), index)); !contains(rest, index))
          places.push_back(mul(constant(-sign), rest));
    collect(part->high());
    collect(part->low());
  };
  collect(body);
  for (Expr place : places) {
    if (isNotBelowZero(place) != true || isNotBelowZero(sub(sub(index->extent, constant(1)), place)) != true)
      continue;
    DenseMap<Expr, Expr> map{{index, place}};
    if (Expr reached = substitute(body, map); reached->isConstant(*extreme))
      return reached;
  }
  return nullptr;
}

Expr ExprContext::reduce(StringRef name, Expr index, Expr body) {
  if (index->isConstant()) // an extent of one
    return body;
  if (body->kind == ExprKind::Choice && !contains(body->atom(), index)) {
    Expr high = reduce(name, index, body->high()), low = reduce(name, index, body->low());
    return choice(body->atom(), high, low);
  }
  bool isSum = name == "sum";
  if (isSum && body->kind == ExprKind::Choice && !contains(body->high(), index) && !contains(body->low(), index))
    if (Expr count = countWhere(body->atom(), index))
      return add(mul(count, body->high()), mul(sub(index->extent, count), body->low()));
  if (!isSum && body->kind == ExprKind::Choice)
    if (Expr reached = reachedExtreme(name == "max", index, body))
      return reached;
  if (!contains(body, index))
    return isSum && body->kind != ExprKind::Choice ? mul(body, index->extent) : body;
  if (body->kind == ExprKind::Sum && body->constant == 0 && body->terms.size() == 1) {
    auto [term, factor] = body->terms[0];
    StringRef turned = name == "max" ? "min" : "max"; // the greatest of -x is minus the least of x
    return mul(constant(factor), reduce(isSum || factor > 0 ? name : turned, index, term));
  }
  if (isSum && body->kind == ExprKind::Product) {
    Terms inside, outside;
    for (auto &factor : body->terms)
      (contains(factor.first, index) ? inside : outside).push_back(factor);
    if (!outside.empty())
      return mul(product(outside), reduce(name, index, product(inside)));
  }
  ExprNode node(ExprKind::Reduce);
  node.name = name.str();
  node.symbol = index;
  node.arguments = {body};
  node.isInteger = body->isInteger;
  return intern(std::move(node));
}
