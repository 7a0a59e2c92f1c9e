// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Weights.h"

#include "compiler/raise/ElementTrace.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cstdio>
#include <cstdlib>

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) { return cast<RankedTensorType>(value.getType()); }

bool heddle::isStored(Value value) { return value.getDefiningOp<WeightOp>() || matchPattern(value, m_Constant()); }

DenseElementsAttr heddle::elementsOf(Value value) {
  if (auto weight = value.getDefiningOp<WeightOp>())
    return weight->getAttrOfType<DenseElementsAttr>("heddle.content");
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) ? elements : DenseElementsAttr();
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
    if (part->kind != ExprKind::Leaf)
      return;
    DenseElementsAttr elements = elementsOf(part->value);
    std::optional<int64_t> position = elements ? positionOf(part->arguments, elements.getType().getShape()) : std::nullopt;
    if (position)
      known[part] = exprs.constant(valueAt(elements, *position));
  };
  visit(expr);
  return known.empty() ? expr : exprs.substitute(expr, known);
}

// Whether the symbol runs over the whole dimension.
static bool covers(Expr symbol, Value value, int64_t dimension) {
  return symbol->kind == ExprKind::Symbol && symbol->extent->isConstant(shaped(value).getDimSize(dimension));
}

static Value transposedConstant(OpBuilder &b, Value value, RankedTensorType type) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)))
    return {};
  if (elements.isSplat())
    return arith::ConstantOp::create(b, value.getLoc(), elements.resizeSplat(type));
  SmallVector<Attribute> moved;
  auto values = elements.getValues<Attribute>();
  for (int64_t row = 0; row < type.getDimSize(0); ++row)
    for (int64_t column = 0; column < type.getDimSize(1); ++column)
      moved.push_back(values[column * type.getDimSize(0) + row]);
  return arith::ConstantOp::create(b, value.getLoc(), DenseElementsAttr::get(type, moved));
}

Value heddle::storedMatrix(OpBuilder &b, Expr element, Expr row, Expr column) {
  if (element->kind != ExprKind::Leaf || element->arguments.size() != 2 || !isStored(element->value) ||
      !isa<FloatType>(shaped(element->value).getElementType()))
    return {};
  Expr first = element->arguments[0], second = element->arguments[1];
  if (!covers(first, element->value, 0) || !covers(second, element->value, 1))
    return {};
  if (first == row && second == column)
    return element->value;
  if (first != column || second != row)
    return {};
  RankedTensorType type = shaped(element->value);
  auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType(), type.getEncoding());
  auto weight = element->value.getDefiningOp<WeightOp>();
  if (!weight)
    return transposedConstant(b, element->value, turned);
  StorageAttr storage = weight.getStorage();
  auto other = StorageAttr::get(b.getContext(), storage.getType(), storage.getFile(), storage.getOffset(), !storage.getTransposed());
  return WeightOp::create(b, weight.getLoc(), turned, weight.getName(), other);
}

Value heddle::storedVector(Expr element, Expr index) {
  if (element->kind != ExprKind::Leaf || element->arguments.size() != 1 || !isStored(element->value) ||
      element->arguments[0] != index || !covers(index, element->value, 0) ||
      !isa<FloatType>(shaped(element->value).getElementType()))
    return {};
  return element->value;
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
