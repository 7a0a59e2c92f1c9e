// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/GraphBuilder.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

std::optional<SmallVector<int64_t>> GraphValue::integers() const {
  if (!content)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (const Dim &element : *content) {
    if (!element.isStatic())
      return std::nullopt;
    numbers.push_back(element.value());
  }
  return numbers;
}

OnnxType heddle::accumulatorOf(OnnxType type) {
  return type == OnnxType::Float16 || type == OnnxType::Bfloat16 ? OnnxType::Float : type;
}

GraphValue GraphBuilder::fail(const Twine &what, StatusCode code) {
  if (!failed())
    failure = Status(code, what.str());
  return {};
}

Type GraphBuilder::elementType(OnnxType type) {
  switch (type) {
  case OnnxType::Float:
    return b.getF32Type();
  case OnnxType::Double:
    return b.getF64Type();
  case OnnxType::Float16:
    return b.getF16Type();
  case OnnxType::Bfloat16:
    return b.getBF16Type();
  case OnnxType::Bool:
    return b.getI1Type();
  default:
    return b.getIntegerType(onnxTypeBits(type));
  }
}

RankedTensorType GraphBuilder::tensorType(OnnxType type, ArrayRef<Dim> dims) {
  SmallVector<int64_t> shape;
  for (const Dim &dim : dims)
    shape.push_back(dim.isStatic() ? dim.value() : ShapedType::kDynamic);
  return RankedTensorType::get(shape, elementType(type));
}

Dim GraphBuilder::dimOf(Value index) {
  if (auto constant = getConstantIntValue(index))
    return Dim(*constant);
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i].index == index)
      return Dim::symbol(unsigned(i));
  symbols.push_back({index, index.getDefiningOp<tensor::DimOp>() != nullptr});
  return Dim::symbol(unsigned(symbols.size() - 1));
}

Dim GraphBuilder::asCount(const Dim &dim) {
  for (const auto &[monomial, coefficient] : dim.polynomial())
    if (dim.polynomial().size() == 1 && coefficient == 1 && monomial.size() == 1)
      symbols[monomial.front()].isNonNegative = true;
  return dim;
}

Value GraphBuilder::constantIndex(int64_t number) {
  return arith::ConstantIndexOp::create(b, loc, number);
}

Value GraphBuilder::index(const Dim &dim) {
  if (dim.isStatic())
    return constantIndex(dim.value());
  Value sum;
  for (const auto &[monomial, coefficient] : dim.polynomial()) {
    Value term;
    for (unsigned symbol : monomial)
      term = term ? arith::MulIOp::create(b, loc, term, symbols[symbol].index) : symbols[symbol].index;
    if (!term)
      term = constantIndex(coefficient);
    else if (coefficient != 1)
      term = arith::MulIOp::create(b, loc, term, constantIndex(coefficient));
    sum = sum ? arith::AddIOp::create(b, loc, sum, term) : term;
  }
  return sum;
}

OpFoldResult GraphBuilder::size(const Dim &dim) {
  return dim.isStatic() ? OpFoldResult(b.getIndexAttr(dim.value())) : OpFoldResult(index(dim));
}

SmallVector<OpFoldResult> GraphBuilder::sizes(ArrayRef<Dim> dims) {
  return llvm::map_to_vector(dims, [&](const Dim &dim) { return size(dim); });
}

SmallVector<Value> GraphBuilder::dynamicSizes(ArrayRef<Dim> dims) {
  SmallVector<Value> values;
  for (const Dim &dim : dims)
    if (!dim.isStatic())
      values.push_back(index(dim));
  return values;
}

