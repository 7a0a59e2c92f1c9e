// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model ops, from the formulas in dialect/ModelOps.td. Attention has a file of its own.

#include "compiler/interpreter/Formulas.h"
#include "compiler/interpreter/Frame.h"
#include "dialect/Norms.h"

#include "mlir/IR/BuiltinOps.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

//===- weight, embedding, linear ------------------------------------------===//

static LogicalResult weight(Frame &frame, WeightOp op) {
  const auto &read = frame.getInterpreter().getOptions().weight;
  if (!read)
    return op.emitOpError("names '") << op.getName() << "', but the interpreter was given no weights";
  FailureOr<RuntimeValue> values = read(op);
  if (failed(values))
    return failure();
  frame.set(op.getResult(), std::move(*values));
  return success();
}

static LogicalResult embedding(Frame &frame, EmbeddingOp op) {
  const Tensor &ids = frame.tensor(op.getIds()), &table = frame.tensor(op.getTable());
  int64_t width = table.dim(1);
  double scale = op.getScale().convertToDouble();
  SmallVector<int64_t> shape(ids.shape);
  shape.push_back(width);
  const Tensor *given = op.getGiven() ? &frame.tensor(op.getGiven()) : nullptr;
  int64_t numGiven = given ? given->dim(0) : 0;
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), shape);
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t id = ids.integers[i];
    if (id < 0 || id >= table.dim(0) + numGiven)
      return op.emitOpError("looks up id ") << id << " in a table of " << table.dim(0) << " rows";
    bool isGiven = id >= table.dim(0);
    const double *row = isGiven ? &given->reals[(id - table.dim(0)) * width] : &table.reals[id * width];
    for (int64_t d = 0; d < width; ++d)
      result.setReal(i * width + d, (isGiven ? 1 : scale) * row[d]);
  }
  frame.set(op, std::move(result));
  return success();
}

void heddle::addDots(const double *a, llvm::function_ref<const double *(int64_t)> row, int64_t k,
                     MutableArrayRef<double> sums) {
  constexpr int64_t atOnce = 8;
  int64_t count = sums.size(), i = 0;
  for (; i + atOnce <= count; i += atOnce) {
    const double *rows[atOnce];
    double own[atOnce];
    for (int64_t j = 0; j < atOnce; ++j)
      rows[j] = row(i + j), own[j] = sums[i + j];
    for (int64_t at = 0; at < k; ++at)
      for (int64_t j = 0; j < atOnce; ++j)
        own[j] += a[at] * rows[j][at];
    llvm::copy(own, sums.begin() + i);
  }
  for (; i < count; ++i) {
    const double *b = row(i);
    double sum = sums[i];
    for (int64_t at = 0; at < k; ++at)
      sum += a[at] * b[at];
    sums[i] = sum;
  }
}

// x @ matrix^T, without a bias.
static std::vector<double> product(const double *x, const Tensor &matrix) {
  std::vector<double> sums(matrix.dim(0));
  addDots(x, [&](int64_t n) { return &matrix.reals[n * matrix.dim(1)]; }, matrix.dim(1), sums);
  return sums;
}

// sum_k a[k] * b[k]
static double dot(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k)
    sum += a[k] * b[k];
  return sum;
}

static LogicalResult linear(Frame &frame, LinearOp op) {
  const Tensor &input = frame.tensor(op.getInput());
  int64_t inFeatures = input.lastDim(), outFeatures = 0;
  for (Value weight : op.getWeights())
    outFeatures += frame.tensor(weight).dim(0);
  SmallVector<int64_t> shape(input.shape);
  shape.back() = outFeatures;
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), shape);
  int64_t offset = 0; // of the weight's first output
  for (auto [i, operand] : llvm::enumerate(op.getWeights())) {
    const Tensor &weight = frame.tensor(operand);
    const Tensor *bias = op.getBiases().empty() ? nullptr : &frame.tensor(op.getBiases()[i]);
    for (int64_t row = 0; row < input.rows(); ++row)
      for (auto [n, sum] : llvm::enumerate(product(&input.reals[row * inFeatures], weight)))
        result.setReal(row * outFeatures + offset + n, sum + (bias ? bias->reals[n] : 0));
    offset += weight.dim(0);
  }
  frame.set(op, std::move(result));
  return success();
}

