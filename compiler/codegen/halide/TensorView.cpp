// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/TensorView.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace heddle;
using namespace mlir;
using Halide::Expr;

using Operands = llvm::function_ref<const TensorView &(Value)>;

Contiguity heddle::unconstrained(RankedTensorType type) {
  int64_t width = type.getRank() && !type.isDynamicDim(type.getRank() - 1) ? type.getShape().back() : 1;
  return {width, width};
}

Contiguity heddle::meet(Contiguity a, Contiguity b) {
  return {std::gcd(a.run, b.run), std::max(a.period, b.period)};
}

// Halide counts elements in 32 bits: those of dimensions that are one dimension elsewhere, for as many rows as a step has.
static LogicalResult verifyMerged(Operation *op, ArrayRef<int64_t> sizes, int64_t maxRows) {
  int64_t elements = 1;
  for (int64_t size : sizes)
    if (llvm::MulOverflow(elements, ShapedType::isDynamic(size) ? maxRows : size, elements) || elements > INT32_MAX)
      return op->emitError("Halide counts to ")
             << INT32_MAX << ", and merged dimensions have " << elements << " elements";
  return success();
}

// The index of a group of dimensions as one number; the sizes of all but the first that is not 1 are static.
static FailureOr<Expr> linearize(Operation *op, ArrayRef<Expr> index, ArrayRef<int64_t> sizes) {
  Expr linear;
  for (auto [i, size] : llvm::zip_equal(index, sizes)) {
    if (size == 1)
      continue;
    if (linear.defined() && ShapedType::isDynamic(size))
      return op->emitError("Halide cannot merge dimensions around a dynamic one");
    linear = linear.defined() ? linear * int(size) + i : i;
  }
  return linear.defined() ? linear : Expr(0);
}

// The reverse: digits of a number; the outermost needs no size.
static LogicalResult delinearize(Operation *op, Expr linear, ArrayRef<int64_t> sizes, SmallVectorImpl<Expr> &index) {
  SmallVector<Expr> digits;
  size_t outermost = 0;
  while (outermost + 1 < sizes.size() && sizes[outermost] == 1)
    ++outermost;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1 || d < outermost) {
      digits.push_back(0);
    } else if (d == outermost) {
      digits.push_back(linear);
    } else if (ShapedType::isDynamic(sizes[d])) {
      return op->emitError("Halide cannot split dimensions around a dynamic one");
    } else {
      digits.push_back(linear % int(sizes[d]));
      linear = linear / int(sizes[d]);
    }
  }
  index.append(digits.rbegin(), digits.rend());
  return success();
}

// Index of the tensor with fewer dimensions from one of the tensor with more, or the other way.
static TensorView reshapeView(Operation *op, const TensorView &source, ArrayRef<ReassociationIndices> groups,
                              ArrayRef<int64_t> expanded, bool expands, int64_t maxRows, LogicalResult &status) {
  SmallVector<SmallVector<int64_t>> sizes;
  for (const ReassociationIndices &group : groups)
    sizes.push_back(llvm::map_to_vector(group, [&](int64_t d) { return expanded[d]; }));
  auto map = [op, sizes, expands](ArrayRef<Expr> index, SmallVectorImpl<Expr> &result) -> LogicalResult {
    size_t next = 0;
    for (auto [g, group] : llvm::enumerate(sizes)) {
      if (!expands) {
        if (failed(delinearize(op, index[g], group, result)))
          return failure();
        continue;
      }
      FailureOr<Expr> linear = linearize(op, index.slice(next, group.size()), group);
      if (failed(linear))
        return failure();
      result.push_back(*linear);
      next += group.size();
    }
    return success();
  };
  for (const SmallVector<int64_t> &group : sizes) {
    status = verifyMerged(op, group, maxRows);
    if (failed(status))
      return source;
  }
  SmallVector<Expr> probe(expands ? expanded.size() : groups.size(), Expr(0)), unused;
  status = map(probe, unused);
  ReadFn read = [map, inner = source.read](ArrayRef<Expr> index) {
    SmallVector<Expr> result;
    (void)map(index, result);
    return inner(result);
  };
  // Neighbours stay neighbours within the innermost of the expanded dimensions.
  int64_t inner = expanded.empty() || ShapedType::isDynamic(expanded.back()) ? 1 : expanded.back();
  return {read, {std::gcd(source.contiguity.run, inner), std::min(source.contiguity.period, inner)}};
}

