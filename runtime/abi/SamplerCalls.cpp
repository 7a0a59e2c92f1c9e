// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Picking tokens from logits.
#include "runtime/abi/Calls.h"

#include <cmath>

using namespace heddle;
using namespace heddle::abi;

struct heddle_sampler {
  heddle_sampler(const SamplerOptions &options, int64_t vocabSize)
      : sampler(options, vocabSize), vocabSize(vocabSize) {}
  Sampler sampler;
  int64_t vocabSize;
};

// NaN and infinity have no place in an order of tokens. -infinity has: callers rule tokens out by it.
static Status checkLogits(const float *logits, const uint32_t *mask, int64_t vocabSize) {
  bool mayPick = false, mayPickFinite = false;
  for (int64_t id = 0; id < vocabSize; ++id) {
    if (std::isnan(logits[id]) || logits[id] == INFINITY)
      return Status(
          StatusCode::NotFinite,
          format("the logit of token %lld is %g, expected a finite number or -infinity", (long long)id, logits[id]));
    bool isAllowed = !mask || (mask[id / 32] >> (id % 32) & 1);
    mayPick |= isAllowed;
    mayPickFinite |= isAllowed && logits[id] != -INFINITY;
  }
  return mayPick == mayPickFinite
             ? Status()
             : Status(StatusCode::NotFinite, "the logits of all tokens that may be picked are -infinity");
}

heddle_status heddle_package_sampler_defaults(const heddle_package *package, heddle_sampler_options *out_options) {
  Status valid = checkNotNull({{"package", package}});
  if (!valid.isOk())
    return report(valid);
  heddle_sampler_options defaults = {};
  if (const package::Generation *generation = package->package->metadata().generation()) {
    defaults.temperature = generation->temperature();
    defaults.top_k = generation->top_k();
    defaults.top_p = generation->top_p();
    defaults.min_p = generation->min_p();
    defaults.repetition_penalty = generation->repetition_penalty();
  }
  return report(writeStruct("out_options", defaults, out_options));
}

heddle_status heddle_sampler_create(const heddle_package *package, const heddle_sampler_options *options,
                                    heddle_sampler **out_sampler) {
  SamplerOptions given;
  Status valid = checkNotNull({{"package", package}, {"out_sampler", out_sampler}});
  if (valid.isOk())
    valid = readSamplerOptions(options, given);
  if (heddle_task task = heddle_package_task(package);
      valid.isOk() && task != HEDDLE_TASK_GENERATE && task != HEDDLE_TASK_SEQ2SEQ)
    valid = invalidInput("the model generates no tokens");
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&] {
    *out_sampler = new heddle_sampler(given, heddle_package_vocab_size(package));
    return Status();
  });
}

void heddle_sampler_destroy(heddle_sampler *sampler) {
  delete sampler;
}

heddle_status heddle_sampler_accept(heddle_sampler *sampler, const int32_t *ids, size_t count) {
  Status valid = checkNotNull({{"sampler", sampler}});
  if (valid.isOk())
    valid = checkIds(ids, count);
  for (size_t i = 0; valid.isOk() && i < count; ++i)
    if (ids[i] < 0 || ids[i] >= sampler->vocabSize)
      valid = invalidInput(
          format("token id %d at position %zu is not in [0, %lld)", ids[i], i, (long long)sampler->vocabSize));
  if (valid.isOk())
    sampler->sampler.accept(ids, int64_t(count));
  return report(valid);
}

heddle_status heddle_sampler_sample(heddle_sampler *sampler, const float *logits, const uint32_t *mask,
                                    int32_t *out_id) {
  Status valid = checkNotNull({{"sampler", sampler}, {"logits", logits}, {"out_id", out_id}});
  if (valid.isOk())
    valid = checkLogits(logits, mask, sampler->vocabSize);
  if (!valid.isOk())
    return report(valid);
  int32_t id = sampler->sampler.sample(logits, mask);
  if (id < 0)
    return report(invalidInput("the mask allows no token"));
  *out_id = id;
  return report(Status());
}
