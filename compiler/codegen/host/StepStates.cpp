// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that go on from the states of a step's sequences.

#include "compiler/codegen/host/StepLauncher.h"

using namespace mlir;
using namespace heddle;

Value StepLauncher::stateOffset(KvCacheType cache, Value layer, int64_t offset) {
  return b.add(planes(cache, layer).first, offset * int64_t(sizeof(float)));
}

LogicalResult StepLauncher::lowerConv(RaggedConvOp op) {
  ConvCall call;
  call.input = pointer(op.getInput());
  call.weight = pointer(op.getWeight());
  call.bias = pointer(op.getBias());
  call.out = pointer(op.getInits()[0]);
  call.sequences = sequences(op.getCache().getType());
  call.numSequences = numSequences();
  call.stateOffset = stateOffset(op.getCache().getType(), op.getLayer(), op.getOffset());
  call.inputStride = rowStride(op.getInput());
  call.outStride = rowStride(op.getInits()[0]);
  return launch(op, CallOperands::of(call));
}

LogicalResult StepLauncher::lowerLinearAttention(RaggedLinearAttentionOp op) {
  LinearAttentionCall call;
  call.query = pointer(op.getQuery());
  call.key = pointer(op.getKey());
  call.value = pointer(op.getValue());
  call.out = pointer(op.getInits()[0]);
  call.decay = pointer(op.getDecay());
  call.beta = pointer(op.getBeta());
  call.sequences = sequences(op.getCache().getType());
  call.numSequences = numSequences();
  call.stateOffset = stateOffset(op.getCache().getType(), op.getLayer(), op.getOffset());
  call.queryStride = rowStride(op.getQuery());
  call.keyStride = rowStride(op.getKey());
  call.valueStride = rowStride(op.getValue());
  call.outStride = rowStride(op.getInits()[0]);
  call.decayStride = op.getDecay() ? rowStride(op.getDecay()) : b.constant(0);
  call.betaStride = op.getBeta() ? rowStride(op.getBeta()) : b.constant(0);
  return launch(op, CallOperands::of(call));
}
