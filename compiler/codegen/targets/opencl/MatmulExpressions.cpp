// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/opencl/MatmulExpressions.h"

#include "compiler/codegen/halide/ScalarExpressions.h"

using namespace heddle;
using Halide::Expr;

std::vector<std::pair<Expr, Expr>> opencl::rowsOfColumn(const MatmulSpec &spec, Expr column) {
  constexpr int lanes = int(PackedLayout::panelRows);
  if (!spec.isGated)
    return {{column, column}};
  if (spec.alternates)
    return {{2 * column, 2 * column}, {2 * column + 1, 2 * column + 1}};
  Expr gate = column / lanes * (2 * lanes) + column % lanes;
  return {{gate, column}, {gate + lanes, column + int(spec.n)}};
}

static Expr activationOf(MatmulEpilogue epilogue, Expr x) {
  switch (epilogue) {
  case MatmulEpilogue::None:
    return x;
  case MatmulEpilogue::Silu:
    return activationExpr(ActivationKind::Silu, x);
  case MatmulEpilogue::Gelu:
    return activationExpr(ActivationKind::Gelu, x);
  case MatmulEpilogue::GeluTanh:
    return activationExpr(ActivationKind::GeluTanh, x);
  case MatmulEpilogue::Relu:
    return activationExpr(ActivationKind::Relu, x);
  case MatmulEpilogue::QuickGelu:
    return activationExpr(ActivationKind::QuickGelu, x);
  case MatmulEpilogue::Tanh:
    return activationExpr(ActivationKind::Tanh, x);
  case MatmulEpilogue::SquaredRelu:
    return activationExpr(ActivationKind::SquaredRelu, x);
  }
  llvm_unreachable("an epilogue");
}

static Expr gated(const MatmulSpec &spec, Expr gate, Expr up) {
  const GatingSpec &gating = spec.gating;
  if (gating.limit <= 0)
    return activationOf(spec.epilogue, gate) * up;
  gate = Halide::min(gate, gating.limit);
  up = Halide::max(Halide::min(up, gating.limit), -gating.limit) + gating.offset;
  return activationOf(spec.epilogue, gate * gating.alpha) * (1 / gating.alpha) * up;
}

Expr opencl::finished(const MatmulSpec &spec, const std::vector<Expr> &sums) {
  return spec.isGated ? gated(spec, sums[0], sums[1]) : activationOf(spec.epilogue, sums[0]);
}
