// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Routing.h"

#include "compiler/interpreter/Interpreter.h"
#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/Weights.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===- the function -------------------------------------------------------===//

namespace {
// The ops between a router's logits and the weights of experts, as a function of their own.
class RoutingFunction {
public:
  RoutingFunction(Value weights, int64_t numExperts, bool checksHold, std::string &reason)
      : weights(weights), numExperts(numExperts), checksHold(checksHold), reason(reason) {}

  bool find();
  // Logits of some tokens -> weights; checks that do not hold are an error. Needs `find`.
  FailureOr<Tensor> evaluate(const Tensor &logits);

  SmallVector<int64_t> logitsShape() const;
  LinearOp router;
  SmallVector<cf::AssertOp> checks;
  SmallVector<Value> corrections; // stored vectors that it reads, one number per expert
  DenseMap<Value, Tensor> correctionValues;
  SmallVector<double> numbers; // floats between 0 and 1 that it computes with

private:
  bool collect(Value value, SetVector<Operation *> &slice);
  void findChecks();
  void collectNumber(Operation *op);
  std::optional<int64_t> sizeOf(tensor::DimOp op) const;
  bool build();

  // Every size that the input leaves open. Prime, so that no other size of the model is taken for it.
  static constexpr int64_t openSize = 7;

  Value weights;
  int64_t numExperts;
  bool checksHold;
  std::string &reason;
  SetVector<Operation *> body;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};
} // namespace

// Ops that `value` comes from, up to products of rows with a matrix and sizes.
bool RoutingFunction::collect(Value value, SetVector<Operation *> &slice) {
  SmallVector<LinearOp> products;
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  options.omitUsesFromAbove = false;
  options.inclusive = true;
  options.filter = [&](Operation *op) {
    if (auto linear = dyn_cast<LinearOp>(op))
      products.push_back(linear);
    return !isa<LinearOp, tensor::DimOp>(op);
  };
  if (failed(getBackwardSlice(value, &slice, options)))
    return false;
  for (LinearOp linear : products) {
    if (router && router != linear)
      return false;
    router = linear;
  }
  return slice.size() < 400 + 8 * (size_t)numExperts;
}

// Checks in the same block whose conditions follow from the logits alone.
void RoutingFunction::findChecks() {
  for (Operation *op = router->getNextNode(); op; op = op->getNextNode()) {
    auto check = dyn_cast<cf::AssertOp>(op);
    SetVector<Operation *> slice;
    LinearOp known = router;
    bool isOfRouting =
        check && collect(check.getArg(), slice) &&
        llvm::any_of(slice,
                     [&](Operation *part) { return llvm::is_contained(part->getOperands(), router.getResult()); }) &&
        llvm::all_of(slice,
                     [&](Operation *part) { return part->getBlock() != op->getBlock() || isMemoryEffectFree(part); });
    router = known;
    if (!isOfRouting)
      continue;
    checks.push_back(check);
    if (checksHold)
      body.insert(slice.begin(), slice.end());
  }
}

void RoutingFunction::collectNumber(Operation *op) {
  APFloat number(0.0);
  if (op->getNumResults() != 1 || !matchPattern(op->getResult(0), m_ConstantFloat(&number)))
    return;
  bool lossy;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  double value = asWritten(number.convertToDouble());
  if (value > 0 && value < 1 && !llvm::is_contained(numbers, value))
    numbers.push_back(value);
}

bool RoutingFunction::find() {
  bool isInFunction = isa<func::FuncOp>(weights.getParentBlock()->getParentOp());
  if (!isInFunction || !collect(weights, body) || !router)
    return reason = "its weights are no function of one product's logits", false;
  if (router.getBiases().size() > 1 || router.getWeights().size() != 1 ||
      shaped(router.getResult()).getShape().back() != numExperts)
    return reason = describe(router) + " does not give one logit per expert", false;
  findChecks();
  for (Operation *op : body)
    if (op->getNumResults() == 1 && isStored(op->getResult(0)))
      if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
          type && type.getRank() == 1 && type.getDimSize(0) == numExperts && isa<FloatType>(type.getElementType()))
        corrections.push_back(op->getResult(0));
  for (Operation *op : body)
    op->walk([&](Operation *inner) { collectNumber(inner); });
  return build();
}

