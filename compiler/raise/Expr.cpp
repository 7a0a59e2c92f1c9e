// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Expr.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace heddle;

using Terms = SmallVector<std::pair<Expr, double>>;

//===- nodes --------------------------------------------------------------===//

static ExprNode makeNode(ExprKind kind) {
  ExprNode node;
  node.kind = kind;
  return node;
}

Expr ExprContext::intern(ExprNode node) {
  std::string key;
  auto put = [&](const auto &plain) { key.append(reinterpret_cast<const char *>(&plain), sizeof(plain)); };
  put(node.kind);
  put(node.constant);
  for (auto &[term, factor] : node.terms) {
    put(term);
    put(factor);
  }
  put('|');
  for (Expr argument : node.arguments)
    put(argument);
  put(node.value.getAsOpaquePointer());
  put(node.dimension);
  put(node.extent);
  put(node.symbol);
  key += node.name;
  auto [found, isNew] = interned.try_emplace(std::move(key), nullptr);
  if (isNew) {
    node.id = nodes.size();
    nodes.push_back(std::move(node));
    found->second = &nodes.back();
  }
  return found->second;
}

Expr ExprContext::constant(double value) {
  ExprNode node = makeNode(ExprKind::Constant);
  node.constant = value == 0 ? 0 : value; // one zero
  node.isInteger = std::isfinite(value) && value == std::floor(value);
  return intern(std::move(node));
}

Expr ExprContext::symbol(int64_t number, Expr extent) {
  if (extent && extent->isConstant(1))
    return constant(0);
  ExprNode node = makeNode(ExprKind::Symbol);
  node.dimension = number;
  node.extent = extent;
  node.isInteger = true;
  return intern(std::move(node));
}

Expr ExprContext::size(Value value, int64_t dimension) {
  auto type = cast<ShapedType>(value.getType());
  if (!type.isDynamicDim(dimension))
    return constant(type.getDimSize(dimension));
  ExprNode node = makeNode(ExprKind::Size);
  node.value = value;
  node.dimension = dimension;
  node.isInteger = true;
  return intern(std::move(node));
}

Expr ExprContext::leaf(Value value, ArrayRef<Expr> indices) {
  return lift(indices, [&](ArrayRef<Expr> plain) {
    ExprNode node = makeNode(ExprKind::Leaf);
    node.value = value;
    node.arguments.assign(plain.begin(), plain.end());
    node.isInteger = getElementTypeOrSelf(value.getType()).isIntOrIndex();
    return intern(std::move(node));
  });
}

Expr ExprContext::call(StringRef name, ArrayRef<Expr> arguments, bool isInteger) {
  return lift(arguments, [&](ArrayRef<Expr> plain) {
    ExprNode node = makeNode(ExprKind::Call);
    node.name = name.str();
    node.arguments.assign(plain.begin(), plain.end());
    node.isInteger = isInteger;
    return intern(std::move(node));
  });
}

//===- sums and products --------------------------------------------------===//

double heddle::constantOf(Expr expr) {
  return expr->kind == ExprKind::Sum || expr->isConstant() ? expr->constant : 0;
}

Terms heddle::termsOf(Expr expr) {
  if (expr->isConstant())
    return {};
  return expr->kind == ExprKind::Sum ? Terms(expr->terms.begin(), expr->terms.end()) : Terms{{expr, 1.0}};
}

Terms heddle::factorsOf(Expr expr) {
  if (expr->kind == ExprKind::Sum && expr->constant == 0 && expr->terms.size() == 1)
    expr = expr->terms[0].first;
  return expr->kind == ExprKind::Product ? Terms(expr->terms.begin(), expr->terms.end()) : Terms{{expr, 1.0}};
}

