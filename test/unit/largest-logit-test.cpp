// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On the device that $HEDDLE_TEST_DEVICE names as a target: test/device/largest-logit.test runs it on each.
#include "runtime/device/Device.h"
#include "runtime/session/StepRun.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <vector>

using namespace heddle;

namespace {

struct LargestLogitTest : testing::Test {
  void SetUp() override {
    const char *target = getenv("HEDDLE_TEST_DEVICE");
    if (!target)
      GTEST_SKIP() << "HEDDLE_TEST_DEVICE names no device";
    Status status = Device::open(target, "", device);
    ASSERT_TRUE(status.isOk()) << status.message();
  }

  std::vector<int32_t> find(const std::vector<float> &logits, int32_t count) {
    int64_t rows = int64_t(logits.size()) / count;
    DeviceMemory from, to;
    std::vector<int32_t> found(rows, 12345);
    EXPECT_TRUE(from.allocate(*device, logits.size() * sizeof(float), "logits").isOk());
    EXPECT_TRUE(to.allocate(*device, rows * sizeof(int32_t), "indices").isOk());
    EXPECT_TRUE(device->upload(from.data(), logits.data(), logits.size() * sizeof(float)).isOk());
    StepLaunches launches;
    launches.begin(*device);
    launches.findLargest(from.as<float>(), rows, count, to.as<int32_t>());
    Status status = launches.finish();
    EXPECT_TRUE(status.isOk()) << status.message();
    EXPECT_TRUE(device->download(found.data(), to.data(), rows * sizeof(int32_t)).isOk());
    return found;
  }

  std::unique_ptr<Device> device;
};

TEST_F(LargestLogitTest, isThatOfTheHost) {
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

TEST_F(LargestLogitTest, ofEqualOnesIsTheFirst) {
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

TEST_F(LargestLogitTest, isNoneWhereOneIsNotFinite) {
  for (float bad : {INFINITY, -INFINITY, NAN, -NAN})
    for (int at : {0, 1, 127, 128, 500, 999}) {
      std::vector<float> logits(3000, 1.0f);
      logits[1000 + at] = bad;
      logits[2000] = 3.4e38f;
      EXPECT_EQ(find(logits, 1000), std::vector<int32_t>({0, -1, 0})) << bad << " at " << at;
    }
}

} // namespace
