// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers and shapes of the model ops. Comments cite the constraint in ModelOps.td that a check enforces.

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace heddle;

#define GET_OP_CLASSES
#include "dialect/HeddleOps.cpp.inc"

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}
static int64_t lastDim(RankedTensorType type) {
  return type.getRank() ? type.getShape().back() : 1;
}

// The sizes of `value`, with the last `drop` dimensions left out and `appended` added.
static SmallVector<OpFoldResult> sizesOf(OpBuilder &b, Location loc, Value value, unsigned drop,
                                         ArrayRef<int64_t> appended) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, value);
  sizes.resize(sizes.size() - drop);
  for (int64_t size : appended)
    sizes.push_back(b.getIndexAttr(size));
  return sizes;
}

// result has the shape of `input` but for the last dimension, which is `width`.
static bool sameButLast(RankedTensorType input, RankedTensorType result, int64_t width) {
  return input.getRank() == result.getRank() && input.getShape().drop_back() == result.getShape().drop_back() &&
         lastDim(result) == width;
}

//===- weight -------------------------------------------------------------===//

LogicalResult WeightOp::verify() {
  PackingAttr packing = getPacking();
  if (bool(getStorage()) == bool(packing)) // weight_c2
    return emitOpError("must have a storage or a packing, got ") << (packing ? "both" : "none");
  if (!packing)
    return success();
  RankedTensorType type = shaped(getResult());
  ArrayRef<int64_t> shape = packing.getShape();
  if (packing.isMatrix()) { // weight_c3
    if (type.getRank() != 1 || !type.getElementType().isInteger(8))
      return emitOpError("of packed matrices must be bytes (N), got ") << type;
  } else if (type.getShape() != shape) { // weight_c3
    return emitOpError("must have the shape of its packing, [") << shape << "], got " << type;
  } else if (packing.getLayout() == PackingLayout::Vector && !type.getElementType().isF32()) { // weight_c3
    return emitOpError("of packed vectors must be f32, got ") << type;
  }
  return success();
}

//===- embedding ----------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  RankedTensorType ids = shaped(getIds()), table = shaped(getTable()), result = shaped(getResult());
  if (table.getRank() != 2) // embedding_c1
    return emitOpError("table must have rank 2, (vocabulary, width), got rank ") << table.getRank();
  if (result.getRank() != ids.getRank() + 1 || result.getShape().drop_back() != ids.getShape() ||
      lastDim(result) != table.getDimSize(1)) // embedding_c2
    return emitOpError("result ") << result << " must be the ids' shape with the table's width (" << table.getDimSize(1)
                                  << ") appended";
  if (Value given = getGiven(); given && (shaped(given).getRank() != 2 || lastDim(shaped(given)) != lastDim(result)))
    return emitOpError("given ") << given.getType() << " must be (any number, " << lastDim(result)
                                 << ")"; // embedding_c3
  return success();
}

LogicalResult EmbeddingOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(sizesOf(b, getLoc(), getIds(), 0, {shaped(getTable()).getDimSize(1)}));
  return success();
}

//===- linear -------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  RankedTensorType input = shaped(getInput()), result = shaped(getResult());
  if (getWeights().empty())
    return emitOpError("needs a weight");
  int64_t outFeatures = 0;
  for (Value weight : getWeights()) {
    RankedTensorType type = shaped(weight);
    if (type.getRank() != 2 || type.getDimSize(1) != lastDim(input)) // linear_c1
      return emitOpError("weight ") << type << " must be (out_features, in_features) with in_features "
                                    << lastDim(input);
    outFeatures += type.getDimSize(0);
  }
  if (!sameButLast(input, result, outFeatures)) // linear_c2
    return emitOpError("result ") << result << " must be the input's shape with last dimension " << outFeatures;
  if (!getBiases().empty() && getBiases().size() != getWeights().size()) // linear_c3
    return emitOpError("biases (") << getBiases().size() << ") must be as many as weights (" << getWeights().size()
                                   << ")";
  for (auto [weight, bias] : llvm::zip(getWeights(), getBiases()))
    if (shaped(bias).getShape() != shaped(weight).getShape().take_front()) // linear_c3
      return emitOpError("bias ") << bias.getType() << " must be (" << shaped(weight).getDimSize(0) << ")";
  return success();
}

