// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/EncodeCheck.h"

#include "compiler/verify/Compare.h"
#include "compiler/verify/ModelInputs.h"

#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace heddle;

static Tensor grid(MLIRContext *context, int64_t rows, int64_t columns) {
  return Tensor::zeros(IntegerType::get(context, 64), {rows, columns});
}

bool EncodeCheck::runAlone(const std::string &binary, const std::string &folder, ArrayRef<int64_t> sequence,
                           StringRef threads, Tensor &lastHiddenState, std::string &error) const {
  int64_t length = sequence.size();
  Tensor input = grid(reference.elementType.getContext(), 1, length), positions = input, types = input, globals = input;
  input.integers.assign(sequence.begin(), sequence.end());
  std::iota(positions.integers.begin(), positions.integers.end(), 0);
  types.integers = tokenTypesOf(length, given.tokenTypes);
  globals.integers = globalsOf(length);
  std::vector<NamedTensor> inputs = {{"input_ids", input}, {"position_ids", positions}};
  if (given.tokenTypes)
    inputs.push_back({"token_type_ids", types});
  if (given.hasGlobals)
    inputs.push_back({"global_attention_mask", globals});
  std::vector<NamedTensor> outputs = {
      {"last_hidden_state", Tensor::zeros(reference.elementType, {1, length, reference.lastDim()})}};
  if (!runBinary(binary, folder, inputs, outputs, error, {"--threads", threads, "--outputs", "last_hidden_state"}))
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
  Tensor sequences = grid(context, rows, width), mask = sequences, positions = sequences, types = sequences,
         globals = sequences;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> typesOfRow = tokenTypesOf(lengths[row], given.tokenTypes),
                         globalsOfRow = globalsOf(lengths[row]);
    for (int64_t token = 0; token < lengths[row]; ++token) {
      int64_t at = row * width + begins[row] + token;
      sequences.integers[at] = ids[token];
      mask.integers[at] = 1;
      positions.integers[at] = token;
      types.integers[at] = typesOfRow[token];
      globals.integers[at] = globalsOfRow[token];
    }
  }
  std::vector<NamedTensor> batch = {{"last_hidden_state", Tensor::zeros(reference.elementType, {rows, width, hidden})}};
  std::vector<NamedTensor> inputs = {{"input_ids", sequences}, {"attention_mask", mask}, {"position_ids", positions}};
  if (given.tokenTypes)
    inputs.push_back({"token_type_ids", types});
  if (given.hasGlobals)
    inputs.push_back({"global_attention_mask", globals});
  if (!runBinary(binary, folder, inputs, batch, error, {"--threads", "2", "--outputs", "last_hidden_state"}))
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

bool EncodeCheck::runImages(const std::string &binary, const std::string &folder, std::string &error) const {
  Tensor image = imagePixels(given.image, reference.elementType.getContext()), both = image;
  both.shape[0] = 2;
  both.reals.insert(both.reals.begin(), image.reals.rbegin(), image.reals.rend()); // another one before it
  int64_t tokens = ids.size(), hidden = reference.lastDim();
  std::vector<NamedTensor> alone = {{"last_hidden_state", Tensor::zeros(reference.elementType, {1, tokens, hidden})}},
                           beside = {{"last_hidden_state", Tensor::zeros(reference.elementType, {2, tokens, hidden})}};
  if (!runBinary(binary, folder, {{"pixel_values", image}}, alone, error,
                 {"--threads", "3", "--outputs", "last_hidden_state"}) ||
      !runBinary(binary, folder, {{"pixel_values", both}}, beside, error,
                 {"--threads", "2", "--outputs", "last_hidden_state"}))
    return false;
  if (ArrayRef(beside[0].values.reals).take_back(tokens * hidden) != ArrayRef(alone[0].values.reals)) {
    error = "the binary gives an image other bits beside another than alone";
    return false;
  }
  return print("binary, two images", "the same bits as alone"), true;
}

bool EncodeCheck::run(const std::string &binary, const std::string &folder, std::string &error) const {
  if (given.image.size)
    return runImages(binary, folder, error);
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