Value GraphBuilder::tensor(const GraphValue &x) {
  if (x.value || failed())
    return x.value;
  assert(!x.sequence && "a sequence is no tensor");
  RankedTensorType type = tensorType(x.type, x.dims);
  if (auto numbers = x.integers()) {
    unsigned width = type.getElementTypeBitWidth();
    auto elements = llvm::map_to_vector(*numbers, [&](int64_t number) {
      return APInt(width, uint64_t(number), /*isSigned=*/false, /*implicitTrunc=*/true);
    });
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, elements));
  }
  SmallVector<Value> elements;
  for (const Dim &element : *x.content)
    elements.push_back(arith::IndexCastOp::create(b, loc, type.getElementType(), index(element)));
  return tensor::FromElementsOp::create(b, loc, type, elements);
}

bool GraphBuilder::isImpossible(ArrayRef<Dim> dims) {
  double elements = 1;
  for (const Dim &dim : dims)
    elements *= dim.isStatic() ? double(dim.value()) : 1;
  return elements > double(uint64_t(1) << 46) ||
         llvm::any_of(dims, [](const Dim &dim) { return dim.isStatic() && dim.value() < 0; });
}

GraphValue GraphBuilder::wrap(Value value, OnnxType type, ArrayRef<Dim> dims) {
  RankedTensorType wanted = tensorType(type, dims);
  if (value.getType() != wanted)
    value = tensor::CastOp::create(b, loc, wanted, value);
  return {type, Dims(dims), value, nullptr};
}

GraphValue GraphBuilder::wrap(Value value, OnnxType type) {
  auto shaped = mlir::cast<RankedTensorType>(value.getType());
  Dims dims;
  for (int64_t i = 0; i < shaped.getRank(); ++i)
    dims.push_back(shaped.isDynamicDim(i) ? dimOf(tensor::DimOp::create(b, loc, value, i)) : Dim(shaped.getDimSize(i)));
  return {type, dims, value, nullptr};
}

Value GraphBuilder::empty(OnnxType type, ArrayRef<Dim> dims) {
  return tensor::EmptyOp::create(b, loc, sizes(dims), elementType(type));
}

Value GraphBuilder::filled(OnnxType type, ArrayRef<Dim> dims, Value scalar) {
  return linalg::FillOp::create(b, loc, scalar, empty(type, dims)).getResult(0);
}

void GraphBuilder::forget(Scope scope) {
  for (size_t i = scope.symbols; i < symbols.size(); ++i)
    symbols[i].index = Value();
}

bool GraphBuilder::isVisible(const Dim &dim, Scope scope) const {
  return llvm::all_of(dim.polynomial(), [&](const auto &term) {
    return llvm::all_of(term.first, [&](unsigned symbol) { return symbol < scope.symbols; });
  });
}

bool GraphBuilder::isNatural(const Dim &dim) const {
  return llvm::all_of(dim.polynomial(), [&](const auto &term) {
    return term.second > 0 && llvm::all_of(term.first, [&](unsigned symbol) { return symbols[symbol].isNonNegative; });
  });
}

bool GraphBuilder::isNonNegative(const Dim &dim) const {
  return isNatural(dim) || llvm::any_of(required, [&](const Dim &known) { return isNatural(dim - known); });
}

void GraphBuilder::requireNonNegative(const Dim &number, Value condition, const Twine &what) {
  require(condition, what);
  // Each is looked at for each dimension that is asked about. Of more than these the run asserts what might have been known.
  constexpr size_t maxRequired = 256;
  // What a branch or the body of a loop requires says nothing behind it. A branch that is being imported has no parent yet.
  if (!isa_and_present<func::FuncOp>(b.getInsertionBlock()->getParentOp()) || required.size() == maxRequired ||
      llvm::is_contained(required, number))
    return;
  required.push_back(number);
  // Quotients become counts by what is new: of one operand, or of a quotient that it is made of.
  auto follows = [&](const Dim &dim) { return isNatural(dim - number); };
  for (const DerivedDim &known : derivedDims)
    if (known.kind == Derivation::FloorDiv && !isNatural(known.result) &&
        ((isNatural(known.a) && isNatural(known.c)) || (follows(known.a) && isNonNegative(known.c)) ||
         (follows(known.c) && isNonNegative(known.a))))
      asCount(known.result);
}