LogicalResult LinearOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(sizesOf(b, getLoc(), getInput(), 1, {lastDim(shaped(getResult()))}));
  return success();
}

//===- integer_linear -----------------------------------------------------===//

LogicalResult IntegerLinearOp::verify() {
  RankedTensorType input = shaped(getInput()), weight = shaped(getWeight());
  if (weight.getRank() != 2 || weight.getDimSize(1) != lastDim(input)) // integer_linear_c1
    return emitOpError("weight ") << weight << " must be (out_features, in_features) with in_features "
                                  << lastDim(input);
  if (!sameButLast(input, shaped(getResult()), weight.getDimSize(0))) // integer_linear_c2
    return emitOpError("result ") << getResult().getType() << " must be the input's shape with last dimension "
                                  << weight.getDimSize(0);
  if (getZero() && shaped(getZero()).getRank() != 0) // integer_linear_c3
    return emitOpError("zero must be a scalar, got ") << getZero().getType();
  return success();
}

LogicalResult IntegerLinearOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(sizesOf(b, getLoc(), getInput(), 1, {lastDim(shaped(getResult()))}));
  return success();
}

//===- norms --------------------------------------------------------------===//

template <typename Op> static LogicalResult verifyNorm(Op op) {
  RankedTensorType input = shaped(op.getInput()), weight = shaped(op.getWeight());
  int64_t width = lastDim(input), heads = input.getRank() == 4 ? input.getDimSize(1) : 1;
  int64_t ofAllHeads = ShapedType::isDynamic(heads) ? heads : heads * width;
  if (weight.getShape() != ArrayRef(width) && weight.getShape() != ArrayRef(ofAllHeads)) { // rms_norm_c1, layer_norm_c1
    InFlightDiagnostic error = op.emitOpError("weight ") << weight << " must be (" << width << ")";
    if (heads > 1)
      error << " or, with one for each head, (" << ofAllHeads << ")";
    return error;
  }
  if (op.getEps().convertToDouble() < 0) // rms_norm_c2, layer_norm_c2
    return op.emitOpError("eps must not be negative");
  return success();
}

LogicalResult RmsNormOp::verify() {
  return verifyNorm(*this);
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyNorm(*this)))
    return failure();
  if (getBias() && shaped(getBias()).getShape() != shaped(getWeight()).getShape()) // layer_norm_c1
    return emitOpError("bias ") << getBias().getType() << " must be (" << lastDim(shaped(getWeight()))
                                << "), as the weight is";
  return success();
}

//===- rope ---------------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  RankedTensorType input = shaped(getInput()), positions = shaped(getPositions());
  if (positions.getDimSize(0) != input.getDimSize(0) || positions.getDimSize(1) != input.getDimSize(2)) // rope_c1
    return emitOpError("positions ") << positions << " must be (batch, sequence) of " << input;
  int64_t offset = getOffset();
  if (offset < 0 || offset + getRope().getRotaryDim() > input.getDimSize(3)) // rope_c2
    return emitOpError("rotary_dim (") << getRope().getRotaryDim() << ") behind offset (" << offset
                                       << ") must not be greater than head_dim (" << input.getDimSize(3) << ")";
  return success();
}

//===- position_bias ------------------------------------------------------===//

