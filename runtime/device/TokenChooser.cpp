// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The largest logit on OpenCL. Each thread looks through every threads-th number; then halves of the threads compare pairs, and of equal numbers the
// smaller index wins. A thread that has met a number that is not finite claims the largest of all, infinity, with the
// smallest index, -1.
#include "runtime/device/TokenChooser.h"

namespace heddle::token_chooser {
namespace {

const char openCl[] = R"(
__kernel void heddle_largest_logit(__global const float *logits, __global int *result, int count,
                                   __local float *values) {
  int thread = get_local_id(0), threads = get_local_size(0);
  __local int *indices = (__local int *)(values + threads);
  __global const float *row = logits + (size_t)get_group_id(0) * count;
  float value = -INFINITY;
  int index = 0x7fffffff;
  bool isFinite = true;
  for (int i = thread; i < count; i += threads) {
    float logit = row[i];
    isFinite = isFinite && (as_uint(logit) & 0x7f800000u) != 0x7f800000u;
    if (logit > value) {
      value = logit;
      index = i;
    }
  }
  values[thread] = isFinite ? value : INFINITY;
  indices[thread] = isFinite ? index : -1;
  for (int pairs = threads / 2; pairs > 0; pairs /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread < pairs) {
      float other = values[thread + pairs];
      int otherIndex = indices[thread + pairs];
      if (other > values[thread] || (other == values[thread] && otherIndex < indices[thread])) {
        values[thread] = other;
        indices[thread] = otherIndex;
      }
    }
  }
  if (thread == 0)
    result[get_group_id(0)] = indices[0];
}
)";

} // namespace

TokenChooser ofOpenCl() {
  constexpr unsigned threads = 128;
  return {openCl, "heddle_largest_logit", threads, threads * 8, /*takesChoices=*/false};
}

TokenChooser ofCuda() {
  return {ptxCode(), "heddle_choose_tokens", 1024, 0, /*takesChoices=*/true};
}

} // namespace heddle::token_chooser
