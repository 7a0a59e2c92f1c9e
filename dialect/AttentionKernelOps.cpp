// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers, effects and costs of the kernel ops of attention. Comments cite the constraint in AttentionKernelOps.td that a check enforces.

#include "dialect/KernelOpVerifiers.h"

using namespace mlir;
using namespace heddle;

//===- online_attention ---------------------------------------------------===//

// Outputs, maxima and sums of the splits of max_rows rows.
static bool areSplitStates(ValueRange states, int64_t numHeads, int64_t headDim) {
  for (Value state : states)
    if (shaped(state).getRank() != 2 || !shaped(state).hasStaticShape() || !shaped(state).getElementType().isF32())
      return false;
  int64_t rows = shaped(states[0]).getDimSize(0), columns = shaped(states[1]).getDimSize(1);
  return columns > 0 && columns % numHeads == 0 && shaped(states[0]).getDimSize(1) == columns * headDim &&
         shaped(states[1]).getShape() == shaped(states[2]).getShape() && shaped(states[1]).getDimSize(0) == rows;
}

// online_attention_c6: the table of an op of `numHeads` heads, if it has one.
template <typename Op> static LogicalResult verifyTileOfPositions(Op op, int64_t numHeads) {
  constexpr int64_t farthest = 8192;
  std::optional<ArrayRef<int64_t>> starts = op.getStarts(), rows = op.getRows();
  if (!op.getPositions())
    return starts || rows ? LogicalResult(op.emitOpError("has starts or rows, but no positions")) : success();
  ShapedType table = shaped(op.getPositions());
  if (failed(verifyPositions(op, table, starts, rows)))
    return failure();
  Type element = table.getElementType();
  int64_t width = table.getShape().back();
  bool ofTokens = rows && table.isDynamicDim(0);
  if (ofTokens && !isa<RaggedAttentionOp>(op))
    return op.emitOpError("positions ") << table << " are of tokens, which see each other in ragged_attention alone";
  if (ofTokens && (table.getRank() != 2 || width % (2 * numHeads) || !element.isF32() ||
                   *llvm::max_element(*rows) >= width / (2 * numHeads)))
    return op.emitOpError("positions ") << table << " must be f32 (rows, 2 * num_heads " << numHeads
                                        << " * num_buckets), with a bucket for each of rows";
  if ((!ofTokens && width != numHeads) || !(element.isF32() || (rows && (element.isF16() || element.isBF16()))))
    return op.emitOpError("positions ") << table << " must be f32 (" << numHeads << "), or (num_buckets, " << numHeads
                                        << ") of f32, f16 or bf16";
  if (starts && !starts->empty() && (starts->front() < -farthest || starts->back() > farthest))
    return op.emitOpError("starts must be from ")
           << -farthest << " to " << farthest << ", got " << starts->front() << " to " << starts->back();
  return success();
}

LogicalResult OnlineAttentionOp::verify() {
  KvCacheType cache = getCache().getType();
  int64_t width = getNumHeads() * cache.getHeadDim();
  bool isSplit = getSplitKv().has_value();
  bool hasOutput = isSplit || ((getInits().size() == 1 || storesScores()) && isMatrix(getInits()[0], width));
  if (!isMatrix(getQuery(), width) || !hasOutput) // online_attention_c1
    return emitOpError("query and the first destination must be (rows, ") << width << ")";
  if (getNumHeads() % cache.getNumKvHeads()) // online_attention_c2
    return emitOpError("num_heads (") << getNumHeads() << ") must be a multiple of num_kv_heads ("
                                      << cache.getNumKvHeads() << ")";
  int64_t block = getBlockKv();
  if (block <= 0 || (block % 64 && 64 % block)) // online_attention_c3
    return emitOpError("block_kv (") << block << ") must be a multiple or a divisor of the page size (64)";
  if (isSplit && (int64_t(*getSplitKv()) <= 0 || getSinks())) // online_attention_c4
    return emitOpError("split_kv (") << *getSplitKv() << ") must be positive and excludes sinks";
  if (isSplit &&
      (getInits().size() != 3 || !areSplitStates(getInits(), getNumHeads(), cache.getHeadDim()))) // online_attention_c4
    return emitOpError("destinations must be f32 outputs (max_rows, splits * ")
           << width << "), maxima and sums (max_rows, splits * " << getNumHeads() << ")";
  if (failed(verifyTileOfPositions(*this, getNumHeads()))) // online_attention_c6
    return failure();
  if (storesScores()) { // online_attention_c5
    ShapedType scores = shaped(getInits()[1]);
    int64_t columns = scores.getRank() == 2 ? scores.getDimSize(1) : 0;
    if (columns <= 0 || columns % (64 * int64_t(getNumHeads())) || !scores.getElementType().isF32())
      return emitOpError("scores must be f32 (rows, ") << getNumHeads() << " * keys), keys being a multiple of 64";
  }
  return verifyResults(*this);
}

void OnlineAttentionOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
  effects.emplace_back(MemoryEffects::Read::get(), SideEffects::DefaultResource::get()); // the cache
}
StringRef OnlineAttentionOp::getKernelKind() {
  return "attention";
}
int64_t OnlineAttentionOp::getFlopsPerRow() {
  return 0;
}
int64_t OnlineAttentionOp::getFixedBytes() {
  return 0;
}
int64_t OnlineAttentionOp::getBytesPerRow() {
  int64_t bytes = matrixRowBytes(getQuery());
  for (Value init : getInits())
    bytes += matrixRowBytes(init);
  return bytes;
}

//===- flash_attention ----------------------------------------------------===//

// The sizes of an operand in the order of `axes`.
static SmallVector<int64_t, 4> shapeAlong(Value operand, ArrayRef<int64_t> axes) {
  SmallVector<int64_t, 4> sizes;
  for (int64_t axis : axes)
    sizes.push_back(shaped(operand).getDimSize(axis));
  return sizes;
}
SmallVector<int64_t, 4> FlashAttentionOp::getQueryShape() {
  return shapeAlong(getQuery(), getQueryAxes());
}
SmallVector<int64_t, 4> FlashAttentionOp::getKeyShape() {
  return shapeAlong(getKey(), getKeyAxes());
}
SmallVector<int64_t, 4> FlashAttentionOp::getValueShape() {
  return shapeAlong(getValue(), getValueAxes());
}
SmallVector<int64_t, 4> FlashAttentionOp::getOutShape() {
  return shapeAlong(getInits()[0], getOutAxes());
}

static bool isHeadTensor(Value operand, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  return shaped(operand).getRank() == 4 && sorted == ArrayRef<int64_t>({0, 1, 2, 3}) && axes.back() == 3;
}

bool FlashAttentionOp::hasUnitStride(Value operand) {
  auto type = dyn_cast<MemRefType>(operand.getType());
  if (!type || type.getRank() == 0)
    return true;
  SmallVector<int64_t> strides;
  int64_t offset;
  return succeeded(type.getStridesAndOffset(strides, offset)) && strides.back() == 1;
}

static bool mayBe(int64_t size, int64_t expected) {
  return size == expected || ShapedType::isDynamic(size) || ShapedType::isDynamic(expected);
}