LogicalResult heddle::verifyPositions(Operation *op, ShapedType table, std::optional<ArrayRef<int64_t>> starts,
                                      std::optional<ArrayRef<int64_t>> rows) {
  bool isTable = !rows || !table.isDynamicDim(0) || isa<PositionBiasOp>(op); // else attention_c7 says what tokens give
  if ((isTable && table.getRank() != (rows ? 2 : 1)) || starts.has_value() != rows.has_value()) // position_bias_c1
    return op->emitOpError("table ") << table
                                     << " must be (num_heads), or (num_buckets, num_heads) with starts and rows";
  if (!rows)
    return success();
  bool ascends = llvm::all_of(llvm::seq<size_t>(1, std::max<size_t>(starts->size(), 1)),
                              [&](size_t k) { return (*starts)[k - 1] < (*starts)[k]; });
  if (rows->size() != starts->size() + 1 || !ascends) // position_bias_c2
    return op->emitOpError("starts must ascend and rows (")
           << rows->size() << ") be one more than starts (" << starts->size() << ")";
  for (int64_t row : *rows)
    if (row < 0 || (!table.isDynamicDim(0) && row >= table.getDimSize(0))) // position_bias_c3
      return op->emitOpError("row ") << row << " is not in the table of " << table.getDimSize(0) << " rows";
  return success();
}

LogicalResult PositionBiasOp::verify() {
  RankedTensorType table = shaped(getTable()), result = shaped(getResult());
  if (failed(verifyPositions(*this, table, getStarts(), getRows())))
    return failure();
  if (result.getDimSize(0) != 1 || result.getDimSize(1) != lastDim(table)) // position_bias_c4
    return emitOpError("result ") << result << " must be (1, " << lastDim(table) << ", queries, keys)";
  return success();
}

LogicalResult PositionBiasOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back({b.getIndexAttr(1), b.getIndexAttr(lastDim(shaped(getTable()))), getAsOpFoldResult(getQueries()),
                    getAsOpFoldResult(getKeys())});
  return success();
}

//===- attention ----------------------------------------------------------===//

// attention_c8
static LogicalResult verifyGlobals(AttentionOp op) {
  if (!op.getGlobals())
    return op.getGlobalOperands().empty() ? success() : op.emitOpError("has global operands, but no globals");
  int64_t rank = op.getSequences() ? 1 : 2;
  if (shaped(op.getGlobals()).getRank() != rank)
    return op.emitOpError("globals ") << op.getGlobals().getType() << " must have rank " << rank;
  Value locals[] = {op.getQuery(), op.getKey(), op.getValue()};
  if (op.getGlobalOperands().getTypes() != ValueRange(locals).getTypes())
    return op.emitOpError("global operands must be three of the types of query, key and value");
  if (op.getBias() || op.getPositions() || op.getSinks() ||
      failed(verifyCompatibleShape({shaped(op.getQuery()).getDimSize(2)}, {shaped(op.getKey()).getDimSize(2)})))
    return op.emitOpError("of globals needs as many queries as keys and neither bias, positions nor sinks");
  return success();
}

