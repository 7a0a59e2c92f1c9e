// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/DistanceBias.h"

#include <algorithm>
#include <cmath>

namespace heddle {

std::vector<float> alibiSlopes(int64_t numHeads, double maxBias) {
  int64_t whole = 1;
  while (2 * whole <= numHeads)
    whole *= 2;
  std::vector<float> slopes;
  for (int64_t head = 0; head < numHeads; ++head) {
    double step =
        head < whole ? double(head + 1) / double(whole) : (2.0 * double(head - whole) + 1) / double(2 * whole);
    slopes.push_back(float(std::exp2(-maxBias * step)));
  }
  return slopes;
}

// The bucket of a distance that is not negative, in f32 as the reference computes it.
static int64_t bucketOf(int64_t distance, int64_t numBuckets, int64_t maxDistance) {
  int64_t exact = numBuckets / 2;
  if (distance < exact)
    return distance;
  float step = std::log(float(distance) / float(exact)) / float(std::log(double(maxDistance) / double(exact)));
  return std::min(exact + int64_t(step * float(numBuckets - exact)), numBuckets - 1);
}

DistanceBias relativeBuckets(const std::string &table, bool bidirectional, int64_t numBuckets, int64_t maxDistance) {
  DistanceBias bias;
  bias.table = table;
  int64_t perSide = bidirectional ? numBuckets / 2 : numBuckets;
  for (int64_t distance = bidirectional ? -maxDistance : 0; distance <= maxDistance; ++distance) {
    int64_t row = bucketOf(std::abs(distance), perSide, maxDistance) + (distance < 0 ? perSide : 0);
    if (bias.rows.empty()) {
      bias.rows.push_back(row);
    } else if (row != bias.rows.back()) {
      bias.starts.push_back(distance);
      bias.rows.push_back(row);
    }
  }
  return bias;
}

} // namespace heddle
