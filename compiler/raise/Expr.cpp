// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes, sums and products.

#include "compiler/raise/Expr.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace heddle;

using Terms = SmallVector<std::pair<Expr, double>>;

//===- nodes --------------------------------------------------------------===//

// Bits and not values: a NaN equals itself.
static uint64_t bitsOf(double value) {
  return llvm::bit_cast<uint64_t>(value);
}

unsigned EqualNodes::getHashValue(Expr node) {
  llvm::hash_code hash = llvm::hash_combine(node->kind, bitsOf(node->constant), node->value.getAsOpaquePointer(),
                                            node->dimension, node->extent, node->symbol, llvm::StringRef(node->name),
                                            llvm::hash_combine_range(node->arguments));
  for (auto [term, factor] : node->terms)
    hash = llvm::hash_combine(hash, term, bitsOf(factor));
  return unsigned(hash);
}

bool EqualNodes::isEqual(Expr a, Expr b) {
  if (a == b || a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() || b == getTombstoneKey())
    return a == b;
  auto sameTerm = [](const std::pair<Expr, double> &x, const std::pair<Expr, double> &y) {
    return x.first == y.first && bitsOf(x.second) == bitsOf(y.second);
  };
  return a->kind == b->kind && bitsOf(a->constant) == bitsOf(b->constant) && a->value == b->value &&
         a->dimension == b->dimension && a->extent == b->extent && a->symbol == b->symbol &&
         a->arguments == b->arguments && a->name == b->name && llvm::equal(a->terms, b->terms, sameTerm);
}

Expr ExprContext::intern(ExprNode node) {
  ++steps;
  if (auto known = interned.find(&node); known != interned.end())
    return *known;
  node.id = nodes.size();
  nodes.push_back(std::move(node));
  interned.insert(&nodes.back());
  return &nodes.back();
}

Expr ExprContext::constant(double value) {
  ExprNode node(ExprKind::Constant);
  node.constant = value == 0 ? 0 : value; // one zero
  node.isInteger = std::isfinite(value) && value == std::floor(value);
  return intern(std::move(node));
}

Expr ExprContext::symbol(int64_t number, Expr extent) {
  if (extent && extent->isConstant(1))
    return constant(0);
  ExprNode node(ExprKind::Symbol);
  node.dimension = number;
  node.extent = extent;
  node.isInteger = true;
  return intern(std::move(node));
}

Expr ExprContext::size(Value value, int64_t dimension) {
  auto type = cast<ShapedType>(value.getType());
  if (!type.isDynamicDim(dimension))
    return constant(type.getDimSize(dimension));
  ExprNode node(ExprKind::Size);
  node.value = value;
  node.dimension = dimension;
  node.isInteger = true;
  return intern(std::move(node));
}

Expr ExprContext::leaf(Value value, ArrayRef<Expr> indices) {
  return lift(indices, [&](ArrayRef<Expr> plain) {
    ExprNode node(ExprKind::Leaf);
    node.value = value;
    node.arguments.assign(plain.begin(), plain.end());
    node.isInteger = getElementTypeOrSelf(value.getType()).isIntOrIndex();
    return intern(std::move(node));
  });
}

std::optional<double> heddle::evaluateCall(StringRef name, ArrayRef<double> x) {
  if (x.size() == 2 && (name == "max" || name == "min"))
    return name == "max" ? std::fmax(x[0], x[1]) : std::fmin(x[0], x[1]);
  if (x.size() == 2 && (name == "equal" || name == "greater" || name == "at_least"))
    return name == "equal" ? x[0] == x[1] : name == "greater" ? x[0] > x[1] : x[0] >= x[1];
  // No integer is meant where T5's buckets take the logarithm of a distance of 0, beside what they choose for it.
  if (name == "truncate" && x.size() == 1 && !std::isfinite(x[0]))
    return std::nullopt;
  using Function = double (*)(double);
  auto function = llvm::StringSwitch<Function>(name)
                      .Case("exp", std::exp)
                      .Case("tanh", std::tanh)
                      .Case("erf", std::erf)
                      .Case("sin", std::sin)
                      .Case("cos", std::cos)
                      .Case("log", std::log)
                      .Case("abs", std::fabs)
                      .Case("floor", std::floor)
                      .Case("ceil", std::ceil)
                      .Case("truncate", std::trunc)
                      .Default(nullptr);
  return function && x.size() == 1 ? std::optional(function(x[0])) : std::nullopt;
}

