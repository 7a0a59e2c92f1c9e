// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/AlgorithmBuilder.h"

#include "compiler/codegen/halide/ScalarExpressions.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::Var;

Expr heddle::number(const APFloat &value) {
  APFloat single = value;
  bool losesInfo;
  single.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return Expr(single.convertToFloat());
}

std::vector<Var> heddle::variables(size_t rank) {
  std::vector<Var> vars;
  vars.reserve(rank);
  for (size_t i = 0; i < rank; ++i)
    vars.push_back(Var("i" + std::to_string(i)));
  return vars;
}

SmallVector<Expr> heddle::outermostFirst(ArrayRef<Var> vars) {
  SmallVector<Expr> index;
  for (const Var &var : llvm::reverse(vars))
    index.push_back(var);
  return index;
}

std::vector<Expr> heddle::innermostFirst(ArrayRef<Expr> index) {
  return std::vector<Expr>(index.rbegin(), index.rend());
}

ReadFn heddle::readFunc(Func func) {
  return [func](ArrayRef<Expr> index) { return func(innermostFirst(index)); };
}

SmallVector<Expr> heddle::withLast(ArrayRef<Expr> index, Expr last) {
  SmallVector<Expr> result(index.drop_back());
  result.push_back(last);
  return result;
}

SmallVector<Expr> heddle::append(ArrayRef<Expr> index, Expr last) {
  SmallVector<Expr> result(index);
  result.push_back(last);
  return result;
}

std::string AlgorithmBuilder::name(StringRef what) {
  return (symbol + "_" + what + "_" + Twine(numFuncs++)).str();
}

Expr AlgorithmBuilder::tableRow(Value table, Expr row) {
  return Halide::clamp(row, 0, params.find(table)->second.dim(1).extent() - 1);
}

Expr AlgorithmBuilder::asF32(Value value, ArrayRef<Expr> index) {
  return Halide::cast<float>(view(value).read(index));
}

int AlgorithmBuilder::reads(Value value) {
  int count = 0;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    auto generic = dyn_cast<linalg::GenericOp>(user);
    // A loop that the operand does not depend on reads it once for each step; what normalizes, rotates or quantizes, twice.
    bool again = (generic && generic.getMatchingIndexingMap(&use).getNumResults() < generic.getNumLoops()) ||
                 (isa<RmsNormOp, LayerNormOp, RopeOp, QuantizeOp>(user) && use.getOperandNumber() == 0);
    if (isView(user))
      count += (isa<linalg::BroadcastOp>(user) ? 2 : 1) * reads(user->getResult(0));
    else
      count += again ? 2 : 1;
  }
  return count;
}

Func AlgorithmBuilder::keep(StageKind kind, StringRef what, ArrayRef<int64_t> shape, Contiguity contiguity,
                            llvm::function_ref<Expr(ArrayRef<Expr>)> body) {
  Func func(name(what));
  std::vector<Var> vars = variables(shape.size());
  func(vars) = body(outermostFirst(vars));
  algorithm.stages.push_back({kind, func, SmallVector<int64_t>(llvm::reverse(shape)), contiguity, {}});
  return func;
}

void AlgorithmBuilder::define(Value value, Contiguity contiguity, llvm::function_ref<Expr(ArrayRef<Expr>)> body,
                              int extraReads) {
  auto type = cast<RankedTensorType>(value.getType());
  std::string what = value.getDefiningOp()->getName().stripDialect().str();
  auto typed = [&](ArrayRef<Expr> index) { return Halide::cast(halideType(type.getElementType()), body(index)); };
  if (reads(value) + extraReads > 1) {
    Func func = keep(StageKind::Elementwise, what, type.getShape(), contiguity, typed);
    int64_t width = type.getRank() ? type.getShape().back() : 1;
    views[value] = {readFunc(func), {width, width}};
    return;
  }
  Func func(name(what));
  std::vector<Var> vars = variables(type.getRank());
  func(vars) = typed(outermostFirst(vars));
  views[value] = {readFunc(func), contiguity};
}