LogicalResult FlashAttentionOp::verify() {
  if (getInits().size() != 1 || !isHeadTensor(getQuery(), getQueryAxes()) || !isHeadTensor(getKey(), getKeyAxes()) ||
      !isHeadTensor(getValue(), getValueAxes()) || !isHeadTensor(getInits()[0], getOutAxes())) // flash_attention_c1
    return emitOpError(
        "query, key, value and the one destination must have rank 4, in an order of axes that ends with 3");
  SmallVector<int64_t, 4> query = getQueryShape(), key = getKeyShape(), value = getValueShape(), out = getOutShape();
  if (query[1] < 1 || key[1] < 1 || query[1] % key[1]) // flash_attention_c2
    return emitOpError("num_heads (") << query[1] << ") must be a static, positive multiple of num_kv_heads (" << key[1]
                                      << ")";
  for (int64_t headDim : {query[3], value[3]})
    if (headDim < 1 || headDim > maxHeadDim) // flash_attention_c2
      return emitOpError("head_dim (") << headDim << ") must be static and 1 to " << maxHeadDim;
  if (!mayBe(query[0], key[0]) || query[3] != key[3]) // flash_attention_c3
    return emitOpError("batch and head_dim of query ")
           << getQuery().getType() << " must be those of key " << getKey().getType();
  if (!mayBe(key[0], value[0]) || key[1] != value[1] || !mayBe(key[2], value[2])) // flash_attention_c3
    return emitOpError("batch, heads and sequence of key ")
           << getKey().getType() << " must be those of value " << getValue().getType();
  if (!mayBe(query[0], out[0]) || query[1] != out[1] || !mayBe(query[2], out[2]) || value[3] != out[3] ||
      shaped(getQuery()).getElementType() != shaped(getInits()[0]).getElementType()) // flash_attention_c4
    return emitOpError("destination ") << getInits()[0].getType()
                                       << " must be (batch, num_heads, queries, head_dim of value) of query "
                                       << getQuery().getType();
  Type rows = shaped(getQuery()).getElementType(), kv = shaped(getKey()).getElementType();
  auto isKnown = [](Type type) { return type.isF32() || type.isF16() || type.isBF16(); };
  if (!isKnown(rows) || !isKnown(kv) || shaped(getValue()).getElementType() != kv) // flash_attention_c4
    return emitOpError("query must be of f32, f16 or bf16, key and value of one of them");
  if (getBias()) { // flash_attention_c5
    ShapedType bias = shaped(getBias());
    const int64_t scores[] = {query[0], query[1], query[2], key[2]};
    bool fits = bias.getRank() == 4 && bias.getElementType().isF32();
    for (int64_t d = 0; fits && d < 4; ++d)
      fits = bias.getDimSize(d) == 1 || mayBe(bias.getDimSize(d), scores[d]);
    if (!fits)
      return emitOpError("bias ") << getBias().getType()
                                  << " must be f32 (batch, num_heads, queries, keys), any of them 1";
  }
  if (getSinks() && (shaped(getSinks()).getShape() != ArrayRef<int64_t>(query[1]) ||
                     !shaped(getSinks()).getElementType().isF32())) // flash_attention_c6
    return emitOpError("sinks must be f32 (") << query[1] << ")";
  for (Value operand : getOperands())
    if (!hasUnitStride(operand)) // flash_attention_c7
      return emitOpError("elements of the last dimension of ") << operand.getType() << " must lie side by side";
  return verifyResults(*this);
}

void FlashAttentionOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef FlashAttentionOp::getKernelKind() {
  return "attention";
}
// A row is a query with all of its heads; keys that are not known are counted at run time.
int64_t FlashAttentionOp::getFlopsPerRow() {
  int64_t keys = getKeyShape()[2];
  return ShapedType::isDynamic(keys) ? 0 : 2 * keys * getQueryShape()[1] * (getQueryShape()[3] + getValueShape()[3]);
}
// Keys and values, of one batch entry where the call decides how many there are; of keys that are not known nothing.
int64_t FlashAttentionOp::getFixedBytes() {
  int64_t bytes = 0;
  for (Value buffer : {getKey(), getValue()}) {
    SmallVector<int64_t, 4> shape = buffer == getKey() ? getKeyShape() : getValueShape();
    int64_t entries = ShapedType::isDynamic(shape[0]) ? 1 : shape[0];
    for (int64_t size : llvm::drop_begin(shape))
      entries *= ShapedType::isDynamic(size) ? 0 : size;
    bytes += entries * shaped(buffer).getElementType().getIntOrFloatBitWidth() / 8;
  }
  return bytes;
}
int64_t FlashAttentionOp::getBytesPerRow() {
  return getQueryShape()[1] * (getQueryShape()[3] + getValueShape()[3]) *
         shaped(getQuery()).getElementType().getIntOrFloatBitWidth() / 8;
}

//===- ragged_attention ---------------------------------------------------===//

int64_t RaggedAttentionOp::getHeadDim() {
  return shaped(getQuery()).getDimSize(1) / int64_t(getNumHeads());
}
int64_t RaggedAttentionOp::getValueDim() {
  return shaped(getInits()[0]).getDimSize(1) / int64_t(getNumHeads());
}

