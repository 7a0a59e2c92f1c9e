// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/Codes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace heddle;

DictionaryAttr Codes::toAttr(MLIRContext *context) const {
  Builder b(context);
  NamedAttrList entries;
  entries.append("bits", b.getI64IntegerAttr(bits));
  entries.append("axis", b.getI64IntegerAttr(axis));
  entries.append("size", b.getI64IntegerAttr(size));
  entries.append("scale", scales ? Attribute(scales) : b.getF64FloatAttr(scale));
  entries.append("zero", zeros ? Attribute(zeros) : b.getI64IntegerAttr(zero));
  return entries.getDictionary(context);
}

std::optional<Codes> Codes::fromAttr(Attribute attr) {
  auto entries = dyn_cast_if_present<DictionaryAttr>(attr);
  if (!entries)
    return std::nullopt;
  Codes codes;
  for (auto [name, number] :
       {std::pair("bits", &codes.bits), std::pair("axis", &codes.axis), std::pair("size", &codes.size)}) {
    auto value = entries.getAs<IntegerAttr>(name);
    if (!value)
      return std::nullopt;
    *number = value.getInt();
  }
  codes.scales = entries.getAs<StorageAttr>("scale");
  codes.zeros = entries.getAs<StorageAttr>("zero");
  if (auto scale = entries.getAs<FloatAttr>("scale"))
    codes.scale = scale.getValueAsDouble();
  if (auto zero = entries.getAs<IntegerAttr>("zero"))
    codes.zero = zero.getInt();
  bool isValid = (codes.bits == 4 || codes.bits == 8) && (codes.axis == 0 || codes.axis == 1) && codes.size >= 0;
  return isValid ? std::optional(codes) : std::nullopt;
}

std::optional<Codes> Codes::of(WeightOp weight, unsigned source) {
  Attribute attr = weight->getAttr(attrName);
  if (auto list = dyn_cast_if_present<ArrayAttr>(attr))
    attr = source < list.size() ? list[source] : Attribute();
  return fromAttr(attr);
}

std::array<int64_t, 2> Codes::groups(int64_t rows, int64_t columns) const {
  if (!size)
    return {1, 1};
  std::array<int64_t, 2> count = {rows, columns};
  count[axis] = llvm::divideCeil(count[axis], size);
  return count;
}

std::array<int64_t, 2> Codes::groupOf(int64_t row, int64_t column) const {
  if (!size)
    return {0, 0};
  std::array<int64_t, 2> group = {row, column};
  group[axis] /= size;
  return group;
}