static FailureOr<TensorView> sliceView(tensor::ExtractSliceOp op, const TensorView &source) {
  if (!op.hasUnitStride() || llvm::any_of(op.getStaticOffsets(), ShapedType::isDynamic))
    return op.emitError("Halide takes slices with static offsets and unit strides");
  llvm::SmallBitVector dropped = op.getDroppedDims();
  SmallVector<int64_t> offsets(op.getStaticOffsets());
  ReadFn read = [=, inner = source.read](ArrayRef<Expr> index) {
    SmallVector<Expr> result;
    size_t next = 0;
    for (auto [d, offset] : llvm::enumerate(offsets))
      result.push_back((dropped[d] ? Expr(0) : index[next++]) + int(offset));
    return inner(result);
  };
  // Offsets move runs: they stay whole if the offset is a multiple of the run, or if the source has a single one.
  int64_t width = op.getType().getRank() ? op.getType().getShape().back() : 1;
  if (source.contiguity.run == op.getSourceType().getShape().back())
    return TensorView{read, {width, width}};
  return TensorView{read, {std::gcd(std::gcd(source.contiguity.run, width), offsets.back()), source.contiguity.period}};
}

static TensorView transposeView(linalg::TransposeOp op, const TensorView &source) {
  SmallVector<int64_t> permutation(op.getPermutation());
  ReadFn read = [permutation, inner = source.read](ArrayRef<Expr> index) {
    SmallVector<Expr> result(index.size());
    for (auto [to, from] : llvm::enumerate(permutation))
      result[from] = index[to];
    return inner(result);
  };
  bool keepsInnermost = permutation.empty() || permutation.back() == int64_t(permutation.size()) - 1;
  return {read,
          keepsInnermost ? source.contiguity : unconstrained(cast<RankedTensorType>(op.getResult()[0].getType()))};
}

static TensorView broadcastView(linalg::BroadcastOp op, const TensorView &source) {
  SmallVector<int64_t> added(op.getDimensions());
  ReadFn read = [added, inner = source.read](ArrayRef<Expr> index) {
    SmallVector<Expr> result;
    for (auto [d, i] : llvm::enumerate(index))
      if (!llvm::is_contained(added, int64_t(d)))
        result.push_back(i);
    return inner(result);
  };
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return {read, llvm::is_contained(added, type.getRank() - 1) ? unconstrained(type) : source.contiguity};
}

// Reads every operand at an index within its bounds and selects.
static TensorView concatView(tensor::ConcatOp op, Operands operand) {
  struct Part {
    ReadFn read;
    int64_t begin, size;
  };
  SmallVector<Part> parts;
  size_t dim = op.getDim();
  bool innermost = int64_t(dim) + 1 == op.getType().getRank();
  Contiguity contiguity = unconstrained(op.getType());
  int64_t begin = 0;
  for (Value input : op.getInputs()) {
    int64_t size = cast<RankedTensorType>(input.getType()).getDimSize(dim);
    parts.push_back({operand(input).read, begin, size});
    contiguity = meet(contiguity, operand(input).contiguity);
    if (innermost)
      contiguity = {std::gcd(contiguity.run, std::gcd(begin, size)), op.getType().getShape().back()};
    begin += size;
  }
  ReadFn read = [parts, dim](ArrayRef<Expr> index) {
    Expr result;
    for (const Part &part : llvm::reverse(parts)) {
      SmallVector<Expr> local(index);
      local[dim] = Halide::clamp(index[dim] - int(part.begin), 0, int(part.size) - 1);
      Expr value = part.read(local);
      result = result.defined() ? select(index[dim] < int(part.begin + part.size), value, result) : value;
    }
    return result;
  };
  return {read, contiguity};
}

bool heddle::isView(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp, tensor::ConcatOp, tensor::CastOp,
             linalg::TransposeOp, linalg::BroadcastOp>(op);
}

FailureOr<TensorView> heddle::viewOf(Operation *op, int64_t maxRows, Operands operand) {
  LogicalResult status = success();
  FailureOr<TensorView> result =
      llvm::TypeSwitch<Operation *, FailureOr<TensorView>>(op)
          .Case([&](tensor::ExpandShapeOp o) {
            return reshapeView(o, operand(o.getSrc()), o.getReassociationIndices(), o.getResultType().getShape(), true,
                               maxRows, status);
          })
          .Case([&](tensor::CollapseShapeOp o) {
            return reshapeView(o, operand(o.getSrc()), o.getReassociationIndices(), o.getSrcType().getShape(), false,
                               maxRows, status);
          })
          .Case([&](tensor::ExtractSliceOp o) { return sliceView(o, operand(o.getSource())); })
          .Case([&](tensor::ConcatOp o) -> FailureOr<TensorView> {
            if (ShapedType::isDynamic(o.getType().getDimSize(o.getDim())))
              return o.emitError("Halide concatenates along static dimensions only");
            return concatView(o, operand);
          })
          .Case([&](tensor::CastOp o) { return operand(o.getSource()); })
          .Case([&](linalg::BroadcastOp o) { return broadcastView(o, operand(o.getInput())); })
          .Case([&](linalg::TransposeOp o) { return transposeView(o, operand(o.getInput())); });
  return failed(status) ? FailureOr<TensorView>(failure()) : result;
}