LogicalResult RaggedAttentionOp::verify() {
  int64_t heads = getNumHeads(), kvHeads = getNumKvHeads();
  if (kvHeads < 1 || heads < 1 || heads % kvHeads) // ragged_attention_c2
    return emitOpError("num_heads (") << heads << ") must be a positive multiple of num_kv_heads (" << kvHeads << ")";
  auto isRows = [](Value rows) { return shaped(rows).getRank() == 2 && shaped(rows).getElementType().isF32(); };
  if (getInits().size() != 1 || !llvm::all_of(ValueRange{getQuery(), getKey(), getValue(), getInits()[0]}, isRows) ||
      !isMatrix(getQuery(), heads * getHeadDim()) || !isMatrix(getKey(), kvHeads * getHeadDim()) ||
      !isMatrix(getInits()[0], heads * getValueDim()) ||
      !isMatrix(getValue(), kvHeads * getValueDim())) // ragged_attention_c1
    return emitOpError("query and the one destination must be f32 rows of ")
           << heads << " heads, key and value of " << kvHeads << " with their head dims";
  for (int64_t headDim : {getHeadDim(), getValueDim()})
    if (headDim < 1 || headDim > FlashAttentionOp::maxHeadDim) // ragged_attention_c2
      return emitOpError("head_dim (") << headDim << ") must be 1 to " << FlashAttentionOp::maxHeadDim;
  if (!isMatrix(getSequences(), 2) || !shaped(getSequences()).getElementType().isInteger(32)) // ragged_attention_c3
    return emitOpError("sequences ") << getSequences().getType() << " must be i32 (count, 2)";
  if (getSinks() && (shaped(getSinks()).getShape() != ArrayRef<int64_t>(heads) ||
                     !shaped(getSinks()).getElementType().isF32())) // ragged_attention_c4
    return emitOpError("sinks must be f32 (") << heads << ")";
  if (failed(verifyTileOfPositions(*this, heads))) // ragged_attention_c5
    return failure();
  if (getGlobals() && (shaped(getGlobals()).getRank() != 1 ||
                       !shaped(getGlobals()).getElementType().isInteger(32))) // ragged_attention_c6
    return emitOpError("globals ") << getGlobals().getType() << " must be i32 (rows)";
  if (getOfGlobals() && !getGlobals()) // ragged_attention_c6
    return emitOpError("of globals needs them");
  return verifyResults(*this);
}

void RaggedAttentionOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef RaggedAttentionOp::getKernelKind() {
  return "attention";
}
// A row meets as many keys as its sequence has, which a run decides.
int64_t RaggedAttentionOp::getFlopsPerRow() {
  return 0;
}
int64_t RaggedAttentionOp::getFixedBytes() {
  return 0;
}
int64_t RaggedAttentionOp::getBytesPerRow() {
  int64_t bytes = 0;
  for (Value rows : {getQuery(), getKey(), getValue(), getInits()[0]})
    bytes += matrixRowBytes(rows);
  return bytes;
}

//===- combine_splits -----------------------------------------------------===//

LogicalResult CombineSplitsOp::verify() {
  int64_t width = getNumHeads() * getCache().getType().getHeadDim();
  if (getInits().size() != 1 || !isMatrix(getInits()[0], width)) // combine_splits_c1
    return emitOpError("the one destination must be (rows, ") << width << ")";
  if (!areSplitStates({getOutputs(), getMaxima(), getSums()}, getNumHeads(),
                      getCache().getType().getHeadDim())) // combine_splits_c2
    return emitOpError("reads f32 outputs (max_rows, splits * ")
           << width << "), maxima and sums (max_rows, splits * " << getNumHeads() << ")";
  if (int64_t(getSplitKv()) <= 0) // combine_splits_c3
    return emitOpError("split_kv (") << getSplitKv() << ") must be positive";
  return verifyResults(*this);
}

void CombineSplitsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef CombineSplitsOp::getKernelKind() {
  return "attention";
}
// A scaling and an addition per element of every split.
int64_t CombineSplitsOp::getFlopsPerRow() {
  return 2 * shaped(getOutputs()).getDimSize(1);
}
int64_t CombineSplitsOp::getFixedBytes() {
  return getSinks() ? staticBytes(getSinks()) : 0;
}
int64_t CombineSplitsOp::getBytesPerRow() {
  return matrixRowBytes(getOutputs()) + matrixRowBytes(getMaxima()) + matrixRowBytes(getSums()) +
         matrixRowBytes(getInits()[0]);
}

LogicalResult PreferSplitsOp::verify() {
  if (int64_t(getItems()) <= 0 || int64_t(getMaxRows()) <= 0 || int64_t(getSplitKv()) <= 0 ||
      int64_t(getItemsPerThread()) <= 0) // prefer_splits_c1
    return emitOpError("items (") << getItems() << "), max_rows (" << getMaxRows() << "), split_kv (" << getSplitKv()
                                  << ") and items_per_thread (" << getItemsPerThread() << ") must be positive";
  return success();
}

