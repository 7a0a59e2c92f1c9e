// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/GenerationCheck.h"

#include "compiler/verify/Compare.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

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

bool GenerationCheck::accept(const std::string &what, const Tensor &actual, const Tensor &expected,
                             std::string &error) const {
  Difference difference = compare(actual, expected);
  if (difference.nmse > limit) {
    error = llvm::formatv("the binary moved a result that the passes did not: logits of {0} differ: NMSE {1:e3} (limit "
                          "{2:e3}), element "
                          "{3} by {4:e3}",
                          what, difference.nmse, limit, difference.worst, difference.maxAbs)
                .str();
    return false;
  }
  return print("binary, " + what, llvm::formatv("NMSE {0:e2}", difference.nmse).str()), true;
}

// By three threads: nothing divides evenly among them.
bool GenerationCheck::checkOnePass(const std::string &binary, const std::string &folder, std::string &error) const {
  Tensor sequence = grid(reference.elementType.getContext(), 1, ids.size());
  sequence.integers = ids;
  std::vector<NamedTensor> outputs = {{"logits", reference}};
  return runBinary(binary, folder, NamedTensor{"input_ids", sequence}, outputs, error, {"--threads", "3"}) &&
         accept(llvm::formatv("{0} tokens", ids.size()), outputs[0].values, reference, error);
}

// By one thread: it then takes tokens of several sequences after each other.
bool GenerationCheck::checkBatch(const std::string &binary, const std::string &folder, std::string &error) const {
  constexpr int64_t rows = 3;
  const int64_t width = std::min<int64_t>(ids.size(), 70),
                lengths[rows] = {width, (width + 1) / 2, std::max<int64_t>(1, width - 1)};
  MLIRContext *context = reference.elementType.getContext();
  Tensor sequences = grid(context, rows, width), mask = sequences;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t token = 0; token < lengths[row]; ++token) {
      int64_t at = row * width + width - lengths[row] + token;
      sequences.integers[at] = ids[token];
      mask.integers[at] = 1;
    }
  std::vector<NamedTensor> outputs = {{"logits", Tensor::zeros(reference.elementType, {rows, width, vocabSize()})}};
  if (!runBinary(binary, folder, {{"input_ids", sequences}, {"attention_mask", mask}}, outputs, error,
                 {"--threads", "1"}))
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

// Logits of a sequence, nothing beside it.
bool GenerationCheck::runAlone(const std::string &binary, const std::string &folder, ArrayRef<int64_t> sequence,
                               Tensor &logits, std::string &error) const {
  MLIRContext *context = reference.elementType.getContext();
  Tensor whole = grid(context, 1, sequence.size());
  whole.integers.assign(sequence.begin(), sequence.end());
  std::vector<NamedTensor> once = {
      {"logits", Tensor::zeros(reference.elementType, {1, int64_t(sequence.size()), vocabSize()})}};
  if (!runBinary(binary, folder, NamedTensor{"input_ids", whole}, once, error))
    return false;
  logits = std::move(once[0].values);
  return true;
}

// The tokens that it generates behind prefixes of `lengths` tokens, side by side, against one pass over each with its answer.
bool GenerationCheck::checkCached(const std::string &binary, const std::string &folder, ArrayRef<int64_t> lengths,
                                  std::string &error) const {
  const int64_t rows = lengths.size(), width = *llvm::max_element(lengths);
  if (width < 1)
    return true;
  MLIRContext *context = reference.elementType.getContext();
  Tensor prompts = grid(context, rows, width), mask = prompts;
  for (auto [row, length] : llvm::enumerate(lengths))
    for (int64_t token = 0; token < length; ++token) {
      int64_t at = row * width + width - length + token;
      prompts.integers[at] = ids[token];
      mask.integers[at] = 1;
    }
  std::vector<NamedTensor> generated = {
      {"ids", grid(context, rows, steps)},
      {"generated_logits", Tensor::zeros(reference.elementType, {rows, steps, vocabSize()})}};
  if (!runBinary(binary, folder, {{"input_ids", prompts}, {"attention_mask", mask}}, generated, error,
                 {"--threads", "3", "-n", "3", "--temp", "0", "--ignore-eos", "--outputs", "ids,generated_logits"}))
    return false;
  Tensor expected = Tensor::zeros(reference.elementType, {rows, steps, vocabSize()});
  auto out = expected.reals.begin();
  for (auto [row, length] : llvm::enumerate(lengths)) {
    std::vector<int64_t> whole(ids.begin(), ids.begin() + length);
    llvm::append_range(whole, ArrayRef(generated[0].values.integers).slice(row * steps, steps - 1));
    Tensor logits;
    if (!runAlone(binary, folder, whole, logits, error))
      return false;
    out = std::copy(logits.reals.end() - steps * vocabSize(), logits.reals.end(), out);
  }
  std::string others = rows > 1 ? llvm::formatv(", beside {0} others", rows - 1).str() : "";
  return accept(llvm::formatv("generating behind {0}{1}", lengths.front(), others), generated[1].values, expected,
                error);
}

