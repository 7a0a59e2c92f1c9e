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

Status TokenBatch::readShape(const std::string &where, const std::vector<StoredTensor> &tensors,
                             const package::Package &metadata) {
  std::vector<std::string> known = {"input_ids", "attention_mask"};
  known.emplace_back(metadata.task() == package::Task::Seq2Seq ? "decoder_input_ids" : "position_ids");
  if (metadata.task() == package::Task::Encode)
    known.emplace_back("token_type_ids");
  for (const StoredTensor &tensor : tensors) {
    if (std::find(known.begin(), known.end(), tensor.name) != known.end())
      continue;
    std::string list;
    for (const std::string &name : known)
      list += (list.empty() ? "" : ", ") + name;
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
                                          encoder ? encoder->context() : metadata.context()));
      row.positions.push_back(int32_t(positions[i]));
    }
    if (!tokenTypes.empty()) {
      HEDDLE_RETURN_IF_ERROR(
          checkElement(where, "token_type_ids", "a type", tokenTypes, i, length, encoder->token_types()));
      row.tokenTypes.push_back(int32_t(tokenTypes[i]));
    }
  }
  return encoder ? Status() : keepGaps(where, metadata);
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

Status TokenBatch::completeRows(const std::string &where, uint32_t context) {
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
      row.positions.assign(row.columns.begin(), row.columns.end());
    row.tokenTypes.resize(row.ids.size());
  }
  return Status();
}

std::vector<EncoderInput> TokenBatch::encoderInputs() const {
  std::vector<EncoderInput> inputs;
  inputs.reserve(rows.size());
  for (const TokenRow &row : rows)
    inputs.push_back({int32_t(row.ids.size()), row.ids.data(), row.positions.data(), row.tokenTypes.data()});
  return inputs;
}

} // namespace heddle
