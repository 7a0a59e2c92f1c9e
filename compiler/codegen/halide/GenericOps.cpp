// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// linalg.fill and linalg.generic: loops over static or row dimensions with a body of scalar ops.

#include "compiler/codegen/halide/AlgorithmBuilder.h"
#include "compiler/codegen/halide/ScalarExpressions.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::Var;

// An index of an operand from those of the loops; undefined if the map has symbols.
static Expr affineIndex(AffineExpr expr, ArrayRef<Expr> loops) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return loops[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return int(constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return Expr();
  Expr left = affineIndex(binary.getLHS(), loops), right = affineIndex(binary.getRHS(), loops);
  if (!left.defined() || !right.defined())
    return Expr();
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return left + right;
  case AffineExprKind::Mul:
    return left * right;
  case AffineExprKind::Mod:
    return left % right;
  case AffineExprKind::FloorDiv:
    return left / right;
  case AffineExprKind::CeilDiv:
    return (left + right - 1) / right;
  default:
    return Expr();
  }
}

static SmallVector<Expr> operandIndex(AffineMap map, ArrayRef<Expr> loops) {
  return llvm::map_to_vector(map.getResults(), [&](AffineExpr e) { return affineIndex(e, loops); });
}

// A value of a body, which may be a constant that stands before the loops.
static Expr valueOf(Value value, const llvm::DenseMap<Value, Expr> &values) {
  Expr known = values.lookup(value);
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  return constant && !known.defined() ? constantExpr(constant.getValue()) : known;
}

// The values of a body's block; an undefined Expr where an op has no form.
static llvm::DenseMap<Value, Expr> evaluate(Block &body, ArrayRef<Expr> arguments, ArrayRef<Expr> loops) {
  llvm::DenseMap<Value, Expr> values;
  for (auto [argument, expr] : llvm::zip(body.getArguments(), arguments))
    values[argument] = expr;
  for (Operation &op : body.without_terminator()) {
    Expr result;
    if (auto index = dyn_cast<linalg::IndexOp>(op)) {
      result = loops[index.getDim()];
    } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      result = constantExpr(constant.getValue());
    } else {
      SmallVector<Expr> operands = llvm::map_to_vector(op.getOperands(), [&](Value v) { return valueOf(v, values); });
      if (op.getNumResults() == 1 && llvm::all_of(operands, [](const Expr &e) { return e.defined(); }))
        result = scalarExpr(&op, operands);
    }
    if (op.getNumResults() == 1)
      values[op.getResult(0)] = result;
  }
  return values;
}

// How the loops read an operand: along its innermost dimension, or in any other way.
static Contiguity operandContiguity(AffineMap map, const TensorView &view, Contiguity any) {
  unsigned inner = map.getNumDims() - 1;
  bool along = map.getNumResults() && map.getResults().back() == getAffineDimExpr(inner, map.getContext());
  return along ? view.contiguity : any;
}

LogicalResult AlgorithmBuilder::addFill(linalg::FillOp op) {
  Value scalar = op.getInputs()[0];
  auto constant = scalar.getDefiningOp<arith::ConstantOp>();
  Expr value = constant ? constantExpr(constant.getValue()) : Expr();
  if (op->getNumResults() != 1 || !value.defined())
    return op.emitError("Halide fills tensors with constants only");
  views[op->getResult(0)] = {[value](ArrayRef<Expr>) { return value; },
                             unconstrained(cast<RankedTensorType>(op->getResult(0).getType()))};
  return success();
}

// Values that the body yields, given the values of the accumulators (none: they are not read).
static FailureOr<SmallVector<Expr>> yielded(linalg::GenericOp op, ArrayRef<Expr> loops, ArrayRef<Expr> accumulators,
                                            llvm::function_ref<const TensorView &(Value)> view) {
  SmallVector<Expr> arguments;
  for (OpOperand *input : op.getDpsInputOperands()) {
    SmallVector<Expr> index = operandIndex(op.getMatchingIndexingMap(input), loops);
    if (llvm::any_of(index, [](const Expr &e) { return !e.defined(); }))
      return op.emitError("Halide takes indexing maps without symbols");
    arguments.push_back(view(input->get()).read(index));
  }
  arguments.append(accumulators.begin(), accumulators.end());
  llvm::DenseMap<Value, Expr> values = evaluate(*op.getBody(), arguments, loops);
  SmallVector<Expr> results;
  for (Value value : op.getBody()->getTerminator()->getOperands()) {
    Expr result = valueOf(value, values);
    if (!result.defined())
      return op.emitError("Halide has no form of this body");
    results.push_back(result);
  }
  return results;
}

