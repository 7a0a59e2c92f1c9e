// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a raised graph as the functions of a decoder.
#ifndef HEDDLE_COMPILER_RAISE_FORWARDWRITER_H
#define HEDDLE_COMPILER_RAISE_FORWARDWRITER_H

#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"
#include "dialect/HeddleDialect.h"

#include "mlir/IR/IRMapping.h"

#include <string>
#include <utility>

namespace heddle {

// x where `op` is x * number, number * x or x / number, of floats, and the number that x is multiplied by; else null.
std::pair<mlir::Value, double> scaledOperand(mlir::Operation *op);

// Writes the graph once more, as @forward and its layers: batch and sequence open, ops in the order in which results need them.
class ForwardWriter {
public:
  ForwardWriter(mlir::func::FuncOp graph, llvm::ArrayRef<mlir::Value> boundaries)
      : graph(graph), boundaries(boundaries), b(graph.getContext()) {}
  mlir::LogicalResult run();
  const std::string &why() const { return reason; }

private:
  mlir::FailureOr<mlir::Value> write(mlir::Value old);
  mlir::FailureOr<mlir::Value> writeOp(mlir::Operation *op);
  mlir::FailureOr<mlir::Value> writeWeight(mlir::Value old);
  struct Indices {
    Expr element = nullptr, batch = nullptr, sequence = nullptr; // no batch where they are those of every sequence
  };
  Indices readIndices(ExprContext &exprs, ElementTrace &trace, mlir::Value old);
  mlir::FailureOr<mlir::Value> writeIndices(mlir::Operation *op, mlir::Value old);
  mlir::FailureOr<mlir::Value> writeScaled(mlir::Operation *op);
  mlir::FailureOr<mlir::Value> writeElementwise(mlir::Operation *op);
  mlir::Value splatLike(mlir::Location loc, double number, mlir::Value x);
  mlir::FailureOr<mlir::Value> writePositionBias(PositionBiasOp op);
  mlir::FailureOr<mlir::Value> writeExpand(mlir::tensor::ExpandShapeOp op, mlir::Value source);
  mlir::FailureOr<mlir::Value> writeCollapse(mlir::tensor::CollapseShapeOp op, mlir::Value source);
  mlir::FailureOr<mlir::Value> writeLaterPositions(EmbeddingOp op);
  mlir::Value writeRowsOfPositions(mlir::Value old);
  mlir::LogicalResult writeLayer(unsigned layer);
  unsigned height(mlir::Value value);
  mlir::FailureOr<mlir::Value> cannot(mlir::Operation *op, const llvm::Twine &what) {
    if (reason.empty())
      reason = (describe(op) + " " + what).str();
    return mlir::failure();
  }

  mlir::func::FuncOp graph, forward, layerFunc;
  llvm::ArrayRef<mlir::Value> boundaries;
  mlir::OpBuilder b;
  mlir::IRMapping map;
  llvm::DenseMap<mlir::Value, unsigned> heights;
  unsigned depth = 0; // of write
  mlir::Value ids, positions;
  llvm::SmallVector<mlir::Value> layerWeights;
  std::string reason;
};

} // namespace heddle

#endif
