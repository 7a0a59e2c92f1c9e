// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Codes, scales and zeros are three matrices of a file; a panel has all of it side by side. A zero becomes a min: scale * (code - zero) =
// scale * code - scale * zero. Signed codes are stored with 128 added, which their zeros have as well.

#include "compiler/weights/CodedMatrix.h"

#include <cstring>

using namespace mlir;
using namespace heddle;

// The bytes at `storage`, if `count` of them lie in a file.
static FailureOr<const uint8_t *> bytesAt(Operation *op, const Checkpoint &checkpoint, StorageAttr storage,
                                          uint64_t count) {
  if (storage.getFile() < 0 || storage.getFile() >= int64_t(checkpoint.files.size()))
    return op->emitError("names no file of the model: ") << storage;
  const MappedFile &file = *checkpoint.files[storage.getFile()];
  uint64_t begin = storage.getOffset();
  if (storage.getOffset() < 0 || begin > file.size() || count > file.size() - begin)
    return op->emitError() << count << " bytes at byte " << storage.getOffset() << " do not lie in " << file.path()
                           << " of " << file.size() << " bytes";
  return file.data() + begin;
}

FailureOr<CodedMatrix> CodedMatrix::locate(Operation *op, const Checkpoint &checkpoint, StorageAttr storage,
                                           const Codes &codes, int64_t rows, int64_t columns) {
  CodedMatrix matrix;
  matrix.storage = storage;
  matrix.codes = codes;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.transposed = storage.getTransposed();
  StringRef type = storage.getType().getValue();
  matrix.isSigned = type == "i8";
  if (!matrix.isSigned && type != "u8")
    return op->emitError("codes must be stored as i8 or u8, got '") << type << "'";
  int64_t storedRows = matrix.transposed ? columns : rows, storedColumns = matrix.transposed ? rows : columns;
  auto codeBytes = [&](int64_t rows, int64_t columns) { return rows * llvm::divideCeil(columns * codes.bits, 8); };
  auto [scaleRows, scaleColumns] = codes.groups(storedRows, storedColumns);
  FailureOr<const uint8_t *> bytes = bytesAt(op, checkpoint, storage, codeBytes(storedRows, storedColumns));
  if (failed(bytes))
    return failure();
  matrix.data = *bytes;
  if (codes.scales) {
    std::optional<heddle::TensorType> scaleType = tensorTypeNamed(codes.scales.getType().getValue());
    if (!scaleType || tensorTypeInfo(*scaleType).blockValues != 1)
      return op->emitError("scales are stored as '") << codes.scales.getType().getValue() << "'";
    matrix.scaleType = *scaleType;
    bytes = bytesAt(op, checkpoint, codes.scales, scaleRows * scaleColumns * tensorTypeInfo(*scaleType).blockBytes);
    if (failed(bytes))
      return failure();
    matrix.scales = *bytes;
  }
  if (codes.zeros) {
    bytes = bytesAt(op, checkpoint, codes.zeros, codeBytes(scaleRows, scaleColumns));
    if (failed(bytes))
      return failure();
    matrix.zeros = *bytes;
  }
  return matrix;
}

int CodedMatrix::codeAt(const uint8_t *base, int64_t row, int64_t width, int64_t column) const {
  if (codes.bits == 8)
    return isSigned ? int8_t(base[row * width + column]) : base[row * width + column];
  return base[row * llvm::divideCeil(width, 2) + column / 2] >> (column % 2 * 4) & 15;
}

CodedMatrix::Element CodedMatrix::at(int64_t row, int64_t column) const {
  int64_t storedRows = transposed ? columns : rows, storedColumns = transposed ? rows : columns;
  column = storage.storedColumn(column, columns);
  if (transposed)
    std::swap(row, column);
  Element element{codeAt(data, row, storedColumns, column), int(codes.zero), float(codes.scale)};
  auto [groupRow, groupColumn] = codes.groupOf(row, column);
  int64_t width = codes.groups(storedRows, storedColumns)[1];
  if (scales)
    dequantize(scaleType, scales + (groupRow * width + groupColumn) * tensorTypeInfo(scaleType).blockBytes, 1,
               &element.scale);
  if (zeros)
    element.zero = codeAt(zeros, groupRow, width, groupColumn);
  return element;
}

float CodedMatrix::number(int64_t row, int64_t column) const {
  Element element = at(row, column);
  return float(element.code - element.zero) * element.scale;
}

// The places are those of the index formula of README.md.
void CodedMatrix::packRow(const PackedLayout &layout, int64_t row, int64_t lane, uint8_t *panel) const {
  if (layout.scales == PackedScales::None)
    return packBytes(layout, row, lane, panel);
  int64_t block = layout.block, half = codes.bits == 4 ? block / 2 : block;
  int shift = isSigned ? 128 : 0;
  for (int64_t begin = 0; begin < columns; begin += block) {
    uint8_t *unit = panel + begin / block * layout.unitBytes();
    Element first = at(row, begin);
    float min = first.scale * -float(first.zero + shift);
    std::memcpy(unit + 4 * lane, &first.scale, sizeof(float));
    std::memcpy(unit + layout.minOffset() + 4 * lane, &min, sizeof(float));
    for (int64_t i = 0; i < block; ++i) {
      int code = at(row, begin + i).code + shift;
      uint8_t *out = unit + layout.headerBytes() + 4 * PackedLayout::panelRows * (i % half / 4) + 4 * lane + i % 4;
      *out = uint8_t(*out | (i < half ? code : code << 4));
    }
  }
}

void CodedMatrix::packBytes(const PackedLayout &layout, int64_t row, int64_t lane, uint8_t *panel) const {
  int32_t shift = isSigned ? 128 : 0, sum = 0, zero = at(row, 0).zero;
  uint8_t *out = panel + layout.panelHeaderBytes() + 4 * lane;
  for (int64_t column = 0; column < columns; ++column) {
    int32_t code = at(row, column).code;
    sum += code - zero;
    out[column / 4 * layout.unitBytes() + column % 4] = uint8_t(code + shift);
  }
  zero += shift;
  std::memcpy(panel + 4 * lane, &sum, sizeof sum);
  std::memcpy(panel + PackedLayout::panelZeroOffset() + 4 * lane, &zero, sizeof zero);
}

bool heddle::isOfBytes(const Codes &codes, bool transposed, int64_t inFeatures) {
  bool isAlongRow = codes.size && (codes.axis == 1) != transposed;
  return codes.bits == 8 && !codes.scales && codes.scale == 1 && (!isAlongRow || codes.size >= inFeatures);
}

StringRef heddle::packedFormatOf(const Codes &codes, bool transposed, int64_t inFeatures) {
  constexpr int64_t block = 32;
  bool isAlongRow = codes.size && (codes.axis == 1) != transposed;
  bool fits = inFeatures % block == 0 && (!isAlongRow || codes.size % block == 0 || codes.size >= inFeatures);
  return !fits ? "f32" : codes.bits == 4 ? "codes4" : "codes8";
}
