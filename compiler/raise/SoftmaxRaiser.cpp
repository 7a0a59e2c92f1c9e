// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/raise/SoftmaxRaiser.h"

#include "compiler/raise/Remarks.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// log2(e) as 32 bits have it, times log(2), is one.
static bool isOne(double factor) {
  return std::abs(factor - 1) < 1e-6;
}

static Expr exponentOf(Expr expr) {
  return expr->kind == ExprKind::Call && expr->name == "exp" ? expr->arguments[0] : nullptr;
}

static bool isWeight(Expr expr) {
  if (expr->kind == ExprKind::Choice)
    return isWeight(expr->high()) && isWeight(expr->low());
  return expr->isConstant(0) || exponentOf(expr);
}

static bool isSumOfWeights(Expr expr) {
  return expr->kind == ExprKind::Reduce && expr->name == "sum" && isWeight(expr->arguments[0]);
}

// The sum of weights that an atom finds to be 0 (`equal`) or above it (`greater`).
static Expr sumAgainstZero(Expr atom, StringRef name) {
  if (atom->kind != ExprKind::Call || atom->name != name)
    return nullptr;
  Expr a = atom->arguments[0], b = atom->arguments[1];
  if (name == "equal" && a->isConstant(0))
    std::swap(a, b);
  return isSumOfWeights(a) && b->isConstant(0) ? a : nullptr;
}

// What the exponents of a diagram have in common of what is one value along `along`.
Expr SoftmaxRaiser::commonShift(Expr diagram, Expr along) {
  std::optional<SmallVector<std::pair<Expr, double>>> common;
  forEachEnd(diagram, [&](Expr end) {
    Expr exponent = exponentOf(end);
    if (!exponent)
      return;
    SmallVector<std::pair<Expr, double>> terms = termsOf(exponent);
    if (!common)
      common = terms;
    llvm::erase_if(*common,
                   [&](auto &term) { return exprs.contains(term.first, along) || !llvm::is_contained(terms, term); });
  });
  Expr shift = exprs.constant(0);
  if (common)
    for (auto &[term, factor] : *common)
      shift = exprs.add(shift, exprs.mul(exprs.constant(factor), term));
  return shift;
}

// rest + the sum of exp(score + shift) is exp(shift) times rest * exp(-shift) + the sum of exp(score): the latter, and the shift. So sums of
// the same scores are the same, whatever was taken off against overflow.
std::pair<Expr, Expr> SoftmaxRaiser::unshifted(Expr divisor) {
  for (auto &[term, factor] : termsOf(divisor)) {
    if (factor != 1 || !isSumOfWeights(term))
      continue;
    Expr shift = commonShift(term->arguments[0], term->symbol);
    auto less = [&](Expr end) {
      Expr exponent = exponentOf(end);
      return exponent ? exprs.call("exp", exprs.sub(exponent, shift)) : end;
    };
    Expr sum = exprs.reduce("sum", term->symbol, exprs.mapEnds(term->arguments[0], less));
    Expr rest = exprs.mul(exprs.sub(divisor, term), exprs.call("exp", exprs.mul(exprs.constant(-1), shift)));
    return {renamed(exprs.add(rest, sum)), shift};
  }
  return {divisor, exprs.constant(0)};
}

// What the ends of a diagram that are not 0 have above their `divisor`; null if they have not one divisor.
Expr SoftmaxRaiser::numeratorOf(Expr diagram, Expr &divisor) {
  bool hasOne = true;
  Expr numerator = exprs.mapEnds(diagram, [&](Expr end) -> Expr {
    if (end->isConstant(0))
      return end;
    Expr found = nullptr, above = end;
    if (Expr exponent = exponentOf(end)) {
      for (auto &[term, factor] : termsOf(exponent))
        if (isOne(-factor) && term->kind == ExprKind::Call && term->name == "log") {
          auto [divided, shift] = unshifted(term->arguments[0]);
          found = divided;
          above = exprs.call("exp", exprs.sub(exprs.sub(exponent, exprs.mul(exprs.constant(factor), term)), shift));
        }
    } else {
      for (auto &[base, exponent] : factorsOf(end))
        if (exponent == -1) {
          found = base;
          above = exprs.mul(end, base);
        }
    }
    hasOne = hasOne && found && (!divisor || divisor == found);
    divisor = found;
    return above;
  });
  return hasOne && divisor ? numerator : nullptr;
}

