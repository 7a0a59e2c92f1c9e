// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/GenerationCheck.h"

#include "compiler/verify/Compare.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace heddle;

static Tensor grid(MLIRContext *context, int64_t rows, int64_t columns) {
  return Tensor::zeros(IntegerType::get(context, 64), {rows, columns});
}

Tensor GenerationCheck::prefix(int64_t tokens) const {
  Tensor logits = Tensor::zeros(reference.elementType, {tokens, vocabSize()});
  logits.reals.assign(reference.reals.begin(), reference.reals.begin() + tokens * vocabSize());
  return logits;
}

bool GenerationCheck::accept(const std::string &what, const Tensor &actual, const Tensor &expected, std::string &error) const {
  Difference difference = compare(actual, expected);
  if (difference.nmse > limit) {
    error = llvm::formatv("the binary moved a result that the passes did not: logits of {0} differ: NMSE {1:e3} (limit {2:e3}), element "
                          "{3} by {4:e3}", what, difference.nmse, limit, difference.worst, difference.maxAbs).str();
    return false;
  }
  return print("binary, " + what, llvm::formatv("NMSE {0:e2}", difference.nmse).str()), true;
}

bool GenerationCheck::checkOnePass(const std::string &binary, const std::string &folder, std::string &error) const {
  Tensor sequence = grid(reference.elementType.getContext(), 1, ids.size());
  sequence.integers = ids;
  std::vector<NamedTensor> outputs = {{"logits", reference}};
  return runBinary(binary, folder, NamedTensor{"input_ids", sequence}, outputs, error) &&
         accept(llvm::formatv("{0} tokens", ids.size()), outputs[0].values, reference, error);
}

// By one thread: it then takes tokens of several sequences after each other.
bool GenerationCheck::checkBatch(const std::string &binary, const std::string &folder, std::string &error) const {
  constexpr int64_t rows = 3;
  const int64_t width = std::min<int64_t>(ids.size(), 70), lengths[rows] = {width, (width + 1) / 2, std::max<int64_t>(1, width - 1)};
  MLIRContext *context = reference.elementType.getContext();
  Tensor sequences = grid(context, rows, width), mask = sequences;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t token = 0; token < lengths[row]; ++token) {
      int64_t at = row * width + width - lengths[row] + token;
      sequences.integers[at] = ids[token];
      mask.integers[at] = 1;
    }
  std::vector<NamedTensor> outputs = {{"logits", Tensor::zeros(reference.elementType, {rows, width, vocabSize()})}};
  if (!runBinary(binary, folder, {{"input_ids", sequences}, {"attention_mask", mask}}, outputs, error, {"--threads", "1"}))
    return false;
  Tensor actual = Tensor::zeros(reference.elementType, {0, vocabSize()}), expected = actual;
  for (int64_t row = 0; row < rows; ++row) {
    auto end = outputs[0].values.reals.begin() + (row + 1) * width * vocabSize();
    actual.reals.insert(actual.reals.end(), end - lengths[row] * vocabSize(), end);
    llvm::append_range(expected.reals, prefix(lengths[row]).reals);
  }
  actual.shape[0] = expected.shape[0] = expected.size() / vocabSize();
  return accept("a batch of three", actual, expected, error);
}

// The tokens that it generates behind all but the last few, against one pass over prompt and answer.
bool GenerationCheck::checkCached(const std::string &binary, const std::string &folder, std::string &error) const {
  const int64_t steps = 3, length = int64_t(ids.size()) - steps;
  if (length < 1)
    return true;
  MLIRContext *context = reference.elementType.getContext();
  Tensor prompt = grid(context, 1, length);
  prompt.integers.assign(ids.begin(), ids.begin() + length);
  std::vector<NamedTensor> generated = {{"ids", grid(context, 1, steps)},
                                        {"generated_logits", Tensor::zeros(reference.elementType, {1, steps, vocabSize()})}};
  if (!runBinary(binary, folder, NamedTensor{"input_ids", prompt}, generated, error,
                 {"-n", "3", "--temp", "0", "--ignore-eos", "--outputs", "ids,generated_logits"}))
    return false;
  Tensor whole = grid(context, 1, length + steps - 1);
  whole.integers = prompt.integers;
  llvm::append_range(whole.integers, ArrayRef(generated[0].values.integers).drop_back());
  std::vector<NamedTensor> once = {{"logits", Tensor::zeros(reference.elementType, {1, length + steps - 1, vocabSize()})}};
  if (!runBinary(binary, folder, NamedTensor{"input_ids", whole}, once, error))
    return false;
  Tensor expected = Tensor::zeros(reference.elementType, {1, steps, vocabSize()});
  expected.reals.assign(once[0].values.reals.end() - steps * vocabSize(), once[0].values.reals.end());
  return accept(llvm::formatv("generating behind {0}", length), generated[1].values, expected, error);
}

bool GenerationCheck::run(const std::string &binary, const std::string &folder, std::string &error) const {
  return checkOnePass(binary, folder, error) && checkBatch(binary, folder, error) && checkCached(binary, folder, error);
}
