// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops on tensors, from the formulas in dialect/KernelOps.td. Schedules do not change what they compute.

#include "compiler/interpreter/Formulas.h"
#include "compiler/interpreter/Frame.h"

#include <cmath>
#include <limits>

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

// Sources one below the other, of each its transpose if that is packed: how their bytes lie is the layout's matter.
static LogicalResult pack(Frame &frame, PackOp op) {
  std::vector<TensorRef> sources;
  for (Value source : op.getSources())
    sources.push_back(std::get<TensorRef>(frame.value(source)));
  if (op.isVector()) {
    Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), {0});
    for (const TensorRef &source : sources)
      llvm::append_range(result.reals, source->reals);
    result.shape = {static_cast<int64_t>(result.reals.size())};
    frame.set(op.getResult(), std::move(result));
    return success();
  }
  bool transposed = op.getTransposed();
  int64_t k = op.getK();
  frame.set(op.getResult(), PackedWeights{[sources, transposed, k](int64_t row, int64_t column) -> double {
              for (const TensorRef &source : sources) {
                int64_t rows = source->dim(transposed ? 1 : 0);
                if (row < rows && column < k)
                  return source->reals[transposed ? column * rows + row : row * source->dim(1) + column];
                row -= rows;
              }
              return std::numeric_limits<double>::quiet_NaN(); // of nobody: a kernel reads more than is packed
            }});
  return success();
}

// Quantised input is code times the scale of its 32 values.
static std::vector<double> activations(Frame &frame, Value codes, Value scalesOrNull) {
  const Tensor &input = frame.tensor(codes);
  if (!scalesOrNull)
    return input.reals;
  const Tensor &scales = frame.tensor(scalesOrNull);
  std::vector<double> values(input.size());
  for (int64_t i = 0; i < input.size(); ++i)
    values[i] = input.integers[i] * scales.reals[i / 32];
  return values;
}

void heddle::normalise(MutableArrayRef<double> x, ArrayRef<double> weight, double eps, double offset) {
  double squares = 0;
  for (double value : x)
    squares += value * value;
  double scale = 1 / std::sqrt(squares / x.size() + eps);
  for (auto [value, factor] : llvm::zip(x, weight))
    value *= scale * (factor + offset);
}

// What a product makes of its rows (rows, k): each as `rms_norm` leaves it, where it has a norm.
template <typename Matmul> static void prepareRows(Frame &frame, Matmul op, std::vector<double> &x, int64_t k) {
  if (!op.getNorm())
    return;
  for (size_t row = 0; row < x.size(); row += k)
    normalise(MutableArrayRef(x).slice(row, k), frame.tensor(op.getNorm()).reals, op.getEpsAttr().getValueAsDouble(),
              op.getWeightOffsetAttr().getValueAsDouble());
}

// sums[r] += row `weightRow` of W @ row r of x (rows, k)
static void addRowDots(const PackedWeights &weights, int64_t weightRow, int64_t k, ArrayRef<double> x,
                       MutableArrayRef<double> sums) {
  std::vector<double> numbers(k);
  for (int64_t i = 0; i < k; ++i)
    numbers[i] = weights.at(weightRow, i);
  addDots(numbers.data(), [&](int64_t r) { return x.data() + r * k; }, k, sums);
}

FailureOr<Tensor> heddle::rowsOfHeads(Frame &frame, RotateAppendOp op) {
  const Tensor &input = frame.tensor(op.getInput());
  if (!op.getWeights())
    return input;
  int64_t n = op.getWidth(), k = *op.getK(), rows = input.dim(0);
  FailureOr<PackedWeights> weights = packedWeights(frame, op, op.getWeights(), *op.getFormat(), n, k);
  if (failed(weights))
    return failure();
  std::vector<double> x = input.reals;
  prepareRows(frame, op, x, k);
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getProductRoom()), {rows, n});
  for (int64_t out = 0; out < n; ++out) {
    std::vector<double> sums(rows, op.getBias() ? frame.tensor(op.getBias()).reals[out] : 0);
    addRowDots(*weights, out, k, x, sums);
    for (int64_t r = 0; r < rows; ++r)
      result.setReal(r * n + out, sums[r]);
  }
  return result;
}

