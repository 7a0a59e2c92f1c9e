// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers, effects and costs of the kernel ops but those of attention. Comments cite the constraint in KernelOps.td that a check enforces.

#include "dialect/KernelOpVerifiers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace heddle;

//===- pack ---------------------------------------------------------------===//

int64_t PackOp::rowsOf(Value source) {
  return shaped(source).getDimSize(getTransposed() ? 1 : 0);
}

int64_t PackOp::getK() {
  return shaped(getSources().front()).getDimSize(getTransposed() ? 0 : 1);
}

LogicalResult PackOp::verify() {
  if (getSources().empty() || getLayout() == PackingLayout::Stored) // pack_c1
    return emitOpError("must have sources and another layout than 'stored', got ")
           << getSources().size() << " and '" << stringifyPackingLayout(getLayout()) << "'";
  int64_t rank = isVector() ? 1 : 2, rows = 0;
  for (Value source : getSources()) {
    if (shaped(source).getRank() != rank) // pack_c1
      return emitOpError("sources must have rank ") << rank << ", got " << source.getType();
    if (!isVector() && shaped(source).getDimSize(getTransposed() ? 0 : 1) != getK()) // pack_c1
      return emitOpError("sources must have k (") << getK() << ") in common, got " << source.getType();
    if (getLayout() == PackingLayout::Interleaved && rowsOf(source) != rowsOf(getSources().front())) // pack_c3
      return emitOpError("rows of interleaved matrices must be equal, got ")
             << rowsOf(getSources().front()) << " and " << rowsOf(source);
    rows += rowsOf(source);
  }
  if (failed(verifyPackingLayout([&] { return emitOpError(); }, getLayout(), getFormat(), int64_t(getGroup()),
                                 getTransposed(), getSources().size()))) // pack_c3
    return failure();
  ShapedType type = shaped(getResult());
  if (isVector() && (!type.getElementType().isF32() || type.getDimSize(0) != rows)) // pack_c2
    return emitOpError("of vectors must be f32 (") << rows << "), got " << type;
  if (!isVector() && (!type.getElementType().isInteger(8) || !type.hasStaticShape())) // pack_c2
    return emitOpError("of matrices must be bytes (N), got ") << type;
  return success();
}

//===- packed_matmul ------------------------------------------------------===//

// Of `packed_matmul` and `expert_matmul`: who rounds what.
template <typename Matmul> static LogicalResult verifyRounding(Matmul op) {
  Value rounded = op.getInputRounded();
  if (rounded && !op.getInt16())
    return op.emitOpError("a rounded input belongs to 'int16'");
  if (op.getInt16() &&
      (!shaped(op.getInput()).getElementType().isF32() || op.getK() % 32 || !isQuantizedFormat(op.getFormat())))
    return op.emitOpError("'int16' needs a f32 input, quantised weights and a multiple of 32 as k, got ")
           << shaped(op.getInput()).getElementType() << ", '" << op.getFormat() << "' and " << op.getK();
  if (rounded && (!shaped(rounded).getElementType().isBF16() ||
                  failed(verifyCompatibleShape(shaped(rounded).getShape(), shaped(op.getInput()).getShape()))))
    return op.emitOpError("a rounded input must be bf16 in the shape of the input, got ") << rounded.getType();
  return success();
}

// Of a product that prepares its rows.
static LogicalResult verifyRoom(PackedMatmulOp op) {
  if (op.getRoom() && (op.getInits().size() > 2 || op.getInt16())) // packed_matmul_c7
    return op.emitOpError("a second destination excludes a third one and 'int16'");
  return verifyPreparation(op, op.getRoom(), op.getNorm(), op.getK(), "second"); // packed_matmul_c7, packed_matmul_c8
}

// Of a product that rounds its result.
static LogicalResult verifyRoundedResult(PackedMatmulOp op) {
  auto elementOf = [&](unsigned init) { return shaped(op.getInits()[init]).getElementType(); };
  std::optional<int64_t> above = op.getRoundedAbove();
  if (above && (*above < 1 || !op.getInt16() || op.getInits().size() != 2 || !elementOf(0).isF32() ||
                !elementOf(1).isBF16() || !isMatrix(op.getInits()[1], op.getN()))) // packed_matmul_c9
    return op.emitOpError("'rounded_above' (")
           << *above << ") must be positive, with 'int16' and destinations f32 and bf16 (rows, " << op.getN() << ")";
  if (op.getAccumulate() && (above || elementOf(0).isBF16())) // packed_matmul_c9
    return op.emitOpError("a residual is not rounded");
  return success();
}