static LogicalResult integerLinear(Frame &frame, IntegerLinearOp op) {
  const Tensor &input = frame.tensor(op.getInput()), &weight = frame.tensor(op.getWeight());
  std::vector<int64_t> x =
      centredBytes(input, op.getZero() ? &frame.tensor(op.getZero()) : nullptr, op.getIsUnsigned());
  int64_t k = input.lastDim(), n = weight.dim(0);
  SmallVector<int64_t> shape(input.shape);
  shape.back() = n;
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), shape);
  for (int64_t row = 0; row < input.rows(); ++row)
    for (int64_t column = 0; column < n; ++column) {
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += x[row * k + i] * int64_t(weight.reals[column * k + i]);
      result.set(row * n + column, {0, sum});
    }
  frame.set(op, std::move(result));
  return success();
}

//===- norms --------------------------------------------------------------===//

// Where the numbers of a row's head begin in the weight of a norm, rows being those of (batch, heads, sequence, width).
template <typename NormOp> static int64_t headOffset(NormOp op, const Tensor &input, int64_t row) {
  return isPerHead(op) ? row / input.dim(2) % input.dim(1) * input.lastDim() : 0;
}

static LogicalResult rmsNorm(Frame &frame, RmsNormOp op) {
  const Tensor &input = frame.tensor(op.getInput()), &weight = frame.tensor(op.getWeight());
  double eps = op.getEps().convertToDouble(), offset = op.getWeightOffset().convertToDouble();
  int64_t width = input.lastDim();
  Tensor result = Tensor::zeros(input.elementType, input.shape);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double *x = &input.reals[row * width];
    const double *scales = &weight.reals[headOffset(op, input, row)];
    double scale = 1 / std::sqrt(dot(x, x, width) / width + eps);
    for (int64_t d = 0; d < width; ++d)
      result.setReal(row * width + d, x[d] * scale * (scales[d] + offset));
  }
  frame.set(op, std::move(result));
  return success();
}

static LogicalResult layerNorm(Frame &frame, LayerNormOp op) {
  const Tensor &input = frame.tensor(op.getInput()), &weight = frame.tensor(op.getWeight());
  const Tensor *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  double eps = op.getEps().convertToDouble();
  int64_t width = input.lastDim();
  Tensor result = Tensor::zeros(input.elementType, input.shape);
  for (int64_t row = 0; row < input.rows(); ++row) {
    const double *x = &input.reals[row * width];
    int64_t head = headOffset(op, input, row);
    double mean = 0, variance = 0;
    for (int64_t d = 0; d < width; ++d)
      mean += x[d] / width;
    for (int64_t d = 0; d < width; ++d)
      variance += (x[d] - mean) * (x[d] - mean) / width;
    for (int64_t d = 0; d < width; ++d)
      result.setReal(row * width + d, (x[d] - mean) / std::sqrt(variance + eps) * weight.reals[head + d] +
                                          (bias ? bias->reals[head + d] : 0));
  }
  frame.set(op, std::move(result));
  return success();
}

//===- rope ---------------------------------------------------------------===//

// cos and sin of pair i at a position, the attention factor included: a table holds it already.
static std::pair<double, double> rotation(RopeAttr rope, const Tensor *table, int64_t position, int64_t i) {
  int64_t half = rope.getRotaryDim() / 2;
  if (table) {
    const double *row = &table->reals[position * table->dim(1)];
    return {row[i], row[half + i]};
  }
  double angle = position * static_cast<double>(rope.getInverseFrequency()[i]);
  double factor = rope.getFactorAt(position);
  return {factor * std::cos(angle), factor * std::sin(angle)};
}

