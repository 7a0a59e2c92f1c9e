// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Remarks.h"

#include "compiler/raise/ElementTrace.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

static std::string locationText(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return named.getName().str();
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return locationText(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(loc); fused && !fused.getLocations().empty())
    return locationText(fused.getLocations().front());
  return "an unknown place";
}

std::string heddle::describe(Operation *op) {
  return "'" + op->getName().getStringRef().str() + "' at " + locationText(op->getLoc());
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
