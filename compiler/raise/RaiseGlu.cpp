// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/interpreter/Formulas.h"
#include "compiler/raise/Arrange.h"
#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/Weights.h"
#include "compiler/raise/WidenActivations.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

namespace heddle {
#define GEN_PASS_DEF_RAISEGLU
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

//===- functions of one value ---------------------------------------------===//

// Whether `expr` is an analytic function of `leaf` alone.
static bool isAnalytic(Expr expr, Expr leaf) {
  if (expr == leaf || expr->isConstant())
    return true;
  bool isSum = expr->kind == ExprKind::Sum || expr->kind == ExprKind::Product,
       isCall = expr->kind == ExprKind::Call && (expr->name == "exp" || expr->name == "tanh" || expr->name == "erf");
  return (isSum || isCall) && llvm::all_of(expr->arguments, [&](Expr part) { return isAnalytic(part, leaf); }) &&
         llvm::all_of(expr->terms, [&](auto &term) { return isAnalytic(term.first, leaf); });
}

// Whether `expr` is `kind` of `leaf`, its numbers as `stored` makes them: analytic functions that agree at this many points to the precision of
// their constants, 32-bit floats, are the same one.
static bool agrees(Expr expr, Expr leaf, ActivationKind kind, function_ref<double(double)> stored) {
  for (int i = -128; i <= 128; ++i) {
    double x = 0.09375 * i + 0.01, wanted = activate(kind, x, stored);
    std::optional<double> value = evaluate(expr, {{leaf, x}});
    if (!value || std::abs(*value - wanted) > 1e-6 * (1e-3 + std::abs(wanted)) + 1e-9)
      return false;
  }
  return true;
}

// `widened`: the type of 16 bits that the constants of a graph were rounded to before it was widened to f32; null where they were not. Its activations
// are those of its checkpoint. relu is no analytic function and is matched by its form.
static std::optional<ActivationKind> activationOf(Expr expr, Expr leaf, Type widened) {
  if (expr->kind == ExprKind::Call && expr->name == "max" && llvm::is_contained(expr->arguments, leaf) &&
      llvm::any_of(expr->arguments, [](Expr argument) { return argument->isConstant(0); }))
    return ActivationKind::Relu;
  if (!isAnalytic(expr, leaf))
    return std::nullopt;
  for (ActivationKind kind : {ActivationKind::Silu, ActivationKind::Gelu, ActivationKind::GeluTanh,
                              ActivationKind::QuickGelu, ActivationKind::Tanh}) {
    auto rounded = [&](double number) {
      bool isInexact;
      APFloat narrow(number);
      narrow.convert(cast<FloatType>(widened).getFloatSemantics(), APFloat::rmNearestTiesToEven, &isInexact);
      return narrow.convertToDouble();
    };
    if (agrees(expr, leaf, kind, [](double number) { return number; }) ||
        (widened && agrees(expr, leaf, kind, rounded)))
      return kind;
  }
  return std::nullopt;
}

//===- roots --------------------------------------------------------------===//

// cap * tanh(x / cap)
static std::optional<double> softcapOf(Expr expr, Expr leaf) {
  SmallVector<std::pair<Expr, double>> outer = termsOf(expr);
  if (constantOf(expr) != 0 || outer.size() != 1 || outer[0].first->kind != ExprKind::Call ||
      outer[0].first->name != "tanh")
    return std::nullopt;
  SmallVector<std::pair<Expr, double>> inner = termsOf(outer[0].first->arguments[0]);
  double cap = outer[0].second;
  if (inner.size() != 1 || inner[0].first != leaf || constantOf(outer[0].first->arguments[0]) != 0 || cap <= 0 ||
      cap == 1 || std::abs(inner[0].second * cap - 1) > 1e-6)
    return std::nullopt;
  return asWritten(cap);
}

// `leaf`, an element for every index of root's result, as a tensor of its type; null if it is repeated or no activation.
static Value elementwise(OpBuilder &b, Operation *root, ExprContext &exprs, ElementTrace &trace, Expr leaf,
                         ArrayRef<Expr> symbols) {
  Value result = root->getResult(0);
  if (leaf->value.getType() == result.getType() && llvm::equal(leaf->arguments, symbols))
    return leaf->value;
  bool dependsOnAll =
      llvm::all_of(symbols, [&](Expr symbol) { return symbol->isConstant() || exprs.contains(leaf, symbol); });
  if (!dependsOnAll || isStored(leaf->value) || !isa<RankedTensorType>(leaf->value.getType()) ||
      !getElementTypeOrSelf(leaf->value.getType()).isF32())
    return {};
  SmallVector<Axis> axes;
  for (auto [d, symbol] : llvm::enumerate(symbols))
    axes.push_back({symbol, trace.size(result, d)});
  std::string why;
  Value part = arrange(b, root->getLoc(), exprs, leaf->value, leaf->arguments, axes, why);
  if (part && part.getType() != result.getType())
    part = tensor::CastOp::create(b, root->getLoc(), result.getType(), part);
  return part;
}

// The collapse_shapes behind elementwise ops: rows of all sequences in one dimension, which no slice or transpose of what was
// collapsed gives.
static SmallVector<Value> collapsedBehind(Operation *root) {
  SmallVector<Value> found;
  SmallVector<Operation *> work{root};
  for (size_t next = 0; next < work.size() && work.size() < 32; ++next)
    for (Value operand : work[next]->getOperands()) {
      Operation *op = operand.getDefiningOp();
      if (isa_and_nonnull<tensor::CollapseShapeOp>(op))
        found.push_back(operand);
      else if (op && op->hasTrait<OpTrait::Elementwise>() && !llvm::is_contained(work, op))
        work.push_back(op);
    }
  return found;
}

// `ends` are values that are taken as they are.
static Value raisedFrom(Operation *root, ArrayRef<Value> ends) {
  // A gate and its activation lie side by side: a long formula is no gate.
  ExprContext exprs(ExprContext::manySteps / 16);
  ElementTrace trace(exprs);
  for (Value end : ends)
    trace.stopAt(end);
  Value result = root->getResult(0);
  SmallVector<Expr> symbols = trace.indexSymbols(result);
  Expr element = trace.element(result, symbols);
  if (exprs.exhausted())
    return {};
  SmallVector<Expr> leaves = leavesOf(element);
  if (leaves.empty() || leaves.size() > 2)
    return {};
  OpBuilder b(root);
  auto widened = root->getParentOfType<func::FuncOp>()->getAttrOfType<TypeAttr>(widenedAttr);
  auto activationOfLeaf = [&](Expr expr, Expr leaf) {
    return activationOf(expr, leaf, widened ? widened.getValue() : Type());
  };
  // Gate and up may be parts of one product.
  auto valueOf = [&](Expr leaf) { return elementwise(b, root, exprs, trace, leaf, symbols); };
  auto create = [&](Expr gate, Expr up, ActivationKind kind) -> Value {
    Value gateValue = valueOf(gate), upValue = up ? valueOf(up) : Value();
    if (!gateValue || (up && !upValue))
      return {};
    return GluOp::create(b, root->getLoc(), result.getType(), gateValue, upValue,
                         ActivationKindAttr::get(b.getContext(), kind));
  };
  if (leaves.size() == 1) {
    if (auto cap = softcapOf(element, leaves[0]))
      if (Value input = valueOf(leaves[0]))
        return SoftcapOp::create(b, root->getLoc(), result.getType(), input, b.getF64FloatAttr(*cap));
    if (auto kind = activationOfLeaf(element, leaves[0]))
      return create(leaves[0], nullptr, *kind);
    return {};
  }
  // One is a plain factor, the other what is activated.
  for (unsigned up : {0u, 1u}) {
    Expr rest = exprs.div(element, leaves[up]);
    if (exprs.contains(rest, leaves[up]))
      continue;
    if (auto kind = activationOfLeaf(rest, leaves[1 - up]))
      return create(leaves[1 - up], leaves[up], *kind);
  }
  return {};
}

static Value raised(Operation *root) {
  if (Value value = raisedFrom(root, {}))
    return value;
  SmallVector<Value> collapsed = collapsedBehind(root);
  return collapsed.empty() ? Value() : raisedFrom(root, collapsed);
}

namespace {
struct RaiseGlu : heddle::impl::RaiseGluBase<RaiseGlu> {
  void runInStage() override {
    SmallVector<Operation *> candidates;
    getOperation().walk([&](Operation *op) {
      bool isRoot = isa<arith::MulFOp, arith::DivFOp, arith::MaximumFOp, arith::MaxNumFOp, math::TanhOp>(op);
      auto type = op->getNumResults() ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
      if (isRoot && type && type.getRank() && type.getElementType().isF32())
        candidates.push_back(op);
    });
    // Last first: silu(gate) * up before silu(gate).
    for (Operation *op : llvm::reverse(candidates))
      if (!isDead(op))
        if (Value value = raised(op)) {
          op->getResult(0).replaceAllUsesWith(value);
        }
    eraseDeadOps(getOperation());
  }
};
} // namespace
