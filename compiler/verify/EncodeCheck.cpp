// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/EncodeCheck.h"

#include "compiler/verify/Compare.h"
#include "compiler/verify/ModelValues.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace heddle;

static Tensor grid(MLIRContext *context, int64_t rows, int64_t columns) {
  return Tensor::zeros(IntegerType::get(context, 64), {rows, columns});
}

bool EncodeCheck::runAlone(const std::string &binary, const std::string &folder, ArrayRef<int64_t> sequence,
                           StringRef threads, Tensor &lastHiddenState, std::string &error) const {
  int64_t length = sequence.size();
  Tensor input = grid(reference.elementType.getContext(), 1, length), types = input;
  input.integers.assign(sequence.begin(), sequence.end());
  types.integers = tokenTypesOf(length, tokenTypes);
  std::vector<NamedTensor> outputs = {
      {"last_hidden_state", Tensor::zeros(reference.elementType, {1, length, reference.lastDim()})}};
  if (!runBinary(binary, folder, {{"input_ids", input}, {"token_type_ids", types}}, outputs, error,
                 {"--threads", threads, "--outputs", "last_hidden_state"}))
    return false;
  lastHiddenState = std::move(outputs[0].values);
  return true;
}

// Row 0 fills the batch, row 1 is padded on its left, row 2 on its right.
bool EncodeCheck::checkBatch(const std::string &binary, const std::string &folder, std::string &error) const {
  constexpr int64_t rows = 3;
  const int64_t width = ids.size(), hidden = reference.lastDim();
  const int64_t lengths[rows] = {width, (width + 1) / 2, std::max<int64_t>(1, width - 1)},
                begins[rows] = {0, width - lengths[1], 0};
  MLIRContext *context = reference.elementType.getContext();
  Tensor sequences = grid(context, rows, width), mask = sequences, positions = sequences, types = sequences;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> typesOfRow = tokenTypesOf(lengths[row], tokenTypes);
    for (int64_t token = 0; token < lengths[row]; ++token) {
      int64_t at = row * width + begins[row] + token;
      sequences.integers[at] = ids[token];
      mask.integers[at] = 1;
      positions.integers[at] = token;
      types.integers[at] = typesOfRow[token];
    }
  }
  std::vector<NamedTensor> batch = {{"last_hidden_state", Tensor::zeros(reference.elementType, {rows, width, hidden})}};
  if (!runBinary(
          binary, folder,
          {{"input_ids", sequences}, {"attention_mask", mask}, {"position_ids", positions}, {"token_type_ids", types}},
          batch, error, {"--threads", "2", "--outputs", "last_hidden_state"}))
    return false;
  for (int64_t row = 0; row < rows; ++row) {
    Tensor alone;
    if (!runAlone(binary, folder, ArrayRef(ids).take_front(lengths[row]), "1", alone, error))
      return false;
    ArrayRef<double> beside =
        ArrayRef(batch[0].values.reals).slice((row * width + begins[row]) * hidden, lengths[row] * hidden);
    if (beside == ArrayRef(alone.reals))
      continue;
    error =
        llvm::formatv("the binary gives a sequence of {0} tokens other bits beside two others than alone", lengths[row])
            .str();
    return false;
  }
  return print("binary, a batch of three", "the same bits as alone"), true;
}

bool EncodeCheck::run(const std::string &binary, const std::string &folder, std::string &error) const {
  // By three threads: nothing divides evenly among them.
  Tensor actual;
  if (!runAlone(binary, folder, ids, "3", actual, error))
    return false;
  Difference difference = compare(actual, reference);
  if (difference.nmse > limit) {
    error = llvm::formatv(
                "the binary moved a result that the passes did not: last_hidden_state of {0} tokens differs: NMSE "
                "{1:e3} (limit {2:e3}), element {3} by {4:e3}",
                ids.size(), difference.nmse, limit, difference.worst, difference.maxAbs)
                .str();
    return false;
  }
  print(llvm::formatv("binary, {0} tokens", ids.size()), llvm::formatv("NMSE {0:e2}", difference.nmse).str());
  return checkBatch(binary, folder, error);
}
