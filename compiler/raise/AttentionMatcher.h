// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From one softmax to an attention: AttentionMatcher.cpp finds what it computes, AttentionOperands.cpp writes it as an op.
#ifndef HEDDLE_COMPILER_RAISE_ATTENTIONMATCHER_H
#define HEDDLE_COMPILER_RAISE_ATTENTIONMATCHER_H

#include "compiler/raise/Arrange.h"
#include "compiler/raise/Contraction.h"
#include "compiler/raise/MaskAnalysis.h"
#include "compiler/raise/Remarks.h"

#include <map>

namespace heddle {

// An operand of an attention: (batch, heads, sequence, head_dim), its elements without `factor`.
struct HeadsTensor {
  mlir::Value tensor;
  int64_t heads;
  double factor;
};

// One softmax: what its input computes, and what is done with its result.
class AttentionMatcher {
public:
  AttentionMatcher(mlir::linalg::SoftmaxOp softmax)
      : softmax(softmax), input(softmax.getInput()), trace(exprs), layout(exprs, TraceDepth::Layout), b(softmax) {}

  // The reason why not, empty if the softmax became an attention. `silent` if it is no attention at all.
  std::string run();
  bool isSilent() const { return silent; }

private:
  // Numbers of the symbols: canonical axes, loops of the two products, and the softmax's own dimensions while roles are unknown.
  enum : int64_t {
    batchSymbol,
    headSymbol,
    querySymbol,
    keySymbol,
    depthSymbol,
    groupSymbol,
    innerSymbol,
    sideSymbol,
    firstProbe = 10,
    firstLoop = 30
  };

  // The column of the softmax's input that is a sink.
  enum class SinkColumn { None, First, Last };

  void stopAtLookups(ElementTrace &at);
  void dropShift();
  bool findScores();
  Expr contractedSize(Contraction product);
  llvm::SmallVector<Expr> operandElements(Contraction product, Expr element);
  Expr queryByKey(llvm::ArrayRef<Expr> products, llvm::ArrayRef<Expr> probe);
  bool assignAxes();
  Expr withoutFloor(Expr end);
  bool readScores();
  bool findValues();
  bool solve(Expr traced, Expr target, llvm::DenseMap<Expr, Expr> &loops, llvm::DenseMap<Expr, Expr> &quotients);
  // Of parts of a head that are two halves, by where along the depth they begin: the length of a half.
  using Halves = std::map<int64_t, int64_t>;

  llvm::SmallVector<int64_t> startsOf(mlir::Value operand, llvm::ArrayRef<Expr> indices, Axis depthAxis);
  Halves halvesOf(mlir::Value operand, llvm::ArrayRef<Expr> indices, Axis depthAxis);
  std::optional<HeadsTensor> operandTensor(mlir::Value operand, llvm::ArrayRef<Expr> indices, Axis sequence,
                                           Axis depthAxis, bool grouped, bool sideBySide = false);
  std::optional<HeadsTensor> pieceTensor(mlir::Value operand, llvm::ArrayRef<Expr> indices, Axis sequence,
                                         llvm::ArrayRef<Axis> depthAxes, bool grouped);
  std::optional<HeadsTensor> regularHeads(llvm::ArrayRef<Expr> perHead, Axis sequence, llvm::ArrayRef<Axis> depthAxes,
                                          bool grouped, std::string &why);
  mlir::Value repeatedHeads(const HeadsTensor &piece, int64_t heads);
  bool splitTerminal(Expr end, double &factor, double &cap, Expr &rest);
  bool collectEnds(Expr expr);
  SinkColumn findSinkColumn();
  bool hasSinks() const { return sinkColumn != SinkColumn::None; }
  bool readSinks();
  void dropShifts();
  bool everyRowSees();
  void nameBlockingOp();
  Expr addedOf(Expr expr);
  mlir::Value biasTensor(Expr bias);
  mlir::Value scaledRows(mlir::Value queries);
  mlir::Value knownSinks();
  mlir::Value sinkTensor();
  mlir::Value splitHeads(mlir::Value result, llvm::SmallVectorImpl<Axis> &axes);
  bool emit();
  bool because(std::string text) {
    if (reason.empty())
      reason = std::move(text);
    return false;
  }

  mlir::linalg::SoftmaxOp softmax;
  mlir::Value input; // the softmax's, without what is taken off a whole row
  ExprContext exprs;
  ElementTrace trace, layout;
  mlir::OpBuilder b;
  std::string reason;
  bool silent = false;

  std::optional<Contraction> scores, values;
  Expr score = nullptr; // the element of the first product
  Expr total = nullptr; // what the softmax reads
  int64_t keyAxis = 0;  // the softmax's dimension
  unsigned queryOperand = 0, probabilityOperand = 0;
  llvm::SmallVector<Expr> dimensions; // of the softmax, in canonical symbols
  Expr batch, head, query, key, depth;
  Expr batchSize, numHeads, queries, keys, headDim;
  double scale = 0, softcap = 0;
  Expr rowScale = nullptr; // by what else the scores of a row are multiplied, whatever the key
  SinkColumn sinkColumn = SinkColumn::None;
  Expr firstKey = nullptr; // the column of the first key
  bool isGuarded = false;  // the source turns NaN among the probabilities into 0
  Expr sink = nullptr;     // in `head`
  MaskProof mask;
  llvm::SmallVector<Expr> valueIndices, resultIndices;
  Expr valueDepth = nullptr, valueDim = nullptr;
};

} // namespace heddle

#endif
