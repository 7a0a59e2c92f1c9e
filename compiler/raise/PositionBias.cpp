// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/PositionBias.h"

#include "compiler/raise/Weights.h"
#include "dialect/HeddleDialect.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

//===- slopes -------------------------------------------------------------===//

// By how much `factor` grows from one key to the next, if that is a number.
static std::optional<double> growth(ExprContext &exprs, Expr factor, Expr key) {
  DenseMap<Expr, Expr> next{{key, exprs.add(key, exprs.constant(1))}};
  Expr step = exprs.sub(exprs.substitute(factor, next), factor);
  return step->isConstant() ? std::optional(step->constant) : std::nullopt;
}

// `bias` with elements of stored rows that are straight lines along the keys as what a line is, by its two ends.
static Expr withLines(ExprContext &exprs, Expr bias, Expr key) {
  DenseMap<Expr, Expr> lines;
  for (Expr leaf : leavesOf(bias)) {
    if (!linesOf(leaf->value) || !exprs.contains(leaf->arguments.back(), key))
      continue;
    auto at = [&](int64_t column) {
      SmallVector<Expr> indices = llvm::to_vector(leaf->arguments);
      indices.back() = exprs.constant(column);
      return exprs.leaf(leaf->value, indices);
    };
    int64_t last = cast<RankedTensorType>(leaf->value.getType()).getShape().back() - 1;
    Expr slope = exprs.div(exprs.sub(at(last), at(0)), exprs.constant(last));
    lines[leaf] = exprs.add(at(0), exprs.mul(slope, leaf->arguments.back()));
  }
  return lines.empty() ? bias : exprs.substitute(bias, lines);
}

// slope(head) * key, plus what all keys of a query have in common.
static Expr readSlope(ExprContext &exprs, Expr bias, const ScorePlaces &places) {
  Expr slope = exprs.constant(0), key = places.key.index, query = places.query.index;
  if (key->kind != ExprKind::Symbol)
    return nullptr;
  if (bias->kind == ExprKind::Choice) { // of where a table begins to be read, as of how many keys there are
    bool isOfRow = !exprs.contains(bias->atom(), key);
    Expr high = isOfRow ? readSlope(exprs, bias->high(), places) : nullptr;
    return high && high == readSlope(exprs, bias->low(), places) ? high : nullptr;
  }
  for (auto &[term, coefficient] : termsOf(bias)) {
    if (!exprs.contains(term, key))
      continue;
    Expr part = exprs.constant(coefficient);
    for (auto &[base, exponent] : factorsOf(term)) {
      if (!exprs.contains(base, key)) {
        part = exprs.mul(part, exprs.power(base, exponent));
        continue;
      }
      std::optional<double> step = exponent == 1 ? growth(exprs, base, key) : std::nullopt;
      if (!step)
        return nullptr;
      part = exprs.mul(part, exprs.constant(*step));
    }
    slope = exprs.add(slope, part);
  }
  // A factor of two that both grow, or one that grows with the query: the slope would not be one of the head.
  bool isOfHead = !exprs.contains(slope, key) && (query->isConstant() || !exprs.contains(slope, query));
  return isOfHead && !slope->isConstant(0) ? slope : nullptr;
}

//===- buckets ------------------------------------------------------------===//

namespace {
struct Interval {
  double low, high;
};

// Bounds of an expression in one variable: what it can be while the variable is in an interval. Exact for a single value.
class IntervalEvaluator {
public:
  IntervalEvaluator(Expr variable, Interval range) : variable(variable), range(range) {}
  std::optional<Interval> evaluate(Expr expr);

private:
  std::optional<Interval> product(Expr expr);
  std::optional<Interval> call(Expr expr);
  std::optional<Interval> choice(Expr expr);

  Expr variable;
  Interval range;
};
} // namespace

std::optional<Interval> IntervalEvaluator::product(Expr expr) {
  Interval result{1, 1};
  for (auto &[base, exponent] : expr->terms) {
    std::optional<Interval> part = evaluate(base);
    if (!part || part->low < 0)
      return std::nullopt;
    double atLow = std::pow(part->low, exponent), atHigh = std::pow(part->high, exponent);
    result = {result.low * std::fmin(atLow, atHigh), result.high * std::fmax(atLow, atHigh)};
  }
  return result;
}