LogicalResult AlgorithmBuilder::addInputs() {
  for (auto [i, argument] : llvm::enumerate(kernel.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    Halide::Type element = type ? halideType(type.getElementType()) : Halide::Type();
    if (element.bits() == 0 || type.getEncoding() || type.getRank() == 0)
      return kernel.emitError("Halide cannot read argument ") << i << " of type " << argument.getType();
    // bf16 is read as the upper half of f32.
    if (element == Halide::BFloat(16))
      element = Halide::UInt(16);
    Halide::ImageParam param(element, type.getRank(), (symbol + "_in" + Twine(i)).str());
    for (auto [d, size] : llvm::enumerate(llvm::reverse(type.getShape()))) {
      if (ShapedType::isDynamic(size))
        param.dim(d).set_min(0);
      else
        param.dim(d).set_bounds(0, int(size));
    }
    algorithm.arguments.push_back(Halide::Argument(param));
    params.try_emplace(argument, param);
    bool isBf16 = type.getElementType().isBF16();
    ReadFn read = [param, isBf16](ArrayRef<Expr> index) {
      Expr value = param(innermostFirst(index));
      return isBf16 ? Halide::reinterpret<float>(Halide::cast<uint32_t>(value) << 16) : value;
    };
    views[argument] = {read, unconstrained(type)};
  }
  return success();
}

LogicalResult AlgorithmBuilder::addOutputs(func::ReturnOp op) {
  Expr rows;
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() == 0 || halideType(type.getElementType()).bits() == 0)
      return op.emitError("Halide cannot write result ") << i << " of type " << value.getType();
    if (llvm::is_contained(type.getShape().drop_front(), ShapedType::kDynamic))
      return op.emitError("result ") << i << " has a dynamic dimension that is not its first";
    Func func((symbol + "_out" + Twine(i)).str());
    std::vector<Var> vars = variables(type.getRank());
    vars.back() = Var("row");
    func(vars) = Halide::cast(halideType(type.getElementType()), view(value).read(outermostFirst(vars)));
    SmallVector<int64_t> extents(llvm::reverse(type.getShape()));
    for (auto [d, size] : llvm::enumerate(extents)) {
      Halide::Internal::Dimension dim = func.output_buffer().dim(d);
      if (!ShapedType::isDynamic(size))
        dim.set_bounds(0, int(size));
      else if (rows.defined())
        dim.set_bounds(0, rows);
      else
        rows = dim.set_min(0).extent();
    }
    algorithm.outputs.push_back({func, extents, view(value).contiguity});
  }
  return success();
}

LogicalResult AlgorithmBuilder::addConstant(arith::ConstantOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!type)
    return success();
  auto elements = dyn_cast<SplatElementsAttr>(op.getValue());
  Expr value = elements ? constantExpr(elements.getSplatValue<Attribute>()) : Expr();
  if (!value.defined())
    return op.emitError("Halide takes constants of one value only");
  views[op] = {[value](ArrayRef<Expr>) { return value; }, unconstrained(type)};
  return success();
}

LogicalResult AlgorithmBuilder::addSplat(tensor::SplatOp op) {
  auto number = op.getInput().getDefiningOp<arith::ConstantOp>();
  Expr value = number ? constantExpr(number.getValue()) : Expr();
  if (!value.defined())
    return op.emitError("Halide repeats constant numbers only");
  views[op] = {[value](ArrayRef<Expr>) { return value; }, unconstrained(op.getType())};
  return success();
}

LogicalResult AlgorithmBuilder::addElementwise(Operation *op) {
  if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return op->emitError("Halide has no form of this op");
  Contiguity contiguity = unconstrained(cast<RankedTensorType>(op->getResult(0).getType()));
  for (Value operand : op->getOperands())
    contiguity = meet(contiguity, view(operand).contiguity);
  bool known = true;
  define(op->getResult(0), contiguity, [&](ArrayRef<Expr> index) {
    SmallVector<Expr> operands;
    for (Value operand : op->getOperands())
      operands.push_back(view(operand).read(index));
    Expr result = scalarExpr(op, operands);
    known = result.defined();
    return known ? result : Expr(0);
  });
  return known ? success() : op->emitError("Halide has no form of this op for these types");
}