LogicalResult PackedMatmulOp::verify() {
  if (getInits().empty() || !isMatrix(getInput(), getK()) || !isMatrix(getInits()[0], getN())) // packed_matmul_c1
    return emitOpError("input must be (rows, ") << getK() << ") and the destination (rows, " << getN() << ")";
  bool quantized = shaped(getInput()).getElementType().isInteger(8);
  if (quantized != bool(getInputScales()) || quantized != bool(getInputSums())) // packed_matmul_c2
    return emitOpError("scales and sums belong to an i8 input");
  if (quantized && (!isMatrix(getInputScales(), int64_t(getK()) / 32) ||
                    !isMatrix(getInputSums(), int64_t(getK()) / 16))) // packed_matmul_c2
    return emitOpError("scales must be (rows, ") << getK() / 32 << ") and sums (rows, " << getK() / 16 << ")";
  if (getBias() && shaped(getBias()).getShape() != ArrayRef<int64_t>(getN())) // packed_matmul_c3
    return emitOpError("bias must be (") << getN() << ")";
  if (failed(verifyRounding(*this))) // packed_matmul_c4
    return failure();
  if (getActivation() && getAccumulate()) // packed_matmul_c5
    return emitOpError("an activation of what is added to a residual has no kernel");
  if (getGated() && (!getActivation() || getBias() || getN() % 16)) // packed_matmul_c6
    return emitOpError("'gated' needs an activation, no bias and a multiple of 16 as n, got ") << getN();
  if (failed(verifyRoundedResult(*this)) || failed(verifyRoom(*this)))
    return failure();
  return verifyResults(*this);
}

void PackedMatmulOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
// Of 16-bit integers are few rows only: many are multiplied as they come rounded, where they do.
template <typename Matmul> static StringRef arithmeticOf(Matmul op) {
  if (op.getInputScales())
    return "int8";
  if (op.getInputRounded() || shaped(op.getInput()).getElementType().isBF16())
    return "bf16";
  return op.getInt16() ? "int16" : "f32";
}

StringRef PackedMatmulOp::getArithmetic() {
  if (Value room = getRoom())
    return shaped(room).getElementType().isBF16() ? "bf16" : "f32";
  return arithmeticOf(*this);
}
StringRef PackedMatmulOp::getKernelKind() {
  return "matmul";
}
int64_t PackedMatmulOp::getFlopsPerRow() {
  return (getGated() ? 4 : 2) * int64_t(getN()) * getK();
}
int64_t PackedMatmulOp::getFixedBytes() {
  return staticBytes(getWeights());
}
int64_t PackedMatmulOp::getBytesPerRow() {
  return rowBytes(getInput()) + rowBytes(getInits()[0]) * (getAccumulate() ? 2 : 1);
}

//===- integer_matmul -----------------------------------------------------===//

LogicalResult IntegerMatmulOp::verify() {
  auto isOf = [](Value value, int64_t columns, unsigned bits) {
    return isMatrix(value, columns) && shaped(value).getElementType().isInteger(bits);
  };
  if (!isOf(getInput(), getK(), 8) || getInits().size() != 1 || !isOf(getInits()[0], getN(), 32)) // integer_matmul_c1
    return emitOpError("input must be i8 (rows, ")
           << getK() << ") and the one destination i32 (rows, " << getN() << ")";
  if (getZero() && (shaped(getZero()).getRank() != 0 || !shaped(getZero()).getElementType().isInteger(8)))
    return emitOpError("zero must be an i8 scalar, got ") << getZero().getType(); // integer_matmul_c2
  return verifyResults(*this);
}

void IntegerMatmulOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef IntegerMatmulOp::getKernelKind() {
  return "matmul";
}
int64_t IntegerMatmulOp::getFlopsPerRow() {
  return 2 * int64_t(getN()) * getK();
}
int64_t IntegerMatmulOp::getFixedBytes() {
  return staticBytes(getWeights());
}
int64_t IntegerMatmulOp::getBytesPerRow() {
  return rowBytes(getInput()) + rowBytes(getInits()[0]);
}

//===- route_experts ------------------------------------------------------===//