LogicalResult AttentionOp::verify() {
  RankedTensorType query = shaped(getQuery()), key = shaped(getKey()), value = shaped(getValue());
  if (key.getDimSize(1) == 0 || query.getDimSize(1) % key.getDimSize(1)) // attention_c2
    return emitOpError("num_heads (") << query.getDimSize(1) << ") must be a multiple of num_kv_heads ("
                                      << key.getDimSize(1) << ")";
  if (query.getDimSize(3) != key.getDimSize(3)) // attention_c3
    return emitOpError("head_dim of query (")
           << query.getDimSize(3) << ") must be that of key (" << key.getDimSize(3) << ")";
  if (key.getDimSize(1) != value.getDimSize(1)) // attention_c3
    return emitOpError("heads of key (") << key.getDimSize(1) << ") must be those of value (" << value.getDimSize(1)
                                         << ")";
  if (failed(verifyCompatibleShape({key.getDimSize(0), key.getDimSize(2)},
                                   {value.getDimSize(0), value.getDimSize(2)}))) // attention_c3
    return emitOpError("batch and sequence of key ") << key << " must be those of value " << value;
  SmallVector<int64_t> expected(query.getShape());
  expected[3] = value.getDimSize(3);
  if (shaped(getResult()).getShape() != ArrayRef<int64_t>(expected)) // attention_c4
    return emitOpError("result ") << getResult().getType() << " must be (batch, num_heads, queries, head_dim of value)";
  if (getSinks() && shaped(getSinks()).getDimSize(0) != query.getDimSize(1)) // attention_c5
    return emitOpError("sinks (") << shaped(getSinks()).getDimSize(0) << ") must be num_heads (" << query.getDimSize(1)
                                  << ")";
  if (!getPositions() && (getStarts() || getRows())) // attention_c7
    return emitOpError("has starts or rows, but no positions");
  if (getPositions()) { // attention_c7
    if (getBias())
      return emitOpError("has positions and a bias: one of them may be there");
    if (failed(verifyPositions(*this, shaped(getPositions()), getStarts(), getRows())))
      return failure();
    RankedTensorType positions = shaped(getPositions());
    int64_t heads = query.getDimSize(1), width = lastDim(positions);
    bool ofTokens = getRows() && positions.isDynamicDim(0);
    if (!ofTokens && width != heads)
      return emitOpError("positions ") << positions << " must be of num_heads (" << heads << ")";
    if (ofTokens && (positions.getRank() != (getSequences() ? 2 : 3) || width % (2 * heads) ||
                     *llvm::max_element(*getRows()) >= width / (2 * heads) || query.getDimSize(2) != key.getDimSize(2)))
      return emitOpError("positions ") << positions << " of as many queries as keys must be ("
                                       << (getSequences() ? "rows" : "batch, sequence") << ", 2 * num_heads " << heads
                                       << " * num_buckets), with a bucket for each of rows";
  }
  if (failed(verifyGlobals(*this)))
    return failure();
  if (!getSequences())
    return success();
  if (shaped(getSequences()).getDimSize(1) != 2) // attention_c6
    return emitOpError("sequences ") << getSequences().getType() << " must be (count, 2): first rows, and how many";
  if (query.getDimSize(0) != 1 || key.getDimSize(0) != 1 || query.getDimSize(2) != key.getDimSize(2) ||
      getBias()) // attention_c6
    return emitOpError("of sequences needs a batch of 1, as many queries as keys and no bias, got query ")
           << query << " and key " << key;
  return success();
}

LogicalResult AttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(sizesOf(b, getLoc(), getQuery(), 1, {shaped(getValue()).getDimSize(3)}));
  return success();
}

//===- latent_attention ---------------------------------------------------===//

std::string LatentDims::describe(LatentForm form) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << stringifyLatentForm(form) << ": " << rank << " + " << rope << " values cached per token";
  if (form != LatentForm::Automatic)
    return text;
  int64_t rebuild = rebuildCost(), latent = latentCost();
  if (latent <= 0) {
    os << "; absorbed always, since 2 * " << rank << " is not more than " << nope << " + " << value;
    return text;
  }
  os << "; materialised above " << rebuild << " / (" << latent << " + " << rebuild << " / keys) queries, "
     << (rebuild + latent / 2) / latent << " for long contexts";
  return text;
}

LatentDims LatentAttentionOp::getDims() {
  LatentDims dims;
  dims.numHeads = shaped(getQuery()).getDimSize(1);
  dims.numKvHeads = getKeyUps().size();
  dims.rank = lastDim(shaped(getLatent()));
  dims.rope = getKeyRope() ? lastDim(shaped(getKeyRope())) : 0;
  dims.nope = shaped(getKeyUps().front()).getDimSize(0);
  dims.value = shaped(getValueUps().front()).getDimSize(0);
  return dims;
}