Dim GraphBuilder::indicator(Value condition) {
  Value number = arith::IndexCastUIOp::create(b, loc, b.getIndexType(), condition);
  symbols.push_back({number, /*isNonNegative=*/true});
  return Dim::symbol(unsigned(symbols.size() - 1));
}

Dim GraphBuilder::derived(Derivation kind, const Dim &a, const Dim &c) {
  for (const DerivedDim &known : derivedDims)
    if (known.kind == kind && known.a == a && known.c == c)
      return known.result;
  bool isEither = isNonNegative(a) || isNonNegative(c), isNatural = isNonNegative(a) && isNonNegative(c);
  Value result;
  switch (kind) {
  case Derivation::FloorDiv:
    result = arith::FloorDivSIOp::create(b, loc, index(a), index(c));
    break;
  case Derivation::FloorMod:
    result = index(a - c * floorDiv(a, c));
    isNatural = isNonNegative(c);
    break;
  case Derivation::Max:
    result = arith::MaxSIOp::create(b, loc, index(a), index(c));
    isNatural = isEither;
    break;
  case Derivation::Min:
    result = arith::MinSIOp::create(b, loc, index(a), index(c));
    break;
  }
  symbols.push_back({result, isNatural});
  derivedDims.push_back({kind, a, c, Dim::symbol(unsigned(symbols.size() - 1))});
  return derivedDims.back().result;
}

Dim GraphBuilder::floorDiv(const Dim &a, const Dim &c) {
  if (auto exact = a.dividedBy(c))
    return *exact;
  if (a.isStatic() && c.isStatic() && c.value() > 0)
    return a.value() / c.value() - (a.value() % c.value() < 0);
  return derived(Derivation::FloorDiv, a, c);
}

Dim GraphBuilder::floorMod(const Dim &a, const Dim &c) {
  Dim rest = a - c * floorDiv(a, c);
  return rest.isStatic() ? rest : derived(Derivation::FloorMod, a, c);
}

Dim GraphBuilder::maxOf(const Dim &a, const Dim &c) {
  if (isNonNegative(a - c))
    return a;
  if (isNonNegative(c - a))
    return c;
  return derived(Derivation::Max, a, c);
}

Dim GraphBuilder::minOf(const Dim &a, const Dim &c) {
  if (isNonNegative(c - a))
    return a;
  if (isNonNegative(a - c))
    return c;
  return derived(Derivation::Min, a, c);
}

bool GraphBuilder::isFirstOf(const Dim &dim) const {
  return llvm::any_of(derivedDims, [&](const DerivedDim &known) {
    return known.kind == Derivation::Min && known.result == dim &&
           ((known.a.is(1) && isNonNegative(known.c)) || (known.c.is(1) && isNonNegative(known.a)));
  });
}

std::optional<Dim> GraphBuilder::lengthBehind(const Dim &start, const Dim &size) {
  for (const DerivedDim &known : derivedDims)
    if (known.kind == Derivation::Max && known.result == start && (known.a.is(0) || known.c.is(0)))
      if (Dim length = size - known.a - known.c; isNonNegative(length))
        return minOf(length, size);
  return std::nullopt;
}

std::optional<int64_t> GraphBuilder::clampOf(const Dim &clamped, const Dim &size) const {
  for (const DerivedDim &known : derivedDims) {
    if (known.kind != Derivation::Min || known.result != clamped || !isNonNegative(size))
      continue;
    const Dim &number = known.a == size ? known.c : known.a;
    if ((known.a == size || known.c == size) && number.isStatic() && number.value() > 0)
      return number.value();
  }
  return std::nullopt;
}

void GraphBuilder::require(Value condition, const Twine &what) {
  std::string text;
  llvm::raw_string_ostream(text) << what;
  cf::AssertOp::create(b, loc, condition, b.getStringAttr(text));
}

// --- constants ------------------------------------------------------------------------------------------------------

