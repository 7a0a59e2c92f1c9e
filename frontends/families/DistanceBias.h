// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention scores get for the distance from a key back to the query, query position - key position.
#ifndef HEDDLE_FRONTENDS_FAMILIES_DISTANCEBIAS_H
#define HEDDLE_FRONTENDS_FAMILIES_DISTANCEBIAS_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

// Slopes, or buckets; nothing where both are empty.
struct DistanceBias {
  std::vector<float> slopes; // (num_heads): minus the slope times the distance (ALiBi, arXiv:2108.12409)
  // The weight (num_buckets, num_heads), under its whole name, whichever layer reads it (T5, arXiv:1910.10683): its row rows[k], k being
  // the number of starts that are not greater than the distance. Starts ascend, from -maxDistance to maxDistance.
  std::string table;
  std::vector<int64_t> starts, rows;

  static constexpr int64_t maxDistance = 8192;
};

// The slopes of the paper: 2^(-maxBias i / n) for i from 1 to n, n being num_heads or the power of two below it; what is left of the heads
// takes every second slope of those of 2 n.
std::vector<float> alibiSlopes(int64_t numHeads, double maxBias = 8.0);

// The buckets of T5: one for each distance below half of num_buckets, then wider and wider ones up to maxDistance, where the last begins. To
// both sides (`bidirectional`) half of the buckets are for keys ahead of the query; else a key ahead is as one at no distance.
// Of 2 buckets at least, 4 of both sides, and a maxDistance that is greater than the half (the quarter) of them, at most
// DistanceBias::maxDistance.
DistanceBias relativeBuckets(const std::string &table, bool bidirectional, int64_t numBuckets, int64_t maxDistance);

} // namespace heddle

#endif
