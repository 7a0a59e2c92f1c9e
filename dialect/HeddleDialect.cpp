// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/HeddleDialect.h"

#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

#include "dialect/HeddleDialect.cpp.inc"
#include "dialect/HeddleEnums.cpp.inc"
#include "dialect/HeddleInterfaces.cpp.inc"

// Lists in brackets; a source without its mnemonic.
static ParseResult parseShape(AsmParser &parser, SmallVector<int64_t> &shape) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(shape.emplace_back()); });
}

static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape) {
  printer << "[" << shape << "]";
}

static ParseResult parseSources(AsmParser &parser, SmallVector<SourceAttr> &sources) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&] { return parser.parseCustomAttributeWithFallback(sources.emplace_back()); });
}

static void printSources(AsmPrinter &printer, ArrayRef<SourceAttr> sources) {
  printer << "[";
  llvm::interleaveComma(sources, printer, [&](SourceAttr source) { printer.printStrippedAttrOrType(source); });
  printer << "]";
}

// The word alone.
static ParseResult parseCross(AsmParser &parser, bool &cross) {
  cross = succeeded(parser.parseOptionalKeyword("cross"));
  return success();
}

static void printCross(AsmPrinter &printer, bool cross) {
  if (cross)
    printer << " cross";
}

static ParseResult parseState(AsmParser &parser, bool &state) {
  state = succeeded(parser.parseOptionalKeyword("state"));
  return success();
}

static void printState(AsmPrinter &printer, bool state) {
  if (state)
    printer << " state";
}

static ParseResult parseNames(AsmParser &parser, SmallVector<StringAttr> &names) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseAttribute(names.emplace_back()); });
}

static void printNames(AsmPrinter &printer, ArrayRef<StringAttr> names) {
  printer << "[";
  llvm::interleaveComma(names, printer, [&](StringAttr name) { printer << name; });
  printer << "]";
}

static ParseResult parseTiles(AsmParser &parser, SmallVector<TileAttr> &tiles) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseCustomAttributeWithFallback(tiles.emplace_back()); });
}

static void printTiles(AsmPrinter &printer, ArrayRef<TileAttr> tiles) {
  printer << "[";
  llvm::interleaveComma(tiles, printer, [&](TileAttr tile) { printer.printStrippedAttrOrType(tile); });
  printer << "]";
}

#define GET_ATTRDEF_CLASSES
#include "dialect/HeddleAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/HeddleTypes.cpp.inc"

namespace {
// Frequencies and schedules print as aliases, once per module.
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (isa<RopeAttr>(attr)) {
      os << "rope";
      return AliasResult::FinalAlias;
    }
    if (isa<ScheduleAttr, TargetAttr>(attr)) {
      os << (isa<TargetAttr>(attr) ? "target" : "schedule");
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
  int64_t window = 0, ahead = 0, chunk = 0;
  bool given = false;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&kind))
    return {};
  if (kind != "causal" && kind != "full")
    return parser.emitError(loc, "expected 'causal' or 'full', got '") << kind << "'", Attribute();
  while (succeeded(parser.parseOptionalComma())) {
    StringRef side;
    SMLoc place = parser.getCurrentLocation();
    if (parser.parseKeyword(&side))
      return {};
    if (side == "given") {
      given = true;
      continue;
    }
    if (side != "window" && side != "ahead" && side != "chunk")
      return parser.emitError(place, "expected 'window', 'ahead', 'chunk' or 'given', got '") << side << "'",
             Attribute();
    if (parser.parseEqual() || parser.parseInteger(side == "window" ? window : side == "ahead" ? ahead : chunk))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return MaskAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), kind == "causal", window,
                              ahead, chunk, given);
}

void MaskAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getCausal() ? "causal" : "full");
  if (getWindow())
    printer << ", window = " << getWindow();
  if (getAhead())
    printer << ", ahead = " << getAhead();
  if (getChunk())
    printer << ", chunk = " << getChunk();
  if (getGiven())
    printer << ", given";
  printer << ">";
}

LogicalResult MaskAttr::verify(function_ref<InFlightDiagnostic()> emitError, bool causal, int64_t window, int64_t ahead,
                               int64_t chunk, bool given) {
  if (window < 0)
    return emitError() << "window (" << window << ") must not be negative";
  if (ahead < 0 || (causal && ahead))
    return emitError() << "ahead (" << ahead << ") must not be negative, and 0 where the mask is causal";
  if (chunk < 0 || (chunk && (!causal || window)))
    return emitError() << "chunk (" << chunk << ") must not be negative, and is of a causal mask without a window";
  if (given && (!causal || chunk))
    return emitError() << "given is of a causal mask without chunks";
  return success();
}