// A row of which a mask hides every key has the sum 0. Whatever number its weights are divided by there, or 0 itself, is 0: such a decision
// says no more than that the row is 0 and not NaN.
Expr SoftmaxRaiser::withoutGuard(Expr element, Expr &guard) {
  if (element->kind != ExprKind::Choice)
    return element;
  Expr ifZero = sumAgainstZero(element->atom(), "equal"), ifAbove = sumAgainstZero(element->atom(), "greater");
  if (ifZero || ifAbove) {
    Expr kept = ifZero ? element->low() : element->high(), other = ifZero ? element->high() : element->low();
    Expr divisor = nullptr, numerator = numeratorOf(kept, divisor);
    other = exprs.mapEnds(other, [](Expr end) {
      bool isScaled = end->kind == ExprKind::Sum && end->constant == 0 && end->terms.size() == 1;
      return isScaled ? end->terms[0].first : end;
    });
    if (!other->isConstant(0) && other != numerator)
      return element;
    guard = ifZero ? ifZero : ifAbove;
    return kept;
  }
  Expr high = withoutGuard(element->high(), guard), low = withoutGuard(element->low(), guard);
  return exprs.select(exprs.condition(element->atom()), high, low);
}

// Whether the greatest of what the weights are exponentials of was taken off, so that one of them is 1.
bool SoftmaxRaiser::isAtLeastOne(Expr sum) {
  Expr exponent = isSumOfWeights(sum) ? exponentOf(sum->arguments[0]) : nullptr;
  if (!exponent)
    return false;
  Expr shift = commonShift(sum->arguments[0], sum->symbol);
  Expr greatest = renamed(exprs.reduce("max", sum->symbol, exprs.sub(exponent, shift)));
  return renamed(shift) == exprs.mul(exprs.constant(-1), greatest);
}

// max(sum, 1e-6) is the sum, where that is at least 1.
Expr SoftmaxRaiser::withoutFloor(Expr divisor) {
  if (divisor->kind == ExprKind::Call && divisor->name == "max")
    for (auto [sum, floor] : {std::pair(0, 1), std::pair(1, 0)})
      if (Expr least = divisor->arguments[floor];
          least->isConstant() && least->constant <= 1 && isAtLeastOne(divisor->arguments[sum]))
        return divisor->arguments[sum];
  return divisor;
}

// Whether an end of a diagram is an exponential times something else.
static bool holdsFactor(Expr expr) {
  if (expr->kind == ExprKind::Choice)
    return holdsFactor(expr->high()) || holdsFactor(expr->low());
  return !exponentOf(expr) && llvm::any_of(factorsOf(expr), [](auto &factor) { return exponentOf(factor.first); });
}

// The number of the symbol that a quotient's sum is over, and what the symbols of renamed reductions are numbered behind, beyond those that
// a trace gives.
static constexpr int64_t firstRenamed = 5000;

// The quotient that an element is: weight / (rest + sum), or exp(a - log(sum)), which log-softmax and log-sum-exp come to, or what a
// matmul makes of weights, divided after it.
std::optional<Quotient> SoftmaxRaiser::quotientOf(Expr element) {
  Quotient quotient{};
  Expr divisor = nullptr;
  quotient.numerator = numeratorOf(withoutGuard(renamed(element), quotient.guard), divisor);
  if (!quotient.numerator)
    return std::nullopt;
  divisor = withoutFloor(divisor);
  Expr sum = nullptr;
  for (auto &[term, factor] : termsOf(divisor)) {
    if (term->kind != ExprKind::Reduce || term->name != "sum")
      continue;
    if (factor == 1 && isSumOfWeights(term) && !sum)
      sum = term;
    else if (holdsFactor(term->arguments[0]))
      because("they are multiplied by what is not known to be 0 or 1");
  }
  if (!sum && isWeight(quotient.numerator) && !quotient.numerator->isConstant())
    because("they are divided by " + inWords(divisor) + ", not by their sum");
  if (!sum || (quotient.guard && quotient.guard != divisor && unshifted(quotient.guard).first != divisor))
    return std::nullopt;
  quotient.symbol = exprs.symbol(firstRenamed, sum->symbol->extent);
  DenseMap<Expr, Expr> rename{{sum->symbol, quotient.symbol}};
  quotient.summed = exprs.substitute(sum->arguments[0], rename);
  quotient.rest = exprs.sub(divisor, sum);
  return quotient;
}