static bool isMatrixOf(Value value, int64_t columns, bool isFloat) {
  Type element = shaped(value).getElementType();
  return isMatrix(value, columns) && (isFloat ? element.isF32() : element.isInteger(32));
}

LogicalResult RouteExpertsOp::verify() {
  int64_t experts = getNumExperts(), topK = getTopK();
  if (!isMatrixOf(getLogits(), experts, true)) // route_experts_c1
    return emitOpError("logits must be f32 (rows, ") << experts << "), num_experts wide";
  OperandRange outs = getInits();
  if (outs.size() != 5 || !isMatrixOf(outs[0], topK, false) || !isMatrixOf(outs[1], topK, true) ||
      !isMatrixOf(outs[2], experts + 1, false) || !isMatrixOf(outs[3], topK, false) ||
      !isMatrixOf(outs[4], topK, true)) // route_experts_c2
    return emitOpError("destinations must be experts i32 and weights f32 (rows, ")
           << topK << "), offsets i32 (rows, " << experts + 1 << "), row_index i32 and row_scale f32 (rows, " << topK
           << ")";
  if (topK < 1 || topK > experts) // route_experts_c3
    return emitOpError("top_k (") << topK << ") must be 1 to num_experts (" << experts << ")";
  if (getCorrection() && shaped(getCorrection()).getShape() != ArrayRef<int64_t>(experts)) // route_experts_c4
    return emitOpError("correction must be (") << experts << ")";
  if (Value scales = getScales(); scales && (shaped(scales).getShape() != ArrayRef<int64_t>(experts) ||
                                             !shaped(scales).getElementType().isF32())) // route_experts_c5
    return emitOpError("scales must be f32 (") << experts << "), got " << scales.getType();
  if (failed(verifyRouting(*this, getRoutingAttr(), bool(getCorrection()), experts, topK))) // route_experts_c4
    return failure();
  return verifyResults(*this);
}

void RouteExpertsOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef RouteExpertsOp::getKernelKind() {
  return "routing";
}
int64_t RouteExpertsOp::getFlopsPerRow() {
  return int64_t(getNumExperts()) * getTopK();
}
int64_t RouteExpertsOp::getFixedBytes() {
  return 0;
}
int64_t RouteExpertsOp::getBytesPerRow() {
  return rowBytes(getLogits()) + 16 * int64_t(getTopK());
}

//===- expert_matmul ------------------------------------------------------===//

LogicalResult ExpertMatmulOp::verify() {
  int64_t topK = getTopK(), n = getN(), k = getK();
  int64_t width = getActivation() ? k : topK * k, columns = getActivation() ? topK * n : n;
  if (getInits().size() != 1 || !isMatrix(getInput(), width) || !isMatrix(getInits()[0], columns)) // expert_matmul_c1
    return emitOpError("input must be (rows, ") << width << ") and the one destination (rows, " << columns << ")";
  bool quantized = shaped(getInput()).getElementType().isInteger(8);
  if (quantized != bool(getInputScales()) || quantized != bool(getInputSums())) // expert_matmul_c2
    return emitOpError("scales and sums belong to an i8 input");
  if (quantized &&
      (!isMatrix(getInputScales(), width / 32) || !isMatrix(getInputSums(), width / 16))) // expert_matmul_c2
    return emitOpError("scales must be (rows, ") << width / 32 << ") and sums (rows, " << width / 16 << ")";
  if (!isMatrixOf(getOffsets(), getNumExperts() + 1, false) || !isMatrixOf(getRowIndex(), topK, false) ||
      !isMatrixOf(getRowScale(), topK, true)) // expert_matmul_c3
    return emitOpError("offsets must be i32 (rows, ")
           << getNumExperts() + 1 << "), row_index i32 and row_scale f32 (rows, " << topK << ")";
  if (getActivation() && getAccumulate()) // expert_matmul_c4
    return emitOpError("with an activation must not accumulate");
  if (failed(verifyRounding(*this))) // expert_matmul_c5
    return failure();
  int64_t biases = int64_t(getNumExperts()) * getExpertRows();
  if (getBias() && (shaped(getBias()).getShape() != ArrayRef<int64_t>(biases) ||
                    !shaped(getBias()).getElementType().isF32())) // expert_matmul_c6
    return emitOpError("bias must be f32 (") << biases << ")";
  if (!getActivation() && (getGating() || getAlternating() || getUngated())) // expert_matmul_c7
    return emitOpError("gating, alternating and ungated need an activation");
  if (getUngated() && (getGating() || getAlternating())) // expert_matmul_c7
    return emitOpError("ungated has neither gating nor rows in turn");
  if (getAlternating() && n % 16) // expert_matmul_c7
    return emitOpError("alternating needs an n (") << n << ") that 16 divides";
  return verifyResults(*this);
}

void ExpertMatmulOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef ExpertMatmulOp::getArithmetic() {
  return arithmeticOf(*this);
}
StringRef ExpertMatmulOp::getKernelKind() {
  return "matmul";
}
int64_t ExpertMatmulOp::getFlopsPerRow() {
  return 2 * int64_t(getTopK()) * getExpertRows() * getK();
}
// A token reads the weights of its own experts only.
int64_t ExpertMatmulOp::getFixedBytes() {
  return staticBytes(getWeights()) / int64_t(getNumExperts()) * int64_t(getTopK());
}
int64_t ExpertMatmulOp::getBytesPerRow() {
  return rowBytes(getInput()) + rowBytes(getInits()[0]) * (getAccumulate() ? 2 : 1);
}

//===- dequantize ---------------------------------------------------------===//

LogicalResult DequantizeOp::verify() {
  if (shaped(getIds()).getRank() != 1 || !shaped(getIds()).getElementType().isInteger(32) || getInits().size() != 1 ||
      !isMatrix(getInits()[0], getK())) // dequantize_c1
    return emitOpError("ids must be (rows) of i32 and the one destination (rows, ") << getK() << ")";
  if (getGiven() && !isMatrix(getGiven(), getK())) // dequantize_c2
    return emitOpError("given must be (any number, ") << getK() << "), got " << getGiven().getType();
  return verifyResults(*this);
}

void DequantizeOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef DequantizeOp::getKernelKind() {
  return "embedding";
}
int64_t DequantizeOp::getFlopsPerRow() {
  return 2 * getK();
}
int64_t DequantizeOp::getFixedBytes() {
  return 0;
}
int64_t DequantizeOp::getBytesPerRow() {
  return staticBytes(getWeights()) / std::max<int64_t>(1, getN()) + rowBytes(getInits()[0]);
}

//===- kernel_call --------------------------------------------------------===//

LogicalResult KernelCallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!callee) // kernel_call_c1
    return emitOpError("callee '") << getCallee() << "' is no function of this module";
  FunctionType type = callee.getFunctionType();
  auto same = [](TypeRange formal, OperandRange actual) {
    return formal.size() == actual.size() && llvm::all_of(llvm::zip(formal, actual), [](auto pair) {
             auto formal = cast<ShapedType>(std::get<0>(pair)), actual = cast<ShapedType>(std::get<1>(pair).getType());
             return formal.getShape() == actual.getShape() && formal.getElementType() == actual.getElementType();
           });
  };
  if (!same(type.getInputs(), getInputs()) || !same(type.getResults(), getInits())) // kernel_call_c1
    return emitOpError("operands do not have the shapes of '") << getCallee() << "', " << type;
  return verifyResults(*this);
}

void KernelCallOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  kernelEffects(*this, effects);
}
StringRef KernelCallOp::getKernelKind() {
  return "rowwise";
}
int64_t KernelCallOp::getFlopsPerRow() {
  return getBytesPerRow();
}
int64_t KernelCallOp::getFixedBytes() {
  int64_t bytes = 0;
  for (Value input : getInputs())
    bytes += staticBytes(input);
  return bytes;
}
int64_t KernelCallOp::getBytesPerRow() {
  int64_t bytes = 0;
  for (Value buffer : getOperands())
    bytes += rowBytes(buffer);
  return bytes;
}

//===- quantize -----------------------------------------------------------===//

LogicalResult QuantizeOp::verify() {
  int64_t width = shaped(getInput()).getDimSize(1);
  if (width % 32 || !isMatrix(getCodes(), width) || !isMatrix(getScales(), width / 32) ||
      !isMatrix(getSums(), width / 16)) // quantize_c1
    return emitOpError("width (") << width
                                  << ") must be a multiple of 32, codes (rows, width), scales (rows, width / 32) and "
                                     "sums (rows, width / 16)";
  return success();
}
