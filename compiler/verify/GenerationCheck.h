// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What only a binary that generates can get wrong: pages, blocks and splits of long sequences, sequences beside each other, cached
// tokens.
#ifndef HEDDLE_COMPILER_VERIFY_GENERATIONCHECK_H
#define HEDDLE_COMPILER_VERIFY_GENERATIONCHECK_H

#include "compiler/verify/RunBinary.h"

namespace heddle {

class GenerationCheck {
public:
  // `ids` and the reference's logits of them, (1, ids, vocabulary) of f32. A binary's NMSE is at most `limit`. Says what it found to
  // `print`: what was run, and the result.
  GenerationCheck(std::vector<int64_t> ids, Tensor logits, double limit,
                  std::function<void(const std::string &, const std::string &)> print)
      : ids(std::move(ids)), reference(std::move(logits)), limit(limit), print(std::move(print)) {}

  // False with one line in `error` where the binary fails or differs: the sequence in one pass, a left-padded batch of three of its
  // prefixes, tokens generated behind three, and two beams behind one.
  bool run(const std::string &binary, const std::string &folder, std::string &error) const;
  // The same where rotations depend on the length of a sequence, and with `isDynamic` on every length: prefixes are then other sequences.
  bool runBeyond(const std::string &binary, const std::string &folder, bool isDynamic, std::string &error) const;

private:
  bool checkOnePass(const std::string &binary, const std::string &folder, std::string &error) const;
  bool checkBatch(const std::string &binary, const std::string &folder, std::string &error) const;
  bool checkCached(const std::string &binary, const std::string &folder, llvm::ArrayRef<int64_t> lengths,
                   std::string &error) const;
  bool checkBeams(const std::string &binary, const std::string &folder, std::string &error) const;
  bool runAlone(const std::string &binary, const std::string &folder, llvm::ArrayRef<int64_t> sequence, Tensor &logits,
                std::string &error) const;
  bool accept(const std::string &what, const Tensor &actual, const Tensor &expected, std::string &error) const;
  int64_t vocabSize() const { return reference.shape.back(); }
  Tensor prefix(int64_t tokens) const; // logits, (tokens, vocabulary)

  static constexpr int64_t steps = 3; // tokens that are generated

  std::vector<int64_t> ids;
  Tensor reference;
  double limit;
  std::function<void(const std::string &, const std::string &)> print;
};

} // namespace heddle

#endif
