// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/RowMatmul.h"

#include "compiler/raise/Contraction.h"
#include "compiler/raise/Weights.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Operation *definingOp(Expr part) {
  return part->kind == ExprKind::Leaf ? part->value.getDefiningOp() : nullptr;
}

static bool isMatmul(Expr part) {
  Operation *op = definingOp(part);
  return op && (isa<LinearOp>(op) || isContraction(op));
}

// `part` as an element of a product and what is added to it, which may be null; null for both where there is no product, or there are two.
std::pair<Expr, Expr> RowMatmulReader::productAndBias(Expr part) {
  if (isMatmul(part))
    return {part, nullptr};
  SmallVector<Expr> summands;
  if (auto add = dyn_cast_or_null<arith::AddFOp>(definingOp(part))) {
    for (Value operand : add->getOperands())
      summands.push_back(elementOf(operand, part->arguments));
  } else if (part->kind == ExprKind::Sum && constantOf(part) == 0) {
    for (auto &[term, factor] : termsOf(part))
      if (factor == 1)
        summands.push_back(term);
    if (summands.size() != termsOf(part).size())
      return {};
  }
  if (summands.size() != 2 || isMatmul(summands[0]) == isMatmul(summands[1]))
    return {};
  if (isMatmul(summands[1]))
    std::swap(summands[0], summands[1]);
  return {summands[0], summands[1]};
}

bool RowMatmulReader::hasNumber(Expr part) {
  return llvm::any_of(numbers, [&](Expr symbol) { return exprs.contains(part, symbol); });
}

bool RowMatmulReader::hasToken(Expr part) {
  return hasNumber(part) || llvm::any_of(tokens, [&](Expr symbol) {
           return symbol->kind == ExprKind::Symbol && exprs.contains(part, symbol);
         });
}

// Whether `expr` is read from a tensor.
static bool isRead(Expr expr) {
  return expr->kind == ExprKind::Leaf || llvm::any_of(expr->arguments, isRead) ||
         llvm::any_of(expr->terms, [](auto &term) { return isRead(term.first); });
}

// Whether `part` is of one tensor, of which a token says one index alone, read where its choices are. An index that counts from the end makes a
// decision: what is the same at all of its ends is the element, what differs the number.
std::optional<NumberedElement> RowMatmulReader::findNumber(Expr part) {
  NumberedElement numbered;
  bool isPart = true;
  forEachEnd(part, [&](Expr end) {
    isPart &= end->kind == ExprKind::Leaf && (!numbered.element || end->value == numbered.element->value);
    numbered.element = numbered.element ? numbered.element : end;
  });
  if (!isPart)
    return std::nullopt;
  SmallVector<unsigned> dimensions;
  for (auto [d, index] : llvm::enumerate(numbered.element->arguments))
    if (hasToken(index))
      dimensions.push_back(d);
  if (dimensions.size() != 1)
    return std::nullopt;
  Expr index = numbered.element->arguments[dimensions[0]];
  if ((!isRead(index) && !hasNumber(index)) || shaped(numbered.element->value).isDynamicDim(dimensions[0]))
    return std::nullopt;
  numbered.dimension = dimensions[0];
  forEachEnd(part, [&](Expr end) {
    for (auto [d, index] : llvm::enumerate(end->arguments))
      isPart &= d == numbered.dimension || index == numbered.element->arguments[d];
  });
  numbered.number = exprs.mapEnds(part, [&](Expr end) { return end->arguments[numbered.dimension]; });
  return isPart ? std::optional(numbered) : std::nullopt;
}

// A stored vector, or one that is looked up for each choice of a token.
std::optional<NumberedElement> RowMatmulReader::readBias(Expr bias) {
  if (auto embedding = dyn_cast_or_null<EmbeddingOp>(definingOp(bias));
      embedding && !embedding.getGiven() && embedding.getScale().convertToDouble() == 1) {
    Expr number = elementOf(embedding.getIds(), ArrayRef(bias->arguments).drop_back());
    bias = elementOf(embedding.getTable(), {number, bias->arguments.back()});
  }
  if (hasToken(bias))
    return findNumber(bias);
  return bias->kind == ExprKind::Leaf ? std::optional(NumberedElement{bias}) : std::nullopt;
}