static LogicalResult packedMatmul(Frame &frame, PackedMatmulOp op) {
  int64_t n = op.getN(), k = op.getK();
  FailureOr<PackedWeights> weights =
      packedWeights(frame, op, op.getWeights(), op.getFormat(), op.getGated() ? 2 * n : n, k);
  if (failed(weights))
    return failure();
  const Tensor &input = frame.tensor(op.getInput());
  const Tensor *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  int64_t rows = input.dim(0);
  std::vector<double> x = activations(frame, op.getInput(), op.getInputScales()); // (rows, k)
  prepareRows(frame, op, x, k);

  Tensor result = frame.tensor(op.getInits()[0]);
  for (int64_t out = 0; out < n; ++out) {
    std::vector<double> sums(rows, bias ? bias->reals[out] : 0), ups(rows);
    for (int64_t r = 0; op.getAccumulate() && r < rows; ++r)
      sums[r] += result.reals[r * n + out];
    addRowDots(*weights, out, k, x, sums);
    if (op.getGated())
      addRowDots(*weights, n + out, k, x, ups);
    for (int64_t r = 0; r < rows; ++r) {
      double value = op.getActivation() ? activate(*op.getActivation(), sums[r]) : sums[r];
      result.setReal(r * n + out, op.getGated() ? value * ups[r] : value);
    }
  }
  frame.set(op.getResults()[0], std::move(result));
  if (op.getRoom())
    frame.set(op.getResults()[1], Tensor(frame.tensor(op.getRoom())));
  if (Value rounded = op.getRounded()) {
    Tensor many = frame.tensor(rounded);
    for (int64_t i = 0; i < rows * n; ++i)
      many.setReal(i, frame.tensor(op.getResults()[0]).reals[i]);
    frame.set(op.getResults()[1], std::move(many));
  }
  return success();
}

static LogicalResult routeExperts(Frame &frame, RouteExpertsOp op) {
  const Tensor &logits = frame.tensor(op.getLogits());
  int64_t rows = logits.dim(0), numExperts = op.getNumExperts(), topK = op.getTopK();
  SmallVector<Tensor> out;
  for (Value init : op.getInits())
    out.push_back(frame.tensor(init));
  Tensor &experts = out[0], &weights = out[1], &offsets = out[2], &rowIndex = out[3], &rowScale = out[4];
  ArrayRef<double> correction, scales;
  if (op.getCorrection())
    correction = frame.tensor(op.getCorrection()).reals;
  if (op.getScales())
    scales = frame.tensor(op.getScales()).reals;
  // All rows are of one sequence.
  int64_t capacity = op.getRouting() ? op.getRouting()->getCapacity() : 0;
  SmallVector<int64_t> taken(numExperts);
  for (int64_t row = 0; row < rows; ++row) {
    ArrayRef<double> rowLogits = ArrayRef(logits.reals).slice(row * numExperts, numExperts);
    for (auto [i, chosen] :
         llvm::enumerate(routeToken(rowLogits, correction, scales, topK, op.getNormalize(), op.getRoutingAttr()))) {
      bool isDropped = ++taken[chosen.first] > capacity && capacity;
      experts.integers[row * topK + i] = isDropped ? numExperts : chosen.first;
      weights.setReal(row * topK + i, chosen.second);
    }
  }
  int64_t listed = 0;
  for (int64_t expert = 0; expert < numExperts; ++expert) {
    offsets.integers[expert] = listed;
    for (int64_t entry = 0; entry < rows * topK; ++entry)
      if (experts.integers[entry] == expert) {
        rowIndex.integers[listed] = entry / topK;
        rowScale.setReal(listed++, weights.reals[entry]);
      }
  }
  offsets.integers[numExperts] = listed;
  for (auto [result, tensor] : llvm::zip_equal(op.getResults(), out))
    frame.set(result, std::move(tensor));
  return success();
}