std::optional<double> heddle::evaluate(Expr expr, const DenseMap<Expr, double> &known) {
  if (auto found = known.find(expr); found != known.end())
    return found->second;
  if (expr->isConstant())
    return expr->constant;
  if (expr->kind == ExprKind::Sum || expr->kind == ExprKind::Product) {
    bool isSum = expr->kind == ExprKind::Sum;
    double result = isSum ? expr->constant : 1;
    for (auto &[part, factor] : expr->terms) {
      std::optional<double> value = evaluate(part, known);
      if (!value)
        return std::nullopt;
      isSum ? result += factor **value : result *= std::pow(*value, factor);
    }
    return result;
  }
  if (expr->kind != ExprKind::Call)
    return std::nullopt;
  SmallVector<double> arguments;
  for (Expr argument : expr->arguments) {
    std::optional<double> value = evaluate(argument, known);
    if (!value)
      return std::nullopt;
    arguments.push_back(*value);
  }
  return evaluateCall(expr->name, arguments);
}

static void collectLeaves(Expr expr, SmallVectorImpl<Expr> &leaves) {
  if (expr->kind == ExprKind::Leaf) {
    if (!llvm::is_contained(leaves, expr))
      leaves.push_back(expr);
    return;
  }
  for (Expr argument : expr->arguments)
    collectLeaves(argument, leaves);
  for (auto &[term, factor] : expr->terms)
    collectLeaves(term, leaves);
}

SmallVector<Expr> heddle::leavesOf(Expr expr) {
  SmallVector<Expr> leaves;
  collectLeaves(expr, leaves);
  return leaves;
}

Expr ExprContext::call(StringRef name, ArrayRef<Expr> arguments, bool isInteger) {
  return lift(arguments, [&](ArrayRef<Expr> plain) -> Expr {
    if (llvm::all_of(plain, [](Expr argument) { return argument->isConstant(); }))
      if (std::optional<double> value =
              evaluateCall(name, llvm::map_to_vector(plain, [](Expr argument) { return argument->constant; })))
        return constant(*value);
    ExprNode node(ExprKind::Call);
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

Expr heddle::divisorOf(Expr expr, Expr symbol) {
  if (expr->kind == ExprKind::FloorDiv && termsOf(expr->arguments[0]).size() == 1 &&
      termsOf(expr->arguments[0])[0].first == symbol && expr->arguments[1]->isConstant())
    return expr->arguments[1];
  for (Expr argument : expr->arguments)
    if (Expr found = divisorOf(argument, symbol))
      return found;
  for (auto &[term, factor] : expr->terms)
    if (Expr found = divisorOf(term, symbol))
      return found;
  return nullptr;
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
  ExprNode node(ExprKind::Sum);
  node.constant = value == 0 ? 0 : value;
  node.isInteger = value == std::floor(value) && llvm::all_of(kept, [](auto &term) {
                     return term.first->isInteger && term.second == std::floor(term.second);
                   });
  node.terms.assign(kept.begin(), kept.end());
  return intern(std::move(node));
}

Expr ExprContext::product(ArrayRef<std::pair<Expr, double>> factors) {
  Terms kept = merged(factors);
  // exp(a) exp(b) is exp(a + b), exp(a)^c is exp(c a).
  auto isExponential = [](auto &factor) { return factor.first->kind == ExprKind::Call && factor.first->name == "exp"; };
  bool isSplit = llvm::count_if(kept, isExponential) > 1 ||
                 llvm::any_of(kept, [&](auto &factor) { return isExponential(factor) && factor.second != 1; });
  if (isSplit) {
    Expr exponent = constant(0);
    for (auto &factor : kept)
      if (isExponential(factor))
        exponent = add(exponent, mul(constant(factor.second), factor.first->arguments[0]));
    llvm::erase_if(kept, isExponential);
    return mul(product(kept), call("exp", exponent));
  }
  if (kept.empty())
    return constant(1);
  if (kept.size() == 1 && kept[0].second == 1)
    return kept[0].first;
  ExprNode node(ExprKind::Product);
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
      if (y->constant == 0) // 0 times infinity is no number
        return x->isConstant() ? constant(x->constant * 0) : y;
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
    // Exponentials that cancel leave a number, which is a coefficient.
    Expr whole = product(factors);
    bool isScaled = whole->kind == ExprKind::Sum && whole->constant == 0 && whole->terms.size() == 1;
    return whole->isConstant() || isScaled ? mul(constant(coefficient), whole) : sum(0, {{whole, coefficient}});
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