SmallVector<int64_t> RoutingFunction::logitsShape() const {
  SmallVector<int64_t> shape(shaped(LinearOp(router).getResult()).getShape());
  for (int64_t &size : shape)
    size = ShapedType::isDynamic(size) ? openSize : size;
  return shape;
}

// A size with every open dimension at `openSize`.
std::optional<int64_t> RoutingFunction::sizeOf(tensor::DimOp op) const {
  ExprContext exprs;
  ElementTrace trace(exprs);
  std::optional<int64_t> dimension = op.getConstantIndex();
  if (!dimension)
    return std::nullopt;
  std::function<std::optional<int64_t>(Expr)> evaluate = [&](Expr expr) -> std::optional<int64_t> {
    if (expr->kind == ExprKind::Constant)
      return (int64_t)expr->constant;
    if (expr->kind == ExprKind::Size)
      return openSize;
    if (expr->kind != ExprKind::Sum && expr->kind != ExprKind::Product)
      return std::nullopt;
    int64_t result = expr->kind == ExprKind::Sum ? (int64_t)expr->constant : 1;
    for (auto &[part, factor] : expr->terms) {
      std::optional<int64_t> value = evaluate(part);
      if (!value)
        return std::nullopt;
      result =
          expr->kind == ExprKind::Sum ? result + (int64_t)factor * *value : result * (int64_t)std::pow(*value, factor);
    }
    return result;
  };
  return evaluate(trace.size(op.getSource(), *dimension));
}

bool RoutingFunction::build() {
  OpBuilder b(weights.getContext());
  Location loc = weights.getLoc();
  module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> results{weights.getType()};
  results.append(checksHold ? checks.size() : 0, b.getI1Type());
  function = func::FuncOp::create(b, loc, "routing", b.getFunctionType({router.getType()}, results));
  b.setInsertionPointToEnd(function.addEntryBlock());
  IRMapping map;
  map.map(router.getResult(), function.getArgument(0));
  Block *block = weights.getParentBlock();
  SmallVector<Operation *> ordered;
  for (Operation *op : body)
    if (op->getBlock() == block)
      ordered.push_back(op);
  llvm::sort(ordered, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  auto mapOutside = [&](Value value) {
    if (map.contains(value) || value.getParentBlock() != block)
      return true;
    auto dim = value.getDefiningOp<tensor::DimOp>();
    if (dim && map.contains(dim.getSource()) && dim.getConstantIndex()) {
      map.map(value, tensor::DimOp::create(b, loc, map.lookup(dim.getSource()), *dim.getConstantIndex()));
      return true;
    }
    std::optional<int64_t> size = dim ? sizeOf(dim) : std::nullopt;
    if (!size)
      return false;
    map.map(value, arith::ConstantIndexOp::create(b, loc, *size));
    return true;
  };
  for (Operation *op : ordered) {
    bool isMapped = true;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        isMapped &= mapOutside(operand);
    });
    if (!isMapped)
      return reason = describe(op) + " reads more than the router's logits", false;
    b.clone(*op, map);
  }
  SmallVector<Value> outputs{map.lookup(weights)};
  for (cf::AssertOp check : checks)
    if (checksHold)
      outputs.push_back(map.lookup(check.getArg()));
  func::ReturnOp::create(b, loc, outputs);
  return true;
}

// The numbers of a stored tensor. Those that the IR does not say may be any: what holds for random ones holds.
static Tensor numbersOf(Value stored) {
  Tensor tensor = Tensor::zeros(shaped(stored).getElementType(), shaped(stored).getShape());
  DenseElementsAttr elements = elementsOf(stored);
  std::mt19937_64 random(elements ? 0 : llvm::xxh3_64bits(stored.getDefiningOp<WeightOp>().getName()));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setReal(i, elements ? valueAt(elements, i) : double(random() >> 40) / (1 << 25));
  return tensor;
}