// All of these functions ascend. Exporters compute in f32, where a whole number is one up to rounding.
std::optional<Interval> IntervalEvaluator::call(Expr expr) {
  SmallVector<double> low, high;
  for (Expr argument : expr->arguments) {
    std::optional<Interval> part = evaluate(argument);
    if (!part)
      return std::nullopt;
    low.push_back(part->low);
    high.push_back(part->high);
  }
  StringRef name = expr->name;
  if (name == "log") {
    if (high[0] <= 0)
      return std::nullopt;
    low[0] = std::fmax(low[0], 0);
  } else if (name == "floor" || name == "truncate") {
    auto nudged = [](double x) { return x + 1e-6 * std::fmax(1, std::fabs(x)); };
    if (name == "truncate" && low[0] < 0)
      return std::nullopt;
    low[0] = nudged(low[0]);
    high[0] = nudged(high[0]);
  } else if (name != "exp" && name != "tanh" && name != "max" && name != "min") {
    return std::nullopt;
  }
  std::optional<double> begin = evaluateCall(name, low), end = evaluateCall(name, high);
  if (!begin || !end)
    return std::nullopt;
  return Interval{*begin, *end};
}

std::optional<Interval> IntervalEvaluator::choice(Expr expr) {
  if (expr->atom()->kind != ExprKind::NotBelow)
    return std::nullopt;
  std::optional<Interval> difference = evaluate(expr->atom()->arguments[0]);
  if (!difference)
    return std::nullopt;
  if (difference->low >= 0)
    return evaluate(expr->high());
  if (difference->high < 0)
    return evaluate(expr->low());
  std::optional<Interval> high = evaluate(expr->high()), low = evaluate(expr->low());
  if (!high || !low)
    return std::nullopt;
  return Interval{std::fmin(high->low, low->low), std::fmax(high->high, low->high)};
}

std::optional<Interval> IntervalEvaluator::evaluate(Expr expr) {
  if (expr == variable)
    return range;
  if (expr->isConstant())
    return Interval{expr->constant, expr->constant};
  if (expr->kind == ExprKind::Choice)
    return choice(expr);
  if (expr->kind == ExprKind::Call)
    return call(expr);
  if (expr->kind == ExprKind::Product)
    return product(expr);
  if (expr->kind == ExprKind::FloorDiv && expr->arguments[1]->isConstant() && expr->arguments[1]->constant > 0) {
    std::optional<Interval> part = evaluate(expr->arguments[0]);
    double divisor = expr->arguments[1]->constant;
    return part ? std::optional(Interval{std::floor(part->low / divisor), std::floor(part->high / divisor)})
                : std::nullopt;
  }
  if (expr->kind != ExprKind::Sum)
    return std::nullopt;
  Interval result{expr->constant, expr->constant};
  for (auto &[term, factor] : expr->terms) {
    std::optional<Interval> part = evaluate(term);
    if (!part)
      return std::nullopt;
    double first = factor * part->low, second = factor * part->high;
    result = {result.low + std::fmin(first, second), result.high + std::fmax(first, second)};
  }
  return result;
}

namespace {
// A whole number that depends on the distance alone, as runs of distances of one value. Halves an interval until it has one value.
class RunFinder {
public:
  RunFinder(Expr number, Expr distance, PositionBias &found) : number(number), distance(distance), found(found) {}

  bool find(int64_t low, int64_t high) {
    if (--budget == 0)
      return false;
    std::optional<Interval> value = IntervalEvaluator(distance, {(double)low, (double)high}).evaluate(number);
    if (value && value->low == value->high) {
      if (!found.rows.empty() && found.rows.back() == (int64_t)value->low)
        return true;
      if (!found.rows.empty())
        found.starts.push_back(low);
      found.rows.push_back((int64_t)value->low);
      return true;
    }
    if (low == high)
      return false;
    int64_t middle = low + (high - low) / 2;
    return find(low, middle) && find(middle + 1, high);
  }

private:
  Expr number, distance;
  PositionBias &found;
  int budget = 1 << 14;
};
} // namespace

