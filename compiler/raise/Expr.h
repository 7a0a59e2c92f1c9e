// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar expressions in a normal form: what one element of a tensor is, as a function of its index. Equal expressions are
// one node, so comparing them is comparing pointers.
//
//   Sum      constant + sum of coefficient * term          terms are no sums
//   Product  product of base ^ exponent                    bases are no products; coefficients live in the sum around it
//   Choice   a decision: `high` where an atom holds, `low` where not. Choices lie outside of everything else, atoms in the
//            order of their ids on every path, and no path contradicts itself or the ranges of its symbols: a mask is a
//            small diagram whose ends are the values that it adds, however it was spelled.
//
// Integers are exact and do not wrap: index arithmetic stays far below 2^53.
#ifndef HEDDLE_COMPILER_RAISE_EXPR_H
#define HEDDLE_COMPILER_RAISE_EXPR_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace heddle {

enum class ExprKind {
  Constant,
  Symbol, // an integer in [0, extent): an index
  Size,   // dimension `dimension` of tensor `value`; at least 1, since an element of it is looked at
  Leaf,   // element [arguments] of tensor `value`
  Sum,
  Product,
  Call,     // function `name` of `arguments`
  FloorDiv, // arguments[0] / arguments[1], rounded down; a remainder is written with it
  Reduce,   // `name` (sum, max, min) of arguments[0] over `symbol`
  NotBelow, // atom: integer arguments[0] >= 0
  Choice    // arguments: atom, high, low
};

struct ExprNode;
using Expr = const ExprNode *;

struct ExprNode {
  explicit ExprNode(ExprKind kind) : kind(kind) {}

  ExprKind kind;
  unsigned id = 0;
  double constant = 0;                                 // Constant, Sum
  llvm::SmallVector<std::pair<Expr, double>, 2> terms; // Sum: coefficients; Product: exponents. Sorted by id
  llvm::SmallVector<Expr, 2> arguments;
  mlir::Value value;
  int64_t dimension = 0; // Size: which; Symbol: its number
  std::string name;
  Expr extent = nullptr, symbol = nullptr;
  bool isInteger = false;

  bool isConstant() const { return kind == ExprKind::Constant; }
  bool isConstant(double wanted) const { return isConstant() && constant == wanted; }
  Expr atom() const { return arguments[0]; }
  Expr high() const { return arguments[1]; }
  Expr low() const { return arguments[2]; }
};

// Finds a node by what it says.
struct EqualNodes : llvm::DenseMapInfo<Expr> {
  static unsigned getHashValue(Expr node);
  static bool isEqual(Expr a, Expr b);
};

// Owns expressions and builds them in normal form.
class ExprContext {
public:
  // Steps after which a question is given up. What the models of the suite ask takes fewer than 20,000.
  static constexpr size_t manySteps = 1 << 15;
  explicit ExprContext(size_t mostSteps = manySteps) : mostSteps(mostSteps) {}

  Expr constant(double value);
  // Symbols of one number and extent are the same.
  Expr symbol(int64_t number, Expr extent);
  Expr size(mlir::Value value, int64_t dimension);
  Expr leaf(mlir::Value value, llvm::ArrayRef<Expr> indices);
  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b) { return add(a, mul(constant(-1), b)); }
  Expr mul(Expr a, Expr b);
  Expr div(Expr a, Expr b) { return mul(a, power(b, -1)); }
  Expr power(Expr base, double exponent);
  Expr floorDiv(Expr a, Expr b);
  Expr remainder(Expr a, Expr b) { return sub(a, mul(b, floorDiv(a, b))); }
  Expr call(llvm::StringRef name, llvm::ArrayRef<Expr> arguments, bool isInteger = false);
  Expr reduce(llvm::StringRef name, Expr symbol, Expr body);

  // Conditions are 1 where they hold, else 0.
  Expr notBelow(Expr a, Expr b); // a >= b, integers
  Expr equal(Expr a, Expr b);    // integers
  Expr condition(Expr opaque);   // an element or call that is 0 or 1, or an atom
  Expr negate(Expr condition) { return sub(constant(1), condition); }
  Expr select(Expr condition, Expr high, Expr low);

  // `expr` with its ends, what is left after all decisions, replaced.
  Expr mapEnds(Expr expr, llvm::function_ref<Expr(Expr)> end);
  // `expr` with symbols and other nodes replaced.
  Expr substitute(Expr expr, const llvm::DenseMap<Expr, Expr> &map);
  bool contains(Expr expr, Expr part);
  // Whether integer expr >= 0 on its whole domain, or < 0 on it; nothing if neither is known.
  std::optional<bool> isNotBelowZero(Expr expr);

  // An expression grew beyond bounds, or took too long to bring into normal form: decisions stay inside of what is built from then on, which
  // is still what it says, but no longer the same node as its equals.
  bool exhausted() const { return nodes.size() > mostNodes || steps > mostSteps; }

private:
  Expr intern(ExprNode node);
  Expr lift(llvm::ArrayRef<Expr> arguments, llvm::function_ref<Expr(llvm::ArrayRef<Expr>)> build);
  Expr choice(Expr atom, Expr high, Expr low);
  Expr assume(Expr expr, Expr atom, bool holds);
  Expr sum(double constant, llvm::ArrayRef<std::pair<Expr, double>> terms);
  Expr product(llvm::ArrayRef<std::pair<Expr, double>> factors);
  bool isNatural(Expr term);
  Expr lowerBound(Expr expr);
  Expr countWhere(Expr atom, Expr index);
  Expr reachedExtreme(bool greatest, Expr index, Expr body);
  Expr map(Expr expr, llvm::function_ref<Expr(Expr)> leafwise, llvm::DenseMap<Expr, Expr> &memo);

  static constexpr size_t mostNodes = 1 << 20;
  const size_t mostSteps;
  size_t steps = 0; // nodes that were asked for, known ones too: diagrams of few nodes may have very many paths
  std::deque<ExprNode> nodes;
  llvm::DenseSet<Expr, EqualNodes> interned;
};

// The constant and the coefficients of `expr` as a sum; a sum of one term otherwise.
double constantOf(Expr expr);
llvm::SmallVector<std::pair<Expr, double>> termsOf(Expr expr);
// The number by which `symbol` alone is divided somewhere in `expr`; null if there is none.
Expr divisorOf(Expr expr, Expr symbol);
// Bases and exponents of `expr` as a product, its coefficient left out.
llvm::SmallVector<std::pair<Expr, double>> factorsOf(Expr expr);

// What a call of `name` is at constants; nothing for a function that is not known here.
std::optional<double> evaluateCall(llvm::StringRef name, llvm::ArrayRef<double> arguments);

// What `expr` is where its leaves are the numbers of `known`; nothing where it holds others, decisions, or functions that are not known here.
std::optional<double> evaluate(Expr expr, const llvm::DenseMap<Expr, double> &known);
// The elements of tensors that `expr` holds, each once.
llvm::SmallVector<Expr> leavesOf(Expr expr);

// Calls `visit` with each end of `expr`, what is left after all decisions.
void forEachEnd(Expr expr, llvm::function_ref<void(Expr)> visit);

// As a person would write it, for diagnostics and debugging.
std::string toString(Expr expr);

} // namespace heddle

#endif