//===- online_latent_attention --------------------------------------------===//

LatentDims OnlineLatentAttentionOp::getDims() {
  KvCacheType cache = getCache().getType();
  LatentDims dims;
  dims.numHeads = getNumHeads();
  dims.numKvHeads = getNumKvHeads();
  dims.rank = cache.getKeyDim();
  dims.rope = cache.getValueDim();
  dims.nope = getNope();
  dims.value = getValue();
  return dims;
}

LogicalResult OnlineLatentAttentionOp::verify() {
  LatentDims dims = getDims();
  if (!getCache().getType().isLatent() || dims.numKvHeads < 1 ||
      dims.numHeads % dims.numKvHeads) // online_latent_attention_c2
    return emitOpError("needs a latent cache, and num_heads (")
           << dims.numHeads << ") a multiple of num_kv_heads (" << dims.numKvHeads << ")";
  int64_t queryWidth = dims.numHeads * dims.queryDim(), width = dims.numHeads * dims.value;
  bool isSplit = getSplitKv().has_value();
  if (getInits().size() != (isSplit ? 3 : 2) || !isMatrix(getQuery(), queryWidth) || !isMatrix(getInits()[0], width) ||
      !isMatrix(getInits()[1], dims.scratchDim())) // online_latent_attention_c1
    return emitOpError("query must be (rows, ")
           << queryWidth << "), the destinations (rows, " << width << ") and (rows, " << dims.scratchDim() << ")";
  auto fits = [&](OperandRange ups) { return ups.size() == 1 || int64_t(ups.size()) == dims.numKvHeads; };
  if (!fits(getValueUps()) ||
      !(fits(getKeyUps()) || (getKeyUps().empty() && getKeyFolds()))) // online_latent_attention_c3
    return emitOpError("key_ups (") << getKeyUps().size() << ") and value_ups (" << getValueUps().size() << ") must be "
                                    << dims.numKvHeads << " matrices or one packed tensor";
  if (!isSplit)
    return verifyResults(*this);
  int64_t state = dims.numHeads * (dims.rank + 2); // of a row and split
  ShapedType states = shaped(getInits()[2]);
  if (int64_t(*getSplitKv()) <= 0 || getForm() == LatentForm::Materialised || !states.hasStaticShape() ||
      states.getRank() != 2 || states.getDimSize(1) % state ||
      !states.getElementType().isF32()) // online_latent_attention_c4
    return emitOpError("split_kv (")
           << *getSplitKv()
           << ") must be positive, of a body with folded queries, and come with f32 (max_rows, splits * " << state
           << ")";
  return verifyResults(*this);
}

void OnlineLatentAttentionOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
  effects.emplace_back(MemoryEffects::Read::get(), SideEffects::DefaultResource::get()); // the cache
}
StringRef OnlineLatentAttentionOp::getKernelKind() {
  return "attention";
}
// What every row costs whatever the keys: its query and its result are folded.
int64_t OnlineLatentAttentionOp::getFlopsPerRow() {
  return 2 * getDims().numHeads * getDims().rebuildCost();
}
int64_t OnlineLatentAttentionOp::getFixedBytes() {
  Value keys = getKeyFolds() ? Value(getKeyFolds()) : getKeyUps().front();
  return staticBytes(keys) + staticBytes(getValueUps().front());
}
int64_t OnlineLatentAttentionOp::getBytesPerRow() {
  return rowBytes(getQuery()) + rowBytes(getInits()[0]);
}

//===- rotate_append ------------------------------------------------------===//

int64_t RotateAppendOp::getWidth() {
  KvCacheType cache = getCache().getType();
  return (int64_t(getNumHeads()) + 2 * cache.getNumKvHeads()) * cache.getHeadDim();
}

static bool isFloat(Value value) {
  return shaped(value).getElementType().isF32();
}

