// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the ops of a kernel into Funcs, op by op. Algorithms.cpp has a paragraph for each op of the dialect,
// GenericOps.cpp those of linalg, AlgorithmBuilder.cpp what they share.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_ALGORITHMBUILDER_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_ALGORITHMBUILDER_H

#include "compiler/codegen/halide/Algorithms.h"
#include "compiler/codegen/halide/TensorView.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

// Variables of a Func on tensors of this rank, innermost first.
std::vector<Halide::Var> variables(size_t rank);
// Indices are written outermost first, as in MLIR; Funcs take them innermost first.
llvm::SmallVector<Halide::Expr> outermostFirst(llvm::ArrayRef<Halide::Var> vars);
std::vector<Halide::Expr> innermostFirst(llvm::ArrayRef<Halide::Expr> index);
ReadFn readFunc(Halide::Func func);
llvm::SmallVector<Halide::Expr> withLast(llvm::ArrayRef<Halide::Expr> index, Halide::Expr last);
llvm::SmallVector<Halide::Expr> append(llvm::ArrayRef<Halide::Expr> index, Halide::Expr last);
// An f32 constant.
Halide::Expr number(const llvm::APFloat &value);

// An associative operation and the value that changes nothing.
struct Combiner {
  std::function<Halide::Expr(Halide::Expr, Halide::Expr)> combine;
  Halide::Expr neutral;
};

class AlgorithmBuilder {
public:
  AlgorithmBuilder(mlir::func::FuncOp kernel, llvm::StringRef symbol, int64_t maxRows)
      : kernel(kernel), symbol(symbol), maxRows(maxRows) {}
  mlir::FailureOr<Algorithm> build();

private:
  using Body = llvm::function_ref<Halide::Expr(llvm::ArrayRef<Halide::Expr>)>;

  mlir::LogicalResult addInputs();
  mlir::LogicalResult addOp(mlir::Operation *op);
  mlir::LogicalResult addOutputs(mlir::func::ReturnOp op);
  mlir::LogicalResult addElementwise(mlir::Operation *op);
  mlir::LogicalResult addConstant(mlir::arith::ConstantOp op);
  mlir::LogicalResult addFill(mlir::linalg::FillOp op);

  mlir::LogicalResult addEmbedding(EmbeddingOp op);
  mlir::LogicalResult addRmsNorm(RmsNormOp op);
  mlir::LogicalResult addLayerNorm(LayerNormOp op);
  mlir::LogicalResult addRope(RopeOp op);
  mlir::LogicalResult addGlu(GluOp op);
  mlir::LogicalResult addSoftcap(SoftcapOp op);
  mlir::LogicalResult addSplat(mlir::tensor::SplatOp op);
  mlir::LogicalResult addQuantize(QuantizeOp op);

  mlir::LogicalResult addGeneric(mlir::linalg::GenericOp op);
  mlir::LogicalResult addReduction(mlir::linalg::GenericOp op);

  std::string name(llvm::StringRef what);
  // A Func that is computed row by row and kept.
  Halide::Func keep(StageKind kind, llvm::StringRef what, llvm::ArrayRef<int64_t> shape, Contiguity contiguity,
                    Body body);
  // A computed value: a kept Func if it is read more than once, otherwise an expression of its reader.
  void define(mlir::Value value, Contiguity contiguity, Body body, int extraReads = 0);
  // term(outer..., k) combined over k < width, in an order that depends on width alone.
  ReadFn rowReduce(const Combiner &combiner, llvm::ArrayRef<int64_t> outer, int64_t width, const ReadFn &term);
  ReadFn rowSum(llvm::ArrayRef<int64_t> outer, int64_t width, const ReadFn &term);
  // How many Funcs read a value, and how often.
  int reads(mlir::Value value);
  const TensorView &view(mlir::Value value) { return views.find(value)->second; }
  Halide::Expr asF32(mlir::Value value, llvm::ArrayRef<Halide::Expr> index);
  // Row `row` of an input table; a row that is not there reads another one, never outside the table.
  Halide::Expr tableRow(mlir::Value table, Halide::Expr row);

  mlir::func::FuncOp kernel;
  llvm::StringRef symbol;
  int64_t maxRows;
  Algorithm algorithm;
  llvm::DenseMap<mlir::Value, TensorView> views;
  llvm::DenseMap<mlir::Value, Halide::ImageParam> params;
  int numFuncs = 0;
};

} // namespace heddle

#endif
