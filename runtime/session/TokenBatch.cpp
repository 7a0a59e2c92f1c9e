// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/TokenBatch.h"

#include "runtime/session/ImageGrid.h"
#include "runtime/session/Mosaic.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

const StoredTensor *find(const std::vector<StoredTensor> &tensors, std::string_view name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor &t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// Integers of a tensor, or an error that names it.
Status readIntegers(const std::string &where, const StoredTensor &tensor, std::vector<int64_t> &values) {
  auto convert = [&](auto example) {
    size_t count = tensor.size / sizeof example;
    values.resize(count);
    for (size_t i = 0; i < count; ++i) {
      memcpy(&example, tensor.data + i * sizeof example, sizeof example);
      values[i] = int64_t(example);
    }
    return Status();
  };
  if (tensor.dtype == "I64")
    return convert(int64_t());
  if (tensor.dtype == "I32")
    return convert(int32_t());
  if (tensor.dtype == "BOOL" || tensor.dtype == "U8")
    return convert(uint8_t());
  return invalidInput(where + ": tensor '" + tensor.name + "' is " + std::string(tensor.dtype) +
                      ", expected I64 or I32");
}

// Element i of `values`, which are (batch, length) of input `name`, if it is in [0, limit).
Status checkElement(const std::string &where, const char *name, const char *expected,
                    const std::vector<int64_t> &values, int64_t i, int64_t length, int64_t limit) {
  if (values[i] >= 0 && values[i] < limit)
    return Status();
  return invalidInput(format("%s: %s[%lld, %lld] is %lld, expected %s in [0, %lld)", where.c_str(), name,
                             (long long)(i / length), (long long)(i % length), (long long)values[i], expected,
                             (long long)limit));
}

} // namespace

std::vector<const char *> encoderInputs(const package::Encoder &encoder) {
  if (encoder.image())
    return {"pixel_values"};
  if (encoder.audio())
    return {"input_features"};
  std::vector<const char *> names = {"input_ids", "attention_mask", "position_ids"};
  if (encoder.token_types())
    names.push_back("token_type_ids");
  if (encoder.globals() != package::GlobalTokens::Absent)
    names.push_back("global_attention_mask");
  return names;
}

std::vector<const char *> inputNames(const package::Package &metadata) {
  if (!metadata.encoder()) {
    std::vector<const char *> names = {"input_ids", "attention_mask", "position_ids"};
    if (metadata.adapters())
      names.push_back("adapter_ids");
    const package::GivenRows *given = metadata.given();
    if (!given)
      return names;
    std::vector<const char *> images;
    if (given->tiles())
      images = mosaicInputs();
    else if (given->grid())
      images = gridInputs(*given->grid());
    else
      for (const package::GraphTensor *input : *metadata.graphs()->Get(given->graph())->inputs())
        images.push_back(input->name()->c_str());
    names.insert(names.end(), images.begin(), images.end());
    return names;
  }
  std::vector<const char *> names = heddle::encoderInputs(*metadata.encoder());
  if (metadata.task() != package::Task::Seq2Seq)
    return names;
  if (!inputRowWidth(*metadata.encoder()))
    names = {"input_ids", "attention_mask"};
  names.push_back("decoder_input_ids");
  return names;
}

static Status checkNames(const std::string &where, const std::vector<StoredTensor> &tensors,
                         const std::vector<const char *> &known) {
  for (const StoredTensor &tensor : tensors) {
    if (std::find(known.begin(), known.end(), tensor.name) != known.end())
      continue;
    std::string list;
    for (const char *name : known)
      list.append(list.empty() ? "" : ", ").append(name);
    return invalidInput(
        format("%s: tensor '%s' is no input of this model (%s)", where.c_str(), tensor.name.c_str(), list.c_str()));
  }
  return Status();
}

Status TokenBatch::readShape(const std::string &where, const std::vector<StoredTensor> &tensors,
                             const package::Package &metadata) {
  HEDDLE_RETURN_IF_ERROR(checkNames(where, tensors, inputNames(metadata)));
  const StoredTensor *input = find(tensors, idsName);
  if (!input)
    return invalidInput(where + ": no tensor '" + idsName + "'");
  if (input->shape.size() != 2 || input->shape[0] < 1 || input->shape[1] < 1)
    return invalidInput(where + ": tensor '" + idsName + "' has shape " + shapeText(input->shape) +
                        ", expected (batch, sequence)");
  batch = input->shape[0];
  length = input->shape[1];
  // Tokens of a feed are counted in 32 bits.
  if (length > INT32_MAX)
    return invalidInput(
        format("%s: rows of %lld tokens, at most %d are expected", where.c_str(), (long long)length, INT32_MAX));
  if (batch > 65536)
    return invalidInput(format("%s: a batch of %lld, at most 65536 are expected", where.c_str(), (long long)batch));
  return Status();
}

