// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/interpreter/Tensor.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

unsigned heddle::integerWidth(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

static double roundReal(FloatType type, double value) {
  bool losesInfo;
  llvm::APFloat number(value);
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

Scalar heddle::roundTo(Type type, Scalar value) {
  if (isa<Float32Type>(type))
    return {static_cast<float>(value.real), 0};
  if (isa<Float64Type>(type))
    return {value.real, 0};
  if (!isa<IntegerType, IndexType>(type))
    return {roundReal(cast<FloatType>(type), value.real), 0};
  unsigned width = integerWidth(type);
  if (width == 1)
    return {0, value.integer & 1};
  return {0, width >= 64 ? value.integer : llvm::SignExtend64(value.integer, width)};
}

Tensor Tensor::zeros(Type elementType, ArrayRef<int64_t> shape) {
  Tensor tensor{elementType, llvm::to_vector(shape), {}, {}};
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  if (tensor.isFloat())
    tensor.reals.resize(size);
  else
    tensor.integers.resize(size);
  return tensor;
}

Tensor Tensor::scalar(Type elementType, Scalar value) {
  Tensor tensor = zeros(elementType, {});
  tensor.set(0, value);
  return tensor;
}

void Tensor::round() {
  if (isa<Float32Type>(elementType))
    for (double &value : reals)
      value = static_cast<float>(value);
  else if (!isa<Float64Type>(elementType))
    for (int64_t i = 0, end = size(); i < end; ++i)
      set(i, get(i));
}

std::vector<int64_t> heddle::centredBytes(const Tensor &tensor, const Tensor *zero, bool isUnsigned) {
  auto numberOf = [&](int64_t byte) { return isUnsigned ? int64_t(uint8_t(byte)) : byte; };
  int64_t shift = zero ? numberOf(zero->integers[0]) : 0;
  std::vector<int64_t> numbers = tensor.integers;
  for (int64_t &number : numbers)
    number = numberOf(number) - shift;
  return numbers;
}

SmallVector<int64_t> heddle::stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

void heddle::forEachIndex(ArrayRef<int64_t> shape, function_ref<void(ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(shape, 0))
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    visit(index);
    int64_t d = static_cast<int64_t>(shape.size()) - 1;
    while (d >= 0 && ++index[d] == shape[d])
      index[d--] = 0;
    if (d < 0)
      return;
  }
}
