// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/MaskAnalysis.h"

#include "compiler/raise/Weights.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace heddle;

//===- positions ----------------------------------------------------------===//

namespace {
// An atom that compares the distance t = row - column (+ keys - queries): holds where direction * t + offset >= 0.
struct DistanceAtom {
  int direction;
  int64_t offset;
  bool holds(int64_t t) const { return direction * t + offset >= 0; }
};

class DistanceReader {
public:
  DistanceReader(ExprContext &exprs, Expr distance) : exprs(exprs), distance(distance) {}

  std::optional<DistanceAtom> read(Expr atom) {
    if (atom->kind != ExprKind::NotBelow)
      return std::nullopt;
    for (int direction : {1, -1}) {
      Expr rest = exprs.sub(atom->arguments[0], exprs.mul(exprs.constant(direction), distance));
      if (rest->isConstant())
        return DistanceAtom{direction, (int64_t)rest->constant};
    }
    return std::nullopt;
  }

  // Distances at which some atom of `expr` changes.
  void collect(Expr expr, std::set<int64_t> &changes) {
    if (expr->kind != ExprKind::Choice)
      return;
    if (auto atom = read(expr->atom()))
      changes.insert(atom->direction > 0 ? -atom->offset : atom->offset + 1);
    collect(expr->high(), changes);
    collect(expr->low(), changes);
  }

  // `expr` at distance t: only decisions on other things are left.
  Expr at(Expr expr, int64_t t) {
    if (expr->kind != ExprKind::Choice)
      return expr;
    if (auto atom = read(expr->atom()))
      return at(atom->holds(t) ? expr->high() : expr->low(), t);
    Expr high = at(expr->high(), t), low = at(expr->low(), t);
    if (high == low)
      return high;
    return exprs.select(exprs.condition(expr->atom()), high, low);
  }

  // `expr` where the distance is in [begin, end), an open end without one: what holds in all of it, or nowhere in it, is decided.
  Expr within(Expr expr, std::optional<int64_t> begin, std::optional<int64_t> end) {
    if (expr->kind != ExprKind::Choice)
      return expr;
    if (auto atom = read(expr->atom())) {
      // An atom holds from some distance on, or up to one: what it says at both ends it says between them.
      bool atBegin = begin ? atom->holds(*begin) : atom->direction < 0,
           atEnd = end ? atom->holds(*end - 1) : atom->direction > 0;
      if (atBegin == atEnd)
        return within(atBegin ? expr->high() : expr->low(), begin, end);
    }
    Expr high = within(expr->high(), begin, end), low = within(expr->low(), begin, end);
    return exprs.select(exprs.condition(expr->atom()), high, low);
  }

private:
  ExprContext &exprs;
  Expr distance;
};
} // namespace

// Beside something unknown the number must outweigh it: 1 - m of an input m, times the lowest number, is 0 where m is 1.
bool heddle::hides(Expr added) {
  if (added->isConstant())
    return added->constant <= hiddenValue;
  double least = constantOf(added);
  return least <= lowestValue && llvm::all_of(termsOf(added), [&](const std::pair<Expr, double> &term) {
           return std::abs(term.second) < -least * 1e-10;
         });
}

// Whether every end of `expr` hides.
static bool hidesAlways(Expr expr) {
  return expr->kind == ExprKind::Choice ? hidesAlways(expr->high()) && hidesAlways(expr->low()) : hides(expr);
}

MaskProof heddle::proveMask(ExprContext &exprs, Expr added, Expr row, Expr column, Expr queries, Expr keys) {
  Expr distance = exprs.add(exprs.sub(row, column), exprs.sub(keys, queries));
  DistanceReader reader(exprs, distance);
  std::set<int64_t> changes{0};
  reader.collect(added, changes);
  // Between two changes nothing differs, so one distance per interval stands for all of it.
  SmallVector<int64_t> samples{*changes.begin() - 1};
  samples.append(changes.begin(), changes.end());
  SmallVector<Expr> values;
  for (int64_t t : samples)
    values.push_back(reader.at(added, t));

  auto hiddenBetween = [&](std::optional<int64_t> begin, std::optional<int64_t> end) {
    for (auto [t, value] : llvm::zip_equal(samples, values))
      if ((!begin || t >= *begin) && (!end || t < *end) && !hidesAlways(value))
        return false;
    return true;
  };
  MaskProof proof;
  // Where a query does not even see itself, the first one sees nothing, and its row is no softmax over what a mask lets through.
  proof.causal = hiddenBetween(std::nullopt, 0) && !hidesAlways(reader.at(added, 0));
  for (int64_t t : changes)
    if (t > 0 && hiddenBetween(t, std::nullopt)) {
      proof.window = t;
      break;
    }
  // What the mask lets through: one value for all distances, or the diagram between them.
  Expr rest = nullptr;
  for (auto [t, value] : llvm::zip_equal(samples, values)) {
    if ((proof.causal && t < 0) || (proof.window && t >= proof.window))
      continue;
    if (rest && rest != value) {
      rest = reader.within(added, proof.causal ? std::optional<int64_t>(0) : std::nullopt,
                           proof.window ? std::optional<int64_t>(proof.window) : std::nullopt);
      break;
    }
    rest = value;
  }
  if (rest && !rest->isConstant(0))
    proof.bias = rest;
  return proof;
}

