// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// linalg ops with a payload, named ones included: the payload once per point of the iteration domain.

#include "compiler/interpreter/Frame.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

//===- ScalarBody ---------------------------------------------------------===//

FailureOr<ScalarBody> ScalarBody::prepare(Frame &frame, Block &block, bool exact) {
  ScalarBody body;
  llvm::DenseMap<Value, unsigned> slotOf;
  auto addSlot = [&](Value value) {
    slotOf[value] = body.slots.size();
    body.slots.push_back({});
    return slotOf[value];
  };
  auto slot = [&](Value value) {
    auto found = slotOf.find(value);
    if (found != slotOf.end())
      return found->second;
    unsigned captured = addSlot(value);
    body.slots[captured] = frame.tensor(value).get(0);
    return captured;
  };
  for (BlockArgument argument : block.getArguments())
    addSlot(argument);
  for (Operation &op : block.without_terminator()) {
    Step step{&op, {}, {}, nullptr};
    ValueRange operands = op.getOperands();
    if (auto index = dyn_cast<linalg::IndexOp>(op)) {
      step.dimension = index.getDim();
    } else if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      step.source = frame.tensorRef(extract.getTensor());
      operands = extract.getIndices();
    } else if (step.function = scalarFunctionOf(&op); !step.function || op.getNumResults() != 1) {
      return frame.unknown(&op, " on elements");
    }
    for (Value operand : operands)
      step.operands.push_back(slot(operand));
    step.rounds =
        !(exact && isa<FloatType>(op.getResult(0).getType())) || op.getName().getStringRef() == "arith.truncf";
    body.steps.push_back(std::move(step));
    body.stepSlots.push_back(addSlot(op.getResult(0)));
  }
  for (Value yielded : block.getTerminator()->getOperands())
    body.yields.push_back(slot(yielded));
  return body;
}

LogicalResult ScalarBody::runStep(const Step &step, ArrayRef<int64_t> index, Scalar &result) {
  operandBuffer.clear();
  for (unsigned operand : step.operands)
    operandBuffer.push_back(slots[operand]);
  if (step.source) {
    int64_t position = 0;
    for (auto [d, i] : llvm::enumerate(operandBuffer)) {
      if (i.integer < 0 || i.integer >= step.source->dim(d))
        return step.op->emitOpError("index ")
               << i.integer << " is outside dimension " << d << ", which has " << step.source->dim(d);
      position = position * step.source->dim(d) + i.integer;
    }
    result = step.source->get(position);
    return success();
  }
  if (!step.function) {
    result = {0, index[step.dimension]};
    return success();
  }
  FailureOr<Scalar> value = step.function(operandBuffer);
  if (failed(value))
    return failure();
  result = step.rounds ? roundTo(step.op->getResult(0).getType(), *value) : *value;
  return success();
}

LogicalResult ScalarBody::run(ArrayRef<Scalar> arguments, ArrayRef<int64_t> index, SmallVectorImpl<Scalar> &yielded) {
  llvm::copy(arguments, slots.begin());
  for (auto [step, slot] : llvm::zip_equal(steps, stepSlots))
    if (failed(runStep(step, index, slots[slot])))
      return failure();
  yielded.clear();
  for (unsigned slot : yields)
    yielded.push_back(slots[slot]);
  return success();
}

//===- iteration ----------------------------------------------------------===//

namespace {
// Where an operand's element of an iteration lies: linear in the iteration's index, unless its map divides.
class Access {
public:
  Access(AffineMap map, const Tensor &tensor) : map(map), tensorStrides(stridesOf(tensor.shape)), shape(tensor.shape) {
    for (AffineExpr expr : map.getResults())
      expr.walk([&](AffineExpr part) {
        isLinear &= part.getKind() == AffineExprKind::Add || part.getKind() == AffineExprKind::Mul ||
                    isa<AffineDimExpr, AffineConstantExpr>(part);
      });
    SmallVector<int64_t> index(map.getNumDims(), 0);
    base = evaluate(index);
    for (unsigned d = 0; d < map.getNumDims(); ++d) {
      index[d] = 1;
      strides.push_back(evaluate(index) - base);
      index[d] = 0;
    }
  }
  int64_t operator()(ArrayRef<int64_t> index) const {
    if (!isLinear)
      return evaluate(index);
    int64_t position = base;
    for (size_t d = 0; d < index.size(); ++d)
      position += index[d] * strides[d];
    return position;
  }
  // Whether every index of `domain` stays within the tensor. Coordinates are monotonic in each dimension.
  bool isWithin(ArrayRef<int64_t> domain) const {
    for (unsigned corner = 0; corner < (1u << std::min<size_t>(domain.size(), 16)); ++corner) {
      SmallVector<int64_t> index;
      for (size_t d = 0; d < domain.size(); ++d)
        index.push_back(corner >> d & 1 ? domain[d] - 1 : 0);
      for (auto [coordinate, size] : llvm::zip_equal(map.compose(index), shape))
        if (coordinate < 0 || coordinate >= size)
          return false;
    }
    return true;
  }

private:
  int64_t evaluate(ArrayRef<int64_t> index) const {
    int64_t position = 0;
    for (auto [coordinate, stride] : llvm::zip_equal(map.compose(index), tensorStrides))
      position += coordinate * stride;
    return position;
  }
  AffineMap map;
  SmallVector<int64_t> tensorStrides, strides, shape;
  int64_t base = 0;
  bool isLinear = true;
};
} // namespace

