// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Weights.h"

#include "compiler/raise/ElementTrace.h"
#include "dialect/Codes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cstdio>
#include <cstdlib>

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool heddle::isStored(Value value) {
  return value.getDefiningOp<WeightOp>() || matchPattern(value, m_Constant());
}

DenseElementsAttr heddle::elementsOf(Value value) {
  if (auto weight = value.getDefiningOp<WeightOp>())
    return weight->getAttrOfType<DenseElementsAttr>("heddle.content");
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) ? elements : DenseElementsAttr();
}

DenseF64ArrayAttr heddle::linesOf(Value value) {
  auto weight = value.getDefiningOp<WeightOp>();
  auto lines = weight ? weight->getAttrOfType<DenseF64ArrayAttr>("heddle.lines") : DenseF64ArrayAttr();
  int64_t columns = lines && shaped(value).getRank() ? shaped(value).getShape().back() : 0;
  return columns > 1 && lines.size() * columns == 2 * shaped(value).getNumElements() ? lines : DenseF64ArrayAttr();
}

Expr heddle::resolveElements(ExprContext &exprs, Expr expr) {
  DenseMap<Expr, Expr> known;
  llvm::SmallDenseSet<Expr> seen;
  std::function<void(Expr)> visit = [&](Expr part) {
    if (!seen.insert(part).second)
      return;
    for (Expr argument : part->arguments)
      visit(argument);
    for (auto &[term, factor] : part->terms)
      visit(term);
    auto type = part->kind == ExprKind::Leaf ? dyn_cast<RankedTensorType>(part->value.getType()) : RankedTensorType();
    DenseF64ArrayAttr lines = type ? linesOf(part->value) : DenseF64ArrayAttr();
    DenseElementsAttr elements = type ? elementsOf(part->value) : DenseElementsAttr();
    std::optional<int64_t> position = lines || elements ? positionOf(part->arguments, type.getShape()) : std::nullopt;
    if (!position)
      return;
    if (lines) {
      int64_t columns = type.getShape().back(), row = *position / columns;
      known[part] = exprs.constant(lines[2 * row] + lines[2 * row + 1] * double(*position % columns));
    } else {
      known[part] = exprs.constant(valueAt(elements, *position));
    }
  };
  visit(expr);
  return known.empty() ? expr : exprs.substitute(expr, known);
}

Expr heddle::firstOfEqual(ExprContext &exprs, Expr element) {
  auto type =
      element->kind == ExprKind::Leaf ? dyn_cast<RankedTensorType>(element->value.getType()) : RankedTensorType();
  DenseElementsAttr elements =
      type && isa<FloatType>(type.getElementType()) ? elementsOf(element->value) : DenseElementsAttr();
  if (!elements || elements.empty())
    return element;
  if (elements.isSplat())
    return exprs.leaf(element->value, SmallVector<Expr>(type.getRank(), exprs.constant(0)));
  SmallVector<APFloat> values(elements.getValues<APFloat>());
  SmallVector<Expr> places(ArrayRef<Expr>(element->arguments));
  int64_t step = values.size();
  for (auto [d, size] : llvm::enumerate(type.getShape())) {
    int64_t block = step; // elements of one index of the dimension before
    step /= size;
    auto isFirst = [&](int64_t i) { return values[i].bitwiseIsEqual(values[i - i % block + i % step]); };
    if (llvm::all_of(llvm::seq<int64_t>(values.size()), isFirst))
      places[d] = exprs.constant(0);
  }
  return exprs.leaf(element->value, places);
}

// Whether the index runs over the whole dimension; of one value it is 0.
static bool covers(Expr index, Value value, int64_t dimension) {
  int64_t size = shaped(value).getDimSize(dimension);
  return index->kind == ExprKind::Symbol ? index->extent->isConstant(size) : size == 1 && index->isConstant(0);
}

Value heddle::storedMatrix(OpBuilder &b, Expr element, Expr row, Expr column) {
  auto weight = element->kind == ExprKind::Leaf ? element->value.getDefiningOp<WeightOp>() : WeightOp();
  if (!weight || element->arguments.size() != 2 || !isa<FloatType>(shaped(weight).getElementType()))
    return {};
  Expr first = element->arguments[0], second = element->arguments[1];
  if (column->isConstant()) // products of one number each, as of positions and frequencies, are no sums
    return {};
  if (!covers(first, element->value, 0) || !covers(second, element->value, 1))
    return {};
  if (first == row && second == column)
    return weight;
  if (first != column || second != row)
    return {};
  RankedTensorType type = shaped(element->value);
  auto turned =
      RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType(), type.getEncoding());
  auto result = WeightOp::create(b, weight.getLoc(), turned, weight.getName(), weight.getStorage().getTurned());
  if (Attribute codes = weight->getAttr(Codes::attrName)) // which are of the matrix as it is stored
    result->setAttr(Codes::attrName, codes);
  return result;
}

namespace {
// Where a matrix lies in a tensor: values from its first one to the next row and column.
struct Part {
  int64_t offset = 0, rowStep = 0, columnStep = 0;
  std::string text; // "3, 0:32, :"
};
} // namespace