FailureOr<Tensor> RoutingFunction::evaluate(const Tensor &logits) {
  InterpreterOptions options;
  options.weight = [](WeightOp op) -> FailureOr<RuntimeValue> { return makeValue(numbersOf(op.getResult())); };
  // What fails here is no error of the model: it is no routing, which the caller says. Other threads raise other functions.
  uint64_t thread = llvm::get_threadid();
  ScopedDiagnosticHandler quiet(weights.getContext(),
                                [&](Diagnostic &) { return success(llvm::get_threadid() == thread); });
  FailureOr<SmallVector<RuntimeValue>> results = Interpreter(options).call(function, {makeValue(logits)});
  if (failed(results))
    return failure();
  for (const RuntimeValue &check : ArrayRef(*results).drop_front())
    if (!std::get<TensorRef>(check)->integers[0])
      return failure();
  for (Value correction : corrections)
    correctionValues[correction] = numbersOf(correction);
  return *std::get<TensorRef>((*results)[0]);
}

//===- which routing it is ------------------------------------------------===//

namespace {
// Tokens with random logits and the weights that the graph gives their experts.
struct Samples {
  std::vector<SmallVector<double>> logits, weights;
};
} // namespace

static Tensor randomLogits(Type type, ArrayRef<int64_t> shape, uint64_t seed) {
  Tensor logits = Tensor::zeros(type, shape);
  std::mt19937_64 random(seed);
  auto uniform = [&] { return ((double)(random() >> 11) + 1) / ((1ULL << 53) + 1.0); };
  // Flat tokens and steep ones, and those whose logits lie near to each other and far from 0.
  for (int64_t row = 0; row < logits.rows(); ++row) {
    bool isNear = row % 5 == 4;
    double spread = isNear ? 0.0625 : std::exp2(row % 5 - 1.0), middle = isNear ? (row % 2 ? 2 : -2) : 0;
    for (int64_t e = 0; e < logits.lastDim(); ++e)
      logits.setReal(row * logits.lastDim() + e,
                     middle + spread * std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform()));
  }
  return logits;
}

// weights[row, e], wherever the dimension of experts lies.
static bool appendSamples(const Tensor &logits, const Tensor &weights, unsigned expertDim, Samples &samples) {
  int64_t experts = logits.lastDim(), inner = 1;
  if (weights.size() != logits.size() || weights.dim(expertDim) != experts)
    return false;
  for (int64_t size : ArrayRef(weights.shape).drop_front(expertDim + 1))
    inner *= size;
  for (int64_t row = 0; row < logits.rows(); ++row) {
    samples.logits.emplace_back(ArrayRef(logits.reals).slice(row * experts, experts));
    samples.weights.emplace_back();
    for (int64_t e = 0; e < experts; ++e)
      samples.weights.back().push_back(weights.reals[(row / inner * experts + e) * inner + row % inner]);
  }
  return true;
}

// The formulas of the papers, apart from the interpreter's: that one judges the op which is recognised here.

// For each entry how many come before it: greater ones, and equal ones of a lower index.
static SmallVector<int64_t> ranksOf(ArrayRef<double> scores) {
  SmallVector<std::pair<double, int64_t>> order;
  for (auto [i, score] : llvm::enumerate(scores))
    order.push_back({-score, i});
  llvm::sort(order);
  SmallVector<int64_t> ranks(scores.size());
  for (auto [rank, entry] : llvm::enumerate(order))
    ranks[entry.second] = rank;
  return ranks;
}

// A group is as good as its best expert (DeepSeek-V2, arXiv:2405.04434, 2.1.3), or as its best two together where choices are corrected
// (DeepSeek-V3, arXiv:2412.19437, 2.1.2).
static double groupScore(ArrayRef<double> scores, bool isCorrected) {
  double sum = 0;
  for (auto [score, rank] : llvm::zip_equal(scores, ranksOf(scores)))
    if (rank < (isCorrected ? 2 : 1))
      sum += score;
  return sum;
}

