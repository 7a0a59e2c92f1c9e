// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops on tensors, from the formulas in dialect/KernelOps.td. Schedules do not change what they compute.

#include "compiler/verify/Frame.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

FailureOr<PackedWeights> heddle::packedWeights(Frame &frame, Operation *op, Value weights, StringRef format, int64_t n,
                                               int64_t k) {
  const RuntimeValue &value = frame.value(weights);
  if (auto *packed = std::get_if<PackedWeights>(&value))
    return *packed;
  const auto &read = frame.getInterpreter().getOptions().packed;
  if (!read)
    return op->emitOpError("reads weights packed as '") << format << "', but the interpreter was given no layouts";
  return read(op, format, n, k, std::get<TensorRef>(value));
}

static LogicalResult packedMatmul(Frame &frame, PackedMatmulOp op) {
  int64_t n = op.getN(), k = op.getK();
  FailureOr<PackedWeights> weights = packedWeights(frame, op, op.getWeights(), op.getFormat(), n, k);
  if (failed(weights))
    return failure();
  const Tensor &input = frame.tensor(op.getInput());
  const Tensor *scales = op.getInputScales() ? &frame.tensor(op.getInputScales()) : nullptr;
  const Tensor *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  // x: (rows, k); quantised input is code times the scale of its 32 values.
  int64_t rows = input.dim(0);
  std::vector<double> x(rows * k);
  for (int64_t i = 0; i < rows * k; ++i)
    x[i] = scales ? input.integers[i] * scales->reals[i / k * (k / 32) + i % k / 32] : input.reals[i];

  Tensor result = frame.tensor(op.getInits()[0]);
  std::vector<double> weightRow(k);
  for (int64_t out = 0; out < n; ++out) {
    for (int64_t i = 0; i < k; ++i)
      weightRow[i] = weights->at(out, i);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = (op.getAccumulate() ? result.reals[r * n + out] : 0) + (bias ? bias->reals[out] : 0);
      for (int64_t i = 0; i < k; ++i)
        sum += x[r * k + i] * weightRow[i];
      result.setReal(r * n + out, sum);
    }
  }
  frame.set(op.getResults()[0], std::move(result));
  return success();
}

static LogicalResult dequantize(Frame &frame, DequantizeOp op) {
  int64_t n = op.getN(), k = op.getK();
  FailureOr<PackedWeights> weights = packedWeights(frame, op, op.getWeights(), op.getFormat(), n, k);
  if (failed(weights))
    return failure();
  const Tensor &ids = frame.tensor(op.getIds());
  double scale = op.getScale().convertToDouble();
  Tensor result = frame.tensor(op.getInits()[0]);
  for (int64_t r = 0; r < ids.size(); ++r) {
    int64_t id = ids.integers[r];
    if (id < 0 || id >= n)
      return op.emitOpError("looks up id ") << id << " in a table of " << n << " rows";
    for (int64_t i = 0; i < k; ++i)
      result.setReal(r * k + i, scale * weights->at(id, i));
  }
  frame.set(op.getResults()[0], std::move(result));
  return success();
}

static LogicalResult kernelCall(Frame &frame, KernelCallOp op) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee)
    return op.emitOpError("calls '") << op.getCallee() << "', which is no function of this module";
  SmallVector<RuntimeValue> arguments;
  for (Value input : op.getInputs())
    arguments.push_back(frame.value(input));
  FailureOr<SmallVector<RuntimeValue>> results = frame.getInterpreter().call(callee, arguments);
  if (failed(results))
    return failure();
  for (auto [result, value] : llvm::zip_equal(op.getResults(), *results))
    frame.set(result, value);
  return success();
}

static LogicalResult quantize(Frame &frame, QuantizeOp op) {
  const Tensor &input = frame.tensor(op.getInput());
  int64_t rows = input.dim(0), width = input.dim(1);
  Tensor codes = Tensor::zeros(getElementTypeOrSelf(op.getCodes().getType()), input.shape);
  Tensor scales = Tensor::zeros(input.elementType, {rows, width / 32});
  Tensor sums = Tensor::zeros(getElementTypeOrSelf(op.getSums().getType()), {rows, width / 16});
  for (int64_t block = 0; block < scales.size(); ++block) {
    double greatest = 0;
    for (int64_t i = 32 * block; i < 32 * (block + 1); ++i)
      greatest = std::fmax(greatest, std::fabs(input.reals[i]));
    scales.setReal(block, greatest / 127);
    for (int64_t i = 32 * block; i < 32 * (block + 1); ++i) {
      double code = scales.reals[block] ? std::nearbyint(input.reals[i] / scales.reals[block]) : 0;
      codes.integers[i] = static_cast<int64_t>(std::fmax(-127, std::fmin(127, code)));
      sums.integers[i / 16] += codes.integers[i];
    }
  }
  frame.set(op.getCodes(), std::move(codes));
  frame.set(op.getScales(), std::move(scales));
  frame.set(op.getSums(), std::move(sums));
  return success();
}

void heddle::addKernelHandlers(HandlerTable &table) {
  table.add<PackedMatmulOp>(packedMatmul);
  table.add<DequantizeOp>(dequantize);
  table.add<KernelCallOp>(kernelCall);
  table.add<QuantizeOp>(quantize);
}
