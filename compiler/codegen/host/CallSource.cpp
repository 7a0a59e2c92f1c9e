// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the operands of kernel ops that steps and graphs have in common become the parameters of their kernels.

#include "compiler/codegen/host/CallSource.h"

#include "compiler/weights/PackedLayout.h"

using namespace mlir;
using namespace heddle;

MatmulCall heddle::callOf(PackedMatmulOp op, CallSource &source) {
  MatmulCall call;
  call.act = source.pointer(op.getInput());
  call.actScales = source.pointer(op.getInputScales());
  call.actSums = source.pointer(op.getInputSums());
  call.weights = source.pointer(op.getWeights());
  call.bias = source.pointer(op.getBias());
  call.out = source.pointer(op.getInits()[0]);
  call.rows = source.rows(op.getInput());
  call.actStride = source.rowStride(op.getInput());
  call.outStride = source.rowStride(op.getInits()[0]);
  call.panelEnd = source.number(llvm::divideCeil(int64_t(op.getN()), PackedLayout::panelRows));
  return call;
}

EmbeddingCall heddle::callOf(DequantizeOp op, CallSource &source) {
  EmbeddingCall call;
  call.ids = source.pointer(op.getIds());
  call.weights = source.pointer(op.getWeights());
  call.out = source.pointer(op.getInits()[0]);
  call.rowEnd = source.rows(op.getInits()[0]);
  call.outStride = source.rowStride(op.getInits()[0]);
  return call;
}
