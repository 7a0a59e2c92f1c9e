// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Gating.h"

#include "compiler/interpreter/Formulas.h"
#include "compiler/raise/Weights.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {
// A product and the vector that is added to it, or null.
struct Summand {
  Expr product, bias;
};
} // namespace

// The sizes of the numbers that `expr` holds.
static void collectNumbers(Expr expr, SmallVectorImpl<double> &numbers) {
  auto add = [&](double number) {
    double size = asWritten(std::abs(number));
    if (size > 0 && std::isfinite(size) && !llvm::is_contained(numbers, size))
      numbers.push_back(size);
  };
  if (expr->kind == ExprKind::Leaf)
    return;
  if (expr->isConstant() || expr->kind == ExprKind::Sum)
    add(expr->constant);
  for (Expr argument : expr->arguments)
    collectNumbers(argument, numbers);
  for (auto &[term, factor] : expr->terms) {
    if (expr->kind == ExprKind::Sum)
      add(factor);
    collectNumbers(term, numbers);
  }
}

// Whether `hidden` is `gated` of gate and up, at values around and beyond `reach`.
static bool agrees(Expr hidden, const Summand &gate, const Summand &up, ActivationKind kind, GatingAttr gating,
                   double reach) {
  static constexpr double places[] = {-5, -1.7, -1.01, -0.99, -0.4, -0.13, 0.06, 0.3, 0.74, 0.99, 1.01, 1.7, 5};
  DenseMap<Expr, double> known;
  auto set = [&](const Summand &summand, double value) {
    double bias = summand.bias ? 0.37 : 0;
    known[summand.product] = value - bias;
    if (summand.bias)
      known[summand.bias] = bias;
  };
  for (double g : places)
    for (double u : places) {
      set(gate, g * reach);
      set(up, u * reach);
      std::optional<double> found = evaluate(hidden, known);
      double wanted = activateGated(kind, gating, g * reach, u * reach);
      if (!found || !(std::abs(*found - wanted) <= 1e-6 * (1e-3 + std::abs(wanted)) + 1e-9))
        return false;
    }
  return true;
}

// The gating with bounds among `numbers` for which `fits`; null for none of them.
static GatingAttr findGating(MLIRContext *context, ArrayRef<double> numbers, function_ref<bool(GatingAttr)> fits) {
  Builder b(context);
  SmallVector<double> offsets{0};
  for (double number : numbers)
    offsets.append({number, -number});
  for (double limit : numbers)
    for (double alpha : numbers)
      for (double offset : offsets) {
        auto gating =
            GatingAttr::get(context, b.getF64FloatAttr(limit), b.getF64FloatAttr(alpha), b.getF64FloatAttr(offset));
        if (fits(gating))
          return gating;
      }
  return {};
}

std::optional<Gated> heddle::readGated(ExprContext &exprs, Expr hidden, function_ref<bool(Expr)> isProduct,
                                       MLIRContext *context) {
  SmallVector<Summand> summands;
  SmallVector<Expr> leaves = leavesOf(hidden), rest;
  for (Expr leaf : leaves)
    if (isProduct(leaf))
      summands.push_back({leaf, nullptr});
    else
      rest.push_back(leaf);
  if (summands.size() != 2 || rest.size() > 2)
    return std::nullopt;
  // A bias has the column of its product.
  for (Expr bias : rest)
    for (Summand &summand : summands)
      if (!bias->arguments.empty() && bias->arguments.back() == summand.product->arguments.back())
        summand.bias = bias;
  if (llvm::count_if(summands, [](const Summand &summand) { return summand.bias; }) != int64_t(rest.size()))
    return std::nullopt;
  SmallVector<double> numbers;
  collectNumbers(hidden, numbers);
  if (numbers.size() > 8) // as many as no formula of this kind holds
    return std::nullopt;
  auto elementOf = [&](const Summand &summand) {
    return summand.bias ? exprs.add(summand.product, summand.bias) : summand.product;
  };
  for (unsigned g : {0u, 1u})
    for (ActivationKind kind : {ActivationKind::Silu, ActivationKind::Gelu, ActivationKind::GeluTanh}) {
      Gated gated{elementOf(summands[g]), elementOf(summands[1 - g]), kind, GatingAttr()};
      auto fits = [&](GatingAttr gating) {
        double reach = gating ? gating.getLimit().getValueAsDouble() : 4;
        return agrees(hidden, summands[g], summands[1 - g], kind, gating, reach);
      };
      if (fits({}))
        return gated;
      gated.gating = findGating(context, numbers, fits);
      if (gated.gating)
        return gated;
    }
  return std::nullopt;
}
