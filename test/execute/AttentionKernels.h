// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of attention over a paged cache, compiled and called as a step does.
#ifndef HEDDLE_TEST_EXECUTE_ATTENTIONKERNELS_H
#define HEDDLE_TEST_EXECUTE_ATTENTIONKERNELS_H

#include "test/execute/AttentionReference.h"
#include "test/execute/Canaries.h"
#include "test/execute/KernelLibrary.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <memory>
#include <numeric>

namespace heddle::test {

enum class Body { Whole, Split, Stored };

// The compiled kernels of one spec, of the bodies that are to run (HEDDLE_NIGHTLY: all), and how to call them.
class AttentionKernels {
public:
  explicit AttentionKernels(const AttentionSpec &spec, const std::string &target = "native",
                            std::initializer_list<Body> bodies = {Body::Whole, Body::Split})
      : spec(spec), library(std::make_unique<KernelLibrary>(target)), positions(spec) {
    std::string error;
    EXPECT_TRUE(succeeded(verifyAttention(spec, error))) << error;
    for (Body body : {Body::Whole, Body::Split, Body::Stored})
      if (isNightly() || llvm::is_contained(bodies, body))
        build(body);
    EXPECT_TRUE(library->load());
    sinks = randomFloats(spec.numHeads, 2.0f, 71);
  }

  // Runs the step `parts`, whose rows are those of q, as (rows, numHeads * valueDim).
  std::vector<float> run(const PagedCache &cache, const std::vector<StepPart> &parts, const std::vector<float> &q,
                         int32_t threads = 1, Body body = Body::Whole) const {
    auto [sequences, rows, longest] = stepOf(cache, parts);
    int64_t width = spec.numHeads * spec.valueDim(), stride = width + 5;
    std::vector<float> out((rows + 2) * stride, canary);
    float *first = out.data() + stride;
    for (int32_t thread = 0; body == Body::Whole && thread < threads; ++thread)
      callWhole(cache, sequences, q, first, stride, thread, threads);
    if (body == Body::Stored)
      callStored(cache, sequences, q, first, stride, rows, longest, threads);
    if (body == Body::Split)
      callSplit(cache, sequences, q, first, stride, rows, longest, threads);
    return takeRows(out, rows, stride, width);
  }

  // How many states of splits each thread writes, of a row, a head and a split each.
  std::vector<int64_t> splitsOfThreads(const PagedCache &cache, const std::vector<StepPart> &parts,
                                       const std::vector<float> &q, int32_t threads) const {
    auto [sequences, rows, longest] = stepOf(cache, parts);
    SplitBuffers buffers(spec, rows, longest);
    std::vector<int64_t> counts;
    for (int32_t thread = 0; thread < threads; ++thread) {
      callSplitKernel(cache, sequences, q, buffers, thread, threads);
      int64_t before = std::accumulate(counts.begin(), counts.end(), int64_t(0));
      counts.push_back(buffers.maxima.size() - llvm::count(buffers.maxima, canary) - before);
    }
    return counts;
  }

  std::vector<double> reference(const PagedCache &cache, const std::vector<StepPart> &parts,
                                const std::vector<float> &q) const {
    return referenceAttention(spec, cache, parts, q, sinks, positions);
  }

private:
  using WithoutPositions = void(const float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t, int64_t,
                                int64_t, const float *, int32_t, int32_t);
  using WithPositions = void(const float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t, int64_t,
                             int64_t, const float *, const void *, int32_t, int32_t);
  using WithScores = void(const float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t, int64_t, int64_t,
                          const float *, float *, int64_t, int32_t, int32_t);
  using WithPositionsAndScores = void(const float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t,
                                      int64_t, int64_t, const float *, const void *, float *, int64_t, int32_t,
                                      int32_t);
  using SplitWithoutPositions = void(const float *, float *, float *, float *, const heddle_sequence *, int64_t,
                                     int64_t, int64_t, int64_t, int64_t, int32_t, int32_t);
  using SplitWithPositions = void(const float *, float *, float *, float *, const heddle_sequence *, int64_t, int64_t,
                                  int64_t, int64_t, int64_t, const void *, int32_t, int32_t);
  using Combine = void(const float *, const float *, const float *, float *, const heddle_sequence *, int64_t, int64_t,
                       int64_t, const float *, int32_t, int32_t);

  void build(Body body) {
    AttentionSpec built = spec;
    built.storesScores = body == Body::Stored;
    built = library->withRegisters(built);
    if (body == Body::Whole)
      buildAttention(library->module(), "attention", built, library->target());
    if (body == Body::Stored)
      buildAttention(library->module(), "attention_stored", built, library->target());
    if (body == Body::Split) {
      buildAttentionSplit(library->module(), "attention_split", built, library->target());
      buildCombineSplits(library->module(), "combine_splits", spec, library->target());
    }
  }