static TypedAttr numberAttr(OpBuilder &b, Type type, double number) {
  if (auto real = dyn_cast<FloatType>(type))
    return b.getFloatAttr(real, number);
  return b.getIntegerAttr(type, APInt(type.getIntOrFloatBitWidth(), uint64_t(int64_t(number)), false, true));
}

Value GraphBuilder::constant(OnnxType type, double number) {
  return arith::ConstantOp::create(b, loc, numberAttr(b, elementType(type), number));
}

GraphValue GraphBuilder::scalar(OnnxType type, double number) {
  return full(type, {}, number);
}

GraphValue GraphBuilder::full(OnnxType type, ArrayRef<Dim> dims, double number) {
  if (isImpossible(dims))
    return fail("the result's size is negative or too large");
  RankedTensorType shaped = tensorType(type, dims);
  if (!shaped.hasStaticShape())
    return wrap(filled(type, dims, constant(type, number)), type, dims);
  auto attr = DenseElementsAttr::get(shaped, numberAttr(b, shaped.getElementType(), number));
  GraphValue result{type, Dims(dims), arith::ConstantOp::create(b, loc, attr), nullptr};
  if (!isFloat(type) && shaped.getNumElements() <= 64)
    result.content = std::make_shared<std::vector<Dim>>(shaped.getNumElements(), Dim(int64_t(number)));
  return result;
}

GraphValue GraphBuilder::integers(OnnxType type, ArrayRef<Dim> dims, std::vector<Dim> content) {
  return {type, Dims(dims), Value(), std::make_shared<std::vector<Dim>>(std::move(content))};
}

GraphValue GraphBuilder::vectorOf(ArrayRef<Dim> content) {
  return integers(OnnxType::Int64, {Dim(int64_t(content.size()))}, std::vector<Dim>(content.begin(), content.end()));
}

Value GraphBuilder::toScalar(const GraphValue &x) {
  if (failed())
    return {};
  SmallVector<Value> zeros(x.dims.size(), constantIndex(0));
  return tensor::ExtractOp::create(b, loc, tensor(x), zeros);
}

Value GraphBuilder::toIndex(const GraphValue &x) {
  if (failed())
    return {};
  if (x.content && !x.content->empty())
    return index(x.content->front());
  Value scalar = toScalar(x);
  return isUnsigned(x.type) ? arith::IndexCastUIOp::create(b, loc, b.getIndexType(), scalar).getResult()
                            : arith::IndexCastOp::create(b, loc, b.getIndexType(), scalar).getResult();
}

Dim GraphBuilder::toDim(const GraphValue &x) {
  if (failed())
    return {};
  return x.content && !x.content->empty() ? x.content->front() : dimOf(toIndex(x));
}

std::optional<Dims> GraphBuilder::toDims(const GraphValue &x) {
  if (failed() || x.rank() > 1 || !x.isStatic() || (x.rank() == 1 && x.dims[0].value() > 64))
    return std::nullopt;
  if (x.content)
    return Dims(x.content->begin(), x.content->end());
  Dims dims;
  for (int64_t i = 0; i < (x.rank() ? x.dims[0].value() : 1); ++i) {
    SmallVector<Value> at;
    if (x.rank())
      at.push_back(constantIndex(i));
    Value element = tensor::ExtractOp::create(b, loc, tensor(x), at);
    dims.push_back(dimOf(arith::IndexCastOp::create(b, loc, b.getIndexType(), element)));
  }
  return dims;
}

std::optional<double> GraphBuilder::constantNumber(const GraphValue &x) {
  if (auto numbers = x.integers(); numbers && numbers->size() == 1)
    return double(numbers->front());
  DenseElementsAttr attr;
  if (!x.value || !matchPattern(x.value, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  if (isFloat(x.type)) {
    APFloat number = attr.getSplatValue<APFloat>();
    bool lost;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  }
  APInt number = attr.getSplatValue<APInt>();
  return isUnsigned(x.type) ? double(number.getZExtValue()) : double(number.getSExtValue());
}
