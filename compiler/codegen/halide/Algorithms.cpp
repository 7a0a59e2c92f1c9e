// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/Algorithms.h"

#include "compiler/codegen/halide/ScalarExpressions.h"
#include "compiler/codegen/halide/TensorView.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::Var;

namespace {

class AlgorithmBuilder {
public:
  AlgorithmBuilder(func::FuncOp kernel, StringRef symbol) : kernel(kernel), symbol(symbol) {}
  FailureOr<Algorithm> build();

private:
  LogicalResult addInputs();
  LogicalResult addOp(Operation *op);
  LogicalResult addOutputs(func::ReturnOp op);
  LogicalResult addElementwise(Operation *op);
  LogicalResult addConstant(arith::ConstantOp op);
  LogicalResult addEmbedding(EmbeddingOp op);
  LogicalResult addRmsNorm(RmsNormOp op);
  LogicalResult addLayerNorm(LayerNormOp op);
  LogicalResult addRope(RopeOp op);
  LogicalResult addGlu(GluOp op);
  LogicalResult addSoftcap(SoftcapOp op);
  LogicalResult addQuantize(QuantizeOp op);

  std::string name(StringRef what) { return (symbol + "_" + what + "_" + Twine(numFuncs++)).str(); }
  Func keep(StageKind kind, StringRef what, ArrayRef<int64_t> shape, Contiguity contiguity,
            llvm::function_ref<Expr(ArrayRef<Expr>)> body);
  void define(Value value, Contiguity contiguity, llvm::function_ref<Expr(ArrayRef<Expr>)> body, int extraReads = 0);
  ReadFn rowSum(ArrayRef<int64_t> outer, int64_t width, const ReadFn &term);
  int reads(Value value);
  const TensorView &view(Value value) { return views.find(value)->second; }
  // Row `row` of an input table; a row that is not there reads another one, never outside the table.
  Expr tableRow(Value table, Expr row) { return Halide::clamp(row, 0, params.find(table)->second.dim(1).extent() - 1); }
  Expr asF32(Value value, ArrayRef<Expr> index) { return Halide::cast<float>(view(value).read(index)); }

  func::FuncOp kernel;
  StringRef symbol;
  Algorithm algorithm;
  llvm::DenseMap<Value, TensorView> views;
  llvm::DenseMap<Value, Halide::ImageParam> params;
  int numFuncs = 0;
};

} // namespace

static Expr number(const APFloat &value) {
  APFloat single = value;
  bool losesInfo;
  single.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return Expr(single.convertToFloat());
}

// Variables of a Func on tensors of this rank, innermost first.
static std::vector<Var> variables(size_t rank) {
  std::vector<Var> vars;
  for (size_t i = 0; i < rank; ++i)
    vars.push_back(Var("i" + std::to_string(i)));
  return vars;
}

static SmallVector<Expr> outermostFirst(ArrayRef<Var> vars) {
  SmallVector<Expr> index;
  for (const Var &var : llvm::reverse(vars))
    index.push_back(var);
  return index;
}

static std::vector<Expr> innermostFirst(ArrayRef<Expr> index) { return std::vector<Expr>(index.rbegin(), index.rend()); }

static ReadFn readFunc(Func func) {
  return [func](ArrayRef<Expr> index) { return func(innermostFirst(index)); };
}

static SmallVector<Expr> withLast(ArrayRef<Expr> index, Expr last) {
  SmallVector<Expr> result(index.drop_back());
  result.push_back(last);
  return result;
}

static SmallVector<Expr> append(ArrayRef<Expr> index, Expr last) {
  SmallVector<Expr> result(index);
  result.push_back(last);
  return result;
}

// How many Funcs read a value, and how often. A value that is read more than once is kept, not computed again.
int AlgorithmBuilder::reads(Value value) {
  int count = 0;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isView(user))
      count += reads(user->getResult(0));
    else if (isa<RmsNormOp, LayerNormOp, RopeOp, QuantizeOp>(user) && use.getOperandNumber() == 0)
      count += 2;
    else
      ++count;
  }
  return count;
}