// The session's table, computed from the frequencies of a rotary embedding of that number.
static LogicalResult ropeTable(Frame &frame, RopeTableOp op) {
  RopeAttr user;
  auto find = [&](RopeAttr rope) {
    if (rope.getTable() == static_cast<int64_t>(op.getTable()))
      user = rope;
  };
  op->getParentOfType<ModuleOp>().walk([&](Operation *reader) {
    if (auto rope = dyn_cast<RopeOp>(reader))
      find(rope.getRope());
    else if (auto append = dyn_cast<RotateAppendOp>(reader))
      find(append.getRope());
  });
  auto type = llvm::cast<RankedTensorType>(op.getType());
  if (!user || type.getDimSize(1) != user.getRotaryDim())
    return op.emitOpError("numbers no rotary embedding of this module with its rotary_dim: ") << op.getTable();
  int64_t half = user.getRotaryDim() / 2;
  int64_t context = type.isDynamicDim(0) ? frame.getInterpreter().getOptions().context : type.getDimSize(0);
  Tensor result = Tensor::zeros(type.getElementType(), {context, 2 * half});
  for (int64_t position = 0; position < context; ++position)
    for (int64_t i = 0; i < half; ++i) {
      auto [cosine, sine] = rotation(user, nullptr, position, i);
      result.setReal(position * 2 * half + i, cosine);
      result.setReal(position * 2 * half + half + i, sine);
    }
  frame.set(op, std::move(result));
  return success();
}

static LogicalResult rope(Frame &frame, RopeOp op) {
  const Tensor &input = frame.tensor(op.getInput()), &positions = frame.tensor(op.getPositions());
  const Tensor *table = op.getTable() ? &frame.tensor(op.getTable()) : nullptr;
  int64_t heads = input.dim(1), sequence = input.dim(2), headDim = input.dim(3);
  int64_t half = op.getRope().getRotaryDim() / 2, offset = op.getOffset();
  bool interleaved = op.getRope().getInterleaved();
  if (table && table->dim(1) != 2 * half)
    return op.emitOpError("table has ") << table->dim(1) << " columns, rotary_dim is " << 2 * half;
  Tensor result = input;
  for (int64_t b = 0; b < input.dim(0); ++b)
    for (int64_t s = 0; s < sequence; ++s) {
      int64_t position = positions.integers[b * sequence + s];
      if (table && (position < 0 || position >= table->dim(0)))
        return op.emitOpError("position ") << position << " is outside the table's " << table->dim(0) << " rows";
      for (int64_t i = 0; i < half; ++i) {
        auto [cosine, sine] = rotation(op.getRope(), table, position, i);
        for (int64_t h = 0; h < heads; ++h) {
          int64_t row = ((b * heads + h) * sequence + s) * headDim + offset;
          int64_t first = row + (interleaved ? 2 * i : i), second = interleaved ? first + 1 : first + half;
          double x = input.reals[first], y = input.reals[second];
          result.setReal(first, x * cosine - y * sine);
          result.setReal(second, y * cosine + x * sine);
        }
      }
    }
  frame.set(op, std::move(result));
  return success();
}

//===- glu, softcap -------------------------------------------------------===//

double heddle::activate(ActivationKind kind, double x) {
  return activate(kind, x, [](double number) { return number; });
}

double heddle::activate(ActivationKind kind, double x, llvm::function_ref<double(double)> stored) {
  switch (kind) {
  case ActivationKind::Silu:
    return x / (1 + std::exp(-x));
  case ActivationKind::Gelu:
    return 0.5 * x * (1 + std::erf(x / stored(std::sqrt(2.0))));
  case ActivationKind::GeluTanh:
    return 0.5 * x * (1 + std::tanh(stored(std::sqrt(2 / M_PI)) * (x + stored(0.044715) * x * x * x)));
  case ActivationKind::Relu:
    return x > 0 ? x : 0 * x; // NaN stays NaN
  case ActivationKind::QuickGelu:
    return x / (1 + std::exp(-stored(1.702) * x));
  case ActivationKind::Tanh:
    return std::tanh(x);
  case ActivationKind::SquaredRelu:
    return x > 0 ? x * x : 0 * x;
  }
  llvm_unreachable("all activations are listed");
}