static std::optional<Part> partOf(Expr element, const Axis &row, const Axis &column, ArrayRef<int64_t> steps) {
  Part part;
  for (auto [d, index] : llvm::enumerate(element->arguments)) {
    int64_t begin = (int64_t)constantOf(index), last = begin;
    part.offset += begin * steps[d];
    for (auto &[term, factor] : termsOf(index)) {
      bool isRow = term == row.index;
      if ((!isRow && term != column.index) || factor < 0)
        return std::nullopt;
      (isRow ? part.rowStep : part.columnStep) += (int64_t)factor * steps[d];
      last += (int64_t)factor * ((int64_t)(isRow ? row : column).extent->constant - 1);
    }
    int64_t size = shaped(element->value).getDimSize(d);
    if (begin < 0 || last >= size)
      return std::nullopt;
    std::string range = begin == last ? std::to_string(begin) : std::to_string(begin) + ":" + std::to_string(last + 1);
    part.text += (d ? ", " : "") + (begin == 0 && last == size - 1 ? ":" : range);
  }
  return part;
}

// Values from one index to the next along each dimension, as they are stored.
static std::optional<SmallVector<int64_t>> storedSteps(RankedTensorType type, StorageAttr storage) {
  SmallVector<int64_t> steps(type.getRank(), 1);
  for (int64_t d = type.getRank() - 2; d >= 0; --d)
    steps[d] = steps[d + 1] * type.getDimSize(d + 1);
  bool isDense = !storage || (!storage.getTransposed() && !storage.getStride() && !storage.getTaps());
  if (isDense)
    return steps;
  if (type.getRank() != 2 || storage.getTaps())
    return std::nullopt;
  int64_t stride = storage.getStride() ? storage.getStride() : type.getDimSize(storage.getTransposed() ? 0 : 1);
  return storage.getTransposed() ? SmallVector<int64_t>{1, stride} : SmallVector<int64_t>{stride, 1};
}

// Where a part of a stored tensor of plain floats lies; nothing for another element.
static std::optional<Part> plainPartOf(Expr element, const Axis &row, const Axis &column) {
  auto weight = element->kind == ExprKind::Leaf ? element->value.getDefiningOp<WeightOp>() : WeightOp();
  if (!weight || !isa<FloatType>(shaped(weight).getElementType()) || shaped(weight).getEncoding() ||
      weight->hasAttr(Codes::attrName))
    return std::nullopt;
  std::optional<SmallVector<int64_t>> steps = storedSteps(shaped(weight), weight.getStorage());
  return steps ? partOf(element, row, column, *steps) : std::nullopt;
}

Value heddle::storedPart(OpBuilder &b, Expr element, const Axis &row, const Axis &column) {
  if (!row.extent->isConstant() || !column.extent->isConstant())
    return {};
  std::optional<Part> part = plainPartOf(element, row, column);
  if (!part || (part->rowStep != 1 && part->columnStep != 1))
    return {};
  auto weight = cast<WeightOp>(element->value.getDefiningOp());
  RankedTensorType type = shaped(weight);
  int64_t rows = (int64_t)row.extent->constant, columns = (int64_t)column.extent->constant;
  auto matrix = RankedTensorType::get({rows, columns}, type.getElementType());
  bool transposed = part->columnStep != 1;
  int64_t step = transposed ? part->columnStep : part->rowStep, dense = transposed ? rows : columns;
  int64_t offset = weight.getStorage().getOffset() + part->offset * (type.getElementTypeBitWidth() / 8);
  StorageAttr moved = weight.getStorage().getPart(offset, transposed, step == dense ? 0 : step);
  return WeightOp::create(b, weight.getLoc(), matrix, (weight.getName() + "[" + part->text + "]").str(), moved);
}

Value heddle::storedVector(Expr element, Expr index) {
  if (element->kind != ExprKind::Leaf || element->arguments.size() != 1 || !isStored(element->value) ||
      element->arguments[0] != index || !covers(index, element->value, 0) ||
      !isa<FloatType>(shaped(element->value).getElementType()))
    return {};
  return element->value;
}

Value heddle::storedBias(Expr element, Expr index) {
  Value vector = storedVector(element, index);
  return vector && vector.getDefiningOp<WeightOp>() ? vector : Value();
}

// The numbers that begin at `part` of `element`'s tensor and follow each other, as a vector.
static Value vectorAt(OpBuilder &b, Expr element, const Part &part, int64_t size) {
  auto weight = cast<WeightOp>(element->value.getDefiningOp());
  Type number = shaped(weight).getElementType();
  int64_t offset = weight.getStorage().getOffset() + part.offset * (number.getIntOrFloatBitWidth() / 8);
  return WeightOp::create(b, weight.getLoc(), RankedTensorType::get({size}, number),
                          (weight.getName() + "[" + part.text + "]").str(),
                          weight.getStorage().getPart(offset, false, 0));
}

Value heddle::storedVectorPart(OpBuilder &b, Expr element, const Axis &index) {
  if (Value whole = storedBias(element, index.index))
    return whole;
  if (!index.extent->isConstant())
    return {};
  std::optional<Part> part = plainPartOf(element, index, Axis());
  return part && part->rowStep == 1 ? vectorAt(b, element, *part, (int64_t)index.extent->constant) : Value();
}

Value heddle::storedRows(OpBuilder &b, Expr element, const Axis &row, const Axis &column) {
  if (!row.extent->isConstant() || !column.extent->isConstant())
    return {};
  int64_t rows = (int64_t)row.extent->constant, columns = (int64_t)column.extent->constant;
  std::optional<Part> part = plainPartOf(element, row, column);
  bool isDense = part && part->columnStep == 1 && part->rowStep == columns;
  return isDense ? vectorAt(b, element, *part, rows * columns) : Value();
}

double heddle::asWritten(double value) {
  float single = static_cast<float>(value);
  for (int digits = 1; digits <= 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.*g", digits, single);
    if (std::strtof(text, nullptr) == single)
      return std::strtod(text, nullptr);
  }
  return value;
}