// A Func that is computed row by row and kept.
Func AlgorithmBuilder::keep(StageKind kind, StringRef what, ArrayRef<int64_t> shape, Contiguity contiguity,
                   llvm::function_ref<Expr(ArrayRef<Expr>)> body) {
  Func func(name(what));
  std::vector<Var> vars = variables(shape.size());
  func(vars) = body(outermostFirst(vars));
  algorithm.stages.push_back({kind, func, SmallVector<int64_t>(llvm::reverse(shape)), contiguity, {}});
  return func;
}

// A computed value: a kept Func if it is read several times, otherwise an expression of its reader.
void AlgorithmBuilder::define(Value value, Contiguity contiguity, llvm::function_ref<Expr(ArrayRef<Expr>)> body, int extraReads) {
  auto type = cast<RankedTensorType>(value.getType());
  StringRef what = value.getDefiningOp()->getName().stripDialect();
  if (reads(value) + extraReads > 1) {
    Func func = keep(StageKind::Elementwise, what, type.getShape(), contiguity, body);
    int64_t width = type.getRank() ? type.getShape().back() : 1;
    views[value] = {readFunc(func), {width, width}};
    return;
  }
  Func func(name(what));
  std::vector<Var> vars = variables(type.getRank());
  func(vars) = body(outermostFirst(vars));
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
      param.dim(d).set_min(0);
      if (!ShapedType::isDynamic(size))
        param.dim(d).set_extent(int(size));
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
    func(vars) = view(value).read(outermostFirst(vars));
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
  Halide::Type element = halideType(type.getElementType());
  if (!elements || element.bits() == 0)
    return op.emitError("Halide takes constants of one value only");
  Expr value = isa<FloatType>(type.getElementType())
                   ? Halide::Internal::make_const(element, elements.getSplatValue<APFloat>().convertToDouble())
                   : Halide::Internal::make_const(element, elements.getSplatValue<APInt>().getSExtValue());
  views[op] = {[value](ArrayRef<Expr>) { return value; }, unconstrained(type)};
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

LogicalResult AlgorithmBuilder::addEmbedding(EmbeddingOp op) {
  if (!isa<BlockArgument>(op.getTable()))
    return op.emitError("the table of an embedding must be an input of the kernel");
  // result[..., c] = scale * table[ids[...], c]
  Expr scale = number(op.getScale());
  define(op.getResult(), view(op.getTable()).contiguity, [&](ArrayRef<Expr> index) {
    Expr row = tableRow(op.getTable(), view(op.getIds()).read(index.drop_back()));
    Expr value = asF32(op.getTable(), {row, index.back()});
    return op.getScale().isExactlyValue(1.0) ? value : value * scale;
  });
  return success();
}

// The sum over k < width of term(outer..., k) in a fixed order.
ReadFn AlgorithmBuilder::rowSum(ArrayRef<int64_t> outer, int64_t width, const ReadFn &term) {
  // partial[l] = sum_k term(32 k + l)
  SmallVector<int64_t> shape(outer);
  shape.push_back(partialSums);
  Func partial = keep(StageKind::PartialSums, "partial_sums", shape, {partialSums, partialSums},
                      [](ArrayRef<Expr>) { return Expr(0.0f); });
  std::vector<Var> vars = variables(shape.size());
  SmallVector<Expr> index = outermostFirst(vars);
  std::vector<Expr> left = innermostFirst(index);
  if (int64_t whole = width / partialSums) {
    Halide::RDom k(0, int(whole), "k");
    partial(left) += term(withLast(index, k * partialSums + index.back()));
  }
  if (int64_t rest = width % partialSums) {
    Halide::RDom k(0, int(rest), "k");
    left[0] = k;
    partial(left) += term(withLast(index, Expr(int(width - rest)) + k));
  }
  // folded[l] = (partial[l] + partial[l + 8]) + (partial[l + 16] + partial[l + 24])
  shape.back() = foldedSums;
  ReadFn part = readFunc(partial);
  auto at = [&](ArrayRef<Expr> i, int offset) { return part(withLast(i, i.back() + offset)); };
  Func folded = keep(StageKind::Fold, "folded_sums", shape, {foldedSums, foldedSums}, [&](ArrayRef<Expr> i) {
    return (at(i, 0) + at(i, foldedSums)) + (at(i, 2 * foldedSums) + at(i, 3 * foldedSums));
  });
  return [folded](ArrayRef<Expr> i) {
    SmallVector<Expr> terms;
    for (int l = 0; l < foldedSums; ++l)
      terms.push_back(folded(innermostFirst(append(i, l))));
    for (; terms.size() > 1; terms.truncate(terms.size() / 2))
      for (size_t l = 0; l < terms.size() / 2; ++l)
        terms[l] = terms[l] + terms[l + terms.size() / 2];
    return terms[0];
  };
}

LogicalResult AlgorithmBuilder::addRmsNorm(RmsNormOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  int64_t width = shape.back();
  // scale = 1 / sqrt(sum x^2 / width + eps)
  ReadFn sum = rowSum(shape.drop_back(), width, [&](ArrayRef<Expr> index) {
    Expr x = view(op.getInput()).read(index);
    return x * x;
  });
  Func scale = keep(StageKind::Scalar, "scale", shape.drop_back(), {}, [&](ArrayRef<Expr> index) {
    return 1.0f / Halide::sqrt(sum(index) / float(width) + number(op.getEps()));
  });
  // result = x scale (weight + offset)
  define(op.getResult(), meet(view(op.getInput()).contiguity, {width, width}), [&](ArrayRef<Expr> index) {
    Expr weight = asF32(op.getWeight(), {index.back()});
    if (!op.getWeightOffset().isZero())
      weight = weight + number(op.getWeightOffset());
    return view(op.getInput()).read(index) * readFunc(scale)(index.drop_back()) * weight;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addLayerNorm(LayerNormOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  int64_t width = shape.back();
  const TensorView input = view(op.getInput());
  // mean = sum x / width
  ReadFn sum = rowSum(shape.drop_back(), width, input.read);
  Func mean = keep(StageKind::Scalar, "mean", shape.drop_back(), {},
                   [&](ArrayRef<Expr> index) { return sum(index) / float(width); });
  auto centred = [&](ArrayRef<Expr> index) { return input.read(index) - readFunc(mean)(index.drop_back()); };
  // scale = 1 / sqrt(sum (x - mean)^2 / width + eps)
  ReadFn squares = rowSum(shape.drop_back(), width, [&](ArrayRef<Expr> index) { return centred(index) * centred(index); });
  Func scale = keep(StageKind::Scalar, "scale", shape.drop_back(), {}, [&](ArrayRef<Expr> index) {
    return 1.0f / Halide::sqrt(squares(index) / float(width) + number(op.getEps()));
  });
  // result = (x - mean) scale weight + bias
  define(op.getResult(), meet(input.contiguity, {width, width}), [&](ArrayRef<Expr> index) {
    Expr result = centred(index) * readFunc(scale)(index.drop_back()) * asF32(op.getWeight(), {index.back()});
    return op.getBias() ? result + asF32(op.getBias(), {index.back()}) : result;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addRope(RopeOp op) {
  if (!op.getTable() || !isa<BlockArgument>(op.getTable()))
    return op.emitError("the cosines and sines of a rope must be an input of the kernel");
  int64_t headDim = op.getInput().getType().getShape().back(), rotaryDim = op.getRope().getRotaryDim();
  int64_t half = rotaryDim / 2;
  bool interleaved = op.getRope().getInterleaved();
  Contiguity contiguity = meet(view(op.getInput()).contiguity, {headDim, headDim});
  if (!interleaved)
    contiguity = {std::gcd(contiguity.run, std::gcd(half, headDim)), headDim};
  define(op.getResult(), contiguity, [&](ArrayRef<Expr> index) {
    // (a, b) becomes (a cos - b sin, b cos + a sin): x cos + partner (±sin)
    Expr d = index.back(), position = tableRow(op.getTable(), view(op.getPositions()).read({index[0], index[2]}));
    Expr first = interleaved ? d % 2 == 0 : d < int(half);
    Expr pair = interleaved ? d / 2 : d % int(half);
    Expr partner = interleaved ? select(first, d + 1, d - 1) : select(first, d + int(half), d - int(half));
    bool partial = rotaryDim < headDim;
    if (partial) {
      partner = select(d < int(rotaryDim), partner, d);
      pair = Halide::min(pair, int(half) - 1);
    }
    Expr x = view(op.getInput()).read(index), y = view(op.getInput()).read(withLast(index, partner));
    Expr cosine = view(op.getTable()).read({position, pair}), sine = view(op.getTable()).read({position, pair + int(half)});
    Expr rotated = x * cosine + y * select(first, -sine, sine);
    return partial ? select(d < int(rotaryDim), rotated, x) : rotated;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addGlu(GluOp op) {
  Contiguity contiguity = view(op.getGate()).contiguity;
  if (op.getUp())
    contiguity = meet(contiguity, view(op.getUp()).contiguity);
  define(op.getResult(), contiguity, [&](ArrayRef<Expr> index) {
    Expr result = activationExpr(op.getActivation(), view(op.getGate()).read(index));
    return op.getUp() ? result * view(op.getUp()).read(index) : result;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addSoftcap(SoftcapOp op) {
  Expr cap = number(op.getCap());
  define(op.getResult(), view(op.getInput()).contiguity,
         [&](ArrayRef<Expr> index) { return cap * tanhExpr(view(op.getInput()).read(index) / cap); });
  return success();
}

LogicalResult AlgorithmBuilder::addQuantize(QuantizeOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  int64_t rows = shape[0], width = shape[1];
  const TensorView input = view(op.getInput());
  // maximum[b] = max_k |x[32 b + k]|, as bits: those of positive numbers are in the order of the numbers, and a maximum of
  // integers is free to be taken across a vector.
  Func maximum = keep(StageKind::BlockReduction, "block_maximum", {rows, width / 32}, {}, [](ArrayRef<Expr>) { return Expr(0); });
  std::vector<Var> vars = variables(2);
  Halide::RDom k(0, 32, "k");
  Expr magnitude = Halide::reinterpret<int32_t>(input.read({vars[1], vars[0] * 32 + k})) & 0x7fffffff;
  maximum(vars) = Halide::max(maximum(vars), magnitude);
  algorithm.stages.back().reduced = k;
  // scale = maximum / 127
  define(op.getScales(), unconstrained(op.getScales().getType()),
         [&](ArrayRef<Expr> i) { return Halide::reinterpret<float>(maximum(i[1], i[0])) / 127.0f; }, /*extraReads=*/2);
  // code = round(x / scale), 0 where scale is 0; a subnormal scale may be off by so much that a code leaves its range
  define(op.getCodes(), {std::gcd<int64_t>(32, input.contiguity.run), 32}, [&](ArrayRef<Expr> i) {
    Expr scale = view(op.getScales()).read({i[0], i[1] / 32});
    Expr ratio = select(scale == 0.0f, 0.0f, input.read(i) / scale);
    Expr bounded = select(ratio > -127.0f, select(ratio < 127.0f, ratio, 127.0f), -127.0f);
    return Halide::cast<int8_t>(Halide::cast<int32_t>(Halide::round(bounded)));
  }, /*extraReads=*/2);
  // sum[s] = sum_k code[16 s + k]
  Func sums = keep(StageKind::BlockReduction, "block_sums", {rows, width / 16}, {}, [](ArrayRef<Expr>) { return Expr(0); });
  Halide::RDom j(0, 16, "k");
  sums(vars) += Halide::cast<int32_t>(view(op.getCodes()).read({vars[1], vars[0] * 16 + j}));
  algorithm.stages.back().reduced = j;
  views[op.getSums()] = {readFunc(sums), {width / 16, width / 16}};
  return success();
}

LogicalResult AlgorithmBuilder::addOp(Operation *op) {
  if (llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return isa<func::ReturnOp>(op) ? addOutputs(cast<func::ReturnOp>(op)) : success();
  if (isa<tensor::EmptyOp>(op)) // a destination, never read
    return success();
  if (isView(op)) {
    FailureOr<TensorView> result = viewOf(op, [&](Value value) -> const TensorView & { return view(value); });
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
      .Case([&](QuantizeOp o) { return addQuantize(o); })
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

FailureOr<Algorithm> heddle::buildAlgorithm(func::FuncOp kernel, StringRef symbol) { return AlgorithmBuilder(kernel, symbol).build(); }