//===- RopeAttr -----------------------------------------------------------===//

Attribute RopeAttr::parse(AsmParser &parser, Type) {
  StringRef layout;
  int64_t table = 0;
  double factor = 1.0, growth = 0.0;
  int64_t floor = 0;
  Attribute frequencies;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&layout))
    return {};
  if (layout != "half" && layout != "interleaved")
    return parser.emitError(loc, "expected 'half' or 'interleaved', got '") << layout << "'", Attribute();
  if (parser.parseComma() || parser.parseKeyword("table") || parser.parseEqual() || parser.parseInteger(table) ||
      parser.parseComma() || parser.parseKeyword("attention_factor") || parser.parseEqual() ||
      parser.parseFloat(factor) || parser.parseComma())
    return {};
  bool grows = succeeded(parser.parseOptionalKeyword("growth"));
  if (grows &&
      (parser.parseEqual() || parser.parseFloat(growth) || parser.parseComma() || parser.parseKeyword("floor") ||
       parser.parseEqual() || parser.parseInteger(floor) || parser.parseComma()))
    return {};
  if (parser.parseKeyword("inverse_frequency") || parser.parseEqual() || parser.parseAttribute(frequencies) ||
      parser.parseGreater())
    return {};
  auto array = dyn_cast<DenseF32ArrayAttr>(frequencies);
  if (!array)
    return parser.emitError(loc, "inverse_frequency must be array<f32: …>"), Attribute();
  Type real = Float64Type::get(parser.getContext());
  FloatAttr factorAttr = FloatAttr::get(real, factor), growthAttr = grows ? FloatAttr::get(real, growth) : FloatAttr();
  return RopeAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), layout == "interleaved",
                              table, factorAttr, array, growthAttr, floor);
}

void RopeAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getInterleaved() ? "interleaved" : "half") << ", table = " << getTable()
          << ", attention_factor = ";
  printer.printFloat(getAttentionFactor().getValue());
  if (getGrowth()) {
    printer << ", growth = ";
    printer.printFloat(getGrowth().getValue());
    printer << ", floor = " << getFloor();
  }
  printer << ", inverse_frequency = " << getInverseFrequency() << ">";
}

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emitError, bool interleaved, int64_t table,
                               FloatAttr attentionFactor, DenseF32ArrayAttr inverseFrequency, FloatAttr growth,
                               int64_t floor) {
  if (inverseFrequency.empty())
    return emitError() << "inverse_frequency must not be empty";
  if (table < 0)
    return emitError() << "table (" << table << ") must not be negative";
  if (growth ? floor < 1 || !growth.getValue().isFinite() : floor != 0)
    return emitError() << "growth must be finite and floor (" << floor << ") positive, or both be absent";
  return success();
}

double RopeAttr::getFactorAt(int64_t position) const {
  double factor = getAttentionFactor().getValueAsDouble();
  return getGrowth() ? factor * (1 + getGrowth().getValueAsDouble() * std::log1p((position + 1) / getFloor())) : factor;
}

//===- RoutingAttr --------------------------------------------------------===//

LogicalResult RoutingAttr::verify(function_ref<InFlightDiagnostic()> emitError, bool sigmoid, int64_t numGroups,
                                  int64_t topGroups, FloatAttr scale, int64_t capacity, FloatAttr jitter, bool) {
  if (numGroups < 1 || topGroups < 1 || topGroups > numGroups) // routing_c1
    return emitError() << "topGroups (" << topGroups << ") must be 1 to numGroups (" << numGroups << ")";
  if (scale && !scale.getValue().isFinite())
    return emitError() << "scale must be finite";
  if (capacity < 0)
    return emitError() << "capacity (" << capacity << ") must not be negative";
  if (jitter && !(jitter.getValueAsDouble() >= 0 && jitter.getValue().isFinite()))
    return emitError() << "jitter (" << jitter.getValueAsDouble() << ") must not be negative";
  if (jitter && (sigmoid || numGroups > 1)) // routing_c2
    return emitError() << "jitter excludes sigmoids and groups (" << numGroups << ")";
  return success();
}

//===- GatingAttr ---------------------------------------------------------===//

LogicalResult GatingAttr::verify(function_ref<InFlightDiagnostic()> emitError, FloatAttr limit, FloatAttr alpha,
                                 FloatAttr offset) {
  auto isPositive = [](FloatAttr number) { return number.getValueAsDouble() > 0 && number.getValue().isFinite(); };
  if (!isPositive(limit) || !isPositive(alpha) || !offset.getValue().isFinite()) // gating_c1
    return emitError() << "limit (" << limit.getValueAsDouble() << ") and alpha (" << alpha.getValueAsDouble()
                       << ") must be positive, offset (" << offset.getValueAsDouble() << ") finite";
  return success();
}

