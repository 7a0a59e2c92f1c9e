// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers, effects and costs of the state ops. Comments cite the constraint in StateOps.td that a check enforces.

#include "dialect/KernelOpVerifiers.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace heddle;

// Of a layer's state, whose part begins at `offset` of it.
template <typename Op> static LogicalResult verifyState(Op op, KvCacheType cache) {
  int64_t offset = op.getOffset(), end = offset + op.getStateSize();
  if (!cache.isState() || offset < 0 || end > cache.getHeadDim())
    return op.emitOpError("needs a cache of states of at least ") << end << " numbers, got " << cache;
  return success();
}

// Of a model op: rank and cache go together.
template <typename Op> static LogicalResult verifyForm(Op op) {
  if (bool(op.getCache()) != bool(op.getLayer())) // causal_conv_c3, linear_attention_c3
    return op.emitOpError("needs a layer with its cache, and none without it");
  return op.getCache() ? verifyState(op, op.getCache().getType()) : LogicalResult(success());
}

static bool isRowsOf(Value value, int64_t rank, int64_t width) {
  return shaped(value).getRank() == rank && shaped(value).getShape().back() == width &&
         shaped(value).getElementType().isF32();
}

static void stateEffects(Value cache, SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (!cache)
    return;
  effects.emplace_back(MemoryEffects::Read::get(), SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), SideEffects::DefaultResource::get());
}

//===- causal_conv --------------------------------------------------------===//

// The tokens before the one that comes.
template <typename Op> static int64_t stateSizeOfConv(Op op) {
  return (op.getWidth() - 1) * op.getChannels();
}

template <typename Op> static LogicalResult verifyTaps(Op op) {
  constexpr int64_t most = 64;
  int64_t channels = op.getChannels(), taps = shaped(op.getWeight()).getNumElements();
  if (channels < 1 || taps % channels || op.getWidth() < 2 || op.getWidth() > most) // causal_conv_c2, ragged_conv_c1
    return op.emitOpError("weight ") << op.getWeight().getType() << " must be (" << channels
                                     << " * width), width being 2 to " << most;
  if (op.getBias() && shaped(op.getBias()).getShape() != ArrayRef<int64_t>(channels)) // causal_conv_c2, ragged_conv_c1
    return op.emitOpError("bias ") << op.getBias().getType() << " must be (" << channels << ")";
  if (op.getActivation().value_or(ActivationKind::Silu) != ActivationKind::Silu) // causal_conv_c2, ragged_conv_c1
    return op.emitOpError("activation must be silu");
  return success();
}

LogicalResult CausalConvOp::verify() {
  int64_t rank = getCache() ? 2 : 3;
  if (getInput().getType().getRank() != rank || getResult().getType() != getInput().getType()) // causal_conv_c1
    return emitOpError("input and result must be ")
           << (getCache() ? "(rows, channels)" : "(batch, sequence, channels)");
  return failed(verifyTaps(*this)) ? failure() : verifyForm(*this);
}
int64_t CausalConvOp::getStateSize() {
  return stateSizeOfConv(*this);
}
void CausalConvOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  stateEffects(getCache(), effects);
}
LogicalResult CausalConvOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(tensor::getMixedSizes(b, getLoc(), getInput()));
  return success();
}

//===- linear_attention ---------------------------------------------------===//

// A matrix of each head.
template <typename Op> static int64_t stateSizeOfHeads(Op op) {
  return int64_t(op.getNumHeads()) * op.getKeyDim() * op.getValueDim();
}

template <typename Op> static bool hasDecayOfKeys(Op op) {
  return op.getDecay() && shaped(op.getDecay()).getShape().back() != int64_t(op.getNumHeads());
}

