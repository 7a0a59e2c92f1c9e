// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/report/GraphReport.h"

#include "compiler/codegen/host/GraphLoops.h"
#include "compiler/codegen/kernel/ContractionLoops.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace heddle;
using Json = nlohmann::ordered_json;

// What stands for a size that is no dimension of an input.
static constexpr char unnamedSize[] = "other sizes";

Json heddle::weightNames(Value operand) {
  Json names = Json::array();
  while (operand && operand.getDefiningOp() && operand.getDefiningOp()->getNumOperands() == 1)
    operand = operand.getDefiningOp()->getOperand(0);
  auto weight = operand ? operand.getDefiningOp<WeightOp>() : WeightOp();
  if (!weight)
    return names;
  if (PackingAttr packing = weight.getPacking())
    for (SourceAttr source : packing.getSources())
      names.push_back(source.getName().str());
  else
    names.push_back(weight.getName().str());
  return names;
}

// The name of dimension `axis` of an input: its own, or the input's and the axis.
static std::string inputSize(BlockArgument input, int64_t axis) {
  auto graph = cast<func::FuncOp>(input.getOwner()->getParentOp());
  if (auto names = graph.getArgAttrOfType<ArrayAttr>(input.getArgNumber(), "heddle.dims"))
    if (auto name = cast<StringAttr>(names[axis]); !name.empty())
      return name.str();
  auto name = graph.getArgAttrOfType<StringAttr>(input.getArgNumber(), "heddle.name");
  return (name ? name.str() : "input " + std::to_string(input.getArgNumber())) + "." + std::to_string(axis);
}

// A number, or the name of a size that the run knows.
static Json sizeOf(Value buffer, int64_t axis) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(axis))
    return type.getDimSize(axis);
  if (auto input = dyn_cast<BlockArgument>(buffer))
    if (isa<func::FuncOp>(input.getOwner()->getParentOp()))
      return inputSize(input, axis);
  auto alloc = buffer.getDefiningOp<memref::AllocOp>();
  auto dim =
      alloc ? alloc.getDynamicSizes()[type.getDynamicDimIndex(axis)].getDefiningOp<memref::DimOp>() : memref::DimOp();
  if (dim && dim.getConstantIndex())
    return sizeOf(dim.getSource(), *dim.getConstantIndex());
  return unnamedSize;
}

static Json sizesOf(Value buffer) {
  Json sizes = Json::array();
  for (int64_t axis = 0; axis < cast<MemRefType>(buffer.getType()).getRank(); ++axis)
    sizes.push_back(sizeOf(buffer, axis));
  return sizes;
}

// Sizes of the loops of an op, outermost first.
static Json loopSizes(linalg::GenericOp op) {
  Json sizes = Json::array();
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    Json size = unnamedSize;
    for (OpOperand &operand : op->getOpOperands())
      if (auto axis = op.getMatchingIndexingMap(&operand).getResultPosition(getAffineDimExpr(loop, op.getContext()));
          axis && !size.is_number())
        size = sizeOf(operand.get(), *axis);
    sizes.push_back(size);
  }
  return sizes;
}

static Json operandsOf(ValueRange buffers) {
  Json operands = Json::array();
  for (Value buffer : buffers)
    if (auto type = dyn_cast<MemRefType>(buffer.getType()))
      operands.push_back({{"bytes", llvm::divideCeil(type.getElementTypeBitWidth(), 8)}, {"sizes", sizesOf(buffer)}});
  return operands;
}

// "4 × n × 64": sizes of loops.
static std::string matmulText(const Json &sizes) {
  std::string text;
  for (const Json &size : sizes)
    text += (text.empty() ? "" : " × ") + (size.is_string() ? size.get<std::string>() : size.dump());
  return text.empty() ? "one element" : text;
}