//===- StorageAttr --------------------------------------------------------===//

LogicalResult StorageAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr type, int64_t, int64_t,
                                  bool transposed, int64_t stride, StringAttr fileType, bool acrossRows, int64_t taps) {
  if (stride < 0 || taps < 0) // storage_c1
    return emitError() << "stride (" << stride << ") and taps (" << taps << ") must not be negative";
  if (fileType == type) // storage_c2
    return emitError() << "fileType (" << fileType << ") must differ from type (" << type << ")";
  if (acrossRows && !fileType) // storage_c2
    return emitError() << "acrossRows is of a matrix that has a fileType";
  if (taps && (transposed || stride)) // storage_c3
    return emitError() << "taps (" << taps << ") are of rows that follow each other as the file has them";
  return success();
}

//===- SourceAttr, PackingAttr --------------------------------------------===//

LogicalResult SourceAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef, int64_t rows, StorageAttr) {
  if (rows < 0) // source_c1
    return emitError() << "rows (" << rows << ") must not be negative";
  return success();
}

// Codes of ONNX, of 4 and 8 bits, and of 8 without scales.
static bool isCodesFormat(StringRef format) {
  return format == "codes4" || format == "codes8" || format == "bytes";
}

bool heddle::isQuantizedFormat(StringRef format) {
  return isCodesFormat(format) || symbolizeQuantKind(format);
}

static bool isMatrixLayout(PackingLayout layout) {
  return layout == PackingLayout::Stacked || layout == PackingLayout::Interleaved;
}

LogicalResult heddle::verifyPackingLayout(function_ref<InFlightDiagnostic()> emitError, PackingLayout layout,
                                          StringRef format, int64_t group, bool transposed, int64_t count) {
  bool isPlain = format == "f32" || format == "f16" || format == "bf16";
  if (isMatrixLayout(layout) && !isPlain && !isQuantizedFormat(format))
    return emitError() << "format '" << format
                       << "' is none of f32, f16, bf16, codes4, codes8, bytes and the block formats";
  if (layout == PackingLayout::Vector && format != "f32")
    return emitError() << "format of vectors must be 'f32', got '" << format << "'";
  if (layout != PackingLayout::Interleaved && group)
    return emitError() << "group (" << group << ") must be 0: only panels of interleaved matrices lie in turn";
  if (layout == PackingLayout::Interleaved && (group < 1 || count % group))
    return emitError() << "group (" << group << ") must be positive and divide the number of sources (" << count << ")";
  if (transposed && (!isMatrixLayout(layout) || !isPlain))
    return emitError() << "only matrices without blocks are transposed, got layout '" << stringifyPackingLayout(layout)
                       << "', format '" << format << "'";
  return success();
}

// A tensor as its file has it.
static LogicalResult verifyStored(function_ref<InFlightDiagnostic()> emitError, StringRef format,
                                  ArrayRef<int64_t> shape, ArrayRef<SourceAttr> sources) {
  StorageAttr storage = sources.front().getStorage();
  // Bytes may be codes, which are stored as the numbers that they stand for.
  StringRef type = storage.getType().getValue();
  bool isDecoded = format == "f32" && (type == "u8" || type == "i8");
  if (format != type && !isDecoded) // packing_c1
    return emitError() << "format '" << format << "' of a stored tensor must be its source's, " << storage.getType();
  int64_t elements = 1;
  bool isTooLarge = false;
  for (int64_t size : shape) {
    if (size < 0) // packing_c2
      return emitError() << "size (" << size << ") of a stored tensor must not be negative";
    isTooLarge |= __builtin_mul_overflow(elements, size, &elements);
  }
  if (isTooLarge || sources.size() != 1 || sources.front().getRows() != elements) // packing_c3
    return emitError() << "a stored tensor [" << shape << "] must be one source of all its elements, got "
                       << sources.size() << ", the first of " << sources.front().getRows();
  if ((storage.getTransposed() && (shape.size() != 2 || isDecoded)) || storage.getStride() || storage.getFileType() ||
      storage.getTaps()) // packing_c6
    return emitError()
           << "a stored tensor must have no stride, taps or fileType, and be a matrix if it is transposed, got "
           << storage;
  return success();
}