// Adds up what belongs to one node and drops what cancels.
static Terms merged(ArrayRef<std::pair<Expr, double>> terms) {
  Terms sorted(terms), result;
  llvm::stable_sort(sorted, [](auto &a, auto &b) { return a.first->id < b.first->id; });
  for (auto &[term, factor] : sorted) {
    if (!result.empty() && result.back().first == term)
      result.back().second += factor;
    else
      result.push_back({term, factor});
  }
  llvm::erase_if(result, [](auto &term) { return term.second == 0; });
  return result;
}

Expr ExprContext::sum(double value, ArrayRef<std::pair<Expr, double>> terms) {
  Terms kept = merged(terms);
  if (kept.empty())
    return constant(value);
  if (value == 0 && kept.size() == 1 && kept[0].second == 1)
    return kept[0].first;
  ExprNode node = makeNode(ExprKind::Sum);
  node.constant = value == 0 ? 0 : value;
  node.isInteger = value == std::floor(value) && llvm::all_of(kept, [](auto &term) {
                     return term.first->isInteger && term.second == std::floor(term.second);
                   });
  node.terms.assign(kept.begin(), kept.end());
  return intern(std::move(node));
}

Expr ExprContext::product(ArrayRef<std::pair<Expr, double>> factors) {
  Terms kept = merged(factors);
  if (kept.empty())
    return constant(1);
  if (kept.size() == 1 && kept[0].second == 1)
    return kept[0].first;
  ExprNode node = makeNode(ExprKind::Product);
  node.isInteger = llvm::all_of(kept, [](auto &factor) {
    return factor.first->isInteger && factor.second > 0 && factor.second == std::floor(factor.second);
  });
  node.terms.assign(kept.begin(), kept.end());
  return intern(std::move(node));
}

Expr ExprContext::add(Expr a, Expr b) {
  return lift({a, b}, [&](ArrayRef<Expr> plain) {
    Terms terms = termsOf(plain[0]);
    llvm::append_range(terms, termsOf(plain[1]));
    return sum(constantOf(plain[0]) + constantOf(plain[1]), terms);
  });
}

Expr ExprContext::mul(Expr a, Expr b) {
  return lift({a, b}, [&](ArrayRef<Expr> plain) -> Expr {
    Expr x = plain[0], y = plain[1];
    if (x->isConstant())
      std::swap(x, y);
    if (y->isConstant()) {
      if (y->constant == 0)
        return y;
      Terms scaled = termsOf(x);
      for (auto &term : scaled)
        term.second *= y->constant;
      return sum(constantOf(x) * y->constant, scaled);
    }
    // Index arithmetic is multiplied out, so that a flattened index can be divided again.
    if (x->isInteger && y->isInteger && (x->kind == ExprKind::Sum || y->kind == ExprKind::Sum)) {
      Expr result = constant(constantOf(x) * constantOf(y));
      for (auto &[term, factor] : termsOf(x)) {
        result = add(result, mul(constant(factor * constantOf(y)), term));
        for (auto &[other, otherFactor] : termsOf(y))
          result = add(result, mul(constant(factor * otherFactor), mul(term, other)));
      }
      for (auto &[other, otherFactor] : termsOf(y))
        result = add(result, mul(constant(constantOf(x) * otherFactor), other));
      return result;
    }
    double coefficient = 1;
    Terms factors;
    for (Expr side : {x, y}) {
      if (side->kind == ExprKind::Sum && side->constant == 0 && side->terms.size() == 1)
        coefficient *= side->terms[0].second;
      llvm::append_range(factors, factorsOf(side));
    }
    return sum(0, {{product(factors), coefficient}});
  });
}

Expr ExprContext::power(Expr base, double exponent) {
  return lift({base}, [&](ArrayRef<Expr> plain) -> Expr {
    Expr x = plain[0];
    if (exponent == 1)
      return x;
    if (x->isConstant())
      return constant(std::pow(x->constant, exponent));
    double coefficient = 1;
    bool isWhole = exponent == std::floor(exponent);
    if (x->kind == ExprKind::Sum && x->constant == 0 && x->terms.size() == 1) {
      coefficient = x->terms[0].second;
      if (coefficient < 0 && !isWhole) // no real root to take apart
        return product({{x, exponent}});
      x = x->terms[0].first;
    }
    Terms factors = factorsOf(x);
    // (x^2)^(1/2) is |x|: fractional powers of even powers stay as they are.
    if (!isWhole && llvm::any_of(factors, [](auto &factor) { return std::fmod(factor.second, 2) == 0; }))
      factors = {{x, 1.0}};
    for (auto &factor : factors)
      factor.second *= exponent;
    return mul(constant(std::pow(coefficient, exponent)), product(factors));
  });
}