// The bucket of `element` at each end of its decisions: all ends read one table at `head`. Null if an end is something else.
static Expr bucketOf(ExprContext &exprs, Expr element, Expr head, PositionBias &found) {
  if (element->kind == ExprKind::Choice) {
    Expr high = bucketOf(exprs, element->high(), head, found), low = bucketOf(exprs, element->low(), head, found);
    if (!high || !low)
      return nullptr;
    return exprs.select(exprs.condition(element->atom()), high, low);
  }
  if (element->kind != ExprKind::Leaf || element->arguments.size() != 2 ||
      !isa<FloatType>(getElementTypeOrSelf(element->value)))
    return nullptr;
  bool headIsLast = element->arguments[1] == head;
  if (!headIsLast && element->arguments[0] != head)
    return nullptr;
  unsigned bucketIndex = headIsLast ? 0 : 1;
  if (found.element && (found.element->value != element->value || found.bucketIndex != bucketIndex))
    return nullptr;
  found.element = element;
  found.bucketIndex = bucketIndex;
  return element->arguments[bucketIndex];
}

static bool readBuckets(ExprContext &exprs, Expr bias, const ScorePlaces &places, bool causal, PositionBias &found) {
  Expr bucket = bucketOf(exprs, bias, places.head.index, found);
  if (!bucket || !bucket->isInteger || places.query.index->isConstant())
    return false;
  // query = key + distance - (keys - queries); a call without arguments is a number of which nothing is known
  Expr distance = exprs.call("distance", {}, /*isInteger=*/true);
  Expr query = exprs.add(exprs.add(places.key.index, distance), exprs.sub(places.query.extent, places.key.extent));
  bucket = exprs.substitute(bucket, DenseMap<Expr, Expr>{{places.query.index, query}});
  int64_t last = (1LL << 31) - 1;
  if (bucket->isConstant() || !RunFinder(bucket, distance, found).find(causal ? 0 : -last, last))
    return false;
  int64_t numBuckets = cast<RankedTensorType>(found.element->value.getType()).getDimSize(found.bucketIndex);
  return llvm::all_of(found.rows, [&](int64_t row) { return row >= 0 && row < numBuckets; });
}

//===- reading and writing ------------------------------------------------===//

std::optional<PositionBias> heddle::readPositionBias(ExprContext &exprs, Expr bias, const ScorePlaces &places,
                                                     bool shifts, bool causal) {
  PositionBias found;
  if (shifts)
    found.slope = readSlope(exprs, withLines(exprs, bias, places.key.index), places);
  if (found.slope)
    return found;
  return readBuckets(exprs, bias, places, causal, found) ? std::optional(found) : std::nullopt;
}

static Value slopesOf(OpBuilder &b, Location loc, ExprContext &exprs, Expr slope, Axis head) {
  std::string why;
  if (slope->kind == ExprKind::Leaf && isa<FloatType>(getElementTypeOrSelf(slope->value)))
    if (Value slopes = arrange(b, loc, exprs, slope->value, slope->arguments, head, why))
      return slopes;
  return emitTensor(b, loc, exprs, slope, head, b.getF32Type(), /*repeats=*/true);
}

static Value tableOf(OpBuilder &b, Location loc, ExprContext &exprs, const PositionBias &bias, Axis head) {
  Value table = bias.element->value;
  Expr size = exprs.size(table, bias.bucketIndex);
  constexpr int64_t bucketSymbol = -1; // no axis of an attention
  Axis bucket{exprs.symbol(bucketSymbol, size), size};
  SmallVector<Expr> indices{bucket.index, head.index};
  if (bias.bucketIndex == 1)
    std::swap(indices[0], indices[1]);
  std::string why;
  Axis axes[] = {bucket, head};
  return arrange(b, loc, exprs, table, indices, axes, why);
}

Value heddle::emitPositionBias(OpBuilder &b, Location loc, ExprContext &exprs, const PositionBias &bias,
                               const ScorePlaces &places) {
  Value table =
      bias.slope ? slopesOf(b, loc, exprs, bias.slope, places.head) : tableOf(b, loc, exprs, bias, places.head);
  DenseMap<Expr, Value> none;
  Value queries = emitIndex(b, loc, places.query.extent, none), keys = emitIndex(b, loc, places.key.extent, none);
  if (!table || !queries || !keys)
    return {};
  auto size = [](Expr extent) { return extent->isConstant() ? (int64_t)extent->constant : ShapedType::kDynamic; };
  auto type = RankedTensorType::get({1, size(places.head.extent), size(places.query.extent), size(places.key.extent)},
                                    b.getF32Type());
  auto list = [&](ArrayRef<int64_t> numbers) {
    return bias.slope ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(numbers);
  };
  return PositionBiasOp::create(b, loc, type, table, queries, keys, list(bias.starts), list(bias.rows));
}
