// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/LoopForms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace heddle;

// Elements that are copied one by one if a row has fewer of them: those of a convolution's window.
static constexpr int64_t shortestRow = 8;
// Of such a window so many are copied without a loop: 3 x 3 of them in loops took half as long again.
static constexpr int64_t mostWrittenOut = 32;

// Reductions of more steps than this are loops: a window of 7 x 7 places is none.
static constexpr int64_t mostTerms = 64;
static constexpr size_t mostOpsOfTerm = 12;

Access heddle::accessOf(linalg::GenericOp op, OpOperand &operand) {
  unsigned dim = op.getNumLoops() - 1;
  AffineMap map = op.getMatchingIndexingMap(&operand);
  if (!map.isFunctionOfDim(dim))
    return Access::Uniform;
  auto type = cast<MemRefType>(operand.get().getType());
  auto [strides, offset] = type.getStridesAndOffset();
  for (AffineExpr index : map.getResults().drop_back())
    if (index.isFunctionOfDim(dim))
      return Access::Gathered;
  AffineExpr last = map.getResults().back(), at = getAffineDimExpr(dim, map.getContext());
  auto value = [&](int64_t step) { return last.replace(at, getAffineConstantExpr(step, map.getContext())); };
  auto distance = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(value(1) - value(0), map.getNumDims(), 0));
  bool isLinear = last == at || (isa<AffineBinaryOpExpr>(last) && last.getKind() == AffineExprKind::Add);
  return strides.back() == 1 && isLinear && distance && distance.getValue() == 1 ? Access::Contiguous
                                                                                 : Access::Gathered;
}

static bool isElement(Type type) {
  auto integer = dyn_cast<IntegerType>(type);
  return isa<FloatType, IndexType>(type) ||
         (integer && (integer.getWidth() == 1 || (integer.getWidth() >= 8 && llvm::isPowerOf2_32(integer.getWidth()))));
}

// Whether `value`, of the body of `op`, differs from step to step of the innermost loop by what it is computed from, buffers aside.
static bool followsInnermost(linalg::GenericOp op, Value value) {
  Operation *made = value.getDefiningOp();
  if (!made || made->getBlock() != op.getBody())
    return isa<BlockArgument>(value) && cast<BlockArgument>(value).getOwner() == op.getBody();
  if (auto place = dyn_cast<linalg::IndexOp>(made))
    return place.getDim() + 1 == op.getNumLoops();
  return llvm::any_of(made->getOperands(), [&](Value operand) { return followsInnermost(op, operand); });
}

// Whether a load in the body reads, step by step of the innermost loop, one element after the other.
static bool isRowOfElements(linalg::GenericOp op, memref::LoadOp load) {
  if (load.getIndices().empty())
    return false;
  auto place = load.getIndices().back().getDefiningOp<linalg::IndexOp>();
  auto [strides, offset] = load.getMemRefType().getStridesAndOffset();
  return place && place.getDim() + 1 == op.getNumLoops() && strides.back() == 1 && !load.getType().isInteger(1) &&
         llvm::none_of(load.getIndices().drop_back(), [&](Value index) { return followsInnermost(op, index); });
}

// Whether `op` does to a vector what it does to each number in it. Integer division is guarded later, number by number.
static bool isLaneWise(Operation &op) {
  if (isa<linalg::IndexOp, linalg::YieldOp, arith::ConstantOp>(op))
    return true;
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    auto loops = cast<linalg::GenericOp>(op.getParentOp());
    return load.getMemRefType().isStrided() && isElement(load.getType()) &&
           (isRowOfElements(loops, load) ||
            llvm::none_of(load.getIndices(), [&](Value index) { return followsInnermost(loops, index); }));
  }
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
          arith::FloorDivSIOp, math::FPowIOp, math::IPowIOp>(op))
    return false;
  return OpTrait::hasElementwiseMappableTraits(&op) && op.getNumRegions() == 0 &&
         llvm::all_of(op.getResultTypes(), isElement) && llvm::all_of(op.getOperandTypes(), isElement);
}

Combination heddle::combinationOf(linalg::GenericOp op, unsigned output) {
  Value out = op.getRegionOutputArgs()[output];
  Operation *made = cast<linalg::YieldOp>(op.getBody()->getTerminator()).getValues()[output].getDefiningOp();
  if (!made || made->getBlock() != op.getBody() || made->getNumOperands() != 2 || !made->hasOneUse() ||
      !out.hasOneUse() || !arith::getNeutralElement(made))
    return {};
  if (made->getOperand(0) == out)
    return {made, made->getOperand(1)};
  return made->getOperand(1) == out ? Combination{made, made->getOperand(0)} : Combination();
}

InnermostLoop heddle::innermostLoopOf(linalg::GenericOp op) {
  if (op.getNumLoops() == 0 || !llvm::all_of(*op.getBody(), isLaneWise))
    return InnermostLoop::Scalar;
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (type ? !type.isStrided() || !isElement(type.getElementType()) : !isElement(operand.get().getType()))
      return InnermostLoop::Scalar;
  }
  // Gathering pays where something is computed with what was gathered.
  bool isCopy = op.getBody()->getOperations().size() == 1;
  // A row that fills no vector would be one store under a mask, which takes longer than its few elements.
  if (int64_t row = op.getStaticLoopRanges().back(); isCopy && !ShapedType::isDynamic(row) && row < shortestRow)
    return InnermostLoop::Scalar;
  for (OpOperand *input : op.getDpsInputOperands())
    if (isCopy && isa<MemRefType>(input->get().getType()) && accessOf(op, *input) == Access::Gathered)
      return InnermostLoop::Scalar;
  bool isReduction = op.getIteratorTypesArray().back() == utils::IteratorType::reduction;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    Access access = accessOf(op, output);
    if (isReduction
            ? access != Access::Uniform || !combinationOf(op, output.getOperandNumber() - op.getNumDpsInputs()).op
            : access != Access::Contiguous)
      return InnermostLoop::Scalar;
  }
  return isReduction ? InnermostLoop::Reduction : InnermostLoop::Parallel;
}

unsigned heddle::writtenOutFrom(linalg::GenericOp op) {
  SmallVector<int64_t> steps = op.getStaticLoopRanges();
  unsigned from = op.getNumLoops();
  bool isCopy = op.getBody()->getOperations().size() == 1;
  if (!isCopy || innermostLoopOf(op) != InnermostLoop::Scalar)
    return from;
  for (int64_t elements = 1; from > 0 && !ShapedType::isDynamic(steps[from - 1]); --from) {
    elements *= steps[from - 1];
    if (elements < 1 || elements > mostWrittenOut)
      break;
  }
  return from;
}

unsigned heddle::termsFrom(linalg::GenericOp op) {
  unsigned loops = op.getNumLoops(), from = loops - 1;
  if (loops < 2 || innermostLoopOf(op) != InnermostLoop::Parallel ||
      op.getBody()->getOperations().size() > mostOpsOfTerm)
    return loops;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<MemRefType>(operand.get().getType()) && accessOf(op, operand) == Access::Gathered)
      return loops;
  SmallVector<int64_t> steps = op.getStaticLoopRanges();
  for (int64_t terms = 1; from > 0 && op.getIteratorTypesArray()[from - 1] == utils::IteratorType::reduction; --from) {
    if (ShapedType::isDynamic(steps[from - 1]) || steps[from - 1] < 1)
      break;
    terms *= steps[from - 1];
    if (terms > mostTerms)
      break;
  }
  return from + 1 < loops ? from : loops;
}