Status TokenBatch::readMatrix(const std::string &where, const std::vector<StoredTensor> &tensors, const char *name,
                              std::vector<int64_t> &values) const {
  const StoredTensor *tensor = find(tensors, name);
  if (!tensor)
    return Status();
  HEDDLE_RETURN_IF_ERROR(readIntegers(where, *tensor, values));
  if (tensor->shape == std::vector<int64_t>{batch, length})
    return Status();
  if (tensor->shape != std::vector<int64_t>{1, length})
    return invalidInput(where + ": tensor '" + name + "' has shape " + shapeText(tensor->shape) + ", " + idsName +
                        " has " + shapeText({batch, length}));
  for (int64_t row = 1; row < batch; ++row)
    values.insert(values.end(), values.begin(), values.begin() + length);
  return Status();
}

Status TokenBatch::read(const std::vector<StoredTensor> &tensors, const std::string &where,
                        const package::Package &metadata, BatchSide side) {
  bool isOfDecoder = side == BatchSide::Decoder;
  const package::Encoder *encoder = isOfDecoder ? nullptr : metadata.encoder();
  if (const package::ImageInput *image = encoder ? encoder->image() : nullptr)
    return readNumbers(where, tensors, {image->channels(), image->size(), image->size()}, metadata,
                       &TokenBatch::addImage);
  if (encoder && encoder->audio())
    return readNumbers(where, tensors, {encoder->audio()->mel_bins(), 2 * int64_t(encoder->context())}, metadata,
                       &TokenBatch::addSound);
  idsName = isOfDecoder ? "decoder_input_ids" : "input_ids";
  HEDDLE_RETURN_IF_ERROR(readShape(where, tensors, metadata));
  std::vector<int64_t> ids, mask, positions, tokenTypes, globals;
  HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, idsName, ids));
  if (!isOfDecoder) {
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "attention_mask", mask));
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "position_ids", positions));
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "token_type_ids", tokenTypes));
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "global_attention_mask", globals));
  }
  rows.resize(batch);
  HEDDLE_RETURN_IF_ERROR(readAdapters(tensors, where, metadata));
  // Masked tokens are numbered as well, so that only here all that count are known.
  std::vector<int32_t> numbered;
  if (encoder && encoder->position_padding() >= 0 && positions.empty())
    for (auto row = ids.begin(); row != ids.end(); row += length) {
      std::vector<int32_t> ofRow = positionsOf(metadata, {row, row + length});
      numbered.insert(numbered.end(), ofRow.begin(), ofRow.end());
    }
  for (int64_t i = 0; i < batch * length; ++i) {
    if (!mask.empty() && mask[i] != 0 && mask[i] != 1)
      return invalidInput(format("%s: attention_mask[%lld, %lld] is %lld, expected 0 or 1", where.c_str(),
                                 (long long)(i / length), (long long)(i % length), (long long)mask[i]));
    if (!mask.empty() && mask[i] == 0)
      continue;
    TokenRow &row = rows[i / length];
    HEDDLE_RETURN_IF_ERROR(
        checkElement(where, idsName, "an id", ids, i, length, encoder ? encoder->vocab_size() : metadata.vocab_size()));
    row.ids.push_back(int32_t(ids[i]));
    row.columns.push_back(i % length);
    if (!positions.empty()) {
      HEDDLE_RETURN_IF_ERROR(checkElement(where, "position_ids", "one", positions, i, length,
                                          encoder ? int64_t(encoder->context()) + metadata.position_offset()
                                                  : int64_t(metadata.context())));
      row.positions.push_back(int32_t(positions[i]));
    }
    if (!numbered.empty())
      row.positions.push_back(numbered[i]);
    if (!tokenTypes.empty()) {
      HEDDLE_RETURN_IF_ERROR(
          checkElement(where, "token_type_ids", "a type", tokenTypes, i, length, encoder->token_types()));
      row.tokenTypes.push_back(int32_t(tokenTypes[i]));
    }
    if (!globals.empty()) {
      HEDDLE_RETURN_IF_ERROR(checkElement(where, "global_attention_mask", "one", globals, i, length, 2));
      row.globals.push_back(int32_t(globals[i]));
    }
  }
  bool keepsPlaces = encoder ? encoder->counts_distances() : !metadata.positions_skip_masked();
  return keepsPlaces ? keepGaps(where, metadata, encoder) : Status();
}

