// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/interpreter/TensorBytes.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace heddle;

int64_t heddle::storedBytes(Type elementType) {
  return llvm::divideCeil(integerWidth(elementType), 8);
}

static double realFromBits(FloatType type, uint64_t bits) {
  if (isa<Float32Type>(type))
    return llvm::bit_cast<float>(uint32_t(bits));
  llvm::APFloat number(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits));
  bool losesInfo;
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

static uint64_t bitsOfReal(FloatType type, double value) {
  if (isa<Float32Type>(type) && !std::isnan(value))
    return llvm::bit_cast<uint32_t>(static_cast<float>(value));
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.bitcastToAPInt().getZExtValue();
}

Tensor heddle::tensorFromBytes(Type elementType, ArrayRef<int64_t> shape, const uint8_t *bytes) {
  Tensor tensor = Tensor::zeros(elementType, shape);
  int64_t width = storedBytes(elementType);
  auto floatType = dyn_cast<FloatType>(elementType);
  for (int64_t i = 0, end = tensor.size(); i < end; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, bytes + i * width, width);
    tensor.set(i, floatType ? Scalar{realFromBits(floatType, bits), 0} : Scalar{0, int64_t(bits)});
  }
  return tensor;
}

std::string heddle::bytesOf(const Tensor &tensor) {
  int64_t width = storedBytes(tensor.elementType);
  std::string bytes(tensor.size() * width, '\0');
  auto floatType = dyn_cast<FloatType>(tensor.elementType);
  for (int64_t i = 0, end = tensor.size(); i < end; ++i) {
    uint64_t bits = floatType ? bitsOfReal(floatType, tensor.reals[i]) : uint64_t(tensor.integers[i]);
    memcpy(&bytes[i * width], &bits, width);
  }
  return bytes;
}

Type heddle::typeIn(MLIRContext &context, Type elementType) {
  return elementType.isF16()    ? Type(Float16Type::get(&context))
         : elementType.isBF16() ? Type(BFloat16Type::get(&context))
         : elementType.isF64()  ? Type(Float64Type::get(&context))
         : elementType.isF32()  ? Type(Float32Type::get(&context))
                                : Type(IntegerType::get(&context, integerWidth(elementType)));
}
