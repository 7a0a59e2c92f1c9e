// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How weight matrices lie packed for the CPU: one layout for one row, few rows and many rows of activations.
//
// W (N = out_features, K = in_features) is cut into panels of 16 rows; N is padded with zero rows. A panel holds its 16
// rows side by side ("lane" = row within the panel), so that a vector of 16 lanes is 16 outputs whatever the register
// width. The formulas of each format are in README.md; PackedLayout::unpack is their executable form.
#ifndef HEDDLE_COMPILER_WEIGHTS_PACKEDLAYOUT_H
#define HEDDLE_COMPILER_WEIGHTS_PACKEDLAYOUT_H

#include "frontends/Checkpoint.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace heddle {

// How the numbers of a panel are stored. U4 and U8 are unsigned codes: w = scale * (code - zero) + min.
enum class PackedNumbers : uint8_t { F32, F16, BF16, U4, U8 };

struct PackedLayout {
  static constexpr int64_t panelRows = 16;

  PackedNumbers numbers = PackedNumbers::F32;
  // The rest is of U4 and U8 only.
  uint8_t block = 0;       // values along K that share a scale: 16 or 32
  uint8_t zero = 0;        // the code that stands for 0 before min is added
  uint8_t maxCode = 0;     // no code is larger
  bool wideScales = false; // scales and mins are f32 instead of f16
  bool hasMin = false;

  bool isQuantized() const { return numbers == PackedNumbers::U4 || numbers == PackedNumbers::U8; }
  // Values along K that lie together: a block, a pair of 16-bit values, or one f32.
  int64_t unitValues() const;
  int64_t unitBytes() const;
  int64_t scaleBytes() const { return wideScales ? 4 : 2; }
  // Offset of the 16 mins, and of the codes, within a block.
  int64_t minOffset() const { return panelRows * scaleBytes(); }
  int64_t codeOffset() const { return panelRows * scaleBytes() * (hasMin ? 2 : 1); }

  int64_t numPanels(int64_t n) const { return (n + panelRows - 1) / panelRows; }
  int64_t panelBytes(int64_t k) const; // a multiple of 64
  int64_t bytes(int64_t n, int64_t k) const { return numPanels(n) * panelBytes(k); }

  // W[row][column] as f32, read through the index formula.
  float unpack(const uint8_t *packed, int64_t k, int64_t row, int64_t column) const;

  bool operator==(const PackedLayout &other) const;
};

// The layout that holds matrices of `type` without changing a value; none for types that are no weights.
std::optional<PackedLayout> layoutFor(TensorType type);

// How stacked matrices share the panels. Stacked: rows follow those of the matrix before (fused QKV). Interleaved:
// panel p is panel p / S of matrix p % S of the S matrices, all of one shape, each padded for itself (gate and up of a
// gated product).
enum class PanelOrder : uint8_t { Stacked, Interleaved };

// One stored matrix of a stack that is packed as one.
struct WeightSource {
  const uint8_t *data;
  int64_t rows;            // out_features
  bool transposed = false; // stored (in_features, out_features); plain types only
  int64_t stride = 0;      // values from one stored row to the next; 0: none lie between; plain types only
};

// Writes panels [panelBegin, panelEnd) of the stacked `sources`, all of `type` and `k` columns, to `out`, whose first
// byte is that of panel `panelBegin`. `k` is a multiple of the type's block.
void packPanels(TensorType type, const std::vector<WeightSource> &sources, int64_t k, int64_t panelBegin,
                int64_t panelEnd, uint8_t *out, PanelOrder order = PanelOrder::Stacked);

} // namespace heddle

#endif
