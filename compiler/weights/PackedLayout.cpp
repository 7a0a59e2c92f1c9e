// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of panels, the index formula and the packer. Packing writes a panel in order and reads its 16 rows side by side: files promise
// no alignment, so every value is copied by bytes. `unpack` is written from the formula alone, not from the packer.

#include "compiler/weights/PackedLayout.h"

#include "bytes/HalfFloats.h"
#include "compiler/weights/BlockCodes.h"

#include <cstring>

using namespace heddle;

static constexpr int64_t lanes = PackedLayout::panelRows;

template <typename T> static T readAs(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

int64_t PackedLayout::unitValues() const {
  return isQuantized() ? block : numbers == PackedNumbers::F32 ? 1 : 2;
}

int64_t PackedLayout::unitBytes() const {
  if (!isQuantized())
    return 4 * lanes;
  return codeOffset() + lanes * block / (numbers == PackedNumbers::U4 ? 2 : 1);
}

int64_t PackedLayout::panelBytes(int64_t k) const {
  int64_t units = (k + unitValues() - 1) / unitValues();
  // 16-bit panels are whole tiles of 16 rows by 32 columns.
  int64_t multiple = isQuantized() || numbers == PackedNumbers::F32 ? 64 : 1024;
  return (units * unitBytes() + multiple - 1) / multiple * multiple;
}

bool PackedLayout::operator==(const PackedLayout &other) const {
  return numbers == other.numbers && block == other.block && zero == other.zero && maxCode == other.maxCode &&
         wideScales == other.wideScales && hasMin == other.hasMin;
}

float PackedLayout::unpack(const uint8_t *packed, int64_t k, int64_t row, int64_t column) const {
  int64_t lane = row % lanes, inUnit = column % unitValues();
  const uint8_t *unit = packed + row / lanes * panelBytes(k) + column / unitValues() * unitBytes();
  if (numbers == PackedNumbers::F32)
    return readAs<float>(unit + 4 * lane);
  if (!isQuantized()) {
    uint16_t bits = readAs<uint16_t>(unit + 4 * lane + 2 * inUnit);
    return numbers == PackedNumbers::F16 ? halfToFloat(bits) : bfloatToFloat(bits);
  }
  auto readScale = [&](const uint8_t *scales) {
    return wideScales ? readAs<float>(scales + 4 * lane) : halfToFloat(readAs<uint16_t>(scales + 2 * lane));
  };
  int64_t half = numbers == PackedNumbers::U4 ? block / 2 : block;
  int64_t group = inUnit % half / 4;
  uint8_t code = unit[codeOffset() + 4 * lanes * group + 4 * lane + inUnit % 4];
  if (numbers == PackedNumbers::U4)
    code = inUnit < half ? code & 15 : code >> 4;
  float scale = readScale(unit), centred = float(int(code) - int(zero));
  return hasMin ? std::fma(scale, centred, readScale(unit + minOffset())) : scale * centred;
}

std::optional<PackedLayout> heddle::layoutFor(TensorType type) {
  PackedLayout plain;
  switch (type) {
  case TensorType::F32:
    return plain;
  case TensorType::F16:
    plain.numbers = PackedNumbers::F16;
    return plain;
  case TensorType::BF16:
    plain.numbers = PackedNumbers::BF16;
    return plain;
  default:
    if (const BlockFormat *format = findBlockFormat(type))
      return format->layout;
    return std::nullopt;
  }
}

// Row `row` of the stack: its matrix and the row within it.
static std::pair<const WeightSource *, int64_t> locate(const std::vector<WeightSource> &sources, int64_t row) {
  for (const WeightSource &source : sources) {
    if (row < source.rows)
      return {&source, row};
    row -= source.rows;
  }
  return {nullptr, 0};
}

namespace {
// Where a row of W begins and how far apart its values lie, in bytes. Files promise no alignment.
struct PlainRow {
  const uint8_t *values;
  int64_t step;
};
} // namespace

// A panel of f32 (unit 1) or 16-bit values (unit 2) from the rows that exist: written in order, 16 rows read side by
// side.
template <typename T, int64_t unit>
static void packPlainPanel(const std::vector<WeightSource> &sources, int64_t panel, int64_t k, uint8_t *out) {
  constexpr int64_t width = sizeof(T);
  PlainRow rows[lanes];
  int64_t count = 0;
  for (; count < lanes; ++count) {
    auto [source, row] = locate(sources, panel * lanes + count);
    if (!source)
      break;
    int64_t stride = source->stride ? source->stride : source->transposed ? source->rows : k;
    rows[count] = source->transposed ? PlainRow{source->data + row * width, stride * width}
                                     : PlainRow{source->data + row * stride * width, width};
  }
  for (int64_t i = 0; i < k; ++i) {
    uint8_t *column = out + (i / unit * lanes * unit + i % unit) * width;
    for (int64_t lane = 0; lane < count; ++lane)
      std::memcpy(column + lane * unit * width, rows[lane].values + i * rows[lane].step, width);
  }
}

// Puts one scale group of a block, `codes` of layout.block values, into lane `lane` of `unit`.
static void putCodes(const PackedLayout &layout, const uint8_t *codes, int64_t lane, uint8_t *unit) {
  uint8_t *out = unit + layout.codeOffset() + 4 * lane;
  if (layout.numbers == PackedNumbers::U8) {
    for (int64_t i = 0; i < layout.block; ++i)
      out[i / 4 * 4 * lanes + i % 4] = codes[i];
    return;
  }
  int64_t half = layout.block / 2;
  for (int64_t i = 0; i < half; ++i)
    out[i / 4 * 4 * lanes + i % 4] = uint8_t(codes[i] | codes[half + i] << 4);
}

static void packBlockRow(const BlockFormat &format, const WeightSource &source, int64_t row, int64_t k, int64_t lane,
                         uint8_t *panel) {
  const PackedLayout &layout = format.layout;
  int64_t groups = format.blockValues / layout.block, scaleBytes = layout.scaleBytes();
  const uint8_t *block = source.data + row * (k / format.blockValues) * format.blockBytes;
  BlockCodes codes;
  for (int64_t i = 0; i < k / format.blockValues; ++i, block += format.blockBytes) {
    format.decode(block, codes);
    for (int64_t group = 0; group < groups; ++group) {
      uint8_t *unit = panel + (i * groups + group) * layout.unitBytes();
      const void *scale = layout.wideScales ? (const void *)&codes.scales[group] : block;
      const void *min = layout.wideScales ? (const void *)&codes.mins[group] : block + 2;
      std::memcpy(unit + scaleBytes * lane, scale, scaleBytes);
      if (layout.hasMin)
        std::memcpy(unit + layout.minOffset() + scaleBytes * lane, min, scaleBytes);
      putCodes(layout, codes.codes + group * layout.block, lane, unit);
    }
  }
}

static void packBlockPanel(const BlockFormat &format, const std::vector<WeightSource> &sources, int64_t panel,
                           int64_t k, uint8_t *out) {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    auto [source, row] = locate(sources, panel * lanes + lane);
    if (!source)
      return;
    packBlockRow(format, *source, row, k, lane, out);
  }
}

