// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/RandomWeights.h"

#include "compiler/weights/PackedLayout.h"

#include <cstring>

using namespace heddle;
using namespace heddle::test;

const std::vector<TensorType> &heddle::test::weightTypes() {
  static const std::vector<TensorType> types = {
      TensorType::F32,   TensorType::F16,     TensorType::BF16,  TensorType::Q4_0,    TensorType::Q4_1,
      TensorType::Q5_0,  TensorType::Q5_1,    TensorType::Q8_0,  TensorType::Q2_K,    TensorType::Q3_K,
      TensorType::Q4_K,  TensorType::Q5_K,    TensorType::Q6_K,  TensorType::IQ4_NL,  TensorType::IQ4_XS,
      TensorType::MXFP4, TensorType::IQ1_S,   TensorType::IQ1_M, TensorType::IQ2_XXS, TensorType::IQ2_XS,
      TensorType::IQ2_S, TensorType::IQ3_XXS, TensorType::IQ3_S, TensorType::TQ1_0,   TensorType::TQ2_0,
      TensorType::Q1_0,  TensorType::E2M1_F16};
  return types;
}

std::vector<std::pair<std::string, TensorType>> heddle::test::weightTypesOnTargets() {
  static const std::vector<TensorType> some = {TensorType::F32,   TensorType::BF16,  TensorType::Q4_0,
                                               TensorType::Q8_0,  TensorType::Q4_K,  TensorType::Q6_K,
                                               TensorType::IQ2_S, TensorType::IQ4_XS};
  std::vector<std::string> targets = KernelLibrary::runnableTargets();
  std::vector<std::pair<std::string, TensorType>> all;
  for (const std::string &target : targets) {
    bool isBetween = target != targets.front() && target != targets.back() && !isNightly();
    for (TensorType type : isBetween ? some : weightTypes())
      all.push_back({target, type});
  }
  return all;
}

// Where a block keeps its f16 scales: random bytes there would be NaN or huge.
static std::vector<int> halfOffsets(TensorType type) {
  switch (type) {
  case TensorType::Q4_1:
  case TensorType::Q5_1:
  case TensorType::Q4_K:
  case TensorType::Q5_K:
    return {0, 2};
  case TensorType::Q2_K:
    return {80, 82};
  case TensorType::Q3_K:
    return {108};
  case TensorType::Q6_K:
    return {208};
  case TensorType::TQ1_0:
    return {52};
  case TensorType::TQ2_0:
    return {64};
  case TensorType::MXFP4:
  case TensorType::IQ1_M:
    return {};
  default:
    return {0};
  }
}

// Either sign, 2^-7 to 2^-4.
static uint16_t randomHalf(Random &random) {
  return uint16_t((random.bits() & 0x83ff) | (8 + random.bits() % 3) << 10);
}

static void putScales(TensorType type, Random &random, uint8_t *block) {
  for (int offset : halfOffsets(type)) {
    uint16_t half = randomHalf(random);
    std::memcpy(block + offset, &half, 2);
  }
  if (type == TensorType::MXFP4)
    block[0] = uint8_t(random.bits() % 64 ? 120 + random.bits() % 5 : random.bits() % 3);
  if (type != TensorType::IQ1_M)
    return;
  // Its f16 lies in the upper halves of four bytes.
  uint16_t half = randomHalf(random);
  for (int i = 0; i < 4; ++i)
    block[49 + 2 * i] = uint8_t((block[49 + 2 * i] & 15) | (half >> (4 * i) & 15) << 4);
}

static void fillPlain(TensorType type, Random &random, std::vector<uint8_t> &stored, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value = random.uniform();
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint16_t upper = type == TensorType::BF16 ? uint16_t(bits >> 16)
                                              : uint16_t((random.bits() & 0x83ff) | (10 + random.bits() % 5) << 10);
    if (type == TensorType::F32)
      std::memcpy(&stored[4 * i], &value, 4);
    else
      std::memcpy(&stored[2 * i], &upper, 2);
  }
}

RandomWeights::RandomWeights(TensorType type, int64_t n, int64_t k, uint64_t seed, std::optional<uint8_t> codes)
    : type(type), n(n), k(k) {
  Random random(seed);
  const TensorTypeInfo &info = tensorTypeInfo(type);
  int64_t blocks = n * k / info.blockValues;
  stored.resize(blocks * info.blockBytes);
  if (info.blockValues == 1) {
    fillPlain(type, random, stored, n * k);
  } else {
    for (uint8_t &byte : stored)
      byte = codes.value_or(uint8_t(random.bits() >> 13));
    for (int64_t block = 0; block < blocks; ++block)
      putScales(type, random, &stored[block * info.blockBytes]);
  }
  values.resize(n * k);
  int64_t rowBytes = k / info.blockValues * info.blockBytes;
  for (int64_t row = 0; row < n; ++row)
    dequantize(type, &stored[row * rowBytes], k, &values[row * k]);
  PackedLayout layout = *layoutFor(type);
  // Slack: the last panel may be read ahead of, never written.
  packedStorage.assign(layout.bytes(n, k) + 64, 0xee);
  packed = packedStorage.data() + (64 - reinterpret_cast<uintptr_t>(packedStorage.data()) % 64) % 64;
  packPanels(type, {{stored.data(), n, false}}, k, 0, layout.numPanels(n), packed);
}
