// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weight matrices of every type, as files hold them.
#ifndef HEDDLE_TEST_EXECUTE_RANDOMWEIGHTS_H
#define HEDDLE_TEST_EXECUTE_RANDOMWEIGHTS_H

#include "frontends/Checkpoint.h"
#include "test/execute/KernelLibrary.h"

#include <optional>

namespace heddle::test {

// Every type that a weight can be stored as.
const std::vector<TensorType> &weightTypes();

// Every type on the targets that this machine can run. On those between the first and the last, which unpack with the same vectors as one of these, one type of each
// way to unpack; all of them in the nightly run.
std::vector<std::pair<std::string, TensorType>> weightTypesOnTargets();

// W (n, k) of random blocks, and what it dequantises to. With `codes`, quantised ones hold that byte wherever no f16 scale is.
struct RandomWeights {
  RandomWeights(TensorType type, int64_t n, int64_t k, uint64_t seed, std::optional<uint8_t> codes = {});

  TensorType type;
  int64_t n, k;
  std::vector<uint8_t> stored;
  std::vector<float> values; // (n, k)

  // Packed, 64-byte aligned.
  std::vector<uint8_t> packedStorage;
  uint8_t *packed;
};

} // namespace heddle::test

#endif