static void packPanel(const PackedLayout &layout, const BlockFormat *format, const std::vector<WeightSource> &sources,
                      int64_t panel, int64_t k, uint8_t *out) {
  if (layout.numbers == PackedNumbers::F32)
    packPlainPanel<uint32_t, 1>(sources, panel, k, out);
  else if (!format)
    packPlainPanel<uint16_t, 2>(sources, panel, k, out);
  else
    packBlockPanel(*format, sources, panel, k, out);
}

void heddle::packPanels(TensorType type, const std::vector<WeightSource> &sources, int64_t k, int64_t panelBegin,
                        int64_t panelEnd, uint8_t *out, PanelOrder order) {
  PackedLayout layout = *layoutFor(type);
  const BlockFormat *format = findBlockFormat(type);
  int64_t panelBytes = layout.panelBytes(k);
  for (int64_t panel = panelBegin; panel < panelEnd; ++panel, out += panelBytes) {
    // Rows past the last are zero: all-zero scales, mins and plain values.
    std::memset(out, 0, panelBytes);
    if (order == PanelOrder::Interleaved) {
      int64_t count = sources.size();
      packPanel(layout, format, {sources[panel % count]}, panel / count, k, out);
    } else {
      packPanel(layout, format, sources, panel, k, out);
    }
  }
}