// adapter_ids (batch): the number of each row's adapter, 0 for none.
Status TokenBatch::readAdapters(const std::vector<StoredTensor> &tensors, const std::string &where,
                                const package::Package &metadata) {
  const StoredTensor *tensor = metadata.adapters() ? find(tensors, "adapter_ids") : nullptr;
  if (!tensor)
    return Status();
  if (tensor->shape != std::vector<int64_t>{batch})
    return invalidInput(where + ": tensor 'adapter_ids' has shape " + shapeText(tensor->shape) + ", expected " +
                        shapeText({batch}));
  std::vector<int64_t> numbers;
  HEDDLE_RETURN_IF_ERROR(readIntegers(where, *tensor, numbers));
  for (int64_t row = 0; row < batch; ++row) {
    if (numbers[row] < 0 || numbers[row] > int64_t(metadata.adapters()->size()))
      return invalidInput(format("%s: adapter_ids[%lld] is %lld, expected 0 … %u", where.c_str(), (long long)row,
                                 (long long)numbers[row], metadata.adapters()->size()));
    rows[row].adapter = numbers[row] ? int32_t(numbers[row]) : -1;
  }
  return Status();
}

Status TokenBatch::readNumbers(const std::string &where, const std::vector<StoredTensor> &tensors,
                               const std::vector<int64_t> &shape, const package::Package &metadata,
                               void (TokenBatch::*add)(const float *, const package::Encoder &)) {
  std::vector<const char *> known = inputNames(metadata);
  HEDDLE_RETURN_IF_ERROR(checkNames(where, tensors, known));
  std::string name = known.front();
  const StoredTensor *input = find(tensors, name);
  if (!input)
    return invalidInput(where + ": no tensor '" + name + "'");
  if (input->dtype != "F32")
    return invalidInput(where + ": tensor '" + name + "' is " + std::string(input->dtype) + ", expected F32");
  bool fits = input->shape.size() == shape.size() + 1 && input->shape[0] >= 1 && input->shape[0] <= 65536 &&
              std::equal(shape.begin(), shape.end(), input->shape.begin() + 1);
  if (!fits) {
    std::string expected = "(batch";
    for (int64_t size : shape)
      expected += ", " + std::to_string(size);
    return invalidInput(where + ": tensor '" + name + "' has shape " + shapeText(input->shape) + ", expected " +
                        expected + ")");
  }
  size_t count = 1;
  for (int64_t size : shape)
    count *= size_t(size);
  std::vector<float> numbers(count);
  for (int64_t index = 0; index < input->shape[0]; ++index) {
    memcpy(numbers.data(), input->data + size_t(index) * count * sizeof(float), count * sizeof(float));
    (this->*add)(numbers.data(), *metadata.encoder());
  }
  return Status();
}

// A row of a patch is (channels, patch, patch), as a convolution's kernel is stored.
void TokenBatch::addImage(const float *pixels, const package::Encoder &encoder) {
  const package::ImageInput &image = *encoder.image();
  int64_t side = image.size(), patch = image.patch(), across = side / patch, special = image.special_tokens();
  int64_t width = inputRowWidth(encoder), tokens = imageTokens(image);
  TokenRow row;
  row.ids.resize(size_t(tokens));
  row.patches.resize(size_t(tokens * width));
  for (int64_t token = 0; token < tokens; ++token) {
    row.columns.push_back(token);
    float *out = row.patches.data() + token * width;
    out[width - 1 - special + std::min(token, special)] = 1;
    if (token < special)
      continue;
    int64_t top = (token - special) / across * patch, left = (token - special) % across * patch;
    for (int64_t channel = 0; channel < image.channels(); ++channel)
      for (int64_t y = 0; y < patch; ++y, out += patch)
        memcpy(out, pixels + (channel * side + top + y) * side + left, patch * sizeof(float));
  }
  rows.push_back(std::move(row));
  batch = int64_t(rows.size());
  length = tokens;
}

// Frames outside of the sound are silent to the first convolution, whose place outside of it is nothing to the second.
void TokenBatch::addSound(const float *features, const package::Encoder &encoder) {
  constexpr int64_t taps = 3;
  int64_t bins = encoder.audio()->mel_bins(), tokens = encoder.context(), frames = 2 * tokens;
  TokenRow row;
  row.ids.resize(size_t(tokens));
  row.patches.resize(size_t(tokens * inputRowWidth(encoder)));
  float *out = row.patches.data();
  for (int64_t token = 0; token < tokens; ++token) {
    row.columns.push_back(token);
    for (int64_t place = 2 * token - 1; place <= 2 * token + 1; ++place, out += bins * taps + 1) {
      if (place < 0)
        continue;
      for (int64_t tap = 0; tap < taps; ++tap)
        if (int64_t frame = place - 1 + tap; frame >= 0 && frame < frames)
          for (int64_t bin = 0; bin < bins; ++bin)
            out[bin * taps + tap] = features[bin * frames + frame];
      out[bins * taps] = 1;
    }
  }
  rows.push_back(std::move(row));
  batch = int64_t(rows.size());
  length = tokens;
}

