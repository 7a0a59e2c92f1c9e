// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions taken apart and built again, and as text.

#include "compiler/raise/Expr.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

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

void heddle::forEachEnd(Expr expr, function_ref<void(Expr)> visit) {
  if (expr->kind != ExprKind::Choice)
    return visit(expr);
  forEachEnd(expr->high(), visit);
  forEachEnd(expr->low(), visit);
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
