// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime's own kernel for CUDA, which becomes PTX when the runtime is built: it chooses a token from each row of logits, by the rule of
// TokenChoice.h. A block has a row. Its threads walk it in strides, so that neighbours read neighbours, once for the largest logit, and where that is not
// the answer once for each digit of a key that is looked for: 256 buckets add up what the tokens of a digit weigh, and the first whose running sum reaches
// what is needed has the digit.
#include "runtime/device/TokenChoice.h"

#define THREADS 1024
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define ROW __nvvm_read_ptx_sreg_ctaid_x()
#define MEET() __syncthreads()
#define ADD(at, value) (void)__scoped_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP)
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))

#define BUCKETS 256 // at most THREADS

typedef enum { TopK, TopP, Pick } Search;

typedef struct {
  const GLOBAL float *row;
  int count;
  float top;
  heddle_token_choice choice;
  heddle_u64 limit; // ranks above it are left out
} Tokens;

// Of a block.
typedef struct {
  heddle_u64 sums[BUCKETS], counts[BUCKETS];
  heddle_u64 digit, before, inside, numInside; // of the bucket that was found
  float tops[THREADS];
  int ids[THREADS];
} SharedMemory;

static LOCAL SharedMemory shared __attribute__((loader_uninitialized));

static heddle_u32 bitsOf(float value) {
  return __builtin_bit_cast(heddle_u32, value);
}

// The index of the largest logit, of equal ones the first; -1 where one is not finite. A thread that has met such a one claims the largest of all, infinity,
// with the smallest index, -1.
static int findLargest(const GLOBAL float *row, int count) {
  int thread = THREAD, index = 0x7fffffff;
  float value = -__builtin_inff();
  bool isFinite = true;
#pragma clang loop unroll_count(4)
  for (int i = thread; i < count; i += THREADS) {
    float logit = row[i];
    isFinite = isFinite && (bitsOf(logit) & 0x7f800000u) != 0x7f800000u;
    if (logit > value) {
      value = logit;
      index = i;
    }
  }
  shared.tops[thread] = isFinite ? value : __builtin_inff();
  shared.ids[thread] = isFinite ? index : -1;
  for (int pairs = THREADS / 2; pairs > 0; pairs /= 2) {
    MEET();
    if (thread < pairs) {
      float other = shared.tops[thread + pairs];
      int otherId = shared.ids[thread + pairs];
      if (other > shared.tops[thread] || (other == shared.tops[thread] && otherId < shared.ids[thread])) {
        shared.tops[thread] = other;
        shared.ids[thread] = otherId;
      }
    }
  }
  MEET();
  return shared.ids[0];
}

// sums[i] becomes the sum of sums[0 … i].
static void addUp(LOCAL heddle_u64 *sums) {
  heddle_u32 thread = THREAD;
  for (heddle_u32 step = 1; step < BUCKETS; step *= 2) {
    heddle_u64 added = thread >= step && thread < BUCKETS ? sums[thread - step] : 0;
    MEET();
    if (thread < BUCKETS)
      sums[thread] += added;
    MEET();
  }
}

// The rank up to which top_k tokens, or as many as make top_p, are kept; or the id that is picked.
static heddle_u64 find(Search search, const Tokens *tokens) {
  heddle_u32 thread = THREAD;
  int first = search == Pick ? 3 : 7; // digits have 8 bits
  heddle_u64 prefix = 0, needed = tokens->choice.top_k;
  for (int digit = first;; --digit) {
    if (thread < BUCKETS)
      shared.sums[thread] = shared.counts[thread] = 0;
    MEET();
    for (heddle_u32 id = thread; id < (heddle_u32)tokens->count; id += THREADS) {
      float x = heddle_scaled_logit(tokens->row[id], tokens->top, tokens->choice.inverse_temperature);
      heddle_u64 rank = heddle_token_rank(bitsOf(x), id), key = search == Pick ? id : rank;
      if (rank > tokens->limit || (digit != first && key >> 8 * (digit + 1) != prefix))
        continue;
      heddle_u64 weight = search == TopK ? 1 : search == Pick && x < tokens->choice.least ? 0 : heddle_token_weight(x);
      heddle_u32 bucket = key >> 8 * digit & (BUCKETS - 1);
      ADD(&shared.sums[bucket], weight);
      ADD(&shared.counts[bucket], (heddle_u64)1);
    }
    MEET();
    addUp(shared.sums);
    heddle_u64 total = shared.sums[BUCKETS - 1];
    if (digit == first && search == TopP)
      needed = heddle_part_of_weights(total, tokens->choice.top_p);
    if (digit == first && search == Pick)
      needed = heddle_random_weight(total, tokens->choice.random) + 1;
    if (thread < BUCKETS) {
      heddle_u64 before = thread ? shared.sums[thread - 1] : 0, through = shared.sums[thread];
      if (before < needed && needed <= through) {
        shared.digit = thread;
        shared.before = before;
        shared.inside = through - before;
        shared.numInside = shared.counts[thread];
      }
    }
    MEET();
    prefix = prefix << 8 | shared.digit;
    needed -= shared.before;
    // All that weighs anything in the bucket is needed.
    bool isWhole = search != Pick && (shared.inside == needed || shared.numInside == 1);
    MEET();
    if (digit == 0)
      return prefix;
    if (isWhole)
      return prefix << 8 * digit | (((heddle_u64)1 << 8 * digit) - 1);
  }
}

// logits (rows, count) -> ids (rows): what `choices` (rows) choose; without choices the largest. -1 where a logit is not finite.
__attribute__((device_kernel)) void heddle_choose_tokens(const GLOBAL float *logits,
                                                         const GLOBAL heddle_token_choice *choices, GLOBAL int *ids,
                                                         int count) {
  Tokens tokens;
  tokens.row = logits + (heddle_u64)ROW * (heddle_u64)count;
  tokens.count = count;
  int id = findLargest(tokens.row, count);
  if (choices && id >= 0 && choices[ROW].inverse_temperature != 0) {
    tokens.choice = choices[ROW];
    tokens.top = shared.tops[0];
    tokens.limit = ~(heddle_u64)0;
    if (tokens.choice.top_k > 0 && tokens.choice.top_k < count)
      tokens.limit = find(TopK, &tokens);
    if (tokens.choice.top_p)
      tokens.limit = find(TopP, &tokens);
    id = find(Pick, &tokens);
  }
  if (THREAD == 0)
    ids[ROW] = id;
}
