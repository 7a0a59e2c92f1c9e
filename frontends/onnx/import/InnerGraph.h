// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Graphs inside of nodes. Each is lowered into a block of its own before the op that holds it exists: which shapes its results
// have is known only then.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_INNERGRAPH_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_INNERGRAPH_H

#include "frontends/onnx/import/GraphImporter.h"

namespace heddle {

// A tensor that enters or leaves an inner graph. No dimension: it may differ from run to run of the graph.
struct Carried {
  OnnxType type;
  llvm::SmallVector<std::optional<Dim>> dims;
};

mlir::RankedTensorType typeOf(GraphBuilder &g, const Carried &c);
Carried carriedOf(const GraphValue &x);
// `value`, of typeOf(c), with unknown dimensions read from it.
GraphValue received(GraphBuilder &g, mlir::Value value, const Carried &c);
// `x` as a value of typeOf(c).
mlir::Value sent(GraphBuilder &g, const GraphValue &x, const Carried &c);

// Lowers into a block until it goes out of scope.
class InnerBlock {
public:
  explicit InnerBlock(GraphBuilder &g);
  ~InnerBlock();

private:
  GraphBuilder &g;
  mlir::OpBuilder::InsertionGuard guard;

public:
  std::unique_ptr<mlir::Block> block;
  const GraphBuilder::Scope scope;
};

// The nodes that run a graph more than once (Loops.cpp).
void loopOp(NodeImport &n);
void scanOp(NodeImport &n);

} // namespace heddle

#endif