//===- constants ----------------------------------------------------------===//

// Whether a constant is the same at every index of the dimension.
static bool repeatsAlong(DenseElementsAttr elements, int64_t dimension) {
  SmallVector<int64_t> strides = computeStrides(elements.getType().getShape());
  int64_t stride = strides[dimension], extent = elements.getType().getDimSize(dimension);
  for (int64_t i = 0; i < elements.getNumElements(); ++i)
    if (valueAt(elements, i) != valueAt(elements, i - i / stride % extent * stride))
      return false;
  return true;
}

// The dimensions along which a constant changes.
static SmallVector<int64_t> changingDimensions(DenseElementsAttr elements) {
  SmallVector<int64_t> changing;
  for (int64_t d = 0; d < elements.getType().getRank(); ++d)
    if (elements.getType().getDimSize(d) != 1 && !repeatsAlong(elements, d))
      changing.push_back(d);
  return changing;
}

// Values of a constant that changes along these two dimensions by row - column, from -(columns - 1) on; nothing if two elements of one
// distance differ.
static std::optional<SmallVector<double>> byDistance(DenseElementsAttr elements, int64_t rowDim, int64_t columnDim) {
  ArrayRef<int64_t> shape = elements.getType().getShape();
  SmallVector<int64_t> strides = computeStrides(shape);
  int64_t rows = shape[rowDim], columns = shape[columnDim];
  SmallVector<double> values(rows + columns - 1);
  SmallVector<bool> known(values.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t distance = r - c + columns - 1;
      double value = valueAt(elements, r * strides[rowDim] + c * strides[columnDim]);
      if (known[distance] && values[distance] != value)
        return std::nullopt;
      values[distance] = value;
      known[distance] = true;
    }
  return values;
}

// A flag that changes at these distances: the first number is what it is before all of them.
static Expr flagByDistance(ExprContext &exprs, Expr distance, ArrayRef<int64_t> changes) {
  int64_t flag = changes.front();
  Expr result = exprs.constant(flag);
  for (int64_t change : changes.drop_front()) {
    flag = 1 - flag;
    result = exprs.select(exprs.notBelow(distance, exprs.constant(change)), exprs.constant(flag), result);
  }
  return result;
}

Expr heddle::resolveConstants(ExprContext &exprs, Expr expr) {
  DenseMap<Expr, Expr> replacements;
  std::function<void(Expr)> visit = [&](Expr part) {
    for (Expr argument : part->arguments)
      visit(argument);
    for (auto &[term, factor] : part->terms)
      visit(term);
    if (part->kind != ExprKind::Leaf || replacements.contains(part))
      return;
    auto type = dyn_cast<RankedTensorType>(part->value.getType());
    if (!type)
      return;
    SmallVector<Expr> large;
    for (auto [index, extent] : llvm::zip_equal(part->arguments, type.getShape()))
      if (extent != 1)
        large.push_back(index);
    if (auto weight = part->value.getDefiningOp<WeightOp>())
      if (auto changes = weight->getAttrOfType<DenseI64ArrayAttr>("heddle.by_distance")) {
        replacements[part] = flagByDistance(exprs, exprs.sub(large[0], large[1]), changes.asArrayRef());
        return;
      }
    DenseElementsAttr elements = elementsOf(part->value);
    SmallVector<int64_t> changing = elements ? changingDimensions(elements) : SmallVector<int64_t>();
    if (changing.size() != 2)
      return;
    std::optional<SmallVector<double>> values = byDistance(elements, changing[0], changing[1]);
    if (!values)
      return;
    int64_t columns = type.getDimSize(changing[1]);
    // Decisions at every distance where the value changes; a diagram of many values is no mask.
    Expr distance = exprs.sub(part->arguments[changing[0]], part->arguments[changing[1]]),
         result = exprs.constant(values->front());
    int64_t changes = 0;
    for (size_t i = 1; i < values->size(); ++i)
      if ((*values)[i] != (*values)[i - 1]) {
        int64_t t = (int64_t)i - (columns - 1);
        result = exprs.select(exprs.notBelow(distance, exprs.constant(t)), exprs.constant((*values)[i]), result);
        ++changes;
      }
    if (changes <= 4)
      replacements[part] = result;
  };
  visit(expr);
  return replacements.empty() ? expr : exprs.substitute(expr, replacements);
}
