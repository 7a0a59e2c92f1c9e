// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On the device that $HEDDLE_TEST_DEVICE names as a target: test/device/chosen-tokens.test runs it on each.
#include "runtime/device/Device.h"
#include "runtime/session/HostChoice.h"
#include "runtime/session/Sampler.h"
#include "runtime/session/StepRun.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <vector>

using namespace heddle;

namespace {

struct TokenChooserTest : testing::Test {
  void SetUp() override {
    const char *target = getenv("HEDDLE_TEST_DEVICE");
    if (!target)
      GTEST_SKIP() << "HEDDLE_TEST_DEVICE names no device";
    Status status = Device::open(target, "", device);
    ASSERT_TRUE(status.isOk()) << status.message();
  }

  std::vector<int32_t> find(const std::vector<float> &logits, int32_t count,
                            const std::vector<heddle_token_choice> &choices = {}) {
    int64_t rows = int64_t(logits.size()) / count;
    DeviceMemory from, how, to;
    std::vector<int32_t> found(rows, 12345);
    EXPECT_TRUE(from.allocate(*device, logits.size() * sizeof(float), "logits").isOk());
    EXPECT_TRUE(to.allocate(*device, rows * sizeof(int32_t), "indices").isOk());
    EXPECT_TRUE(device->upload(from.data(), logits.data(), logits.size() * sizeof(float)).isOk());
    uint64_t bytes = choices.size() * sizeof(heddle_token_choice);
    EXPECT_TRUE(how.allocate(*device, bytes, "choices").isOk());
    EXPECT_TRUE(device->upload(how.data(), choices.data(), bytes).isOk());
    StepLaunches launches;
    launches.begin(*device);
    launches.chooseTokens(from.as<float>(), bytes ? how.as<heddle_token_choice>() : nullptr, rows, count,
                          to.as<int32_t>());
    Status status = launches.finish();
    EXPECT_TRUE(status.isOk()) << status.message();
    EXPECT_TRUE(device->download(found.data(), to.data(), rows * sizeof(int32_t)).isOk());
    return found;
  }

  std::unique_ptr<Device> device;
};

TEST_F(TokenChooserTest, theLargestIsThatOfTheHost) {
  uint32_t state = 1;
  for (int32_t count : {1, 2, 127, 128, 129, 256, 1000, 4099}) {
    std::vector<float> logits(size_t(3) * count);
    for (float &logit : logits) {
      state = state * 1664525 + 1013904223;
      logit = float(int32_t(state >> 16) % 97) - 90; // many are equal
    }
    std::vector<int32_t> found = find(logits, count);
    for (int row = 0; row < 3; ++row)
      EXPECT_EQ(found[row], indexOfLargest(logits.data() + size_t(row) * count, count)) << count << " in row " << row;
  }
}

TEST_F(TokenChooserTest, ofEqualLargestOnesIsTheFirst) {
  std::vector<float> logits(1000, -1e30f);
  EXPECT_EQ(find(logits, 1000)[0], 0);
  for (int i : {999, 700, 699, 131, 130, 3}) { // in threads after and before each other
    logits[i] = 2.5f;
    EXPECT_EQ(find(logits, 1000)[0], i);
  }
  logits.assign(1000, -1);
  logits[800] = 0.0f;
  logits[400] = -0.0f;
  EXPECT_EQ(find(logits, 1000)[0], 400) << "zeros are equal";
}

TEST_F(TokenChooserTest, thereIsNoneWhereOneIsNotFinite) {
  for (float bad : {INFINITY, -INFINITY, NAN, -NAN})
    for (int at : {0, 1, 127, 128, 500, 999}) {
      std::vector<float> logits(3000, 1.0f);
      logits[1000 + at] = bad;
      logits[2000] = 3.4e38f;
      EXPECT_EQ(find(logits, 1000), std::vector<int32_t>({0, -1, 0})) << bad << " at " << at;
    }
}

// Rows with their choices, of which some are greedy and some logits are equal.
TEST_F(TokenChooserTest, samplesAreThoseOfTheHost) {
  Random random(7);
  auto pick = [&](auto... values) {
    using T = std::common_type_t<decltype(values)...>;
    const T all[] = {values...};
    return all[random.next() % sizeof...(values)];
  };
  for (int32_t count : {1, 2, 255, 1000, 1025, 5000}) {
    constexpr size_t rows = 16;
    std::vector<float> logits(rows * count);
    std::vector<heddle_token_choice> choices;
    for (size_t row = 0; row < rows; ++row) {
      float step = pick(0.0f, 1e-3f, 0.5f, 3.0f), scale = pick(1.0f, 8.0f, 1e30f);
      for (int32_t i = 0; i < count; ++i) {
        float logit = float(int64_t(random.next() >> 40) - (1 << 23)) * 0x1p-21f; // in [-4, 4)
        logits[row * count + i] = scale * (step > 0 ? step * std::round(logit / step) : logit);
      }
      SamplerOptions options;
      options.temperature = pick(0.0f, 0.3f, 1.0f, 1.0f, 5.0f, 1000.0f, 1e-40f);
      options.topK = pick(0, 0, 1, 2, 40, 900, 1 << 30);
      options.topP = pick(1.0f, 1.0f, 1e-12f, 0.3f, 0.9f, 0.999f);
      options.minP = pick(0.0f, 0.0f, 0.05f, 1.0f);
      options.seed = random.next();
      choices.push_back(Sampler(options, count).draw());
    }
    std::vector<int32_t> found = find(logits, count, choices);
    std::vector<uint64_t> ranks(count);
    for (size_t row = 0; row < rows; ++row)
      EXPECT_EQ(found[row], chooseToken(logits.data() + row * count, count, choices[row], ranks.data()))
          << count << " in row " << row << ": 1 / temperature " << choices[row].inverse_temperature << ", top-k "
          << choices[row].top_k << ", top-p " << choices[row].top_p << " / 2^32, least " << choices[row].least;
  }
}

// Which token is picked follows the random number: all of them come, in the order of ids.
TEST_F(TokenChooserTest, aSampleFollowsItsRandomNumber) {
  std::vector<float> logits(32, 0.0f); // 8 rows of 4
  std::vector<heddle_token_choice> choices(8);
  for (size_t i = 0; i < choices.size(); ++i)
    choices[i] = {1, -1e30f, 0, 0, uint64_t(i) << 61};
  EXPECT_EQ(find(logits, 4, choices), std::vector<int32_t>({0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST_F(TokenChooserTest, aSampleOfWhatIsNotFiniteIsNone) {
  std::vector<float> logits(2000, 1.0f);
  logits[1500] = INFINITY;
  std::vector<heddle_token_choice> choices(2, {1, -1e30f, 0, 0, 0});
  EXPECT_EQ(find(logits, 1000, choices), std::vector<int32_t>({0, -1}));
}

} // namespace