static LogicalResult glu(Frame &frame, GluOp op) {
  const Tensor &gate = frame.tensor(op.getGate());
  const Tensor *up = op.getUp() ? &frame.tensor(op.getUp()) : nullptr;
  Tensor result = Tensor::zeros(gate.elementType, gate.shape);
  if (up && up->shape != gate.shape)
    return op.emitOpError("gate and up have different shapes");
  for (int64_t i = 0; i < gate.size(); ++i)
    result.setReal(i, activate(op.getActivation(), gate.reals[i]) * (up ? up->reals[i] : 1));
  frame.set(op, std::move(result));
  return success();
}

static LogicalResult softcap(Frame &frame, SoftcapOp op) {
  Tensor result = frame.tensor(op.getInput());
  double cap = op.getCap().convertToDouble();
  for (int64_t i = 0; i < result.size(); ++i)
    result.setReal(i, cap * std::tanh(result.reals[i] / cap));
  frame.set(op, std::move(result));
  return success();
}

//===- moe ----------------------------------------------------------------===//

void heddle::softmax(MutableArrayRef<double> values) {
  double greatest = *llvm::max_element(values), sum = 0;
  for (double &value : values)
    sum += value = std::exp(value - greatest);
  for (double &value : values)
    value /= sum;
}

// What is compared when experts are chosen: p + correction, which may be negative; experts of groups that do not take part
// come after all others.
static SmallVector<double> choiceScores(ArrayRef<double> p, ArrayRef<double> correction, RoutingAttr routing) {
  SmallVector<double> scores(p);
  for (auto [e, c] : llvm::enumerate(correction))
    scores[e] += c;
  int64_t groups = routing ? routing.getNumGroups() : 1, size = scores.size() / groups;
  if (groups == 1)
    return scores;
  SmallVector<std::pair<double, int64_t>> order; // score and group
  for (int64_t g = 0; g < groups; ++g) {
    SmallVector<double> sorted(ArrayRef(scores).slice(g * size, size));
    llvm::sort(sorted, std::greater<>());
    order.push_back({correction.empty() ? sorted[0] : sorted[0] + sorted[1], g});
  }
  llvm::stable_sort(order, [](auto a, auto b) { return a.first > b.first; });
  for (auto [score, g] : ArrayRef(order).drop_front(routing.getTopGroups()))
    std::fill_n(scores.begin() + g * size, size, -std::numeric_limits<double>::infinity());
  return scores;
}

// p of the experts that are chosen, best first, as a sparse mixer weighs them: each among those behind it in `order` that are near to it.
static void weighByNeighbours(ArrayRef<int64_t> order, ArrayRef<double> logits, int64_t topK, double jitter,
                              MutableArrayRef<double> p) {
  for (int64_t i = 0; i < topK; ++i) {
    double own = logits[order[i]], sum = 0;
    for (int64_t e : order.drop_front(i))
      if (double l = logits[e]; !((own - l) / std::max(std::abs(l), own) > 2 * jitter))
        sum += std::exp(l - own);
    p[order[i]] = 1 / sum;
  }
}

SmallVector<std::pair<int64_t, double>> heddle::routeToken(ArrayRef<double> logits, ArrayRef<double> correction,
                                                           ArrayRef<double> scales, int64_t topK, bool normalize,
                                                           RoutingAttr routing) {
  SmallVector<double> p(logits);
  if (routing && routing.getSigmoid())
    for (double &x : p)
      x = 1 / (1 + std::exp(-x));
  else
    softmax(p);
  SmallVector<double> scores = choiceScores(p, correction, routing);
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, p.size()));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return scores[a] > scores[b]; }); // ties: the lower index
  if (routing && routing.getJitter())
    weighByNeighbours(order, logits, topK, routing.getJitter().getValueAsDouble(), p);
  double sum = 0;
  for (int64_t e : ArrayRef(order).take_front(topK))
    sum += p[e];
  double scale = (routing ? routing.getScaleValue() : 1) / (normalize ? sum : 1);
  SmallVector<std::pair<int64_t, double>> experts;
  for (int64_t e : ArrayRef(order).take_front(topK))
    experts.push_back({e, p[e] * scale * (scales.empty() ? 1 : scales[e])});
  return experts;
}

