// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a binary that embeds texts does behind the encoder: it pools the hidden states of a text, runs the dense layers on what it pooled, and
// gives the result length 1.
#ifndef HEDDLE_COMPILER_VERIFY_EMBEDCHECK_H
#define HEDDLE_COMPILER_VERIFY_EMBEDCHECK_H

#include "compiler/verify/RunBinary.h"
#include "frontends/ModelConfig.h"

#include <functional>

namespace heddle {

class EmbedCheck {
public:
  // `ids` of a text of a model that gives `hiddenSize` numbers for a token. An embedding's NMSE is at most `limit`. Says what it found to
  // `print`: what was run, and the result.
  EmbedCheck(std::vector<int64_t> ids, int64_t hiddenSize, PoolingConfig pooling, double limit,
             std::function<void(const std::string &, const std::string &)> print)
      : ids(std::move(ids)), hiddenSize(hiddenSize), pooling(std::move(pooling)), limit(limit),
        print(std::move(print)) {}

  // Whether --embed of the ids is what follows from the binary's own hidden states and dense layers, which other checks look at; else one
  // line in `error`.
  bool run(const std::string &binary, const std::string &folder, mlir::MLIRContext &context, std::string &error) const;

private:
  // hidden (1, tokens, hidden_size) to (1, width), by the formula of each mode.
  Tensor pool(const Tensor &hidden) const;

  std::vector<int64_t> ids;
  int64_t hiddenSize;
  PoolingConfig pooling;
  double limit;
  std::function<void(const std::string &, const std::string &)> print;
};

} // namespace heddle

#endif