LogicalResult AlgorithmBuilder::addGeneric(linalg::GenericOp op) {
  for (OpOperand *input : op.getDpsInputOperands())
    if (!isa<RankedTensorType>(input->get().getType()))
      return op.emitError("Halide takes tensors as inputs only");
  if (op.getNumReductionLoops())
    return addReduction(op);
  for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable()))
    if (!op.getMatchingIndexingMap(&init).isIdentity())
      return op.emitError("Halide writes results in the order of the loops");
  for (auto [i, value] : llvm::enumerate(op->getResults())) {
    auto any = unconstrained(cast<RankedTensorType>(value.getType()));
    Contiguity contiguity = any;
    for (OpOperand *input : op.getDpsInputOperands())
      contiguity = meet(contiguity, operandContiguity(op.getMatchingIndexingMap(input), view(input->get()), any));
    LogicalResult status = success();
    define(value, contiguity, [&, i = i](ArrayRef<Expr> loops) {
      SmallVector<Expr> initial;
      for (auto [init, argument] : llvm::zip(op.getDpsInits(), op.getRegionOutputArgs()))
        initial.push_back(argument.use_empty() ? Expr(0) : view(init).read(loops));
      auto results = yielded(op, loops, initial, [&](Value v) -> const TensorView & { return view(v); });
      status = LogicalResult(results);
      return failed(results) ? Expr(0) : (*results)[i];
    });
    if (failed(status))
      return failure();
  }
  return success();
}

// The combiner of a body `yield combine(accumulator, term)`; no `combine` if it has another form.
static Combiner matchCombiner(linalg::GenericOp op) {
  BlockArgument accumulator = op.getRegionOutputArgs()[0];
  Operation *last = op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  if (!last || last->getNumOperands() != 2 || !accumulator.hasOneUse() || *accumulator.user_begin() != last ||
      last->getOperand(0) == last->getOperand(1) || !accumulator.getType().isF32())
    return {};
  float infinity = std::numeric_limits<float>::infinity();
  Expr neutral;
  if (isa<arith::AddFOp>(last))
    neutral = 0.0f;
  else if (isa<arith::MulFOp>(last))
    neutral = 1.0f;
  else if (isa<arith::MaximumFOp, arith::MaxNumFOp>(last))
    neutral = -infinity;
  else if (isa<arith::MinimumFOp, arith::MinNumFOp>(last))
    neutral = infinity;
  else
    return {};
  return {[last](Expr a, Expr b) { return scalarExpr(last, {a, b}); }, neutral};
}

LogicalResult AlgorithmBuilder::addReduction(linalg::GenericOp op) {
  OpOperand *init = op.getDpsInitOperand(0);
  AffineMap map = op.getMatchingIndexingMap(init);
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  if (op->getNumResults() != 1 || !map.isProjectedPermutation() ||
      llvm::any_of(reduced, [&](unsigned d) { return ShapedType::isDynamic(ranges[d]); }))
    return op.emitError("Halide reduces static dimensions into one result");
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  auto viewOfValue = [&](Value v) -> const TensorView & { return view(v); };
  // Loops from an index of the result and those of the reduction.
  auto loopsOf = [&](ArrayRef<Expr> index, ArrayRef<Expr> inner) {
    SmallVector<Expr> loops(ranges.size());
    for (auto [i, expr] : llvm::enumerate(map.getResults()))
      loops[cast<AffineDimExpr>(expr).getPosition()] = index[i];
    for (auto [d, k] : llvm::zip(reduced, inner))
      loops[d] = k;
    return loops;
  };
  Combiner combiner = matchCombiner(op);
  LogicalResult status = success();
  auto body = [&](ArrayRef<Expr> loops, Expr accumulator) {
    auto results = yielded(op, loops, {accumulator}, viewOfValue);
    if (failed(results))
      status = failure();
    return failed(results) ? accumulator : (*results)[0];
  };
  if (combiner.combine && reduced.size() == 1) {
    // The last dimension of the term is the reduced one; combining with the neutral value leaves the term.
    ReadFn term = [&](ArrayRef<Expr> index) {
      return body(loopsOf(index.drop_back(), {index.back()}), combiner.neutral);
    };
    ReadFn total = rowReduce(combiner, type.getShape(), ranges[reduced[0]], term);
    if (failed(status))
      return failure();
    Func result = keep(StageKind::Scalar, "reduce", type.getShape(), {}, [&](ArrayRef<Expr> index) {
      return combiner.combine(view(init->get()).read(index), total(index));
    });
    views[op->getResult(0)] = {readFunc(result), unconstrained(type)};
    return success();
  }
  // result = body(..., result), one term after the other
  Func result = keep(StageKind::Reduction, "reduce", type.getShape(), unconstrained(type),
                     [&](ArrayRef<Expr> index) { return view(init->get()).read(index); });
  Halide::Region domain;
  for (unsigned d : llvm::reverse(reduced))
    domain.push_back({0, int(ranges[d])});
  Halide::RDom k(domain, "k");
  SmallVector<Expr> inner;
  for (size_t i = 0; i < reduced.size(); ++i)
    inner.push_back(k[int(reduced.size() - 1 - i)]);
  std::vector<Var> vars = variables(type.getRank());
  SmallVector<Expr> index = outermostFirst(vars);
  result(vars) = body(loopsOf(index, inner), result(vars));
  views[op->getResult(0)] = {readFunc(result), unconstrained(type)};
  return status;
}