// The softmax of an expert among those that were not chosen before it and whose logits are near to its own (SparseMixer, arXiv:2409.12136, 3.2).
static double nearWeight(ArrayRef<double> logits, ArrayRef<int64_t> ranks, int64_t expert, double jitter) {
  double sum = 0, own = logits[expert];
  for (auto [logit, rank] : llvm::zip_equal(logits, ranks))
    if (rank >= ranks[expert] && (own - logit) / std::max(std::abs(logit), own) <= 2 * jitter)
      sum += std::exp(logit - own);
  return 1 / sum;
}

// The weight of each expert for one token, 0 for those that take no part. The correction chooses, and weighs nothing.
static SmallVector<double> expertWeights(ArrayRef<double> logits, ArrayRef<double> correction, const Routing &routing) {
  int64_t experts = logits.size(), groups = routing.attr ? routing.attr.getNumGroups() : 1, size = experts / groups;
  SmallVector<double> affinity, scores, groupScores;
  double all = 0;
  for (double x : logits)
    all += std::exp(x); // of a few units: random logits
  for (auto [e, x] : llvm::enumerate(logits)) {
    bool isSigmoid = routing.attr && routing.attr.getSigmoid();
    affinity.push_back(isSigmoid ? (1 + std::tanh(x / 2)) / 2 : std::exp(x) / all);
    scores.push_back(affinity.back() + (correction.empty() ? 0 : correction[e]));
  }
  for (int64_t g = 0; g < groups; ++g)
    groupScores.push_back(groupScore(ArrayRef(scores).slice(g * size, size), !correction.empty()));
  SmallVector<int64_t> open, groupRanks = ranksOf(groupScores); // experts of the groups that take part
  SmallVector<double> openScores;
  for (int64_t e = 0; e < experts; ++e)
    if (groups == 1 || groupRanks[e / size] < routing.attr.getTopGroups()) {
      open.push_back(e);
      openScores.push_back(scores[e]);
    }
  SmallVector<double> weights(experts);
  double sum = 0;
  SmallVector<int64_t> ranks = ranksOf(openScores);
  for (auto [e, rank] : llvm::zip_equal(open, ranks))
    if (rank < routing.topK)
      sum += weights[e] = routing.attr && routing.attr.getJitter()
                              ? nearWeight(logits, ranks, e, routing.attr.getJitter().getValueAsDouble())
                              : affinity[e];
  for (double &weight : weights)
    weight *= (routing.attr ? routing.attr.getScaleValue() : 1) / (routing.normalize ? sum : 1);
  return weights;
}

// The factor by which the weights are greater than what `routing` gives, if it is one for all tokens.
static std::optional<double> scaleOf(const Samples &samples, const Routing &routing, ArrayRef<double> correction) {
  std::vector<SmallVector<double>> wanted;
  double sumFound = 0, sumWanted = 0;
  for (auto [logits, weights] : llvm::zip_equal(samples.logits, samples.weights)) {
    wanted.push_back(expertWeights(logits, correction, routing));
    for (auto [found, p] : llvm::zip_equal(weights, wanted.back()))
      if (p != 0) {
        sumWanted += p;
        sumFound += found;
      }
  }
  double scale = sumFound / sumWanted;
  if (!(scale > 0) || !std::isfinite(scale))
    return std::nullopt;
  for (auto [weights, given] : llvm::zip_equal(samples.weights, wanted))
    for (auto [found, p] : llvm::zip_equal(weights, given))
      if (!(std::abs(found - scale * p) <= 1e-5 * (scale + std::abs(found))))
        return std::nullopt;
  return scale;
}

