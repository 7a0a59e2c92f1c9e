// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/TokenBatch.h"

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
  std::vector<const char *> names = {"input_ids", "attention_mask", "position_ids"};
  if (encoder.token_types())
    names.push_back("token_type_ids");
  return names;
}

Status TokenBatch::readShape(const std::string &where, const std::vector<StoredTensor> &tensors,
                             const package::Package &metadata) {
  std::vector<const char *> known = {"input_ids", "attention_mask", "position_ids"};
  if (metadata.task() == package::Task::Seq2Seq)
    known.back() = "decoder_input_ids";
  else if (metadata.encoder())
    known = heddle::encoderInputs(*metadata.encoder());
  for (const StoredTensor &tensor : tensors) {
    if (std::find(known.begin(), known.end(), tensor.name) != known.end())
      continue;
    std::string list;
    for (const char *name : known)
      list += (list.empty() ? "" : ", ") + std::string(name);
    return invalidInput(where + ": tensor '" + tensor.name + "' is no input of this model (" + list + ")");
  }
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
  if (encoder && encoder->image())
    return readImages(where, tensors, *encoder->image());
  idsName = isOfDecoder ? "decoder_input_ids" : "input_ids";
  HEDDLE_RETURN_IF_ERROR(readShape(where, tensors, metadata));
  std::vector<int64_t> ids, mask, positions, tokenTypes;
  HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, idsName, ids));
  if (!isOfDecoder) {
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "attention_mask", mask));
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "position_ids", positions));
    HEDDLE_RETURN_IF_ERROR(readMatrix(where, tensors, "token_type_ids", tokenTypes));
  }
  rows.resize(batch);
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
  }
  return encoder ? Status() : keepGaps(where, metadata);
}

Status TokenBatch::readImages(const std::string &where, const std::vector<StoredTensor> &tensors,
                              const package::ImageInput &image) {
  for (const StoredTensor &tensor : tensors)
    if (tensor.name != "pixel_values")
      return invalidInput(where + ": tensor '" + tensor.name + "' is no input of this model (pixel_values)");
  const StoredTensor *input = find(tensors, "pixel_values");
  if (!input)
    return invalidInput(where + ": no tensor 'pixel_values'");
  if (input->dtype != "F32")
    return invalidInput(where + ": tensor 'pixel_values' is " + std::string(input->dtype) + ", expected F32");
  int64_t side = image.size(), channels = image.channels();
  const std::vector<int64_t> &shape = input->shape;
  if (shape.size() != 4 || shape[0] < 1 || shape[0] > 65536 || shape[1] != channels || shape[2] != side ||
      shape[3] != side)
    return invalidInput(format("%s: tensor 'pixel_values' has shape %s, expected (batch, %lld, %lld, %lld)",
                               where.c_str(), shapeText(shape).c_str(), (long long)channels, (long long)side,
                               (long long)side));
  std::vector<float> pixels(size_t(channels * side * side));
  for (int64_t index = 0; index < shape[0]; ++index) {
    size_t size = pixels.size() * sizeof(float);
    memcpy(pixels.data(), input->data + size_t(index) * size, size);
    addImage(pixels.data(), image);
  }
  return Status();
}

// A row of a patch is (channels, patch, patch), as a convolution's kernel is stored.
void TokenBatch::addImage(const float *pixels, const package::ImageInput &image) {
  int64_t side = image.size(), patch = image.patch(), across = side / patch, special = image.special_tokens();
  int64_t width = patchRowWidth(image), tokens = imageTokens(image);
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

// Nobody attends to a masked token between others, but it keeps its place: what is behind it is farther from what is before.
Status TokenBatch::keepGaps(const std::string &where, const package::Package &metadata) {
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
    if (hasWindows)
      return invalidInput(
          format("%s: attention_mask[%zu, %lld] is 0 between tokens that count, and this model's windows count "
                 "tokens, not places: expected zeros at the ends of a row",
                 where.c_str(), i, (long long)columns[last] + 1));
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
  }
  return Status();
}

std::vector<EncoderInput> TokenBatch::encoderInputs() const {
  std::vector<EncoderInput> inputs;
  inputs.reserve(rows.size());
  for (const TokenRow &row : rows)
    inputs.push_back({int32_t(row.ids.size()), row.ids.data(), row.positions.data(), row.tokenTypes.data(),
                      row.patches.empty() ? nullptr : row.patches.data()});
  return inputs;
}

} // namespace heddle