// `expr` with its reductions over symbols that are numbered by how many are within: equal ones are one node, wherever they were found.
Expr SoftmaxRaiser::renamed(Expr expr) {
  DenseMap<Expr, Expr> names;
  DenseMap<Expr, int64_t> heights;
  std::function<int64_t(Expr)> visit = [&](Expr part) -> int64_t {
    if (auto known = heights.find(part); known != heights.end())
      return known->second;
    int64_t height = 0;
    for (Expr argument : part->arguments)
      height = std::max(height, visit(argument));
    if (part->kind == ExprKind::Sum || part->kind == ExprKind::Product)
      for (auto &[term, factor] : part->terms)
        height = std::max(height, visit(term));
    if (part->kind == ExprKind::Reduce) {
      Expr symbol = exprs.symbol(firstRenamed + ++height, part->symbol->extent);
      DenseMap<Expr, Expr> rename{{part->symbol, symbol}};
      Expr body = exprs.substitute(exprs.substitute(part->arguments[0], names), rename);
      names[part] = exprs.reduce(part->name, symbol, body);
    }
    return heights[part] = height;
  };
  visit(expr);
  return names.empty() ? expr : exprs.substitute(expr, names);
}

static double factorOf(Expr sum, Expr term) {
  for (auto &[part, factor] : termsOf(sum))
    if (part == term)
      return factor;
  return 0;
}

// What `diagram` weighs `score` by, if its exponentials are taken of the score alone, beside what is one value along `along`.
std::optional<Weight> SoftmaxRaiser::weightOf(Expr diagram, Expr score, Expr along) {
  Weight weight;
  bool hasOne = isWeight(diagram);
  weight.seen = exprs.mapEnds(diagram, [&](Expr end) {
    Expr exponent = exponentOf(end);
    if (!exponent || !hasOne)
      return exprs.constant(0);
    double factor = factorOf(exponent, score);
    Expr shift = exprs.sub(exponent, exprs.mul(exprs.constant(factor), score));
    hasOne &= factor != 0 && !exprs.contains(shift, along) && (!weight.shift || weight.shift == shift) &&
              (weight.factor == 0 || weight.factor == factor);
    weight.factor = factor;
    weight.shift = shift;
    return exprs.constant(1);
  });
  return hasOne && weight.shift ? std::optional(weight) : std::nullopt;
}

// rest / (rest + sum) is the weight of one more logit, log(rest), which is shifted as the others are.
std::optional<double> SoftmaxRaiser::sinkOf(Expr rest, Expr shift) {
  SmallVector<std::pair<Expr, double>> terms = termsOf(rest);
  double factor = terms.empty() ? constantOf(rest) : terms[0].second;
  Expr logit = terms.empty() ? exprs.constant(0) : exponentOf(terms[0].first);
  if (!logit || !(factor > 0) || terms.size() > 1 || (!terms.empty() && constantOf(rest) != 0))
    return std::nullopt;
  logit = exprs.sub(exprs.add(renamed(logit), exprs.constant(std::log(factor))), renamed(shift));
  return logit->isConstant() && std::isfinite(logit->constant) ? std::optional(logit->constant) : std::nullopt;
}

// The element of the input that the weights are exponentials of.
Expr SoftmaxRaiser::scoreIn(Expr diagram, Expr along) {
  Expr score = nullptr;
  forEachEnd(diagram, [&](Expr end) {
    if (Expr exponent = exponentOf(end))
      for (auto &[term, factor] : termsOf(exponent))
        if (!score && term->kind == ExprKind::Leaf && term->value == input && exprs.contains(term, along))
          score = term;
  });
  return score;
}

// The softmax whose elements along axis `axis` are those of `weights`.
std::optional<Softmax> SoftmaxRaiser::softmaxOf(Value weights, int64_t axis, const Quotient &quotient) {
  SmallVector<Expr> symbols = trace.indexSymbols(weights);
  return softmaxOf(trace.element(weights, symbols), symbols, symbols[axis], quotient);
}

