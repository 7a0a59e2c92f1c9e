// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How weight matrices lie packed for the CPU: one layout for one row, few rows and many rows of activations.
//
// W (N = out_features, K = in_features) is cut into panels of 16 rows; N is padded with zero rows. A panel holds its 16
// rows side by side ("lane" = row within the panel), so that a vector of 16 lanes is 16 outputs whatever the register
// width. The formulas of each format are in README.md; PackedLayout::unpack is their executable form.
#ifndef HEDDLE_COMPILER_WEIGHTS_PACKEDLAYOUT_H
#define HEDDLE_COMPILER_WEIGHTS_PACKEDLAYOUT_H

#include "compiler/weights/Quantize.h"
#include "frontends/Checkpoint.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace heddle {

// How the numbers of a panel are stored. U2, U4 and U8 are unsigned codes, or their low bits: w = scale * (code - zero) + min.
enum class PackedNumbers : uint8_t { F32, F16, BF16, U2, U4, U8 };

// How the scales and mins of blocks are stored. Shared: one f16 scale for 256 values. Nested: small integers, times one f16 scale and min
// for 256 values. None: codes less their zero points are the numbers; in front of a panel stand, of each of its rows, the sum of its numbers and the
// zero point, as i32.
enum class PackedScales : uint8_t { F16, BF16, F32, None, Shared, Nested };

// What codes of at most four bits stand for, plus `zero`: themselves, or an entry of a table.
enum class CodeBook : uint8_t { None, NonLinear4, E2M1, IQ1_S, IQ1_M, IQ2, IQ3_XXS, IQ3_S };
// The 16 entries, of which shorter codes reach the first alone; `zero` is not added.
const int8_t *entriesOf(CodeBook book);

struct PackedLayout {
  static constexpr int64_t panelRows = 16;
  // Raised by every change of what lies where: weights packed by another are packed again.
  static constexpr int version = 2;
  static constexpr int64_t superBlock = 256; // values under one scale of nested ones

  PackedNumbers numbers = PackedNumbers::F32;
  // The rest is of codes only.
  uint8_t block = 0;   // values along K that share a scale: 16 or 32; without scales 4
  uint8_t zero = 0;    // the code that stands for 0 before min is added
  uint8_t maxCode = 0; // no code is larger
  PackedScales scales = PackedScales::F16;
  bool hasMin = false;
  uint8_t highBits = 0;         // of a code, beside the low ones that `numbers` names: 0, 1 or 2
  bool hasNibbleScales = false; // a nested scale and min share a byte
  CodeBook book = CodeBook::None;
  uint8_t scaleShift = 0; // scales and mins are what is stored / 2^scaleShift, which f16 could not always hold

  bool isQuantized() const { return numbers >= PackedNumbers::U2; }
  bool isNested() const { return scales == PackedScales::Nested; }
  float scaleFactor() const { return 1.0f / float(1 << scaleShift); }
  int64_t lowBits() const { return numbers == PackedNumbers::U2 ? 2 : numbers == PackedNumbers::U4 ? 4 : 8; }
  // Values along K that lie together: what a block or a super-block of scales counts for, a pair of 16-bit values, or one f32.
  int64_t unitValues() const;
  int64_t unitBytes() const;

  // A unit of codes: its header of scales, then the codes of its blocks, in groups that share lines of high bits.
  int64_t blocksPerUnit() const { return unitValues() / block; }
  int64_t scaleBytes() const { return scales == PackedScales::None ? 0 : scales == PackedScales::F32 ? 4 : 2; }
  // Offset of the 16 mins of a block, or nested of the super-block.
  int64_t minOffset() const { return panelRows * scaleBytes(); }
  // Offsets of the nested scales and mins of a unit's first block; those of the next lie 16 bytes on.
  int64_t nestedScaleOffset() const { return panelRows * scaleBytes() * (hasMin ? 2 : 1); }
  int64_t nestedMinOffset() const { return nestedScaleOffset() + panelRows * blocksPerUnit(); }
  int64_t headerBytes() const;
  // Of a panel, before its first unit: its sums, then its zero points.
  int64_t panelHeaderBytes() const { return scales == PackedScales::None ? 2 * panelZeroOffset() : 0; }
  static constexpr int64_t panelZeroOffset() { return 4 * panelRows; }
  // Four columns of 16 rows are a quad: of low bits 64 bytes in which several quads of a block share each byte.
  int64_t sharesPerByte() const { return 8 / lowBits(); }
  int64_t quadsPerShare() const { return block / 4 / sharesPerByte(); }
  int64_t lowBytes() const { return 4 * panelRows * quadsPerShare(); } // of a block
  // Blocks whose high bits lie in one line of 64 bytes, and what such a group takes.
  int64_t blocksPerGroup() const;
  int64_t codeBits() const { return lowBits() + highBits; }
  int64_t groupBytes() const { return blocksPerGroup() * lowBytes() + (highBits ? 4 * panelRows : 0); }

  int64_t numPanels(int64_t n) const { return (n + panelRows - 1) / panelRows; }
  int64_t panelBytes(int64_t k) const; // a multiple of 64
  int64_t bytes(int64_t n, int64_t k) const { return numPanels(n) * panelBytes(k); }

  // W[row][column] as f32, read through the index formula.
  float unpack(const uint8_t *packed, int64_t k, int64_t row, int64_t column) const;

  bool operator==(const PackedLayout &other) const;
};

// The layout that holds matrices of `type` without changing a value; none for types that are no weights.
std::optional<PackedLayout> layoutFor(TensorType type);
// The layout that a format of `#heddle.packing` names: that of a type, or of codes with one f32 scale and min for 32 values, as files of
// ONNX have them ("codes4", "codes8"), or of codes without scales ("bytes").
std::optional<PackedLayout> layoutNamed(std::string_view format);

// How stacked matrices share the panels. Stacked: rows follow those of the matrix before (fused QKV). Interleaved:
// panel p is panel p / S of matrix p % S of the S matrices, all of one shape, each padded for itself (gate and up of a
// gated product).
enum class PanelOrder : uint8_t { Stacked, Interleaved };

// One stored matrix of a stack that is packed as one.
struct WeightSource {
  const uint8_t *data;
  int64_t rows;            // out_features
  bool transposed = false; // stored (in_features, out_features); plain types only, or as what `fileType` is converted
  int64_t stride = 0;      // values from one stored row to the next; 0: none lie between; plain types only
  std::optional<TensorType> fileType = {}; // what `data` is, where it is converted while it is packed
};

// Writes panels [panelBegin, panelEnd) of the stacked `sources`, all of `type` and `k` columns, to `out`, whose first
// byte is that of panel `panelBegin`. `k` is a multiple of the type's block. What has a file type is converted row by row of W, and
// `outLoss`, if it is given, adds up what that changes.
void packPanels(TensorType type, const std::vector<WeightSource> &sources, int64_t k, int64_t panelBegin,
                int64_t panelEnd, uint8_t *out, PanelOrder order = PanelOrder::Stacked,
                ConversionLoss *outLoss = nullptr);

} // namespace heddle

#endif