ReadFn AlgorithmBuilder::rowReduce(const Combiner &combiner, ArrayRef<int64_t> outer, int64_t width,
                                   const ReadFn &term) {
  // partial[l] = combine_k term(32 k + l)
  SmallVector<int64_t> shape(outer);
  shape.push_back(partialSums);
  Func partial = keep(StageKind::PartialSums, "partial", shape, {partialSums, partialSums},
                      [&](ArrayRef<Expr>) { return combiner.neutral; });
  std::vector<Var> vars = variables(shape.size());
  SmallVector<Expr> index = outermostFirst(vars);
  std::vector<Expr> left = innermostFirst(index);
  if (int64_t whole = width / partialSums) {
    Halide::RDom k(0, int(whole), "k");
    partial(left) = combiner.combine(partial(left), term(withLast(index, k * partialSums + index.back())));
  }
  if (int64_t rest = width % partialSums) {
    Halide::RDom k(0, int(rest), "k");
    left[0] = k;
    partial(left) = combiner.combine(partial(left), term(withLast(index, Expr(int(width - rest)) + k)));
  }
  // folded[l] = (partial[l] + partial[l + 8]) + (partial[l + 16] + partial[l + 24])
  shape.back() = foldedSums;
  ReadFn part = readFunc(partial);
  auto at = [&](ArrayRef<Expr> i, int offset) { return part(withLast(i, i.back() + offset)); };
  Func folded = keep(StageKind::Fold, "folded", shape, {foldedSums, foldedSums}, [&](ArrayRef<Expr> i) {
    return combiner.combine(combiner.combine(at(i, 0), at(i, foldedSums)),
                            combiner.combine(at(i, 2 * foldedSums), at(i, 3 * foldedSums)));
  });
  return [folded, combine = combiner.combine](ArrayRef<Expr> i) {
    SmallVector<Expr> terms;
    for (int l = 0; l < foldedSums; ++l)
      terms.push_back(folded(innermostFirst(append(i, l))));
    for (; terms.size() > 1; terms.truncate(terms.size() / 2))
      for (size_t l = 0; l < terms.size() / 2; ++l)
        terms[l] = combine(terms[l], terms[l + terms.size() / 2]);
    return terms[0];
  };
}

ReadFn AlgorithmBuilder::rowSum(ArrayRef<int64_t> outer, int64_t width, const ReadFn &term) {
  return rowReduce({[](Expr a, Expr b) { return a + b; }, 0.0f}, outer, width, term);
}

LogicalResult AlgorithmBuilder::addOp(Operation *op) {
  if (llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return isa<func::ReturnOp>(op) ? addOutputs(cast<func::ReturnOp>(op)) : success();
  if (isa<tensor::EmptyOp>(op)) // a destination, never read
    return success();
  if (isView(op)) {
    FailureOr<TensorView> result = viewOf(op, maxRows, [&](Value value) -> const TensorView & { return view(value); });
    if (failed(result))
      return failure();
    views[op->getResult(0)] = *result;
    return success();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::ConstantOp o) { return addConstant(o); })
      .Case([&](EmbeddingOp o) { return addEmbedding(o); })
      .Case([&](RmsNormOp o) { return addRmsNorm(o); })
      .Case([&](LayerNormOp o) { return addLayerNorm(o); })
      .Case([&](RopeOp o) { return addRope(o); })
      .Case([&](GluOp o) { return addGlu(o); })
      .Case([&](SoftcapOp o) { return addSoftcap(o); })
      .Case([&](tensor::SplatOp o) { return addSplat(o); })
      .Case([&](QuantizeOp o) { return addQuantize(o); })
      .Case([&](linalg::FillOp o) { return addFill(o); })
      .Case([&](linalg::GenericOp o) { return addGeneric(o); })
      .Default([&](Operation *o) { return addElementwise(o); });
}

FailureOr<Algorithm> AlgorithmBuilder::build() {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitError("a kernel has one block");
  if (failed(addInputs()))
    return failure();
  for (Operation &op : kernel.getBody().front())
    if (failed(addOp(&op)))
      return failure();
  return std::move(algorithm);
}

FailureOr<Algorithm> heddle::buildAlgorithm(func::FuncOp kernel, StringRef symbol, int64_t maxRows) {
  return AlgorithmBuilder(kernel, symbol, maxRows).build();
}