// The sizes of the loops, from the operands' real shapes.
static SmallVector<int64_t> domainOf(linalg::LinalgOp op, ArrayRef<Tensor *> tensors) {
  SmallVector<int64_t> sizes;
  for (const Tensor *tensor : tensors)
    llvm::append_range(sizes, tensor->shape);
  AffineMap shapesToLoops = op.getShapesToLoopsMap();
  return SmallVector<int64_t>(shapesToLoops.compose(sizes));
}

LogicalResult heddle::evaluateStructured(Frame &frame, Operation *operation) {
  auto op = llvm::cast<linalg::LinalgOp>(operation);
  std::vector<Tensor> results; // destinations, then results
  for (Value init : op.getDpsInits())
    results.push_back(frame.tensor(init));
  SmallVector<Tensor *> tensors;
  for (OpOperand *input : op.getDpsInputOperands())
    tensors.push_back(const_cast<Tensor *>(&frame.tensor(input->get())));
  unsigned numInputs = tensors.size();
  for (Tensor &result : results)
    tensors.push_back(&result);

  SmallVector<int64_t> domain = domainOf(op, tensors);
  std::vector<Access> accesses;
  for (auto [map, tensor] : llvm::zip_equal(op.getIndexingMapsArray(), tensors))
    accesses.emplace_back(map, *tensor);
  bool isEmpty = llvm::is_contained(domain, 0);
  for (const Access &access : accesses)
    if (!isEmpty && !access.isWithin(domain))
      return op.emitOpError("reads or writes outside an operand: their shapes do not fit together");

  // A reduction accumulates in f64: its destinations stay unrounded until the end.
  bool reduces = op.getNumReductionLoops() > 0;
  FailureOr<ScalarBody> body = ScalarBody::prepare(frame, *op.getBlock(), reduces);
  if (failed(body))
    return failure();
  SmallVector<Scalar> arguments(tensors.size()), yielded;
  LogicalResult status = success();
  forEachIndex(domain, [&](ArrayRef<int64_t> index) {
    if (failed(status))
      return;
    for (auto [argument, tensor, access] : llvm::zip_equal(arguments, tensors, accesses))
      argument = tensor->get(access(index));
    status = body->run(arguments, index, yielded);
    for (unsigned i = 0; succeeded(status) && i < results.size(); ++i) {
      int64_t position = accesses[numInputs + i](index);
      if (results[i].isFloat() && reduces)
        results[i].reals[position] = yielded[i].real;
      else
        results[i].set(position, yielded[i]);
    }
  });
  if (failed(status))
    return failure();
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
    tensor.round();
    frame.set(result, std::move(tensor));
  }
  return success();
}

//===- softmax ------------------------------------------------------------===//

// exp(x - max x) / sum exp(x - max x) along one dimension: NaN where all are -inf, as the formula says.
static LogicalResult softmaxOp(Frame &frame, linalg::SoftmaxOp op) {
  const Tensor &input = frame.tensor(op.getInput());
  int64_t dimension = op.getDimension(), count = input.dim(dimension), stride = stridesOf(input.shape)[dimension];
  Tensor result = Tensor::zeros(input.elementType, input.shape);
  for (int64_t first = 0; count > 0 && first < input.size(); ++first) {
    if (first / stride % count)
      continue;
    double greatest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; ++i)
      greatest = std::fmax(greatest, input.reals[first + i * stride]);
    for (int64_t i = 0; i < count; ++i)
      sum += std::exp(input.reals[first + i * stride] - greatest);
    for (int64_t i = 0; i < count; ++i)
      result.setReal(first + i * stride, std::exp(input.reals[first + i * stride] - greatest) / sum);
  }
  frame.set(op.getResult()[0], std::move(result));
  return success();
}

void heddle::addLinalgHandlers(HandlerTable &table) {
  table.add<linalg::SoftmaxOp>(softmaxOp);
}
