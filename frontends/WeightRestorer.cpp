// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A weight of codes keeps its numbers where 32 neighbours of a row have one scale: (code - zero) * scale is Q4_0 or Q8_0 where zero is in the
// middle, and Q5_0 where it is elsewhere, which has room for each difference of two codes of 4 bits. Their scale is f16, as most files have it.
// Elsewhere numbers are rounded to 16 bits.
#include "frontends/WeightRestorer.h"

#include "bytes/HalfFloats.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

namespace heddle {

static constexpr int64_t blockColumns = 32;

void CodedWeight::groupColumns(int64_t size) {
  groupOf.resize(static_cast<size_t>(columns));
  for (int64_t column = 0; column < columns; ++column)
    groupOf[static_cast<size_t>(column)] = size < 0 ? 0 : static_cast<int32_t>(column / size);
}

std::vector<float> WeightPart::numbers() const {
  size_t count = 1;
  for (int64_t size : shape)
    count *= static_cast<size_t>(size);
  std::vector<float> values(count);
  dequantize(type, data, count, values.data());
  return values;
}

WeightRestorer::WeightRestorer(Model &model) : model(model), file(model.checkpoint.files.front()->path()) {}

std::vector<std::string> WeightRestorer::namesBefore(const std::string &ending) const {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : model.checkpoint.tensors)
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      names.push_back(name.substr(0, name.size() - ending.size()));
  return names;
}

Status WeightRestorer::refused(const std::string &name, const std::string &what) const {
  const TensorInfo *tensor = model.checkpoint.find(name);
  return errorIn(model.checkpoint.files[tensor ? tensor->file : 0]->path(), "tensor '" + printable(name) + "' " + what)
      .ofTensor(name);
}

Expected<WeightPart> WeightRestorer::part(const std::string &name, const std::vector<TensorType> &types,
                                          const std::vector<int64_t> *shape) const {
  const TensorInfo *tensor = model.checkpoint.find(name);
  if (!tensor)
    return refused(name, "is missing, which is part of a weight that is quantised by " + model.quantMethod);
  if (std::find(types.begin(), types.end(), tensor->type) == types.end()) {
    std::string expected;
    for (TensorType type : types)
      expected += (expected.empty() ? "" : " or ") + std::string(tensorTypeInfo(type).name);
    return refused(name, "has type " + std::string(tensorTypeInfo(tensor->type).name) + ", expected " + expected);
  }
  bool fits = !shape || tensor->shape.size() == shape->size();
  for (size_t i = 0; fits && i < tensor->shape.size(); ++i)
    fits = tensor->shape[i] > 0 && (!shape || (*shape)[i] < 0 || (*shape)[i] == tensor->shape[i]);
  if (!fits) {
    std::string expected = shape ? shapeText(*shape) : "positive sizes";
    for (size_t at; (at = expected.find("-1")) != std::string::npos;)
      expected.replace(at, 2, "any");
    return refused(name, "has shape " + shapeText(tensor->shape) + ", expected " + expected);
  }
  return WeightPart{model.checkpoint.data(*tensor), tensor->type, tensor->shape};
}

// Whether each aligned run of 32 columns is of one group.
static bool hasBlocks(const CodedWeight &weight) {
  if (weight.columns % blockColumns)
    return false;
  for (int64_t column = 0; column < weight.columns; ++column)
    if (weight.groupOf[static_cast<size_t>(column)] !=
        weight.groupOf[static_cast<size_t>(column / blockColumns * blockColumns)])
      return false;
  return true;
}

static float zeroOf(const CodedWeight &weight, size_t index) {
  return weight.zeros.empty() ? static_cast<float>(1 << (weight.bits - 1)) : weight.zeros[index];
}

// Of blocks that have one scale each; none where their codes less zero need more bits than any type has.
static std::optional<TensorType> blockTypeOf(const CodedWeight &weight) {
  auto middle = static_cast<float>(1 << (weight.bits - 1));
  if (std::all_of(weight.zeros.begin(), weight.zeros.end(), [&](float zero) { return zero == middle; }))
    return weight.bits == 4 ? TensorType::Q4_0 : TensorType::Q8_0;
  bool fits = std::all_of(weight.zeros.begin(), weight.zeros.end(), [](float zero) { return zero >= 0 && zero <= 16; });
  return weight.bits == 4 && fits ? std::optional(TensorType::Q5_0) : std::nullopt;
}

// A block of ggml's: an f16 scale, then codes that stand for (code - zero) * scale.
static void putBlock(TensorType type, const uint8_t *codes, float scale, float zero, uint8_t *out) {
  constexpr int half = blockColumns / 2;
  uint16_t bits = floatToHalf(scale);
  std::memcpy(out, &bits, sizeof bits);
  out += sizeof bits;
  if (type == TensorType::Q8_0) {
    for (int i = 0; i < blockColumns; ++i)
      out[i] = codes[i] ^ 0x80;
    return;
  }
  // Of Q5_0, code 16 stands for 0, and the fifth bits lie in a word of their own.
  uint8_t shifted[blockColumns];
  uint32_t fifth = 0;
  for (int i = 0; i < blockColumns; ++i) {
    int code = codes[i] + (type == TensorType::Q5_0 ? 16 - static_cast<int>(zero) : 0);
    shifted[i] = static_cast<uint8_t>(code & 15);
    fifth |= static_cast<uint32_t>(code >> 4) << i;
  }
  if (type == TensorType::Q5_0) {
    std::memcpy(out, &fifth, sizeof fifth);
    out += sizeof fifth;
  }
  for (int i = 0; i < half; ++i)
    out[i] = static_cast<uint8_t>(shifted[i] | shifted[half + i] << 4);
}