// The softmax of the input whose element at `symbols` has the weight `diagram` above the quotient's sum over `along`. The input may have its
// axes in another order.
std::optional<Softmax> SoftmaxRaiser::softmaxOf(Expr diagram, ArrayRef<Expr> symbols, Expr along,
                                                const Quotient &quotient) {
  if (along->kind != ExprKind::Symbol || quotient.symbol->extent != along->extent)
    return std::nullopt;
  Expr score = scoreIn(diagram, along);
  std::optional<Weight> weight = score ? weightOf(diagram, score, along) : std::nullopt;
  if (!weight)
    return std::nullopt;
  DenseMap<Expr, Expr> moved{{along, quotient.symbol}};
  if (diagram == quotient.numerator && renamed(exprs.substitute(diagram, moved)) != renamed(quotient.summed))
    return because("their sum is of others than those that it divides"), std::nullopt;
  Softmax softmax{-1, weight->factor, nullptr, {}, std::nullopt, bool(quotient.guard), {}};
  softmax.places.assign(score->arguments.begin(), score->arguments.end());
  if (isOne(softmax.factor))
    softmax.factor = 1;
  DenseMap<Expr, Expr> ofInput; // the input's own symbol for each that an element of it is read at
  for (auto [d, symbol] : llvm::enumerate(trace.indexSymbols(input))) {
    Expr place = softmax.places[d], extent = trace.size(input, d);
    bool isAxis = place->kind == ExprKind::Symbol && place->extent == extent && llvm::is_contained(symbols, place);
    if (!(isAxis ? ofInput.try_emplace(place, symbol).second : place->isConstant(0) && extent->isConstant(1)))
      return std::nullopt;
    if (place == along)
      softmax.axis = d;
    softmax.axes.push_back({symbol, extent});
  }
  if (softmax.axis < 0 ||
      !llvm::all_of(symbols, [&](Expr symbol) { return symbol->isConstant(0) || ofInput.contains(symbol); }))
    return std::nullopt;
  softmax.seen = exprs.substitute(weight->seen, ofInput);
  if (!quotient.rest->isConstant(0)) {
    softmax.sink = sinkOf(quotient.rest, weight->shift);
    if (!softmax.sink)
      return because("what is added to their sum is no logit that is one number for all rows"), std::nullopt;
  }
  // With a sink the row is 0 there, as it is in attention.
  bool seesKey = softmax.sink || softmax.isGuarded || exprs.reduce("max", along, weight->seen)->isConstant(1);
  if (!seesKey)
    return because("a row of which the mask hides every key is 0/0 here, and 0 in attention"), std::nullopt;
  return softmax;
}

static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<arith::ExtFOp>())
    value = cast.getIn();
  return value;
}

SmallVector<Value> heddle::candidateScores(Value exponent) {
  SmallVector<Value> shifted, parts{exponent};
  for (size_t next = 0; next < parts.size() && parts.size() < 8; ++next) {
    Operation *op = withoutCasts(parts[next]).getDefiningOp();
    if (isa_and_present<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::NegFOp>(op))
      for (Value operand : op->getOperands())
        parts.push_back(withoutCasts(operand));
  }
  for (Value value = exponent; auto sub = withoutCasts(value).getDefiningOp<arith::SubFOp>();)
    shifted.push_back(value = withoutCasts(sub.getLhs()));
  SmallVector<Value> all(llvm::reverse(shifted));
  for (Value value : llvm::reverse(parts))
    if (!llvm::is_contained(all, value))
      all.push_back(value);
  return all;
}

