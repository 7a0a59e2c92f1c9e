// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a sum over experts to a `moe`: MoeTerms.cpp finds what is summed, RaiseMoe.cpp reads each expert and writes the op.
#ifndef HEDDLE_COMPILER_RAISE_MOEMATCHER_H
#define HEDDLE_COMPILER_RAISE_MOEMATCHER_H

#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Gating.h"
#include "compiler/raise/RowMatmul.h"

namespace heddle {

// Tokens for which a term is computed: those where a mask of (choices, tokens) or of tokens is true.
struct ChosenTokens {
  Expr seen = nullptr;   // the mask's element
  Expr choice = nullptr; // a symbol; null where the mask is of tokens alone
  Expr number = nullptr; // a symbol: the number of the term's expert, where a list of experts that have tokens says it
  int64_t place = 0;     // in that list
  bool adds = false;     // what a token's choices give; else the last one stays
};

// One of what is summed.
struct MoeTerm {
  llvm::SmallVector<Expr> factors;
  std::optional<ChosenTokens> tokens; // nothing: all
};

// One term of the sum over experts.
struct MoeExpert {
  Expr weight = nullptr;      // of the token: an element of the routing's result
  int64_t number = 0;         // where its tokens are chosen
  Expr rows = nullptr;        // x[token, h]
  mlir::Value gate, up, down; // no `up`: the gate's rows are in turn those of a gate and those of an up projection
  mlir::Value gateBias, upBias, downBias; // or none
  ActivationKind activation = ActivationKind::Silu;
  GatingAttr gating;
};

// The products of an expert, or of all of which a token may number one.
struct ExpertMatmuls {
  RowMatmul gate, up, down;
  std::optional<RowMatmul>
      gateAndUp; // where the columns of one product are in turn those of the gate and those of the up projection
};

// A sum over experts and what it takes to write it as `moe`.
class MoeMatcher {
public:
  explicit MoeMatcher(mlir::Operation *root)
      : root(root), exprs(stepsOf(root)), whole(exprs), layout(exprs, TraceDepth::Layout),
        moves(exprs, TraceDepth::Moves), b(root), symbols(layout.indexSymbols(root->getResult(0))),
        products(exprs, llvm::ArrayRef(symbols).drop_back()) {}

  // The reason why not, empty if the sum became a `moe`.
  std::string run();
  // Nothing in it says that it sums experts.
  bool isSilent() const { return silent; }

private:
  enum : int64_t { columnSymbol = 20, hiddenSymbol, choiceSymbol, turnSymbol, rowSymbol, firstNumber = 100000 };
  // Rows in turn have kernels where half as many are a multiple of this.
  static constexpr int64_t panelRows = 16;

  // Steps that its questions may take: each expert which is computed for its tokens alone asks for some of its own.
  static size_t stepsOf(mlir::Operation *root);
  bool findTerms();
  void additions(mlir::Value value);
  std::optional<MoeTerm> chosenTerm(mlir::Value value);
  bool readMask(Expr place, Expr row, Expr rows, ChosenTokens &tokens);
  bool sumOfOne(mlir::linalg::LinalgOp op);
  llvm::SmallVector<Expr> factors(mlir::Value value, llvm::ArrayRef<Expr> indices);
  std::optional<Gated> hiddenOf(Expr rows);
  std::optional<RowMatmul> gateAndUpOf(const Gated &hidden, const RowMatmul &down);
  bool readExpert(const MoeTerm &term);
  bool addExperts(const MoeExpert &first, const ExpertMatmuls &matmuls);
  bool addMatrices(MoeExpert &expert, const ExpertMatmuls &matmuls, int64_t number);
  bool addChosen(MoeExpert expert, const ExpertMatmuls &matmuls, const ChosenTokens &tokens);
  bool placeWeights();
  mlir::Value weightsOfAll(Expr weight, Expr number, int64_t numExperts);
  Expr tokenOf(mlir::Value tensor, llvm::ArrayRef<Expr> indices, unsigned without);
  bool emit();
  bool because(std::string text) {
    if (reason.empty())
      reason = std::move(text);
    return false;
  }

  mlir::Operation *root;
  ExprContext exprs;
  ElementTrace whole, layout, moves;
  mlir::OpBuilder b;
  std::string reason;
  bool silent = true;
  llvm::SmallVector<Expr> symbols; // of root's result: tokens, then the width
  RowMatmulReader products;
  std::vector<MoeTerm> terms;
  std::optional<Axis> choice; // of one term for all: which of its experts a token is at
  mlir::Value numbered;       // the list of experts that have tokens, whose places say the experts of terms
  llvm::SmallVector<MoeExpert> experts;
};

} // namespace heddle

#endif