static size_t groupIndex(const CodedWeight &weight, int64_t row, size_t column) {
  return static_cast<size_t>(row * weight.groups) + static_cast<size_t>(weight.groupOf[column]);
}

// The codes of a row as numbers.
static void readRow(const CodedWeight &weight, int64_t row, const uint8_t *codes, float *out) {
  for (size_t column = 0; column < static_cast<size_t>(weight.columns); ++column) {
    size_t index = groupIndex(weight, row, column);
    out[column] = weight.scales[index] * (static_cast<float>(codes[column]) - zeroOf(weight, index));
  }
}

Status WeightRestorer::addCodes(const std::string &name, const CodedWeight &weight) {
  constexpr float largestHalf = 65504;
  float largest = 0;
  for (float scale : weight.scales) {
    if (!std::isfinite(scale))
      return refused(name, "has a scale that is not a finite number");
    largest = std::max(largest, std::fabs(scale));
  }
  bool fitsHalf = largest * static_cast<float>(1 << weight.bits) < largestHalf;
  std::optional<TensorType> blocks = hasBlocks(weight) && fitsHalf ? blockTypeOf(weight) : std::nullopt;
  TensorType type = blocks ? *blocks : fitsHalf ? TensorType::F16 : TensorType::BF16;
  auto columns = static_cast<size_t>(weight.columns);
  return addRows(name, type, weight.rows, weight.columns,
                 [&](int64_t first, int64_t last, float *numbers, uint8_t *out) {
                   std::vector<uint8_t> codes(static_cast<size_t>(last - first) * columns);
                   weight.codes(first, last, codes.data());
                   const uint8_t *next = codes.data();
                   for (int64_t row = first; row < last; ++row, next += columns, numbers += columns)
                     readRow(weight, row, next, numbers);
                   next = codes.data();
                   for (int64_t row = first; blocks && row < last; ++row)
                     for (size_t column = 0; column < columns; column += blockColumns) {
                       size_t index = groupIndex(weight, row, column);
                       putBlock(type, next, weight.scales[index], zeroOf(weight, index), out);
                       next += blockColumns;
                       out += tensorTypeInfo(type).blockBytes;
                     }
                   return blocks.has_value();
                 });
}

Status WeightRestorer::addNumbers(const std::string &name, TensorType type, int64_t rows, int64_t columns,
                                  const std::function<void(int64_t row, float *out)> &fill) {
  return addRows(name, type, rows, columns, [&](int64_t first, int64_t last, float *numbers, uint8_t *) {
    for (int64_t row = first; row < last; ++row, numbers += columns)
      fill(row, numbers);
    return false;
  });
}

// What rounding changes is summed for each run of rows by itself and added in their order, so that it is the same on any number of cores.
Status WeightRestorer::addRows(const std::string &name, TensorType type, int64_t rows, int64_t columns,
                               const FillBoth &fill) {
  std::mutex mutex;
  std::map<int64_t, RestoredWeight> losses;
  std::atomic<bool> fits{true};
  auto fillRows = [&](int64_t first, int64_t last, uint8_t *out) {
    auto count = static_cast<size_t>((last - first) * columns);
    std::vector<float> before(count), after(count);
    if (!fill(first, last, before.data(), out) && !storeNumbers(type, before.data(), count, out))
      fits = false;
    dequantize(type, out, count, after.data());
    RestoredWeight loss{name, type};
    for (size_t i = 0; i < count; ++i) {
      double difference = std::fabs(double(after[i]) - before[i]);
      loss.differences += difference * difference;
      loss.squares += double(before[i]) * before[i];
      loss.largest = std::max(loss.largest, difference);
    }
    std::lock_guard<std::mutex> lock(mutex);
    losses.emplace(first, loss);
  };
  HEDDLE_RETURN_IF_ERROR(addBlocks(name, type, rows, columns, fillRows));
  if (!fits)
    return refused(name, "has a number that is not finite, or that " + std::string(tensorTypeInfo(type).name) +
                             " does not hold");
  RestoredWeight &whole = model.restored.back();
  for (const auto &[first, loss] : losses) {
    whole.differences += loss.differences;
    whole.squares += loss.squares;
    whole.largest = std::max(whole.largest, loss.largest);
  }
  return Status();
}

Status WeightRestorer::addBlocks(const std::string &name, TensorType type, int64_t rows, int64_t columns,
                                 const UnnamedFile::FillRows &fill) {
  const TensorTypeInfo &info = tensorTypeInfo(type);
  assert(columns % info.blockValues == 0);
  uint64_t rowBytes = static_cast<uint64_t>(columns) / info.blockValues * info.blockBytes;
  TensorInfo tensor{type, {rows, columns}};
  HEDDLE_RETURN_IF_ERROR(file.add(rows, columns, rowBytes, fill, tensor.offset));
  tensor.file = static_cast<uint32_t>(model.checkpoint.files.size()); // that the file is going to have
  tensor.bytes = static_cast<uint64_t>(rows) * rowBytes;
  model.checkpoint.tensors[name] = std::move(tensor);
  model.restored.push_back({name, type});
  return Status();
}

Status WeightRestorer::finish() {
  return model.restored.empty() ? Status() : file.addTo(model.checkpoint);
}

} // namespace heddle
