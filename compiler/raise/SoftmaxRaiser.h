// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a value is a softmax of a given input, and the ops that say so. What counts is what it computes: weights divided by their sum, where a
// weight is the exponential of a score, whatever is taken off all scores of a row, or 0 where a mask hides.
#ifndef HEDDLE_COMPILER_RAISE_SOFTMAXRAISER_H
#define HEDDLE_COMPILER_RAISE_SOFTMAXRAISER_H

#include "compiler/raise/Arrange.h"
#include "compiler/raise/Contraction.h"

namespace heddle {

// numerator / (rest + the sum of `summed` over `symbol`). A weight, the numerator as well as what is summed, is a diagram of decisions
// whose ends are exponentials, or 0 where a mask hides.
struct Quotient {
  Expr numerator, summed, symbol, rest;
  Expr guard; // null, or the sum: where it is 0 the source says 0, not 0/0
};

// The exponentials of a weight are exp(factor * score + shift), and 0 where `seen` is 0.
struct Weight {
  double factor = 0;
  Expr shift = nullptr, seen = nullptr;
};

// softmax(factor * input) along `axis` with one more logit for `sink`, -inf where `seen` is 0. Its element at `places`, in symbols of what it
// replaces, is what is wanted.
struct Softmax {
  int64_t axis;
  double factor;
  Expr seen;
  llvm::SmallVector<Axis> axes;
  std::optional<double> sink;
  bool isGuarded;
  llvm::SmallVector<Expr> places;
};

// Finds the softmax of an input that one value comes to, and replaces the value.
class SoftmaxRaiser {
public:
  SoftmaxRaiser(mlir::Operation *root, mlir::Value input)
      : root(root), result(root->getResult(0)), input(input), trace(exprs) {
    trace.stopAt(input);
  }

  bool run();
  // Why not, if what was found is nearly a softmax.
  const std::string &whyNot() const { return reason; }
  // Whether there are weights and their sum, of whatever tensor.
  bool isDivided() const { return foundQuotient; }

private:
  Expr numeratorOf(Expr diagram, Expr &divisor);
  Expr withoutGuard(Expr element, Expr &guard);
  std::optional<Quotient> quotientOf(Expr element);
  std::optional<Weight> weightOf(Expr diagram, Expr score, Expr along);
  std::optional<Softmax> softmaxOf(mlir::Value weights, int64_t axis, const Quotient &quotient);
  std::optional<Softmax> softmaxOf(Expr diagram, llvm::ArrayRef<Expr> symbols, Expr along, const Quotient &quotient);
  Expr scoreIn(Expr diagram, Expr along);
  bool isAtLeastOne(Expr sum);
  Expr withoutFloor(Expr divisor);
  std::optional<double> sinkOf(Expr rest, Expr shift);
  Expr commonShift(Expr diagram, Expr along);
  std::pair<Expr, Expr> unshifted(Expr divisor);
  mlir::Value create(const Softmax &softmax, mlir::Type wantedType);
  mlir::Value createAs(const Softmax &softmax, mlir::Value replaced);
  mlir::Operation *unnormalised(const Contraction &product, Expr element, llvm::SmallVectorImpl<Expr> &indices);
  bool raiseWeighed(const Quotient &quotient);
  std::string inWordsAboveSum(Expr numerator);
  Expr renamed(Expr expr);
  // The first reason is the nearest one: the last axis is tried first.
  bool because(std::string text) {
    if (reason.empty())
      reason = std::move(text);
    return false;
  }

  mlir::Operation *root;
  mlir::Value result, input;
  ExprContext exprs;
  ElementTrace trace;
  std::string reason;
  bool foundQuotient = false;
};

// What scores an exponential of `exponent` may be taken of: what is left of them without what was taken off, the least changed last; then what
// sums and multiples are made of.
llvm::SmallVector<mlir::Value> candidateScores(mlir::Value exponent);

} // namespace heddle

#endif
