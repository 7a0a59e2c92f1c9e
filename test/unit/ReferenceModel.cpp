// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/ReferenceModel.h"

#include <algorithm>
#include <cmath>

namespace heddle::reference {

int window = 0;

namespace {

constexpr size_t kvSize = numKvHeads * headDim;

#define LAYER(k)                                                                                                       \
  {"model.layers." #k ".input_layernorm.weight", hiddenSize},                                                          \
      {"model.layers." #k ".self_attn.q_proj.weight", hiddenSize * hiddenSize},                                        \
      {"model.layers." #k ".self_attn.k_proj.weight", kvSize * hiddenSize},                                            \
      {"model.layers." #k ".self_attn.v_proj.weight", kvSize * hiddenSize},                                            \
      {"model.layers." #k ".self_attn.o_proj.weight", hiddenSize * hiddenSize},                                        \
      {"model.layers." #k ".post_attention_layernorm.weight", hiddenSize},                                             \
      {"model.layers." #k ".mlp.gate_proj.weight", intermediateSize * hiddenSize},                                     \
      {"model.layers." #k ".mlp.up_proj.weight", intermediateSize * hiddenSize}, {                                     \
    "model.layers." #k ".mlp.down_proj.weight", hiddenSize *intermediateSize                                           \
  }

} // namespace

const WeightSlot weightSlots[numWeights] = {
    {"model.embed_tokens.weight", vocabSize * hiddenSize},
    LAYER(0),
    LAYER(1),
    {"model.norm.weight", hiddenSize},
    {"lm_head.weight", vocabSize * hiddenSize},
};

namespace {

// y[o] = sum_i w[o][i] x[i]
void linear(const float *w, const float *x, float *y, int outputs, int inputs, bool accumulate = false) {
  for (int o = 0; o < outputs; ++o) {
    double sum = accumulate ? y[o] : 0.0;
    for (int i = 0; i < inputs; ++i)
      sum += double(w[o * inputs + i]) * x[i];
    y[o] = float(sum);
  }
}

void rmsNorm(const float *weight, const float *x, float *y) {
  double squares = 0;
  for (int i = 0; i < hiddenSize; ++i)
    squares += double(x[i]) * x[i];
  double scale = 1.0 / std::sqrt(squares / hiddenSize + normEps);
  for (int i = 0; i < hiddenSize; ++i)
    y[i] = float(x[i] * scale * weight[i]);
}

// Rotates the halves of each head by the angles of `row`: (headDim / 2) cosines, then sines.
void rotate(const float *row, float *x, int heads) {
  constexpr int half = headDim / 2;
  for (int head = 0; head < heads; ++head, x += headDim)
    for (int i = 0; i < half; ++i) {
      float low = x[i], high = x[half + i];
      x[i] = low * row[i] - high * row[half + i];
      x[half + i] = high * row[i] + low * row[half + i];
    }
}

struct Row {
  float *x, *normed, *q, *attended, *inner;
};

Row rowAt(const heddle_step &step, int64_t row) {
  float *base = reinterpret_cast<float *>(step.arena) + row * (rowBytes / sizeof(float));
  return {base, base + hiddenSize, base + 2 * hiddenSize, base + 3 * hiddenSize, base + 4 * hiddenSize};
}

// Where token `position` of KV head `head` lies: part 0 is K, part 1 is V.
float *cached(const heddle_sequence &sequence, int layer, int part, int head, int position) {
  float *page = reinterpret_cast<float *>(sequence.pages[position / HEDDLE_KV_PAGE_SIZE]);
  return page +
         (((layer * 2 + part) * numKvHeads + head) * HEDDLE_KV_PAGE_SIZE + position % HEDDLE_KV_PAGE_SIZE) * headDim;
}

void project(const heddle_step &step, int64_t index, int layer, const float *const *w) {
  Row row = rowAt(step, index);
  const float *angles = step.rope_tables[0] + step.positions[index] * headDim;
  rmsNorm(w[0], row.x, row.normed);
  linear(w[1], row.normed, row.q, hiddenSize, hiddenSize);
  rotate(angles, row.q, numHeads);
  float k[kvSize], v[kvSize];
  linear(w[2], row.normed, k, kvSize, hiddenSize);
  rotate(angles, k, numKvHeads);
  linear(w[3], row.normed, v, kvSize, hiddenSize);
  const heddle_sequence &sequence = step.sequences[step.row_sequence[index]];
  for (int head = 0; head < numKvHeads; ++head) {
    std::copy_n(k + head * headDim, headDim, cached(sequence, layer, 0, head, step.cache_positions[index]));
    std::copy_n(v + head * headDim, headDim, cached(sequence, layer, 1, head, step.cache_positions[index]));
  }
}

void attend(const heddle_step &step, int64_t index, int layer) {
  Row row = rowAt(step, index);
  const heddle_sequence &sequence = step.sequences[step.row_sequence[index]];
  int length = step.cache_positions[index] + 1, begin = window ? std::max(0, length - window) : 0;
  for (int head = 0; head < numHeads; ++head) {
    int kvHead = head / (numHeads / numKvHeads);
    double scores[longestContext], top = -INFINITY, sum = 0;
    for (int t = begin; t < length; ++t) {
      const float *k = cached(sequence, layer, 0, kvHead, t);
      double dot = 0;
      for (int i = 0; i < headDim; ++i)
        dot += double(row.q[head * headDim + i]) * k[i];
      scores[t] = dot / std::sqrt(double(headDim));
      top = std::max(top, scores[t]);
    }
    for (int t = begin; t < length; ++t)
      sum += scores[t] = std::exp(scores[t] - top);
    for (int i = 0; i < headDim; ++i) {
      double value = 0;
      for (int t = begin; t < length; ++t)
        value += scores[t] * cached(sequence, layer, 1, kvHead, t)[i];
      row.attended[head * headDim + i] = float(value / sum);
    }
  }
}

void feedForward(const heddle_step &step, int64_t index, const float *const *w) {
  Row row = rowAt(step, index);
  linear(w[4], row.attended, row.x, hiddenSize, hiddenSize, /*accumulate=*/true);
  rmsNorm(w[5], row.x, row.normed);
  float up[intermediateSize];
  linear(w[6], row.normed, row.inner, intermediateSize, hiddenSize);
  linear(w[7], row.normed, up, intermediateSize, hiddenSize);
  for (int i = 0; i < intermediateSize; ++i)
    row.inner[i] = float(row.inner[i] / (1.0 + std::exp(-double(row.inner[i]))) * up[i]);
  linear(w[8], row.inner, row.x, hiddenSize, intermediateSize, /*accumulate=*/true);
}

} // namespace

void step(const heddle_step *stepPointer, int32_t thread, int32_t numThreads) {
  const heddle_step &step = *stepPointer;
  const float *weights[numWeights], *next = reinterpret_cast<const float *>(step.weights);
  for (size_t i = 0; i < numWeights; ++i) {
    weights[i] = next;
    next += weightSlots[i].count;
  }
  for (int64_t row = thread; row < step.rows; row += numThreads)
    std::copy_n(weights[0] + step.ids[row] * hiddenSize, hiddenSize, rowAt(step, row).x);
  for (int layer = 0; layer < numLayers; ++layer) {
    const float *const *w = weights + 1 + 9 * layer;
    for (int64_t row = thread; row < step.rows; row += numThreads)
      project(step, row, layer, w);
    step.barrier_wait(step.barrier, thread);
    for (int64_t row = thread; row < step.rows; row += numThreads) {
      attend(step, row, layer);
      feedForward(step, row, w);
    }
  }
  for (int64_t row = thread; row < step.rows; row += numThreads) {
    rmsNorm(weights[numWeights - 2], rowAt(step, row).x, rowAt(step, row).normed);
    if (step.last_hidden_state)
      std::copy_n(rowAt(step, row).normed, hiddenSize, step.last_hidden_state + row * hiddenSize);
  }
  step.barrier_wait(step.barrier, thread);
  // The vocabulary is divided between the threads.
  int begin = vocabSize * thread / numThreads, end = vocabSize * (thread + 1) / numThreads;
  for (int64_t output = 0; output < step.num_outputs; ++output)
    linear(weights[numWeights - 1] + begin * hiddenSize, rowAt(step, step.output_rows[output]).normed,
           step.logits + output * vocabSize + begin, end - begin, hiddenSize);
  if (step.kernel_profile && thread == 0) {
    step.kernel_profile[0].ticks += step.rows;
    step.kernel_profile[0].launches += 1;
    step.kernel_profile[0].rows += step.rows;
  }
}

} // namespace heddle::reference