  struct Step {
    std::vector<heddle_sequence> sequences;
    int64_t rows = 0, longest = 1;
  };
  static Step stepOf(const PagedCache &cache, const std::vector<StepPart> &parts) {
    Step step;
    for (size_t i = 0; i < parts.size(); ++i) {
      step.sequences.push_back({int32_t(step.rows), parts[i].rows, parts[i].past, 0, cache.pages(i)});
      step.rows += parts[i].rows;
      step.longest = std::max<int64_t>(step.longest, parts[i].past + parts[i].rows);
    }
    return step;
  }

  struct SplitBuffers {
    SplitBuffers(const AttentionSpec &spec, int64_t rows, int64_t longest)
        : maxSplits((longest + spec.splitKv - 1) / spec.splitKv),
          outputs(rows * maxSplits * spec.numHeads * spec.valueDim() + 16, canary),
          maxima(rows * maxSplits * spec.numHeads + 16, canary), sums(maxima) {}
    int64_t maxSplits;
    std::vector<float> outputs, maxima, sums;
  };

  void callWhole(const PagedCache &cache, const std::vector<heddle_sequence> &sequences, const std::vector<float> &q,
                 float *out, int64_t stride, int32_t thread, int32_t threads) const {
    int64_t qStride = spec.numHeads * spec.headDim, count = sequences.size();
    int64_t k = cache.keyOffset(), v = cache.valueOffset();
    if (spec.positions.kind)
      library->find<WithPositions>("attention")(q.data(), out, sequences.data(), count, k, v, qStride, stride,
                                                sinks.data(), positions.data(), thread, threads);
    else
      library->find<WithoutPositions>("attention")(q.data(), out, sequences.data(), count, k, v, qStride, stride,
                                                   spec.hasSinks ? sinks.data() : nullptr, thread, threads);
  }

  void callStored(const PagedCache &cache, const std::vector<heddle_sequence> &sequences, const std::vector<float> &q,
                  float *out, int64_t stride, int64_t rows, int64_t longest, int32_t threads) const {
    int64_t keys = (longest + 63) / 64 * 64;
    std::vector<float> scores(rows * spec.numHeads * keys + 16, canary);
    int64_t qStride = spec.numHeads * spec.headDim, count = sequences.size();
    int64_t k = cache.keyOffset(), v = cache.valueOffset();
    const float *sinksOrNull = spec.hasSinks ? sinks.data() : nullptr;
    for (int32_t thread = 0; thread < threads; ++thread)
      if (spec.positions.kind)
        library->find<WithPositionsAndScores>("attention_stored")(q.data(), out, sequences.data(), count, k, v, qStride,
                                                                  stride, sinksOrNull, positions.data(), scores.data(),
                                                                  keys, thread, threads);
      else
        library->find<WithScores>("attention_stored")(q.data(), out, sequences.data(), count, k, v, qStride, stride,
                                                      sinksOrNull, scores.data(), keys, thread, threads);
    EXPECT_TRUE(std::all_of(scores.end() - 16, scores.end(), [](float value) { return value == canary; }))
        << "behind the scores";
  }

  void callSplit(const PagedCache &cache, const std::vector<heddle_sequence> &sequences, const std::vector<float> &q,
                 float *out, int64_t stride, int64_t rows, int64_t longest, int32_t threads) const {
    SplitBuffers buffers(spec, rows, longest);
    for (int32_t thread = 0; thread < threads; ++thread)
      callSplitKernel(cache, sequences, q, buffers, thread, threads);
    for (int32_t thread = 0; thread < threads; ++thread)
      library->find<Combine>("combine_splits")(buffers.outputs.data(), buffers.maxima.data(), buffers.sums.data(), out,
                                               sequences.data(), sequences.size(), stride, buffers.maxSplits,
                                               spec.hasSinks ? sinks.data() : nullptr, thread, threads);
    for (const std::vector<float> *buffer : {&buffers.outputs, &buffers.maxima, &buffers.sums})
      for (size_t i = buffer->size() - 16; i < buffer->size(); ++i)
        EXPECT_EQ((*buffer)[i], canary) << "behind the states of splits";
  }

  void callSplitKernel(const PagedCache &cache, const std::vector<heddle_sequence> &sequences,
                       const std::vector<float> &q, SplitBuffers &to, int32_t thread, int32_t threads) const {
    int64_t qStride = spec.numHeads * spec.headDim, count = sequences.size();
    int64_t k = cache.keyOffset(), v = cache.valueOffset();
    if (spec.positions.kind)
      library->find<SplitWithPositions>("attention_split")(q.data(), to.outputs.data(), to.maxima.data(),
                                                           to.sums.data(), sequences.data(), count, k, v, qStride,
                                                           to.maxSplits, positions.data(), thread, threads);
    else
      library->find<SplitWithoutPositions>("attention_split")(q.data(), to.outputs.data(), to.maxima.data(),
                                                              to.sums.data(), sequences.data(), count, k, v, qStride,
                                                              to.maxSplits, thread, threads);
  }

  AttentionSpec spec;
  std::unique_ptr<KernelLibrary> library;
  std::vector<float> sinks;
  const PositionTable positions;
};

} // namespace heddle::test

#endif
