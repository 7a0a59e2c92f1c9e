// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On what `heddle verify` runs a model that generates or encodes.
#ifndef HEDDLE_COMPILER_VERIFY_VERIFYPLAN_H
#define HEDDLE_COMPILER_VERIFY_VERIFYPLAN_H

#include "compiler/verify/ModelInputs.h"
#include "compiler/verify/VerifyModel.h"
#include "frontends/ModelConfig.h"

namespace heddle {

struct VerifyPlan {
  // Of a model whose graph is all that says what it takes: the ids follow from its type.
  static constexpr int64_t unknown = INT64_MAX;

  std::vector<int64_t> ids; // through every pass, and the binary
  int64_t vocabSize = 0;    // of an encoder, whose results do not say it
  EncodeInputs given;       // what an encoder takes
  std::optional<PoolingConfig> pooling;
  int64_t longestSequence = unknown; // that the imported module and the binary mean the same by
  // Beyond the sequence above rotations depend on its length: how many tokens the model takes then, and itself; 0: they never do.
  int64_t beyondTokens = 0;
  Model beyond;           // whose rotations, at every length, are those of `beyondTokens`
  bool isDynamic = false; // each length beyond has rotations of its own
};

// Evaluating a model of so many bytes, or of fewer, on hundreds of tokens is a matter of seconds.
constexpr uint64_t smallModelBytes = 8 << 20;
// Pages, blocks, chunks and splits hold 64 to 512 tokens.
constexpr int64_t manyTokens = 600;

uint64_t bytesOf(const Checkpoint &files);

// Any ids will do, but the same for one seed on every machine.
std::vector<int64_t> randomIds(int64_t count, int64_t vocabSize, uint64_t seed);
// The sequence that the options ask for, else random `tokens`; what is wrong with it, empty if nothing is.
std::string idsOf(const VerifyOptions &options, int64_t tokens, int64_t vocabSize, std::vector<int64_t> &ids);
// Tokens where nothing asks for more.
constexpr int64_t fewTokens = 8;

// Reads the model that the options name. Small ones whose positions are only rotated are given a longer context in `compile`: what it is
// trained for changes no formula.
Status planVerification(const VerifyOptions &options, CompileOptions &compile, VerifyPlan &plan);

} // namespace heddle

#endif