// The softmax as ops, of the shape of its input.
Value SoftmaxRaiser::create(const Softmax &softmax, Type wantedType) {
  OpBuilder b(root);
  Location loc = root->getLoc();
  Value input = this->input;
  Type elementType = shaped(input).getElementType();
  auto filled = [&](double value, ArrayRef<OpFoldResult> sizes) {
    Value constant = arith::ConstantOp::create(b, loc, b.getFloatAttr(elementType, value));
    Value empty = tensor::EmptyOp::create(b, loc, sizes, elementType);
    return linalg::FillOp::create(b, loc, constant, empty).getResult(0);
  };
  auto everywhere = [&](double value) -> Value {
    Value all = filled(value, tensor::getMixedSizes(b, loc, input));
    return all.getType() == input.getType() ? all : tensor::CastOp::create(b, loc, input.getType(), all).getResult();
  };
  if (softmax.factor != 1)
    input = arith::MulFOp::create(b, loc, input, everywhere(softmax.factor));
  if (!softmax.seen->isConstant()) {
    Value seen = emitTensor(b, loc, exprs, softmax.seen, softmax.axes, b.getI1Type(), /*repeats=*/true);
    if (!seen)
      return because("the mask that they are multiplied by has no op"), Value();
    Type masks = shaped(input).clone(b.getI1Type());
    if (seen.getType() != masks)
      seen = tensor::CastOp::create(b, loc, masks, seen);
    input = arith::SelectOp::create(b, loc, seen, input, everywhere(-INFINITY));
  }
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, input);
  RankedTensorType plain = shaped(input);
  if (softmax.sink) {
    SmallVector<OpFoldResult> one(sizes);
    one[softmax.axis] = b.getIndexAttr(1);
    input = tensor::ConcatOp::create(b, loc, softmax.axis, ValueRange{input, filled(*softmax.sink, one)});
  }
  Value init = tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, input), elementType);
  Value weights =
      linalg::SoftmaxOp::create(b, loc, TypeRange{init.getType()}, input, init, softmax.axis).getResult()[0];
  if (softmax.sink) {
    SmallVector<OpFoldResult> zeros(sizes.size(), b.getIndexAttr(0)), ones(sizes.size(), b.getIndexAttr(1));
    weights = tensor::ExtractSliceOp::create(b, loc, weights, zeros, sizes, ones);
  }
  if (weights.getType() != plain)
    weights = tensor::CastOp::create(b, loc, plain, weights);
  if (softmax.isGuarded) {
    input = weights; // what `everywhere` has the type of
    Value isNaN = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, weights, weights);
    weights = arith::SelectOp::create(b, loc, isNaN, everywhere(0), weights);
  }
  auto wanted = plain.clone(wantedType);
  if (wanted.getElementTypeBitWidth() > plain.getElementTypeBitWidth())
    weights = arith::ExtFOp::create(b, loc, wanted, weights);
  else if (wanted != plain)
    weights = arith::TruncFOp::create(b, loc, wanted, weights);
  return weights;
}

// The softmax with the axes of `replaced`.
Value SoftmaxRaiser::createAs(const Softmax &softmax, Value replaced) {
  OpBuilder b(root);
  RankedTensorType type = shaped(replaced);
  SmallVector<Expr> symbols = trace.indexSymbols(replaced);
  Value created = create(softmax, type.getElementType());
  if (created && !llvm::equal(softmax.places, symbols)) {
    SmallVector<Axis> axes;
    for (auto [d, symbol] : llvm::enumerate(symbols))
      axes.push_back({symbol, trace.size(replaced, d)});
    std::string why;
    created = arrange(b, root->getLoc(), exprs, created, softmax.places, axes, why);
  }
  if (!created || created.getType() == type)
    return created;
  return tensor::CastOp::create(b, root->getLoc(), type, created);
}

// A copy of the product of weights and values that computes no more of it than `element` reads: a column of ones behind the values, which sums
// the weights, is left out. `indices` becomes where the copy has the element.
Operation *SoftmaxRaiser::unnormalised(const Contraction &product, Expr element, SmallVectorImpl<Expr> &indices) {
  OpBuilder b(root);
  Location loc = root->getLoc();
  linalg::LinalgOp op = product.op;
  auto copy = cast<linalg::LinalgOp>(b.clone(*op));
  b.setInsertionPoint(copy);
  indices.assign(element->arguments.begin(), element->arguments.end());
  for (auto [d, index] : llvm::enumerate(indices)) {
    SmallVector<std::pair<Expr, double>> terms = termsOf(index);
    Expr whole = trace.size(op->getResult(0), d), part = terms.size() == 1 ? terms[0].first->extent : nullptr;
    if (!part || terms[0].second != 1 || !part->isConstant() || !whole->isConstant() || part == whole)
      continue;
    AffineExpr loop = getAffineDimExpr(product.outLoops[d], b.getContext());
    for (OpOperand &operand : copy->getOpOperands())
      for (auto [axis, expr] :
           llvm::enumerate(op.getMatchingIndexingMap(&op->getOpOperand(operand.getOperandNumber())).getResults())) {
        if (expr != loop)
          continue;
        SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, operand.get());
        SmallVector<OpFoldResult> begin(sizes.size(), b.getIndexAttr(0)), step(sizes.size(), b.getIndexAttr(1));
        begin[axis] = b.getIndexAttr((int64_t)constantOf(index));
        sizes[axis] = b.getIndexAttr((int64_t)part->constant);
        operand.set(tensor::ExtractSliceOp::create(b, loc, operand.get(), begin, sizes, step));
      }
    copy->getResult(0).setType(copy.getDpsInits()[0].getType());
    index = terms[0].first;
  }
  return copy;
}

