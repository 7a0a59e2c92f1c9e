// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of panels, the index formula and the packer. Packing writes a panel in order and reads its 16 rows side by side: files promise
// no alignment, so every value is copied by bytes. `unpack` is written from the formula alone, not from the packer.

#include "compiler/weights/PackedLayout.h"

#include "bytes/HalfFloats.h"
#include "compiler/weights/BlockCodes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace heddle;

static constexpr int64_t lanes = PackedLayout::panelRows;

template <typename T> static T readAs(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

const int8_t *heddle::entriesOf(CodeBook book) {
  static constexpr int8_t entries[][16] = {
      {}, // of codes that stand for themselves
      {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
      // FP4 (E2M1) values, doubled to be whole.
      {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
      // The integers of frontends/IntegerBlocks.h.
      {-7, 1, 9},
      {-9, -7, -1, 1, 7, 9},
      {-43, -25, -8, 8, 25, 43},
      {-31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 31},
      {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15},
  };
  return book == CodeBook::None ? nullptr : entries[size_t(book)];
}

int64_t PackedLayout::unitValues() const {
  return isQuantized() ? scales >= PackedScales::Shared ? superBlock : block : numbers == PackedNumbers::F32 ? 1 : 2;
}

int64_t PackedLayout::headerBytes() const {
  if (!isNested())
    return panelRows * scaleBytes() * (hasMin ? 2 : 1);
  int64_t end = hasMin && !hasNibbleScales ? nestedMinOffset() : nestedScaleOffset();
  return (end + panelRows * blocksPerUnit() + 63) / 64 * 64;
}

int64_t PackedLayout::blocksPerGroup() const {
  return highBits ? std::max<int64_t>(1, 8 / highBits / (block / 4)) : 1;
}

int64_t PackedLayout::unitBytes() const {
  return isQuantized() ? headerBytes() + blocksPerUnit() / blocksPerGroup() * groupBytes() : 4 * lanes;
}

int64_t PackedLayout::panelBytes(int64_t k) const {
  int64_t units = (k + unitValues() - 1) / unitValues();
  // 16-bit panels are whole tiles of 16 rows by 32 columns.
  int64_t multiple = isQuantized() || numbers == PackedNumbers::F32 ? 64 : 1024;
  return (panelHeaderBytes() + units * unitBytes() + multiple - 1) / multiple * multiple;
}

bool PackedLayout::operator==(const PackedLayout &other) const {
  return numbers == other.numbers && block == other.block && zero == other.zero && maxCode == other.maxCode &&
         scales == other.scales && hasMin == other.hasMin && highBits == other.highBits &&
         hasNibbleScales == other.hasNibbleScales && book == other.book && scaleShift == other.scaleShift;
}

float PackedLayout::unpack(const uint8_t *packed, int64_t k, int64_t row, int64_t column) const {
  int64_t lane = row % lanes, inUnit = column % unitValues();
  const uint8_t *panel = packed + row / lanes * panelBytes(k);
  const uint8_t *unit = panel + panelHeaderBytes() + column / unitValues() * unitBytes();
  if (numbers == PackedNumbers::F32)
    return readAs<float>(unit + 4 * lane);
  if (!isQuantized()) {
    uint16_t bits = readAs<uint16_t>(unit + 4 * lane + 2 * inUnit);
    return numbers == PackedNumbers::F16 ? halfToFloat(bits) : bfloatToFloat(bits);
  }
  if (scales == PackedScales::None)
    return float(unit[4 * lane + inUnit] - readAs<int32_t>(panel + panelZeroOffset() + 4 * lane));
  auto readScale = [&](const uint8_t *at) {
    uint16_t bits = readAs<uint16_t>(at + scaleBytes() * lane);
    float stored = scales == PackedScales::F32    ? readAs<float>(at + 4 * lane)
                   : scales == PackedScales::BF16 ? bfloatToFloat(bits)
                                                  : halfToFloat(bits);
    return std::ldexp(stored, -scaleShift);
  };
  int64_t inBlock = inUnit % block, number = inUnit / block; // of the block in its unit
  float scale = readScale(unit), min = hasMin ? readScale(unit + minOffset()) : 0;
  if (isNested()) {
    uint8_t ofBlock = unit[nestedScaleOffset() + lanes * number + lane];
    scale *= float(hasNibbleScales ? ofBlock & 15 : int8_t(ofBlock));
    if (hasMin)
      min *= float(hasNibbleScales ? ofBlock >> 4 : int8_t(unit[nestedMinOffset() + lanes * number + lane]));
  }
  const uint8_t *group = unit + headerBytes() + number / blocksPerGroup() * groupBytes();
  int64_t inGroup = number % blocksPerGroup(), quad = inBlock / 4, byte = 4 * lane + inBlock % 4;
  uint8_t low = group[inGroup * lowBytes() + quad % quadsPerShare() * 4 * lanes + byte];
  int code = low >> (quad / quadsPerShare() * lowBits()) & ((1 << lowBits()) - 1);
  if (highBits) {
    uint8_t high = group[blocksPerGroup() * lowBytes() + byte];
    code |= (high >> (inGroup * (block / 4) + quad) * highBits & ((1 << highBits) - 1)) << lowBits();
  }
  float centred = float(book == CodeBook::None ? code - int(zero) : entriesOf(book)[code]);
  return hasMin ? std::fma(scale, centred, min) : scale * centred;
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

std::optional<PackedLayout> heddle::layoutNamed(std::string_view format) {
  if (format == "codes4")
    return PackedLayout{PackedNumbers::U4, 32, 0, 15, PackedScales::F32, /*hasMin=*/true};
  if (format == "codes8")
    return PackedLayout{PackedNumbers::U8, 32, 0, 255, PackedScales::F32, /*hasMin=*/true};
  if (format == "bytes")
    return PackedLayout{PackedNumbers::U8, 4, 0, 255, PackedScales::None};
  std::optional<TensorType> type = tensorTypeNamed(format);
  return type ? layoutFor(*type) : std::nullopt;
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
  int64_t i = 0;
  // Whole units, of rows whose values follow each other.
  if (std::all_of(rows, rows + count, [](const PlainRow &row) { return row.step == width; }))
    for (; i + unit <= k; i += unit)
      for (int64_t lane = 0; lane < count; ++lane)
        std::memcpy(out + (i * lanes + lane * unit) * width, rows[lane].values + i * width, unit * width);
  for (; i < k; ++i) {
    uint8_t *column = out + (i / unit * lanes * unit + i % unit) * width;
    for (int64_t lane = 0; lane < count; ++lane)
      std::memcpy(column + lane * unit * width, rows[lane].values + i * rows[lane].step, width);
  }
}

// Puts the codes of block `number` of a unit into lane `lane`: four at a time, each in its byte of a word.
static void putCodes(const PackedLayout &layout, const uint8_t *codes, int64_t number, int64_t lane, uint8_t *unit) {
  int64_t inGroup = number % layout.blocksPerGroup(), quads = layout.block / 4, perShare = layout.quadsPerShare();
  uint8_t *group = unit + layout.headerBytes() + number / layout.blocksPerGroup() * layout.groupBytes() + 4 * lane;
  uint8_t *low = group + inGroup * layout.lowBytes(), *high = group + layout.blocksPerGroup() * layout.lowBytes();
  constexpr uint32_t everyByte = 0x01010101;
  int lowBits = int(layout.lowBits()), highShift = int(inGroup * quads) * layout.highBits;
  uint32_t lowMask = everyByte * ((1u << lowBits) - 1), highMask = everyByte * ((1u << layout.highBits) - 1);
  auto add = [](uint8_t *at, uint32_t bits) {
    bits |= readAs<uint32_t>(at);
    std::memcpy(at, &bits, sizeof bits);
  };
  for (int shift = 0; shift < 8; shift += lowBits)
    for (int64_t quad = 0; quad < perShare; ++quad, codes += 4) {
      auto word = readAs<uint32_t>(codes);
      add(low + quad * 4 * lanes, (word & lowMask) << shift);
      if (layout.highBits) {
        add(high, (word >> lowBits & highMask) << highShift);
        highShift += layout.highBits;
      }
    }
}

// Puts the scales of a stored block, and those nested in it, into lane `lane` of the unit that it becomes.
static void putScales(const PackedLayout &layout, const BlockCodes &codes, int64_t lane, uint8_t *unit) {
  std::memcpy(unit + 2 * lane, &codes.scale, 2);
  if (layout.hasMin)
    std::memcpy(unit + layout.minOffset() + 2 * lane, &codes.min, 2);
  for (int64_t i = 0; layout.isNested() && i < layout.blocksPerUnit(); ++i) {
    uint8_t *scale = unit + layout.nestedScaleOffset() + lanes * i + lane;
    *scale = uint8_t(codes.nestedScales[i] | (layout.hasNibbleScales ? codes.nestedMins[i] << 4 : 0));
    if (layout.hasMin && !layout.hasNibbleScales)
      unit[layout.nestedMinOffset() + lanes * i + lane] = uint8_t(codes.nestedMins[i]);
  }
}

static void packBlockRow(const BlockFormat &format, const WeightSource &source, int64_t row, int64_t k, int64_t lane,
                         uint8_t *panel) {
  const PackedLayout &layout = format.layout;
  const uint8_t *block = source.data + row * (k / format.blockValues) * format.blockBytes;
  uint8_t *unit = panel;
  BlockCodes codes;
  for (int64_t i = 0; i < k / format.blockValues; ++i, block += format.blockBytes) {
    format.decode(block, codes);
    // A stored block is a unit, or several with one scale.
    for (int64_t first = 0; first < format.blockValues; first += layout.unitValues(), unit += layout.unitBytes()) {
      putScales(layout, codes, lane, unit);
      for (int64_t number = 0; number < layout.blocksPerUnit(); ++number)
        putCodes(layout, codes.codes + first + number * layout.block, number, lane, unit);
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

// Rows [row, row + count) of a source in its file, as numbers (count, k). Of a transposed one they are columns: of each stored row the
// blocks that hold them.
static void readRows(const WeightSource &source, int64_t row, int64_t count, int64_t k, TensorType type, float *out) {
  const TensorTypeInfo &info = tensorTypeInfo(type);
  int64_t block = info.blockValues, stride = source.stride ? source.stride : source.transposed ? source.rows : k;
  if (!source.transposed) {
    for (int64_t i = 0; i < count; ++i)
      dequantize(type, source.data + (row + i) * stride / block * info.blockBytes, k, out + i * k);
    return;
  }
  int64_t begin = row / block * block, width = (row + count + block - 1) / block * block - begin;
  std::vector<float> numbers(width);
  for (int64_t column = 0; column < k; ++column) {
    dequantize(type, source.data + (column * stride + begin) / block * info.blockBytes, width, numbers.data());
    for (int64_t i = 0; i < count; ++i)
      out[i * k + column] = numbers[row - begin + i];
  }
}

namespace {

// The rows of one panel, as `type` has them.
class ConvertedRows {
public:
  ConvertedRows(TensorType type, int64_t k, ConversionLoss *loss)
      : type(type), k(k), rowBytes(k / tensorTypeInfo(type).blockValues * tensorTypeInfo(type).blockBytes), loss(loss),
        bytes(lanes * rowBytes), numbers(lanes * k), after(loss ? k : 0) {}
  // Those of panel `panel` of `sources`, as a source of their own.
  WeightSource read(const std::vector<WeightSource> &sources, int64_t panel);

private:
  void convert(const WeightSource &source, int64_t row, int64_t count, uint8_t *out);

  TensorType type;
  int64_t k, rowBytes;
  ConversionLoss *loss;
  std::vector<uint8_t> bytes;
  std::vector<float> numbers, after;
};

} // namespace

void ConvertedRows::convert(const WeightSource &source, int64_t row, int64_t count, uint8_t *out) {
  // Of `type` already: blocks stay as they are.
  if (!source.fileType && !source.transposed && !source.stride) {
    std::memcpy(out, source.data + row * rowBytes, count * rowBytes);
    return;
  }
  readRows(source, row, count, k, source.fileType.value_or(type), numbers.data());
  for (int64_t i = 0; i < count; ++i, out += rowBytes) {
    const float *before = numbers.data() + i * k;
    bool fits = convertRow(type, before, k, out);
    if (!loss || !source.fileType)
      continue;
    dequantize(type, out, k, after.data());
    loss->add(before, after.data(), k);
    loss->from = source.fileType;
    if (!fits && !loss->unfit)
      loss->unfit =
          *std::max_element(before, before + k, [](float a, float b) { return !(std::fabs(b) <= std::fabs(a)); });
  }
}

WeightSource ConvertedRows::read(const std::vector<WeightSource> &sources, int64_t panel) {
  int64_t lane = 0;
  while (lane < lanes) {
    auto [source, row] = locate(sources, panel * lanes + lane);
    if (!source)
      break;
    int64_t count = std::min(lanes - lane, source->rows - row);
    convert(*source, row, count, bytes.data() + lane * rowBytes);
    lane += count;
  }
  return {bytes.data(), lane};
}

void heddle::packPanels(TensorType type, const std::vector<WeightSource> &sources, int64_t k, int64_t panelBegin,
                        int64_t panelEnd, uint8_t *out, PanelOrder order, ConversionLoss *outLoss) {
  PackedLayout layout = *layoutFor(type);
  const BlockFormat *format = findBlockFormat(type);
  int64_t panelBytes = layout.panelBytes(k);
  std::optional<ConvertedRows> converted;
  if (std::any_of(sources.begin(), sources.end(), [](const WeightSource &source) { return source.fileType; }))
    converted.emplace(type, k, outLoss);
  for (int64_t panel = panelBegin; panel < panelEnd; ++panel, out += panelBytes) {
    // Rows past the last are zero: all-zero scales, mins and plain values.
    std::memset(out, 0, panelBytes);
    std::vector<WeightSource> one;
    const std::vector<WeightSource> *from = &sources;
    int64_t ofOne = panel, count = sources.size();
    if (order == PanelOrder::Interleaved) {
      one = {sources[panel % count]};
      from = &one;
      ofOne = panel / count;
    }
    if (converted) {
      one = {converted->read(*from, ofOne)};
      from = &one;
      ofOne = 0;
    }
    packPanel(layout, format, *from, ofOne, k, out);
  }
}