LogicalResult LatentAttentionOp::verify() {
  RankedTensorType query = shaped(getQuery()), latent = shaped(getLatent()), result = shaped(getResult());
  int64_t latentHeads = latent.getDimSize(1), ropeHeads = getKeyRope() ? shaped(getKeyRope()).getDimSize(1) : 1;
  if (latentHeads != 1 || ropeHeads != 1) // latent_attention_c1
    return emitOpError("latent (") << latentHeads << ") and key_rope (" << ropeHeads << ") must have one head";
  if (getKeyUps().empty() || getKeyUps().size() != getValueUps().size() ||
      query.getDimSize(1) % int64_t(getKeyUps().size())) // latent_attention_c2
    return emitOpError("key_ups (") << getKeyUps().size() << ") must be as many as value_ups (" << getValueUps().size()
                                    << ") and divide num_heads (" << query.getDimSize(1) << ")";
  LatentDims dims = getDims();
  for (Value up : getKeyUps())
    if (shaped(up).getShape() != ArrayRef<int64_t>({dims.nope, dims.rank})) // latent_attention_c3
      return emitOpError("key_ups ") << up.getType() << " must be (" << dims.nope << ", kv_lora_rank " << dims.rank
                                     << ")";
  if (lastDim(query) != dims.nope + dims.rope) // latent_attention_c3
    return emitOpError("head_dim of query (") << lastDim(query) << ") must be qk_nope_head_dim (" << dims.nope
                                              << ") and qk_rope_head_dim (" << dims.rope << ") together";
  for (Value up : getValueUps())
    if (shaped(up).getShape() != ArrayRef<int64_t>({dims.value, dims.rank})) // latent_attention_c4
      return emitOpError("value_ups ") << up.getType() << " must be (" << dims.value << ", kv_lora_rank " << dims.rank
                                       << ")";
  SmallVector<int64_t> expected(query.getShape());
  expected[3] = dims.value;
  if (result.getShape() != ArrayRef<int64_t>(expected)) // latent_attention_c4
    return emitOpError("result ") << result << " must be (batch, num_heads, queries, v_head_dim " << dims.value << ")";
  if (getKeyRope() && failed(verifyCompatibleShape({latent.getDimSize(0), latent.getDimSize(2)},
                                                   {shaped(getKeyRope()).getDimSize(0),
                                                    shaped(getKeyRope()).getDimSize(2)}))) // latent_attention_c5
    return emitOpError("batch and sequence of latent ")
           << latent << " must be those of key_rope " << getKeyRope().getType();
  return success();
}

LogicalResult LatentAttentionOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(sizesOf(b, getLoc(), getQuery(), 1, {getDims().value}));
  return success();
}

//===- softcap ------------------------------------------------------------===//

LogicalResult SoftcapOp::verify() {
  if (getCap().convertToDouble() <= 0) // softcap_c1
    return emitOpError("cap must be positive");
  return success();
}

//===- moe ----------------------------------------------------------------===//

LogicalResult heddle::verifyRouting(Operation *op, RoutingAttr routing, bool hasCorrection, int64_t numExperts,
                                    int64_t topK) {
  int64_t groups = routing ? routing.getNumGroups() : 1, top = routing ? routing.getTopGroups() : 1;
  int64_t perGroup = numExperts / groups;
  if (numExperts % groups || top * perGroup < topK || (groups > 1 && hasCorrection && perGroup < 2))
    return op->emitOpError("num_experts (")
           << numExperts << ") must be a multiple of num_groups (" << groups << "), whose top_groups (" << top
           << ") hold top_k (" << topK << ") experts";
  if (routing && routing.getJitter() && hasCorrection)
    return op->emitOpError("correction changes which experts are chosen, which jitter does not know");
  return success();
}

bool MoeOp::isUngated() {
  return getUps().empty() && !getGates().empty() && !getDowns().empty() &&
         shaped(getGates()[0]).getDimSize(0) == shaped(getDowns()[0]).getDimSize(1);
}