// Nobody attends to a masked token between others, but it keeps its place: what is behind it is farther from what is before.
Status TokenBatch::keepGaps(const std::string &where, const package::Package &metadata,
                            const package::Encoder *encoder) {
  const auto *windows = metadata.kv() ? metadata.kv()->windows() : nullptr;
  bool hasWindows =
      windows && std::any_of(windows->begin(), windows->end(), [](uint32_t window) { return window > 0; });
  for (size_t i = 0; i < rows.size(); ++i) {
    TokenRow &row = rows[i];
    const std::vector<int64_t> &columns = row.columns;
    if (columns.empty() || columns.back() - columns.front() + 1 == int64_t(columns.size()))
      continue;
    size_t last = 0; // before the first gap
    while (columns[last] + 1 == columns[last + 1])
      ++last;
    if (hasWindows || encoder)
      return invalidInput(
          format("%s: attention_mask[%zu, %lld] is 0 between tokens that count, and this model's %s count "
                 "tokens, not places: expected zeros at the ends of a row",
                 where.c_str(), i, (long long)columns[last] + 1, encoder ? "distances" : "windows"));
    for (size_t token = 0; row.positions.size() < columns.size(); ++token)
      row.positions.push_back(int32_t(columns[token] - columns.front()));
  }
  return Status();
}

Status TokenBatch::completeRows(const std::string &where, const package::Package &metadata) {
  uint32_t context = metadata.encoder()->context();
  for (size_t i = 0; i < rows.size(); ++i) {
    TokenRow &row = rows[i];
    if (row.ids.empty())
      return invalidInput(format("%s: attention_mask masks all tokens of row %zu, expected at least one that counts",
                                 where.c_str(), i));
    if (row.ids.size() > context)
      return invalidInput(
          format("%s: row %zu has %zu tokens, the model takes %u", where.c_str(), i, row.ids.size(), context));
    if (metadata.positions_skip_masked() && row.positions.empty())
      for (size_t token = 0; token < row.ids.size(); ++token)
        row.positions.push_back(int32_t(token) + metadata.position_offset());
    if (row.positions.empty() && row.columns.back() >= int64_t(context))
      return invalidInput(format("%s: row %zu has a token in column %lld, the model has %u positions", where.c_str(), i,
                                 (long long)row.columns.back(), context));
    if (row.positions.empty())
      for (int64_t column : row.columns)
        row.positions.push_back(int32_t(column) + metadata.position_offset());
    if (int32_t last = *std::max_element(row.positions.begin(), row.positions.end());
        last >= int64_t(context) + metadata.position_offset())
      return invalidInput(format("%s: row %zu has a token at position %d, the model has %lld", where.c_str(), i, last,
                                 (long long)context + metadata.position_offset()));
    row.tokenTypes.resize(row.ids.size());
    if (metadata.encoder()->globals() == package::GlobalTokens::Question && row.globals.empty())
      HEDDLE_RETURN_IF_ERROR(checkSeparators(where, i, metadata.encoder()->separator()));
  }
  return Status();
}

// A question and a text as one row: what is global ends with the first of three separators.
Status TokenBatch::checkSeparators(const std::string &where, size_t index, int32_t separator) const {
  const std::vector<int32_t> &ids = rows[index].ids;
  constexpr int64_t expected = 3;
  int64_t found = std::count(ids.begin(), ids.end(), separator);
  if (found == expected)
    return Status();
  return invalidInput(format("%s: row %zu holds the separator %d %lld times, expected %lld: a question and a text, or "
                             "global_attention_mask",
                             where.c_str(), index, separator, (long long)found, (long long)expected));
}

std::vector<EncoderInput> TokenBatch::encoderInputs() const {
  std::vector<EncoderInput> inputs;
  inputs.reserve(rows.size());
  for (const TokenRow &row : rows)
    inputs.push_back({int32_t(row.ids.size()), row.ids.data(), row.positions.data(), row.tokenTypes.data(),
                      row.patches.empty() ? nullptr : row.patches.data(),
                      row.globals.empty() ? nullptr : row.globals.data()});
  return inputs;
}

} // namespace heddle