static Json describeLoops(linalg::GenericOp op) {
  Json fused = Json::array(), weights = Json::array();
  int64_t flops = 0;
  for (Operation &inner : *op.getBody()) {
    if (inner.hasTrait<OpTrait::IsTerminator>() || inner.hasTrait<OpTrait::ConstantLike>())
      continue;
    fused.push_back(inner.getName().stripDialect().str());
    flops += isa<arith::ArithDialect, math::MathDialect>(inner.getDialect());
  }
  for (Value operand : op->getOperands())
    for (const Json &name : weightNames(operand))
      weights.push_back(name);
  bool multiplies = isKernelContraction(op), sums = op.getNumReductionLoops() > 0;
  Json sizes = loopSizes(op);
  std::string what = matmulText(sizes) + (multiplies ? "" : sums ? ", reduced" : "");
  return {{"kernel", multiplies ? "contraction" : "loops"},
          {"kind", multiplies ? "matmul" : "rowwise"},
          {"emitter", multiplies ? "contraction kernel" : "loops"},
          {"what", what},
          {"location", locationText(op.getLoc())},
          {"fused", fused},
          {"weights", weights},
          {"threads", multiplies || canShareLoops(op)},
          {"points", sizes},
          {"flops_per_point", flops},
          {"operands", operandsOf(op->getOperands())}};
}

// A launch of a kernel: its costs are what its interface says of a row of its destination.
static Json describeKernel(KernelOpInterface op) {
  Json weights = Json::array();
  for (Value operand : op->getOperands())
    for (const Json &name : weightNames(operand))
      weights.push_back(name);
  Value destination = cast<DestinationStyleOpInterface>(op.getOperation()).getDpsInits()[0];
  Json rows = Json::array({sizeOf(destination, 0)});
  return {{"kernel", op->getName().stripDialect().str()},
          {"kind", op.getKernelKind().str()},
          {"emitter", "mlir"},
          {"what", op->getName().stripDialect().str() + " of " + matmulText(sizesOf(destination))},
          {"location", locationText(op.getLoc())},
          {"fused", Json::array()},
          {"weights", weights},
          {"threads", true},
          {"points", rows},
          {"flops_per_point", op.getFlopsPerRow()},
          {"operands", operandsOf(op->getOperands())}};
}

static Json describeCopy(memref::CopyOp op) {
  Json sizes = sizesOf(op.getTarget());
  return {{"kernel", "copy"},
          {"kind", "cache"},
          {"emitter", "loops"},
          {"what", "copy of " + matmulText(sizes)},
          {"location", locationText(op.getLoc())},
          {"fused", Json::array()},
          {"weights", weightNames(op.getSource())},
          {"threads", false},
          {"points", sizes},
          {"flops_per_point", 0},
          {"operands", operandsOf({op.getSource(), op.getTarget()})}};
}

// Points are pairs of a query and a key in each head, whatever the mask hides.
static Json describeAttention(FlashAttentionOp op) {
  SmallVector<int64_t, 4> query = op.getQueryShape();
  Json sizes = {sizeOf(op.getQuery(), op.getQueryAxes()[0]), query[1], sizeOf(op.getQuery(), op.getQueryAxes()[2]),
                sizeOf(op.getKey(), op.getKeyAxes()[2])};
  return {{"kernel", "attention"},
          {"kind", op.getKernelKind().str()},
          {"emitter", "attention kernel"},
          {"what", matmulText(sizes) + ", head_dim " + std::to_string(query[3])},
          {"location", locationText(op.getLoc())},
          {"fused", Json::array()},
          {"weights", Json::array()},
          {"threads", true},
          {"points", sizes},
          {"flops_per_point", 2 * (query[3] + op.getValueShape()[3])},
          {"operands", operandsOf(op->getOperands())}};
}

Json heddle::describeGraph(func::FuncOp graph) {
  Json launches = Json::array();
  graph.walk([&](Operation *op) {
    if (auto loops = dyn_cast<linalg::GenericOp>(op))
      launches.push_back(describeLoops(loops));
    // Before other kernels: its cost depends on the keys as well, not on the rows alone.
    else if (auto attention = dyn_cast<FlashAttentionOp>(op))
      launches.push_back(describeAttention(attention));
    else if (auto kernel = dyn_cast<KernelOpInterface>(op))
      launches.push_back(describeKernel(kernel));
    else if (auto copy = dyn_cast<memref::CopyOp>(op))
      launches.push_back(describeCopy(copy));
  });
  return {{"name", graph.getSymName().str()}, {"calls", 1}, {"launches", launches}, {"buffers", Json::array()}};
}

Json heddle::namedSizes(const Json &graph) {
  Json names = Json::array();
  for (const Json &launch : graph["launches"])
    for (const Json &operand : launch["operands"])
      for (const Json &size : operand["sizes"])
        if (size.is_string() && std::find(names.begin(), names.end(), size) == names.end())
          names.push_back(size);
  return names;
}
