// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/VerifyPlan.h"
#include "compiler/Program.h"
#include "frontends/read/ReadModel.h"
#include "runtime/model/ModelAbi.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <random>

using namespace heddle;

uint64_t heddle::bytesOf(const Checkpoint &files) {
  uint64_t bytes = 0;
  for (const auto &file : files.files)
    bytes += file->size();
  return bytes;
}

std::vector<int64_t> heddle::randomIds(int64_t count, int64_t vocabSize, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> ids(count);
  for (int64_t &id : ids)
    id = random() % vocabSize;
  return ids;
}

std::string heddle::idsOf(const VerifyOptions &options, int64_t tokens, int64_t vocabSize, std::vector<int64_t> &ids) {
  ids =
      options.ids.empty() ? randomIds(options.tokens ? options.tokens : tokens, vocabSize, options.seed) : options.ids;
  for (int64_t id : ids)
    if (id < 0 || id >= vocabSize)
      return llvm::formatv("--ids: {0} is no token of a vocabulary of {1}", id, vocabSize).str();
  return "";
}

// Enough to fall out of the smallest sliding window, where that is not many, and for a state to go on from one page to the next.
static int64_t defaultTokens(const ModelConfig &config) {
  constexpr int64_t many = 128;
  int64_t tokens = fewTokens;
  for (int64_t window : config.layerWindow)
    if (window > 0 && window < many)
      tokens = std::max(tokens, window + 3);
  if (config.hasStates())
    tokens = std::max<int64_t>(tokens, HEDDLE_KV_PAGE_SIZE + 3);
  return std::min(tokens, config.contextLength);
}

static bool dependsOnLength(const RopeConfig &rope) {
  return rope.scaling == RopeScalingKind::Longrope || rope.scaling == RopeScalingKind::Dynamic;
}

// The interpreter rotates by what the imported module says: for sequences beyond the original context, another module says it.
static void planBeyond(Model model, VerifyPlan &plan) {
  int64_t original = plan.longestSequence;
  for (RopeConfig &rope : model.config.ropes)
    if (dependsOnLength(rope)) {
      original = std::min(original, rope.originalContext);
      plan.isDynamic |= rope.scaling == RopeScalingKind::Dynamic;
      rope.shortFactor = rope.longFactor;
      if (rope.longAttentionFactor)
        rope.attentionFactor = rope.longAttentionFactor;
    }
  int64_t length = std::min({model.config.longestContext(), 2 * original, manyTokens});
  plan.longestSequence = original;
  if (length <= original)
    return;
  plan.beyondTokens = model.config.contextLength = length;
  plan.beyond = std::move(model);
}

Status heddle::planVerification(const VerifyOptions &options, CompileOptions &compile, VerifyPlan &plan) {
  Expected<Model> model = readModel(compile.model, decoderUse(compile));
  if (!model)
    return model.status();
  const ModelConfig &config = model->config;
  // An image has as many tokens as it has.
  int64_t tokens = config.image.size ? config.image.tokens() : defaultTokens(config);
  std::string wrong = idsOf(options, tokens, config.vocabSize, plan.ids);
  if (config.image.size && int64_t(plan.ids.size()) != tokens)
    wrong = llvm::formatv("--ids, --tokens: the model takes images of {0} tokens", tokens).str();
  plan.longestSequence = config.contextLength;
  plan.vocabSize = config.vocabSize;
  plan.pooling = config.pooling;
  plan.given = {config.tokenTypes, config.hasGlobalTokens, config.image};
  if (wrong.empty() && int64_t(plan.ids.size()) > config.contextLength)
    wrong = llvm::formatv("{0} tokens are more than the model's {1} positions", plan.ids.size(), config.contextLength)
                .str();
  if (!wrong.empty())
    return invalidInput(wrong);
  bool isSmall = bytesOf(model->checkpoint) <= smallModelBytes;
  if (llvm::any_of(config.ropes, dependsOnLength)) {
    planBeyond(std::move(*model), plan);
  } else if (isSmall && !config.ropes.empty() && !compile.context && config.contextLength < manyTokens) {
    compile.extrapolates = true;
    compile.context = plan.longestSequence = manyTokens;
  }
  if (!isSmall)
    plan.beyondTokens = 0;
  return Status();
}
