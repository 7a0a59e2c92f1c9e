// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that go on from what earlier tokens of a sequence have left, token by token.

#include "compiler/interpreter/Formulas.h"
#include "compiler/interpreter/Frame.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {
// Of a convolution or linear attention; a row of a tensor is (features).
struct StateStep {
  int64_t size = 0; // of the state
  // Makes row `row` of the result from those of the operands, and the state that it leaves.
  std::function<void(int64_t row, MutableArrayRef<double> state)> compute;
};
} // namespace

static MutableArrayRef<double> rowOf(Tensor &tensor, int64_t row) {
  return MutableArrayRef(tensor.reals).slice(row * tensor.lastDim(), tensor.lastDim());
}
static ArrayRef<double> rowOf(const Tensor &tensor, int64_t row) {
  return ArrayRef(tensor.reals).slice(row * tensor.lastDim(), tensor.lastDim());
}

// (batch, sequence, features): each sequence from zeros on.
static void runWhole(const StateStep &step, const Tensor &rows) {
  std::vector<double> state(step.size);
  for (int64_t row = 0; row < rows.rows(); ++row) {
    if (row % rows.dim(1) == 0)
      state.assign(step.size, 0);
    step.compute(row, state);
  }
}

// Rows of a step, each behind those of its sequence.
template <typename Op> static LogicalResult runStep(Frame &frame, Op op, const StateStep &step, const Tensor &rows) {
  KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  FailureOr<int64_t> layer = layerOf(frame, op, cache, op.getLayer());
  if (failed(layer))
    return failure();
  if (rows.dim(0) != static_cast<int64_t>(cache.rows().size()))
    return op.emitOpError("has ") << rows.dim(0) << " rows in a step of " << cache.rows().size();
  for (auto [row, place] : llvm::enumerate(cache.rows())) {
    MutableArrayRef<double> state = cache.state(*layer, place.sequence).slice(op.getOffset(), step.size);
    if (place.position == 0)
      std::fill(state.begin(), state.end(), 0.0);
    step.compute(int64_t(row), state);
    for (double &number : state)
      number = double(float(number));
  }
  return success();
}

template <typename Op> static StateStep convolution(Frame &frame, Op op, Tensor &result) {
  const Tensor &input = frame.tensor(op.getInput()), &weight = frame.tensor(op.getWeight());
  const Tensor *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  int64_t channels = op.getChannels(), width = op.getWidth();
  bool hasActivation = bool(op.getActivation());
  auto compute = [=, &input, &weight, &result](int64_t row, MutableArrayRef<double> state) {
    ArrayRef<double> x = rowOf(input, row);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = bias ? bias->reals[c] : 0;
      for (int64_t j = 0; j < width; ++j)
        sum += weight.reals[c * width + j] * (j + 1 < width ? state[j * channels + c] : x[c]);
      result.setReal(row * channels + c, hasActivation ? activate(ActivationKind::Silu, sum) : sum);
    }
    std::copy(state.begin() + channels, state.end(), state.begin());
    llvm::copy(x, state.end() - channels);
  };
  return {op.getStateSize(), compute};
}

// S = exp(decay) S, of all rows or of each; S += beta key (x) (value - S^T key), or key (x) value; scale S^T query.
template <typename Op> static StateStep recurrence(Frame &frame, Op op, Tensor &result) {
  const Tensor &query = frame.tensor(op.getQuery()), &key = frame.tensor(op.getKey()),
               &value = frame.tensor(op.getValue());
  const Tensor *decay = op.getDecay() ? &frame.tensor(op.getDecay()) : nullptr,
               *beta = op.getBeta() ? &frame.tensor(op.getBeta()) : nullptr;
  int64_t heads = op.getNumHeads(), group = heads / int64_t(op.getNumKeyHeads()), keyDim = op.getKeyDim(),
          valueDim = op.getValueDim();
  double scale = op.getScale().convertToDouble();
  bool ofKeys = op.decaysByKey();
  auto head = [=, &query, &key, &value, &result](int64_t row, int64_t h, MutableArrayRef<double> state) {
    ArrayRef<double> k = rowOf(key, row).slice(h / group * keyDim, keyDim),
                     q = rowOf(query, row).slice(h / group * keyDim, keyDim),
                     v = rowOf(value, row).slice(h * valueDim, valueDim);
    for (int64_t i = 0; decay && i < keyDim; ++i)
      for (double &number : state.slice(i * valueDim, valueDim))
        number *= std::exp(rowOf(*decay, row)[ofKeys ? h * keyDim + i : h]);
    for (int64_t j = 0; j < valueDim; ++j) {
      double added = v[j], sum = 0;
      for (int64_t i = 0; beta && i < keyDim; ++i)
        added -= state[i * valueDim + j] * k[i];
      added *= beta ? rowOf(*beta, row)[h] : 1;
      for (int64_t i = 0; i < keyDim; ++i) {
        state[i * valueDim + j] += k[i] * added;
        sum += state[i * valueDim + j] * q[i];
      }
      result.setReal((row * heads + h) * valueDim + j, scale * sum);
    }
  };
  auto compute = [=](int64_t row, MutableArrayRef<double> state) {
    for (int64_t h = 0; h < heads; ++h)
      head(row, h, state.slice(h * keyDim * valueDim, keyDim * valueDim));
  };
  return {op.getStateSize(), compute};
}

// Of a model op, whose cache says what its rows are.
template <typename Op>
static LogicalResult runModelOp(Frame &frame, Op op, StateStep (*make)(Frame &, Op, Tensor &), const Tensor &rows,
                                ArrayRef<int64_t> shape) {
  Tensor result = Tensor::zeros(op.getType().getElementType(), shape);
  StateStep step = make(frame, op, result);
  if (!op.getCache())
    runWhole(step, rows);
  else if (failed(runStep(frame, op, step, rows)))
    return failure();
  frame.set(op.getResult(), std::move(result));
  return success();
}

template <typename Op>
static LogicalResult runKernelOp(Frame &frame, Op op, StateStep (*make)(Frame &, Op, Tensor &), const Tensor &rows) {
  Tensor result = frame.tensor(op.getInits()[0]);
  StateStep step = make(frame, op, result);
  if (failed(runStep(frame, op, step, rows)))
    return failure();
  frame.set(op.getResult(0), std::move(result));
  return success();
}

static LogicalResult causalConv(Frame &frame, CausalConvOp op) {
  const Tensor &input = frame.tensor(op.getInput());
  return runModelOp(frame, op, convolution<CausalConvOp>, input, input.shape);
}

static LogicalResult linearAttention(Frame &frame, LinearAttentionOp op) {
  const Tensor &value = frame.tensor(op.getValue());
  return runModelOp(frame, op, recurrence<LinearAttentionOp>, value, value.shape);
}

static LogicalResult raggedConv(Frame &frame, RaggedConvOp op) {
  return runKernelOp(frame, op, convolution<RaggedConvOp>, frame.tensor(op.getInput()));
}

static LogicalResult raggedLinearAttention(Frame &frame, RaggedLinearAttentionOp op) {
  return runKernelOp(frame, op, recurrence<RaggedLinearAttentionOp>, frame.tensor(op.getValue()));
}

void heddle::addStateHandlers(HandlerTable &table) {
  table.add<CausalConvOp>(causalConv);
  table.add<LinearAttentionOp>(linearAttention);
  table.add<RaggedConvOp>(raggedConv);
  table.add<RaggedLinearAttentionOp>(raggedLinearAttention);
}