// What of the op makes the rows that are rotated.
static LogicalResult verifyProduct(RotateAppendOp op) {
  Value product = op.getProductRoom(), room = op.getRoom();
  bool hasWeights = bool(op.getWeights());
  if (hasWeights != bool(op.getK()) || hasWeights != bool(op.getFormat()) || hasWeights != bool(product) ||
      op.getInits().size() > 3 || (!hasWeights && (op.getBias() || op.getNorm()))) // rotate_append_c6
    return op.emitOpError(
        "weights, k, 'format' and a second destination belong together, and to a bias, a norm and a third one");
  if (!hasWeights)
    return success();
  int64_t width = op.getWidth(), k = *op.getK();
  if (!isMatrix(op.getInput(), k) || !isMatrix(product, width) || !isFloat(product) ||
      !(isFloat(op.getInput()) || shaped(op.getInput()).getElementType().isBF16())) // rotate_append_c6
    return op.emitOpError("the input of a product must be f32 or bf16 (rows, ")
           << k << ") and the second destination f32 (rows, " << width << ")";
  if (op.getBias() && shaped(op.getBias()).getShape() != ArrayRef<int64_t>(width)) // rotate_append_c6
    return op.emitOpError("bias must be (") << width << ")";
  return verifyPreparation(op, room, op.getNorm(), k, "third"); // rotate_append_c6
}

LogicalResult RotateAppendOp::verify() {
  KvCacheType cache = getCache().getType();
  int64_t headDim = cache.getHeadDim(), heads = getNumHeads(), width = getWidth();
  int64_t rotaryDim = getRope().getRotaryDim(), offset = getOffset();
  bool isOfInput = !getWeights();
  if (getInits().empty() || !isMatrix(getInits()[0], heads * headDim) || !isFloat(getInits()[0]) ||
      (isOfInput && (!isMatrix(getInput(), width) || !isFloat(getInput())))) // rotate_append_c1
    return emitOpError("input must be f32 (rows, ")
           << width << ") and the destination f32 (rows, " << heads * headDim << ")";
  ShapedType positions = shaped(getPositions());
  if (positions.getRank() != 1 || !positions.getElementType().isInteger(32) || !isMatrix(getTable(), rotaryDim) ||
      !isFloat(getTable())) // rotate_append_c2
    return emitOpError("positions must be i32 (rows) and the table f32 (context, ") << rotaryDim << ")";
  if (offset < 0 || offset + rotaryDim > headDim) // rotate_append_c3
    return emitOpError("offset (") << offset << ") and rotary_dim (" << rotaryDim << ") must lie in head_dim ("
                                   << headDim << ")";
  if (cache.isLatent() || cache.getBlockColumns()) // rotate_append_c4
    return emitOpError("the cache must hold numbers of keys and values, got ") << cache;
  bool hasNorms = bool(getQueryNorm());
  if (hasNorms != bool(getKeyNorm()) || hasNorms != bool(getHeadsEps()) ||
      hasNorms != bool(getHeadsWeightOffset())) // rotate_append_c5
    return emitOpError("norms of queries and keys, 'heads_eps' and 'heads_weight_offset' belong together");
  for (Value norm : {getQueryNorm(), getKeyNorm()})
    if (norm && (!isFloat(norm) || shaped(norm).getShape() != ArrayRef<int64_t>(headDim))) // rotate_append_c5
      return emitOpError("a norm of heads must be f32 (") << headDim << "), got " << norm.getType();
  if (failed(verifyProduct(*this)))
    return failure();
  return verifyResults(*this);
}

void RotateAppendOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
  effects.emplace_back(MemoryEffects::Write::get(), SideEffects::DefaultResource::get()); // the cache
}
StringRef RotateAppendOp::getKernelKind() {
  return getWeights() ? "matmul" : "cache";
}
StringRef RotateAppendOp::getArithmetic() {
  Value rows = getRoom() ? getRoom() : getInput();
  return shaped(rows).getElementType().isBF16() ? "bf16" : "f32";
}
// Two products and a sum for each rotated number.
int64_t RotateAppendOp::getFlopsPerRow() {
  int64_t rotation = 3 * (int64_t(getNumHeads()) + getCache().getType().getNumKvHeads()) * getRope().getRotaryDim();
  return rotation + 2 * getWidth() * int64_t(getK().value_or(0));
}
int64_t RotateAppendOp::getFixedBytes() {
  return getWeights() ? staticBytes(getWeights()) : 0;
}
int64_t RotateAppendOp::getBytesPerRow() {
  KvCacheType cache = getCache().getType();
  int64_t cached = 2 * cache.getNumKvHeads() * cache.getHeadDim() * cache.getElementType().getIntOrFloatBitWidth() / 8;
  return matrixRowBytes(getInput()) + matrixRowBytes(getInits()[0]) + cached;
}