static LogicalResult expertMatmul(Frame &frame, ExpertMatmulOp op) {
  int64_t n = op.getN(), k = op.getK(), expertRows = op.getExpertRows();
  FailureOr<PackedWeights> weights =
      packedWeights(frame, op, op.getWeights(), op.getFormat(), op.getNumExperts() * expertRows, k);
  if (failed(weights))
    return failure();
  std::vector<double> x = activations(frame, op.getInput(), op.getInputScales()); // (rows, k) of tokens or entries
  const Tensor &offsets = frame.tensor(op.getOffsets()), &rowIndex = frame.tensor(op.getRowIndex());
  const Tensor &rowScale = frame.tensor(op.getRowScale());
  Tensor result = frame.tensor(op.getInits()[0]);
  if (!op.getActivation() && !op.getAccumulate())
    llvm::fill(result.reals, 0);
  std::vector<double> matrix(expertRows * k); // of the expert
  for (int64_t expert = 0; expert < int64_t(op.getNumExperts()); ++expert) {
    bool isChosen = offsets.integers[expert] < offsets.integers[expert + 1];
    for (int64_t i = 0; isChosen && i < expertRows * k; ++i)
      matrix[i] = weights->at(expert * expertRows + i / k, i % k);
    for (int64_t entry = offsets.integers[expert]; entry < offsets.integers[expert + 1]; ++entry) {
      int64_t token = rowIndex.integers[entry];
      double weight = rowScale.reals[entry];
      std::vector<double> read; // what the entry's token is to the expert
      if (op.getActivation())
        read.assign(&x[token * k], &x[token * k] + k);
      for (double &number : read)
        number *= op.getScalesInput() ? weight : 1;
      // Of every row of the expert's matrix, with its bias.
      std::vector<double> products(expertRows);
      addDots(
          op.getActivation() ? read.data() : &x[entry * k], [&](int64_t row) { return &matrix[row * k]; }, k, products);
      for (auto [row, sum] : llvm::enumerate(products))
        sum += op.getBias() ? frame.tensor(op.getBias()).reals[expert * expertRows + row] : 0;
      for (int64_t i = 0; i < n; ++i) {
        if (op.getActivation()) {
          bool alternates = op.getAlternating();
          double gate = products[alternates ? 2 * i : i];
          double up = op.getUngated() ? 1 : products[alternates ? 2 * i + 1 : i + n];
          result.setReal(entry * n + i, activateGated(*op.getActivation(), op.getGatingAttr(), gate, up));
          continue;
        }
        result.setReal(token * n + i, result.reals[token * n + i] + (op.getScalesInput() ? 1 : weight) * products[i]);
      }
    }
  }
  frame.set(op.getResults()[0], std::move(result));
  return success();
}

static LogicalResult integerMatmul(Frame &frame, IntegerMatmulOp op) {
  int64_t n = op.getN(), k = op.getK();
  FailureOr<PackedWeights> weights = packedWeights(frame, op, op.getWeights(), "bytes", n, k);
  if (failed(weights))
    return failure();
  std::vector<int64_t> x = centredBytes(frame.tensor(op.getInput()),
                                        op.getZero() ? &frame.tensor(op.getZero()) : nullptr, op.getIsUnsigned());
  Tensor result = frame.tensor(op.getInits()[0]);
  for (int64_t i = 0; i < result.size(); ++i) {
    int64_t sum = 0, row = i / n, column = i % n;
    for (int64_t j = 0; j < k; ++j)
      sum += x[row * k + j] * int64_t(weights->at(column, j));
    result.set(i, {0, sum});
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
  const Tensor *given = op.getGiven() ? &frame.tensor(op.getGiven()) : nullptr;
  int64_t numGiven = given ? given->dim(0) : 0;
  Tensor result = frame.tensor(op.getInits()[0]);
  for (int64_t r = 0; r < ids.size(); ++r) {
    int64_t id = ids.integers[r];
    if (id < 0 || id >= n + numGiven)
      return op.emitOpError("looks up id ") << id << " in a table of " << n << " rows";
    for (int64_t i = 0; i < k; ++i)
      result.setReal(r * k + i, id < n ? scale * weights->at(id, i) : given->reals[(id - n) * k + i]);
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
  table.add<PackOp>(pack);
  table.add<PackedMatmulOp>(packedMatmul);
  table.add<IntegerMatmulOp>(integerMatmul);
  table.add<RouteExpertsOp>(routeExperts);
  table.add<ExpertMatmulOp>(expertMatmul);
  table.add<DequantizeOp>(dequantize);
  table.add<KernelCallOp>(kernelCall);
  table.add<QuantizeOp>(quantize);
}