// Vectors and matrices, whose rows fill `shape`.
static LogicalResult verifySources(function_ref<InFlightDiagnostic()> emitError, PackingLayout layout, StringRef format,
                                   ArrayRef<int64_t> shape, ArrayRef<SourceAttr> sources) {
  size_t rank = isMatrixLayout(layout) ? 2 : 1;
  if (shape.size() != rank || llvm::any_of(shape, [](int64_t size) { return size < 1; })) // packing_c2
    return emitError() << "shape [" << shape << "] must have " << rank << " sizes, all positive";
  int64_t rows = 0;
  for (SourceAttr source : sources) {
    StringRef type = source.getStorage().getType().getValue();
    bool isCoded = (type == "u8" || type == "i8") && isCodesFormat(format);
    if (format != "f32" && type != format && !isCoded) // packing_c1
      return emitError() << "'" << source.getName() << "' of type '" << type << "' must be packed as f32, not as '"
                         << format << "'";
    if (layout == PackingLayout::Interleaved && source.getRows() != sources.front().getRows()) // packing_c4
      return emitError() << "rows of interleaved matrices must be equal, got " << sources.front().getRows() << " and "
                         << source.getRows();
    if (source.getRows() < 1 || __builtin_add_overflow(rows, source.getRows(), &rows)) // packing_c3
      return emitError() << "rows (" << source.getRows() << ") of '" << source.getName()
                         << "' must be positive and part of n (" << shape[0] << ")";
  }
  if (rows != shape[0]) // packing_c3
    return emitError() << "rows of the sources (" << rows << ") must add up to n (" << shape[0] << ")";
  return success();
}

LogicalResult PackingAttr::verify(function_ref<InFlightDiagnostic()> emitError, PackingLayout layout, StringRef format,
                                  ArrayRef<int64_t> shape, int64_t offset, ArrayRef<SourceAttr> sources, int64_t group,
                                  bool transposed, bool) {
  if (offset < 0 || offset % 64) // packing_c5
    return emitError() << "offset (" << offset << ") must be a multiple of 64 that is not negative";
  if (sources.empty()) // packing_c3
    return emitError() << "sources must not be empty";
  if (failed(verifyPackingLayout(emitError, layout, format, group, transposed,
                                 sources.size()))) // packing_c1, packing_c4, packing_c6
    return failure();
  if (layout == PackingLayout::Stored)
    return verifyStored(emitError, format, shape, sources);
  return verifySources(emitError, layout, format, shape, sources);
}

//===- KvCacheType --------------------------------------------------------===//

LogicalResult KvCacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t numLayers, int64_t numKvHeads,
                                  int64_t headDim, Type elementType, int64_t latent, bool cross, int64_t begin,
                                  bool state) {
  if (numLayers <= 0 || numKvHeads <= 0 || headDim <= 0)
    return emitError() << "layers (" << numLayers << "), num_kv_heads (" << numKvHeads << ") and head_dim (" << headDim
                       << ") must be positive";
  if (latent < 0 || latent > headDim || (latent && numKvHeads != 1))
    return emitError() << "latent (" << latent << ") must be 0 to head_dim (" << headDim << ") of one head ("
                       << numKvHeads << ")";
  if (begin < 0 || (begin && cross))
    return emitError() << "begin (" << begin << ") must be 0, or a byte of a page of a step's tokens";
  if (latent && cross)
    return emitError() << "a cache of latents (" << latent << ") is of the tokens of a step, not of a source";
  if (state && (numKvHeads != 1 || latent || cross || !elementType.isF32()))
    return emitError() << "states are numbers of f32 of one head, neither latents nor of a source";
  if (!elementType.isF32() && !elementType.isBF16() && !elementType.isF16() && !elementType.isInteger(8))
    return emitError() << "element type must be f32, bf16, f16 or i8, got " << elementType;
  if (elementType.isInteger(8) && (headDim % 32 || latent))
    return emitError() << "blocks of i8 need a head_dim (" << headDim << ") that is a multiple of 32, and no latent";
  return success();
}

StringRef KvCacheType::getStorageName() const {
  Type element = getElementType();
  return getBlockColumns() ? "q8_0" : element.isF32() ? "f32" : element.isBF16() ? "bf16" : "f16";
}

Type KvCacheType::getValueType() const {
  return getBlockColumns() ? Float32Type::get(getContext()) : getElementType();
}

int64_t KvCacheType::getPlaneBytes() const {
  if (isState())
    return llvm::alignTo(getHeadDim() * int64_t(sizeof(float)), 64);
  int64_t values = getNumKvHeads() * 64 * getHeadDim(), scaleBytes = 2;
  int64_t scales = getBlockColumns() ? values / getBlockColumns() * scaleBytes : 0;
  return values * getElementType().getIntOrFloatBitWidth() / 8 + scales;
}