template <typename Op> static LogicalResult verifyHeads(Op op, Value result, int64_t rank) {
  constexpr int64_t most = 1024;
  for (Value rows : {Value(op.getQuery()), Value(op.getKey()), Value(op.getValue()), result})
    if (shaped(rows).getRank() != rank) // linear_attention_c1, ragged_linear_attention_c1
      return op.emitOpError("query, key, value and result must have rank ") << rank;
  int64_t heads = op.getNumHeads(), keyHeads = op.getNumKeyHeads();
  if (keyHeads < 1 || heads < 1 || heads % keyHeads) // linear_attention_c2, ragged_linear_attention_c1
    return op.emitOpError("num_heads (") << heads << ") must be a positive multiple of num_key_heads (" << keyHeads
                                         << ")";
  int64_t keyDim = op.getKeyDim(), valueDim = op.getValueDim(), keys = keyHeads * keyDim, values = heads * valueDim;
  for (int64_t dim : {keyDim, valueDim})
    if (dim < 1 || dim > most) // linear_attention_c2, ragged_linear_attention_c1
      return op.emitOpError("dimensions of heads (") << keyDim << ", " << valueDim << ") must be 1 to " << most;
  bool areRows = isRowsOf(op.getQuery(), rank, keys) && isRowsOf(op.getKey(), rank, keys) &&
                 isRowsOf(op.getValue(), rank, values) && isRowsOf(result, rank, values);
  if (Value decay = op.getDecay())
    areRows &= isRowsOf(decay, rank, heads) || isRowsOf(decay, rank, heads * keyDim);
  areRows &= !op.getBeta() || isRowsOf(op.getBeta(), rank, heads);
  auto tokensOf = [](Value rows) { return shaped(rows).getShape().drop_back(); };
  for (Value rows : {Value(op.getKey()), Value(op.getValue()), result})
    areRows &= succeeded(verifyCompatibleShape(tokensOf(rows), tokensOf(op.getQuery())));
  if (!areRows) // linear_attention_c1, ragged_linear_attention_c1
    return op.emitOpError("query and key must be f32 rows of ")
           << keyHeads << " heads, value and result of " << heads << ", decay and beta have " << heads
           << " columns, or decay " << heads * keyDim;
  return success();
}

LogicalResult LinearAttentionOp::verify() {
  return failed(verifyHeads(*this, getResult(), getCache() ? 2 : 3)) ? failure() : verifyForm(*this);
}
int64_t LinearAttentionOp::getStateSize() {
  return stateSizeOfHeads(*this);
}
bool LinearAttentionOp::decaysByKey() {
  return hasDecayOfKeys(*this);
}
void LinearAttentionOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  stateEffects(getCache(), effects);
}
LogicalResult LinearAttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(tensor::getMixedSizes(b, getLoc(), getValue()));
  return success();
}

//===- ragged_conv --------------------------------------------------------===//

LogicalResult RaggedConvOp::verify() {
  if (getInits().size() != 1 || shaped(getInput()).getRank() != 2 || !isRowsOf(getInput(), 2, getChannels()) ||
      !isRowsOf(getInits()[0], 2, getChannels())) // ragged_conv_c1
    return emitOpError("input and the one destination must be f32 (rows, channels)");
  if (failed(verifyTaps(*this)) || failed(verifyState(*this, getCache().getType()))) // ragged_conv_c2
    return failure();
  return verifyResults(*this);
}
int64_t RaggedConvOp::getStateSize() {
  return stateSizeOfConv(*this);
}
void RaggedConvOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
  stateEffects(getCache(), effects);
}
StringRef RaggedConvOp::getKernelKind() {
  return "state";
}
int64_t RaggedConvOp::getFlopsPerRow() {
  return 2 * getWidth() * getChannels();
}
// The weights, and the state that one sequence has and leaves.
int64_t RaggedConvOp::getFixedBytes() {
  return staticBytes(getWeight()) + 2 * getStateSize() * int64_t(sizeof(float));
}
int64_t RaggedConvOp::getBytesPerRow() {
  return matrixRowBytes(getInput()) + matrixRowBytes(getInits()[0]);
}

//===- ragged_linear_attention --------------------------------------------===//

LogicalResult RaggedLinearAttentionOp::verify() {
  if (getInits().size() != 1) // ragged_linear_attention_c1
    return emitOpError("must have one destination");
  if (failed(verifyHeads(*this, getInits()[0], 2)) ||
      failed(verifyState(*this, getCache().getType()))) // ragged_linear_attention_c2
    return failure();
  return verifyResults(*this);
}
int64_t RaggedLinearAttentionOp::getStateSize() {
  return stateSizeOfHeads(*this);
}
bool RaggedLinearAttentionOp::decaysByKey() {
  return hasDecayOfKeys(*this);
}
void RaggedLinearAttentionOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
  stateEffects(getCache(), effects);
}
StringRef RaggedLinearAttentionOp::getKernelKind() {
  return "state";
}
// The state decays, what it gives for the key and for the query are a multiplication and an addition each, as is the update.
int64_t RaggedLinearAttentionOp::getFlopsPerRow() {
  return (getBeta() ? 7 : 5) * getStateSize();
}
// The state that one sequence has and leaves.
int64_t RaggedLinearAttentionOp::getFixedBytes() {
  return 2 * getStateSize() * int64_t(sizeof(float));
}
int64_t RaggedLinearAttentionOp::getBytesPerRow() {
  int64_t bytes = 0;
  for (Value rows : {getQuery(), getKey(), getValue(), Value(getDecay()), Value(getBeta()), getInits()[0]})
    bytes += rows ? matrixRowBytes(rows) : 0;
  return bytes;
}