//===- integers -----------------------------------------------------------===//

// At most `expr`, wherever its symbols are: positive ones at 0, negative ones at their end. Null where a term has no bound.
Expr ExprContext::lowerBound(Expr expr) {
  for (int round = 0; round < 4; ++round) { // a bound may bring in other symbols
    double value = constantOf(expr);
    Terms kept, ends;
    for (auto &[term, factor] : termsOf(expr)) {
      bool isIndex = term->kind == ExprKind::Symbol || term->kind == ExprKind::FloorDiv;
      if (isIndex && factor > 0)
        continue;
      if (term->kind == ExprKind::Symbol && term->extent)
        ends.push_back({term->extent, factor});
      else if (term->kind == ExprKind::Product && factor > 0 &&
               llvm::all_of(term->terms, [](auto &part) {
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
    ExprNode node = makeNode(ExprKind::FloorDiv);
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
  ExprNode node = makeNode(ExprKind::Choice);
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
    bool isRanged = terms.size() == 1 && (terms[0].first->kind == ExprKind::Symbol || terms[0].first->kind == ExprKind::Size);
    if (isRanged) {
      Expr index = terms[0].first;
      std::optional<Expr> point;
      if (index->kind == ExprKind::Size && terms[0].second == -1 && constantOf(fact) == 1) // size <= 1
        point = constant(1);
      if (index->kind == ExprKind::Symbol && terms[0].second == -1 && constantOf(fact) == 0) // index <= 0
        point = constant(0);
      if (terms[0].second == 1 && index->extent && index->extent->isConstant(1 - constantOf(fact))) // index >= extent - 1
        point = constant(-constantOf(fact));
      if (point && contains(expr, index)) {
        DenseMap<Expr, Expr> map{{index, *point}};
        return substitute(expr, map);
      }
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
    ExprNode node = makeNode(ExprKind::NotBelow);
    node.arguments = {isNegated ? sub(constant(-1), difference) : difference};
    node.isInteger = true;
    Expr atom = intern(std::move(node));
    return choice(atom, constant(!isNegated), constant(isNegated));
  });
}

Expr ExprContext::equal(Expr a, Expr b) { return mul(notBelow(a, b), notBelow(b, a)); }

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
  if (!contains(body, index))
    return isSum && body->kind != ExprKind::Choice ? mul(body, index->extent) : body;
  if (isSum && body->kind == ExprKind::Sum && body->constant == 0 && body->terms.size() == 1)
    return mul(constant(body->terms[0].second), reduce(name, index, body->terms[0].first));
  if (isSum && body->kind == ExprKind::Product) {
    Terms inside, outside;
    for (auto &factor : body->terms)
      (contains(factor.first, index) ? inside : outside).push_back(factor);
    if (!outside.empty())
      return mul(product(outside), reduce(name, index, product(inside)));
  }
  ExprNode node = makeNode(ExprKind::Reduce);
  node.name = name.str();
  node.symbol = index;
  node.arguments = {body};
  node.isInteger = body->isInteger;
  return intern(std::move(node));
}

//===- rewriting ----------------------------------------------------------===//

Expr ExprContext::map(Expr expr, function_ref<Expr(Expr)> leafwise, DenseMap<Expr, Expr> &memo) {
  if (Expr replaced = leafwise(expr))
    return replaced;
  if (auto found = memo.find(expr); found != memo.end())
    return found->second;
  auto recurse = [&](Expr part) { return map(part, leafwise, memo); };
  SmallVector<Expr> arguments;
  for (Expr argument : expr->arguments)
    arguments.push_back(recurse(argument));
  Expr result = expr;
  switch (expr->kind) {
  case ExprKind::Constant:
  case ExprKind::Symbol:
  case ExprKind::Size:
    break;
  case ExprKind::Leaf:
    result = leaf(expr->value, arguments);
    break;
  case ExprKind::Sum:
    result = constant(expr->constant);
    for (auto &[term, factor] : expr->terms)
      result = add(result, mul(constant(factor), recurse(term)));
    break;
  case ExprKind::Product:
    result = constant(1);
    for (auto &[base, exponent] : expr->terms)
      result = mul(result, power(recurse(base), exponent));
    break;
  case ExprKind::Call:
    result = call(expr->name, arguments, expr->isInteger);
    break;
  case ExprKind::FloorDiv:
    result = floorDiv(arguments[0], arguments[1]);
    break;
  case ExprKind::Reduce:
    result = reduce(expr->name, recurse(expr->symbol), arguments[0]);
    break;
  case ExprKind::NotBelow:
    result = notBelow(arguments[0], constant(0));
    break;
  case ExprKind::Choice: {
    Expr atom = expr->atom()->kind == ExprKind::NotBelow ? arguments[0] : condition(arguments[0]);
    result = select(atom, arguments[1], arguments[2]);
    break;
  }
  }
  return memo[expr] = result;
}

Expr ExprContext::mapEnds(Expr expr, function_ref<Expr(Expr)> end) {
  if (expr->kind != ExprKind::Choice)
    return end(expr);
  return select(condition(expr->atom()), mapEnds(expr->high(), end), mapEnds(expr->low(), end));
}

Expr ExprContext::substitute(Expr expr, const DenseMap<Expr, Expr> &replacements) {
  DenseMap<Expr, Expr> memo;
  return map(expr, [&](Expr part) { return replacements.lookup(part); }, memo);
}

bool ExprContext::contains(Expr expr, Expr part) {
  if (expr == part)
    return true;
  if (expr->id < part->id) // parts are older than what they are part of
    return false;
  auto has = [&](Expr inner) { return contains(inner, part); };
  return llvm::any_of(expr->arguments, has) || llvm::any_of(expr->terms, [&](auto &term) { return has(term.first); }) ||
         (expr->symbol && has(expr->symbol));
}

//===- text ---------------------------------------------------------------===//

std::string heddle::toString(Expr expr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto list = [&](ArrayRef<Expr> parts) { llvm::interleaveComma(parts, os, [&](Expr part) { os << toString(part); }); };
  switch (expr->kind) {
  case ExprKind::Constant:
    os << expr->constant;
    break;
  case ExprKind::Symbol:
    os << "i" << expr->dimension;
    break;
  case ExprKind::Size:
    os << "size" << expr->dimension;
    break;
  case ExprKind::Leaf:
    os << (isa<BlockArgument>(expr->value) ? "argument" : expr->value.getDefiningOp()->getName().getStringRef()) << "[";
    list(expr->arguments);
    os << "]";
    break;
  case ExprKind::Sum:
    os << "(" << expr->constant;
    for (auto &[term, factor] : expr->terms)
      os << " + " << factor << "*" << toString(term);
    os << ")";
    break;
  case ExprKind::Product:
    llvm::interleave(expr->terms, os, [&](auto &factor) { os << toString(factor.first) << "^" << factor.second; }, "*");
    break;
  case ExprKind::Choice:
    os << "if " << toString(expr->atom()) << " then " << toString(expr->high()) << " else " << toString(expr->low());
    break;
  case ExprKind::NotBelow:
    os << toString(expr->arguments[0]) << " >= 0";
    break;
  default:
    os << (expr->kind == ExprKind::FloorDiv ? "floordiv" : expr->name) << "(";
    list(expr->arguments);
    os << ")";
  }
  return text;
}