// (weights @ values) / sum: the matmul of the unnormalised weights becomes one of the softmax, and nothing is left to divide.
bool SoftmaxRaiser::raiseWeighed(const Quotient &quotient) {
  Expr element = quotient.numerator;
  Operation *op = element->kind == ExprKind::Leaf ? element->value.getDefiningOp() : nullptr;
  std::optional<Contraction> product = op ? Contraction::of(op) : std::nullopt;
  if (!product)
    return false;
  SmallVector<Expr> loops(product->op.getNumLoops());
  for (auto [loop, index] : llvm::zip_equal(product->outLoops, element->arguments))
    loops[loop] = index;
  loops[product->contracted] = quotient.symbol;
  for (unsigned operand : {0u, 1u}) {
    Value weights = product->input(operand);
    SmallVector<Expr> indices = product->indices(operand, loops);
    if (indices.empty())
      continue;
    if (renamed(trace.element(weights, indices)) != renamed(quotient.summed))
      continue;
    AffineMap map = product->op.getMatchingIndexingMap(product->op.getDpsInputOperand(operand));
    std::optional<unsigned> axis = map.getResultPosition(getAffineDimExpr(product->contracted, root->getContext()));
    std::optional<Softmax> softmax = axis ? softmaxOf(weights, *axis, quotient) : std::nullopt;
    Value normalised = softmax ? createAs(*softmax, weights) : Value();
    if (!normalised)
      return false;
    SmallVector<Expr> read;
    Operation *weighed = unnormalised(*product, element, read);
    weighed->setOperand(product->op.getDpsInputOperand(operand)->getOperandNumber(), normalised);
    OpBuilder b(root);
    SmallVector<Axis> axes;
    for (auto [d, symbol] : llvm::enumerate(trace.indexSymbols(result)))
      axes.push_back({symbol, trace.size(result, d)});
    std::string why;
    Value arranged = arrange(b, root->getLoc(), exprs, weighed->getResult(0), read, axes, why);
    if (!arranged || shaped(arranged).getElementType() != shaped(result).getElementType())
      return because(describe(op) + " gives what is divided in another order or type");
    if (arranged.getType() != result.getType())
      arranged = tensor::CastOp::create(b, root->getLoc(), result.getType(), arranged);
    result.replaceAllUsesWith(arranged);
    return true;
  }
  return because(describe(op) + " weighs by something else than what their sum is of");
}

// What is above a sum of weights, and is no weight.
std::string SoftmaxRaiser::inWordsAboveSum(Expr numerator) {
  for (auto &[base, exponent] : factorsOf(numerator))
    if (exponentOf(base) && exponent == 1)
      return "their quotient by their sum is multiplied by " + inWords(exprs.div(numerator, base));
  return "what their sum divides is " + inWords(numerator);
}

bool SoftmaxRaiser::run() {
  std::optional<Quotient> quotient = quotientOf(trace.element(result, trace.indexSymbols(result)));
  if (!quotient || exprs.exhausted())
    return false;
  foundQuotient = true;
  if (raiseWeighed(*quotient))
    return true;
  if (quotient->numerator->kind != ExprKind::Leaf && !isWeight(quotient->numerator))
    because(inWordsAboveSum(quotient->numerator));
  SmallVector<Expr> symbols = trace.indexSymbols(result);
  for (Expr along : llvm::reverse(symbols))
    if (std::optional<Softmax> softmax = softmaxOf(quotient->numerator, symbols, along, *quotient)) {
      Value created = createAs(*softmax, result);
      if (created)
        result.replaceAllUsesWith(created);
      return bool(created);
    }
  return false;
}