std::optional<RowMatmul> RowMatmulReader::readProduct(Expr element, int64_t symbol) {
  Operation *op = definingOp(element);
  if (auto linear = dyn_cast<LinearOp>(op)) {
    if (linear.getWeights().size() != 1 || linear.getBiases().size() > 1)
      return std::nullopt;
    Expr extent = exprs.constant(double(shaped(linear.getWeights()[0]).getDimSize(1))),
         k = exprs.symbol(symbol, extent);
    SmallVector<Expr> row = llvm::to_vector(element->arguments);
    row.back() = k;
    Expr column = element->arguments.back();
    RowMatmul product{
        elementOf(linear.getInput(), row), {elementOf(linear.getWeights()[0], {column, k})}, {k, extent}, std::nullopt};
    if (!linear.getBiases().empty())
      product.bias = NumberedElement{elementOf(linear.getBiases()[0], {column})};
    return product;
  }
  std::optional<Contraction> product = Contraction::of(op);
  int64_t summed = product ? product->op.getStaticLoopRanges()[product->contracted] : ShapedType::kDynamic;
  if (ShapedType::isDynamic(summed))
    return std::nullopt;
  Expr extent = exprs.constant(double(summed)), k = exprs.symbol(symbol, extent);
  SmallVector<Expr> loops(product->op.getNumLoops());
  for (auto [loop, index] : llvm::zip_equal(product->outLoops, element->arguments))
    loops[loop] = index;
  loops[product->contracted] = k;
  SmallVector<Expr> elements;
  for (unsigned operand : {0u, 1u}) {
    SmallVector<Expr> indices = product->indices(operand, loops);
    if (indices.empty())
      return std::nullopt;
    elements.push_back(elementOf(product->input(operand), indices));
  }
  // The matrix is the operand that no token is an index of, or that one which a token numbers.
  bool isOfToken = hasToken(elements[0]);
  if (isOfToken != hasToken(elements[1]))
    return RowMatmul{elements[isOfToken ? 0 : 1], {elements[isOfToken ? 1 : 0]}, {k, extent}, std::nullopt};
  for (unsigned rows : {0u, 1u})
    if (std::optional<NumberedElement> matrix = isOfToken ? findNumber(elements[1 - rows]) : std::nullopt)
      return RowMatmul{elements[rows], *matrix, {k, extent}, std::nullopt};
  return std::nullopt;
}

std::optional<RowMatmul> RowMatmulReader::read(Expr element, int64_t symbol) {
  auto [product, bias] = productAndBias(element);
  std::optional<RowMatmul> found = product ? readProduct(product, symbol) : std::nullopt;
  if (!found || !bias)
    return found;
  if (found->bias)
    return std::nullopt;
  found->bias = readBias(bias);
  // A bias is that of the same expert.
  return found->bias && found->bias->number == found->matrix.number ? found : std::nullopt;
}

// The element that is one of `expert`, where tokens number it.
static Expr ofExpert(ExprContext &exprs, const NumberedElement &numbered, int64_t expert) {
  if (!numbered.number)
    return numbered.element;
  SmallVector<Expr> indices = llvm::to_vector(numbered.element->arguments);
  indices[numbered.dimension] = exprs.constant(double(expert));
  return exprs.leaf(numbered.element->value, indices);
}

Value RowMatmulReader::matrixOf(OpBuilder &b, Location loc, const RowMatmul &product, Axis row, Axis column,
                                int64_t expert) {
  if (product.matrix.element->kind != ExprKind::Leaf)
    return {};
  Expr element = ofExpert(exprs, product.matrix, expert);
  if (isStored(element->value))
    return storedPart(b, element, row, column);
  std::string why;
  return arrange(b, loc, exprs, element->value, element->arguments, {row, column}, why);
}

Value RowMatmulReader::biasOf(OpBuilder &b, const RowMatmul &product, Axis row, int64_t expert) {
  return storedVectorPart(b, ofExpert(exprs, *product.bias, expert), row);
}