LogicalResult MoeOp::verify() {
  int64_t width = lastDim(shaped(getInput())), experts = shaped(getRouter()).getDimSize(0);
  int64_t routed = lastDim(shaped(getRoutedRows()));
  if (shaped(getRouter()).getDimSize(1) != routed || (int64_t)getGates().size() != experts ||
      (!getUps().empty() && (int64_t)getUps().size() != experts) || (int64_t)getDowns().size() != experts) // moe_c1
    return emitOpError("router ") << getRouter().getType() << " must be (num_experts, " << routed << ") with a gate ("
                                  << getGates().size() << "), up (" << getUps().size() << ") and down ("
                                  << getDowns().size() << ") per expert";
  bool inTurn = alternates();
  for (auto [gate, up, down] : llvm::zip(getGates(), getUps().empty() ? getGates() : getUps(), getDowns())) {
    int64_t rows = shaped(gate).getDimSize(0);
    if (shaped(gate).getDimSize(1) != width || shaped(up).getShape() != shaped(gate).getShape() ||
        (inTurn && rows % 2) ||
        shaped(down).getShape() != ArrayRef<int64_t>({width, inTurn ? rows / 2 : rows})) // moe_c2
      return emitOpError("gate ") << gate.getType() << ", up " << up.getType() << " and down " << down.getType()
                                  << " must be (intermediate, width) and (width, intermediate)";
  }
  if (getGating() && isUngated()) // moe_c2
    return emitOpError("gating bounds what an up projection multiplies, and there is none");
  int64_t topK = getTopK();
  if (topK < 1 || topK > experts) // moe_c3
    return emitOpError("top_k (") << topK << ") must be 1 to num_experts (" << experts << ")";
  if (getCorrection() && shaped(getCorrection()).getDimSize(0) != experts) // moe_c4
    return emitOpError("correction (") << shaped(getCorrection()).getDimSize(0) << ") must be num_experts (" << experts
                                       << ")";
  if (getRouterBias() && shaped(getRouterBias()).getDimSize(0) != experts) // moe_c6
    return emitOpError("router_bias (") << shaped(getRouterBias()).getDimSize(0) << ") must be num_experts (" << experts
                                        << ")";
  for (auto [biases, matrices, role] :
       {std::tuple(getGateBiases(), getGates(), "gate"), std::tuple(getUpBiases(), getUps(), "up"),
        std::tuple(getDownBiases(), getDowns(), "down")}) { // moe_c7
    if (!biases.empty() && biases.size() != matrices.size())
      return emitOpError("has ") << biases.size() << " " << role << "_biases for " << matrices.size() << " matrices";
    for (auto [bias, matrix] : llvm::zip(biases, matrices))
      if (shaped(bias).getDimSize(0) != shaped(matrix).getDimSize(0))
        return emitOpError(role) << " bias " << bias.getType() << " must be as long as " << matrix.getType()
                                 << " has rows";
  }
  if (Value rows = getRouterInput();
      rows && (shaped(rows).getRank() != shaped(getInput()).getRank() ||
               shaped(rows).getShape().drop_back() != shaped(getInput()).getShape().drop_back())) // moe_c8
    return emitOpError("router_input ") << rows.getType() << " must have the type of the input, "
                                        << getInput().getType() << ", but for the last dimension";
  if (getScales() && shaped(getScales()).getDimSize(0) != experts) // moe_c9
    return emitOpError("scales (") << shaped(getScales()).getDimSize(0) << ") must be num_experts (" << experts << ")";
  return verifyRouting(*this, getRoutingAttr(), bool(getCorrection()), experts, topK); // moe_c5
}

//===- shapes of ops that keep the input's --------------------------------===//

#define HEDDLE_KEEPS_SHAPE(Op, operand)                                                                                \
  LogicalResult Op::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {                             \
    shapes.push_back(tensor::getMixedSizes(b, getLoc(), operand()));                                                   \
    return success();                                                                                                  \
  }
HEDDLE_KEEPS_SHAPE(RmsNormOp, getInput)
HEDDLE_KEEPS_SHAPE(LayerNormOp, getInput)
HEDDLE_KEEPS_SHAPE(RopeOp, getInput)
HEDDLE_KEEPS_SHAPE(GluOp, getGate)
HEDDLE_KEEPS_SHAPE(SoftcapOp, getInput)
HEDDLE_KEEPS_SHAPE(MoeOp, getInput)
#undef HEDDLE_KEEPS_SHAPE
