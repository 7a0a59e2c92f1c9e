// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Remarks.h"

#include "compiler/raise/ElementTrace.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Locations.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

std::string heddle::describe(Operation *op) {
  return "'" + op->getName().getStringRef().str() + "' at " + locationText(op->getLoc());
}

static std::string nameOf(Value value) {
  if (auto weight = value.getDefiningOp<WeightOp>())
    return "weight '" + weight.getName().str() + "'";
  if (Operation *op = value.getDefiningOp())
    return describe(op);
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  auto name = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "heddle.name") : StringAttr();
  return name ? "input '" + name.str() + "'" : "argument " + std::to_string(argument.getArgNumber());
}

// The first tensor, other than a matmul's result, that an expression reads.
static Expr firstElement(Expr expr, unsigned depth = 0) {
  if (expr->kind == ExprKind::Leaf) {
    Operation *op = expr->value.getDefiningOp();
    return op && isContraction(op) ? nullptr : expr;
  }
  if (depth > 8)
    return nullptr;
  for (Expr argument : expr->arguments)
    if (Expr found = firstElement(argument, depth + 1))
      return found;
  for (auto &[term, factor] : expr->terms)
    if (Expr found = firstElement(term, depth + 1))
      return found;
  return nullptr;
}

std::string heddle::inWords(Expr expr) {
  auto with = [&](const std::string &what) {
    Expr element = firstElement(expr);
    return element ? what + " with an element of " + nameOf(element->value) : what;
  };
  switch (expr->kind) {
  case ExprKind::Constant: {
    char text[32];
    snprintf(text, sizeof text, "%g", expr->constant);
    return text;
  }
  case ExprKind::Symbol:
  case ExprKind::FloorDiv:
    return "a position";
  case ExprKind::Size:
    return "a size of " + nameOf(expr->value);
  case ExprKind::Leaf:
    return "an element of " + nameOf(expr->value);
  case ExprKind::Sum:
    return expr->constant == 0 && expr->terms.size() == 1 ? "a multiple of " + inWords(expr->terms[0].first)
                                                          : with("a sum");
  case ExprKind::Product:
    return with("a product");
  case ExprKind::Call:
    return with("the function '" + expr->name + "'");
  case ExprKind::Reduce:
    return with(expr->name == "sum" ? "a sum over an axis" : "the " + expr->name + " over an axis");
  case ExprKind::NotBelow:
    return "a comparison of positions";
  case ExprKind::Choice:
    return with("a choice");
  }
  llvm_unreachable("an expression of no kind");
}

// Whether each index is a sum of axes, `sequence` alone in its own.
static bool keepsApart(ExprContext &exprs, ArrayRef<Expr> indices, ArrayRef<Expr> axes, Expr sequence) {
  for (Expr index : indices) {
    unsigned mixed =
        llvm::count_if(axes, [&](Expr axis) { return !axis->isConstant() && exprs.contains(index, axis); });
    if (!sequence->isConstant() && exprs.contains(index, sequence) && mixed > 1)
      return false;
  }
  return true;
}

std::string heddle::blockingOp(ExprContext &exprs, Value operand, ArrayRef<Expr> given, ArrayRef<Expr> axes,
                               Expr sequence) {
  SmallVector<Expr> indices(given);
  Operation *mixing = nullptr;
  Value value = operand;
  while (Operation *op = value.getDefiningOp()) {
    ElementTrace step(exprs, TraceDepth::Layout);
    for (Value input : op->getOperands())
      if (isa<RankedTensorType>(input.getType()))
        step.stopAt(input);
    Expr element = factorsOf(step.element(value, indices))[0].first;
    if (element->kind != ExprKind::Leaf || element->value == value)
      return mixing ? describe(mixing) + " mixes the head and sequence axes"
                    : describe(op) + " gives its operand in an order that is not (batch, heads, sequence, head_dim)";
    value = element->value;
    indices.assign(element->arguments.begin(), element->arguments.end());
    bool isApart = keepsApart(exprs, indices, axes, sequence);
    if (isApart)
      mixing = nullptr;
    else if (!mixing)
      mixing = op;
  }
  return mixing ? describe(mixing) + " mixes the head and sequence axes"
                : "an operand is no (batch, heads, sequence, head_dim)";
}

void heddle::eraseDeadOps(Operation *root) {
  bool changed = true;
  while (changed) {
    changed = false;
    SmallVector<Operation *> dead;
    root->walk<WalkOrder::PostOrder>([&](Operation *op) {
      if (op != root && isOpTriviallyDead(op))
        dead.push_back(op);
    });
    for (Operation *op : llvm::reverse(dead))
      if (op->use_empty()) {
        op->erase();
        changed = true;
      }
  }
}

bool heddle::isDead(Operation *op) {
  return isOpTriviallyDead(op) || (isMemoryEffectFree(op) && llvm::all_of(op->getUsers(), [](Operation *user) {
                                     return !user->hasTrait<OpTrait::IsTerminator>() && isDead(user);
                                   }));
}

void heddle::foldIdentityLayouts(Operation *root) {
  SmallVector<Operation *> layouts;
  root->walk([&](Operation *op) {
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ReshapeOp, tensor::ExtractSliceOp,
            linalg::TransposeOp>(op))
      layouts.push_back(op);
  });
  for (Operation *op : layouts) {
    ExprContext exprs;
    ElementTrace layout(exprs, TraceDepth::Layout);
    Value result = op->getResult(0);
    SmallVector<Expr> symbols = layout.indexSymbols(result);
    Expr element = layout.element(result, symbols);
    if (element->kind != ExprKind::Leaf || element->value == result || element->arguments.size() != symbols.size() ||
        !llvm::equal(element->arguments, symbols))
      continue;
    // The same indices say the same sizes only where the source's are those of the result.
    bool sameSizes = llvm::all_of(llvm::seq<int64_t>(0, symbols.size()),
                                  [&](int64_t d) { return layout.size(element->value, d) == layout.size(result, d); });
    if (!sameSizes)
      continue;
    Value source = element->value;
    if (getElementTypeOrSelf(source) != getElementTypeOrSelf(result)) // the same numbers, of another type
      continue;
    if (source.getType() != result.getType()) {
      OpBuilder b(op);
      source = tensor::CastOp::create(b, op->getLoc(), result.getType(), source);
    }
    result.replaceAllUsesWith(source);
  }
  eraseDeadOps(root);
}