namespace {
struct Hypothesis {
  std::vector<int64_t> ids;
  double score; // sum of log probabilities
};
} // namespace

// Continuations of `beam` by one token each, scored with the logits of its last one.
static void extend(const Hypothesis &beam, ArrayRef<double> logits, std::vector<Hypothesis> &next) {
  double most = *llvm::max_element(logits), sum = 0;
  for (double logit : logits)
    sum += std::exp(logit - most);
  for (auto [id, logit] : llvm::enumerate(logits)) {
    next.push_back({beam.ids, beam.score + logit - most - std::log(sum)});
    next.back().ids.push_back(id);
  }
}

// Two beams of the binary, whose sequences are forked, against beams found with one pass over each hypothesis.
bool GenerationCheck::checkBeams(const std::string &binary, const std::string &folder, std::string &error) const {
  constexpr int64_t beams = 2;
  // Of two hypotheses that are nearly as good, rounding to 16 bits may choose either.
  constexpr double exact = 1e-9;
  const int64_t length = std::min<int64_t>(int64_t(ids.size()) - steps, 70); // ends inside a page
  if (length < 1 || vocabSize() < beams || limit > exact)
    return true;
  MLIRContext *context = reference.elementType.getContext();
  Tensor prompt = grid(context, 1, length);
  prompt.integers.assign(ids.begin(), ids.begin() + length);
  std::vector<NamedTensor> found = {{"ids", grid(context, beams, steps)}};
  if (!runBinary(binary, folder, NamedTensor{"input_ids", prompt}, found, error,
                 {"-n", "3", "--beam", "2", "--num-return-sequences", "2", "--repeat-penalty", "1", "--ignore-eos",
                  "--outputs", "ids"}))
    return false;
  std::vector<Hypothesis> best = {{{prompt.integers.begin(), prompt.integers.end()}, 0}};
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Hypothesis> next;
    for (const Hypothesis &beam : best) {
      Tensor logits;
      if (!runAlone(binary, folder, beam.ids, logits, error))
        return false;
      extend(beam, ArrayRef(logits.reals).take_back(vocabSize()), next);
    }
    llvm::stable_sort(next, [](const Hypothesis &a, const Hypothesis &b) { return a.score > b.score; });
    best.assign(next.begin(), next.begin() + beams);
  }
  for (auto [row, beam] : llvm::enumerate(best))
    if (ArrayRef(beam.ids).take_back(steps) != ArrayRef(found[0].values.integers).slice(row * steps, steps)) {
      error = llvm::formatv("the binary moved a result that the passes did not: beam {0} behind {1} tokens is another "
                            "than the passes over "
                            "its hypotheses give",
                            row, length)
                  .str();
      return false;
    }
  return print("binary, two beams", "the same ids"), true;
}

bool GenerationCheck::runBeyond(const std::string &binary, const std::string &folder, bool isDynamic,
                                std::string &error) const {
  return checkOnePass(binary, folder, error) &&
         (isDynamic || checkCached(binary, folder, {int64_t(ids.size()) - steps}, error));
}

bool GenerationCheck::run(const std::string &binary, const std::string &folder, std::string &error) const {
  int64_t length = int64_t(ids.size()) - steps;
  if (!checkOnePass(binary, folder, error) || !checkBatch(binary, folder, error))
    return false;
  return length < 1 ||
         (checkCached(binary, folder, {length, (length + 1) / 2, std::max<int64_t>(1, length - 1)}, error) &&
          checkBeams(binary, folder, error));
}
