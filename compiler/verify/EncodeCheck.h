// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What only a binary that encodes can get wrong: long sequences on several threads, and sequences beside each other.
#ifndef HEDDLE_COMPILER_VERIFY_ENCODECHECK_H
#define HEDDLE_COMPILER_VERIFY_ENCODECHECK_H

#include "compiler/verify/ModelInputs.h"
#include "compiler/verify/RunBinary.h"

#include <functional>

namespace heddle {

class EncodeCheck {
public:
  // `ids` and the reference's last hidden state of them, (1, ids, hidden_size) of f32, of a model that takes `given`. A binary's NMSE
  // is at most `limit`. Says what it found to `print`: what was run, and the result.
  EncodeCheck(std::vector<int64_t> ids, Tensor lastHiddenState, const EncodeInputs &given, double limit,
              std::function<void(const std::string &, const std::string &)> print)
      : ids(std::move(ids)), reference(std::move(lastHiddenState)), given(given), limit(limit),
        print(std::move(print)) {}

  // False with one line in `error` where the binary fails or differs from the reference, or where a sequence gives other bits beside
  // others than alone: left-padded, right-padded and unpadded ones in a batch.
  bool run(const std::string &binary, const std::string &folder, std::string &error) const;

private:
  bool runAlone(const std::string &binary, const std::string &folder, llvm::ArrayRef<int64_t> sequence,
                llvm::StringRef threads, Tensor &lastHiddenState, std::string &error) const;
  // The same of images: one on several threads, and beside another.
  bool runImages(const std::string &binary, const std::string &folder, std::string &error) const;
  bool checkBatch(const std::string &binary, const std::string &folder, std::string &error) const;

  std::vector<int64_t> ids;
  Tensor reference;
  EncodeInputs given;
  double limit;
  std::function<void(const std::string &, const std::string &)> print;
};

} // namespace heddle

#endif