// Experts that take part, if every token has as many.
static std::optional<int64_t> countChosen(const Samples &samples) {
  std::optional<int64_t> count;
  for (ArrayRef<double> weights : samples.weights) {
    int64_t chosen = llvm::count_if(weights, [](double weight) { return weight != 0; });
    if (count && *count != chosen)
      return std::nullopt;
    count = chosen;
  }
  return count && *count > 0 ? count : std::nullopt;
}

// Whether the samples are what `routing` gives up to a scale, which becomes a part of it.
static bool fits(const Samples &samples, const RoutingFunction &function, Routing &routing) {
  RoutingAttr attr = routing.attr;
  ArrayRef<double> correction;
  if (routing.correction)
    correction = function.correctionValues.find(routing.correction)->second.reals;
  std::optional<double> scale = scaleOf(samples, routing, correction);
  if (!scale)
    return false;
  double written = asWritten(*scale);
  FloatAttr factor = std::abs(written - 1) < 1e-5 ? FloatAttr() : Builder(attr.getContext()).getF64FloatAttr(written);
  bool isPlain = !attr.getSigmoid() && attr.getNumGroups() == 1 && !attr.getJitter() && !factor;
  routing.attr = isPlain ? RoutingAttr()
                         : RoutingAttr::get(attr.getContext(), attr.getSigmoid(), attr.getNumGroups(),
                                            attr.getTopGroups(), factor, 0, attr.getJitter());
  return true;
}

// Simple routings first: fewer groups, no correction, no mixer.
static bool choose(const Samples &samples, const RoutingFunction &function, Routing &routing) {
  MLIRContext *context = routing.router.getContext();
  int64_t experts = samples.logits.front().size();
  SmallVector<Value> corrections{Value()};
  llvm::append_range(corrections, function.corrections);
  for (int64_t groups = 1; groups <= experts; ++groups)
    for (int64_t top = 1; experts % groups == 0 && top <= groups; ++top) {
      bool isUsed = groups == 1 || (top < groups && top * (experts / groups) >= routing.topK);
      for (Value correction : corrections)
        for (bool sigmoid : {false, true})
          for (bool normalize : {false, true}) {
            if (!isUsed || (correction && groups > 1 && experts / groups < 2))
              continue;
            routing.normalize = normalize;
            routing.correction = correction;
            routing.attr = RoutingAttr::get(context, sigmoid, groups, top, FloatAttr(), 0, FloatAttr());
            if (fits(samples, function, routing))
              return true;
          }
    }
  routing.normalize = false;
  routing.correction = Value();
  for (double number : function.numbers) { // twice a jitter
    FloatAttr jitter = Builder(context).getF64FloatAttr(number / 2);
    routing.attr = RoutingAttr::get(context, false, 1, 1, FloatAttr(), 0, jitter);
    if (fits(samples, function, routing))
      return true;
  }
  return false;
}

std::optional<Routing> heddle::readRouting(Value weights, unsigned expertDim, bool checksHold, std::string &reason) {
  int64_t numExperts = shaped(weights).getDimSize(expertDim);
  RoutingFunction function(weights, numExperts, checksHold, reason);
  if (!function.find())
    return std::nullopt;
  Routing routing;
  routing.router = function.router;
  routing.checks = function.checks;
  Samples samples;
  int64_t wanted = std::clamp<int64_t>(8192 / numExperts, 16, 128);
  for (uint64_t seed = 1; (int64_t)samples.logits.size() < wanted; ++seed) {
    Tensor logits = randomLogits(getElementTypeOrSelf(routing.router.getType()), function.logitsShape(), seed);
    FailureOr<Tensor> found = function.evaluate(logits);
    if (failed(found) || !appendSamples(logits, *found, expertDim, samples)) {
      reason = "its weights cannot be computed from logits alone";
      return std::nullopt;
    }
  }
  std::optional<int64_t> chosen = countChosen(samples);
  if (!chosen) {
    reason = "its tokens choose different numbers of experts";
    return std::nullopt;
  }
  routing.topK = *chosen;
  if (choose(samples, function, routing))
    return routing;
  reason = "its weights are no routing that is known";
  return std::nullopt;
}
