/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

   How a token is chosen from logits: the arithmetic that the sampler of the CPU and the kernel of a device share, in C that is C++ too.
   Both come to the same token, to the bit, because nothing here depends on an order: weights of tokens are integers, whose sums are
   exact, and what is computed in f32 is products and sums that every machine rounds alike.

   Of logits l, with t the largest of them:
     x = (l - t) / temperature                      at most 0; `rank` orders tokens by it, of equal ones by id
     top-k keeps the first tokens by rank, top-p of those the fewest whose weights are that part of all of theirs
     min-p gives tokens further below the best than its logarithm no weight
     the choice is the first token by id, of those that are kept, where the running sum of weights exceeds a random part of it all. */
#ifndef HEDDLE_RUNTIME_DEVICE_TOKENCHOICE_H
#define HEDDLE_RUNTIME_DEVICE_TOKENCHOICE_H

#ifdef __NVPTX__
typedef unsigned int heddle_u32;
typedef unsigned long heddle_u64;
#else
#include <stdint.h>
typedef uint32_t heddle_u32;
typedef uint64_t heddle_u64;
#endif

typedef struct heddle_token_choice {
  float inverse_temperature; /* 0: the largest logit, of equal ones the first */
  float least;               /* min-p as a bound of x */
  int top_k;                 /* 0: off */
  heddle_u32 top_p;          /* of 2^32; 0: off */
  heddle_u64 random;
} heddle_token_choice;

static inline float heddle_scaled_logit(float logit, float top, float inverse_temperature) {
  float x = (logit - top) * inverse_temperature;
  return x > -3.40282347e38f ? x : -3.40282347e38f;
}

/* exp(x) of x <= 0 in units of 2^-40, so that 2^23 tokens add up. */
static inline heddle_u64 heddle_token_weight(float x) {
#pragma clang fp contract(off)
  if (!(x > -28.0f))
    return 0;
  /* exp(x) = 2^whole * 2^part, where adding 1.5 * 2^23 rounds to a whole number. */
  float exponent = x * 1.44269504f, whole = (exponent + 12582912.0f) - 12582912.0f, part = exponent - whole;
  float value = 1.54035304e-4f;
  value = value * part + 1.33335581e-3f;
  value = value * part + 9.61812911e-3f;
  value = value * part + 5.55041087e-2f;
  value = value * part + 2.40226507e-1f;
  value = value * part + 6.93147181e-1f;
  value = value * part + 1.0f;
  return ((heddle_u64)(value * 4294967296.0f) << 8) >> -(int)whole;
}

/* `bits`: those of x. Smaller is better. */
static inline heddle_u64 heddle_token_rank(heddle_u32 bits, heddle_u32 id) {
  return (heddle_u64)(bits & 0x7fffffffu) << 32 | id;
}

/* ceil(total * part / 2^32) */
static inline heddle_u64 heddle_part_of_weights(heddle_u64 total, heddle_u32 part) {
  return (total >> 32) * part + (((total & 0xffffffffu) * part + 0xffffffffu) >> 32);
}

/* floor(total * random / 2^64): below total. */
static inline heddle_u64 heddle_random_weight(heddle_u64 total, heddle_u64 random) {
  heddle_u64 low = total & 0xffffffffu, high = total >> 32, of = random & 0xffffffffu, above = random >> 32;
  heddle_u64 middle = high * of + (low * of >> 32), carried = low * above + (middle & 0xffffffffu);
  return high * above + (middle >> 32) + (carried >> 32);
}

#endif
