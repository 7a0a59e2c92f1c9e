// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

#include "dialect/HeddleDialect.cpp.inc"
#include "dialect/HeddleEnums.cpp.inc"
#include "dialect/HeddleInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/HeddleAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/HeddleTypes.cpp.inc"

namespace {
// Frequencies and quantisation formats print as aliases, once per module.
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (isa<RopeAttr>(attr)) {
      os << "rope";
      return AliasResult::FinalAlias;
    }
    return AliasResult::NoAlias;
  }
};
} // namespace

void HeddleDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/HeddleAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/HeddleTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/HeddleOps.cpp.inc"
      >();
  addInterfaces<AliasInterface>();
}

//===- MaskAttr -----------------------------------------------------------===//

Attribute MaskAttr::parse(AsmParser &parser, Type) {
  StringRef kind;
  int64_t window = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&kind))
    return {};
  if (kind != "causal" && kind != "full")
    return parser.emitError(loc, "expected 'causal' or 'full', got '") << kind << "'", Attribute();
  if (succeeded(parser.parseOptionalComma()))
    if (parser.parseKeyword("window") || parser.parseEqual() || parser.parseInteger(window))
      return {};
  if (parser.parseGreater())
    return {};
  return MaskAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), kind == "causal", window);
}

void MaskAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getCausal() ? "causal" : "full");
  if (getWindow())
    printer << ", window = " << getWindow();
  printer << ">";
}

LogicalResult MaskAttr::verify(function_ref<InFlightDiagnostic()> emitError, bool causal, int64_t window) {
  if (window < 0)
    return emitError() << "window (" << window << ") must not be negative";
  return success();
}

//===- RopeAttr -----------------------------------------------------------===//

Attribute RopeAttr::parse(AsmParser &parser, Type) {
  StringRef layout;
  int64_t table = 0;
  double factor = 1.0;
  Attribute frequencies;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&layout))
    return {};
  if (layout != "half" && layout != "interleaved")
    return parser.emitError(loc, "expected 'half' or 'interleaved', got '") << layout << "'", Attribute();
  if (parser.parseComma() || parser.parseKeyword("table") || parser.parseEqual() || parser.parseInteger(table) ||
      parser.parseComma() || parser.parseKeyword("attention_factor") || parser.parseEqual() ||
      parser.parseFloat(factor) || parser.parseComma() || parser.parseKeyword("inverse_frequency") ||
      parser.parseEqual() || parser.parseAttribute(frequencies) || parser.parseGreater())
    return {};
  auto array = dyn_cast<DenseF32ArrayAttr>(frequencies);
  if (!array)
    return parser.emitError(loc, "inverse_frequency must be array<f32: …>"), Attribute();
  auto factorAttr = FloatAttr::get(Float64Type::get(parser.getContext()), factor);
  return RopeAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), layout == "interleaved",
                              table, factorAttr, array);
}

void RopeAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getInterleaved() ? "interleaved" : "half") << ", table = " << getTable()
          << ", attention_factor = ";
  printer.printFloat(getAttentionFactor().getValue());
  printer << ", inverse_frequency = " << getInverseFrequency() << ">";
}

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emitError, bool interleaved, int64_t table,
                               FloatAttr attentionFactor, DenseF32ArrayAttr inverseFrequency) {
  if (inverseFrequency.empty())
    return emitError() << "inverse_frequency must not be empty";
  if (table < 0)
    return emitError() << "table (" << table << ") must not be negative";
  return success();
}

//===- RoutingAttr --------------------------------------------------------===//

LogicalResult RoutingAttr::verify(function_ref<InFlightDiagnostic()> emitError, bool, int64_t numGroups,
                                  int64_t topGroups, FloatAttr scale) {
  if (numGroups < 1 || topGroups < 1 || topGroups > numGroups)
    return emitError() << "topGroups (" << topGroups << ") must be 1 to numGroups (" << numGroups << ")";
  if (scale && !scale.getValue().isFinite())
    return emitError() << "scale must be finite";
  return success();
}

//===- StorageAttr --------------------------------------------------------===//

LogicalResult StorageAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, int64_t, int64_t, bool,
                                  int64_t stride) {
  if (stride < 0)
    return emitError() << "stride (" << stride << ") must not be negative";
  return success();
}

//===- KvCacheType --------------------------------------------------------===//

LogicalResult KvCacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t numLayers, int64_t numKvHeads,
                                  int64_t headDim, Type elementType, int64_t latent) {
  if (numLayers <= 0 || numKvHeads <= 0 || headDim <= 0)
    return emitError() << "layers (" << numLayers << "), num_kv_heads (" << numKvHeads << ") and head_dim (" << headDim
                       << ") must be positive";
  if (latent < 0 || latent > headDim || (latent && numKvHeads != 1))
    return emitError() << "latent (" << latent << ") must be 0 to head_dim (" << headDim << ") of one head ("
                       << numKvHeads << ")";
  if (!elementType.isF32() && !elementType.isBF16() && !elementType.isF16())
    return emitError() << "element type must be f32, bf16 or f16, got " << elementType;
  return success();
}

int64_t KvCacheType::getPlaneBytes() const {
  return getNumKvHeads() * 64 * getHeadDim() * getElementType().getIntOrFloatBitWidth() / 8;
}