double heddle::activateGated(ActivationKind kind, GatingAttr gating, double gate, double up) {
  if (!gating)
    return activate(kind, gate) * up;
  double limit = gating.getLimit().getValueAsDouble(), alpha = gating.getAlpha().getValueAsDouble();
  gate = std::min(gate, limit);
  up = std::max(std::min(up, limit), -limit);
  return activate(kind, alpha * gate) / alpha * (up + gating.getOffset().getValueAsDouble());
}

static LogicalResult moe(Frame &frame, MoeOp op) {
  const Tensor &input = frame.tensor(op.getInput()), &router = frame.tensor(op.getRouter());
  const Tensor &routed = frame.tensor(op.getRoutedRows());
  int64_t width = input.lastDim(), routedWidth = routed.lastDim();
  ArrayRef<double> correction, scales;
  if (op.getCorrection())
    correction = frame.tensor(op.getCorrection()).reals;
  if (op.getScales())
    scales = frame.tensor(op.getScales()).reals;
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), input.shape);
  int64_t rank = input.shape.size(), sequence = rank > 1 ? input.shape[rank - 2] : 1;
  SmallVector<int64_t> taken; // tokens of the sequence that chose each expert
  for (int64_t row = 0; row < input.rows(); ++row) {
    if (row % sequence == 0)
      taken.assign(router.dim(0), 0);
    const double *x = &input.reals[row * width];
    std::vector<double> logits = product(&routed.reals[row * routedWidth], router);
    for (auto [e, logit] : llvm::enumerate(logits))
      logit += op.getRouterBias() ? frame.tensor(op.getRouterBias()).reals[e] : 0;
    for (auto [e, p] : routeToken(logits, correction, scales, op.getTopK(), op.getNormalize(), op.getRoutingAttr())) {
      if (++taken[e] > op.getCapacity() && op.getCapacity())
        continue;
      auto project = [&, e = e](OperandRange matrices, OperandRange biases, const double *from) {
        std::vector<double> rows = product(from, frame.tensor(matrices[e]));
        for (auto [i, sum] : llvm::enumerate(rows))
          sum += biases.empty() ? 0 : frame.tensor(biases[e]).reals[i];
        return rows;
      };
      bool alternates = op.alternates(), isUngated = op.isUngated();
      bool scalesInput = op.getRouting() && op.getRouting()->getScalesInput();
      std::vector<double> read(x, x + width);
      for (double &number : read)
        number *= scalesInput ? p : 1;
      int64_t intermediate = frame.tensor(op.getDowns()[e]).dim(1);
      std::vector<double> gates = project(op.getGates(), op.getGateBiases(), read.data()), ups, hidden;
      if (!isUngated && !alternates)
        ups = project(op.getUps(), op.getUpBiases(), read.data());
      for (int64_t i = 0; i < intermediate; ++i) {
        double up = isUngated ? 1 : alternates ? gates[2 * i + 1] : ups[i];
        hidden.push_back(activateGated(op.getActivation(), op.getGatingAttr(), gates[alternates ? 2 * i : i], up));
      }
      for (auto [d, sum] : llvm::enumerate(project(op.getDowns(), op.getDownBiases(), hidden.data())))
        result.reals[row * width + d] += (scalesInput ? 1 : p) * sum;
    }
  }
  result.round();
  frame.set(op, std::move(result));
  return success();
}

void heddle::addModelHandlers(HandlerTable &table) {
  table.add<WeightOp>(weight);
  table.add<EmbeddingOp>(embedding);
  table.add<LinearOp>(linear);
  table.add<IntegerLinearOp>(integerLinear);
  table.add<RmsNormOp>(rmsNorm);
  table.add<LayerNormOp>(layerNorm);
  table.add<RopeTableOp>(ropeTable);
  table.add<RopeOp>(rope);
  table.add<GluOp>(glu);
  table.add<SoftcapOp>(softcap);
  table.add<MoeOp>(moe);
}
