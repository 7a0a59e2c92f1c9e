// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which steps of a session are graphs, and that a graph brings what its step has. Kernels run within graphs in test/device.
#include "runtime/session/DeviceStep.h"
#include "test/unit/FakeDevice.h"
#include "test/unit/TestModel.h"

using namespace heddle;
using namespace heddle::reference;

namespace {

constexpr int64_t longContext = 1100; // 18 pages

struct StepGraphsTest : testing::Test {
  void SetUp() override {
    device.records = true;
    ASSERT_TRUE(cache.create({pageBytes, {}}, 2, longContext, /*budget=*/0, &device).isOk());
    ASSERT_TRUE(cache.makeRoom(0, longContext).isOk());
    ASSERT_TRUE(cache.makeRoom(1, longContext).isOk());
    ASSERT_TRUE(rope.create(model.package->metadata(), longContext).isOk());
    ASSERT_TRUE(
        onDevice
            .create(device,
                    {4096, maxRows, /*maxOutputs=*/2, 2, longContext, vocabSize, hiddenSize, /*sourceContext=*/0}, rope)
            .isOk());
  }

  // `rows` tokens in each of the first sequences behind `past` tokens. Code launches once, and notes what it sees.
  Status run(int32_t past, int32_t numSequences = 1, int32_t rows = 1, DeviceStep::Results results = {},
             int64_t fixedForms = 0) {
    std::vector<heddle_sequence> sequences(numSequences);
    std::vector<int32_t> ids, positions, rowSequence, outputRows;
    for (int32_t i = 0; i < numSequences; ++i) {
      sequences[i] = {i * rows, rows, past, 0, cache.pages(i)};
      for (int32_t row = 0; row < rows; ++row) {
        ids.push_back(past % 100 + i);
        positions.push_back(past + row);
        rowSequence.push_back(i);
      }
      outputRows.push_back(i * rows);
    }
    rope.prepare(rope.modeOf(longContext), positions.data(), int64_t(positions.size()));
    heddle_step step = {};
    step.ids = ids.data();
    step.positions = step.cache_positions = positions.data();
    step.row_sequence = rowSequence.data();
    step.output_rows = outputRows.data();
    step.sequences = sequences.data();
    step.rope_tables = rope.tables();
    step.rows = int64_t(ids.size());
    step.num_sequences = step.num_outputs = numSequences;
    step.fixed_forms = fixedForms;
    step.kernel_profile = profile;
    auto code = [](void *test, const heddle_step &placed) {
      auto &self = *static_cast<StepGraphsTest *>(test);
      ++self.timesTold;
      self.logitsOnDevice = placed.logits;
      self.seenLength = placed.sequences[0].past + placed.sequences[0].num_rows;
      heddle_launch launch = {};
      launch.entry = "good";
      placed.device->launch(placed.device, &launch);
    };
    Status status = onDevice.run(step, cache, sources, results, {code, this});
    if (status.isOk())
      EXPECT_EQ(FakeDevice::host(step.ids)[0], past % 100) << "the inputs are this step's";
    return status;
  }

  TestModel model;
  FakeDevice device;
  PagedKvCache cache, sources;
  RopeTables rope;
  DeviceStep onDevice;
  heddle_kernel_profile *profile = nullptr;
  int timesTold = 0;
  float *logitsOnDevice = nullptr;
  int64_t seenLength = 0;
};

TEST_F(StepGraphsTest, aTokenIsAGraphFromTheSecondOn) {
  for (int32_t past = 0; past < 5; ++past)
    ASSERT_TRUE(run(past).isOk());
  EXPECT_EQ(timesTold, 2) << "launched, recorded";
  EXPECT_EQ(device.launches, 5) << "each token runs its kernel once";
  DeviceCounts counts = device.counts();
  EXPECT_EQ(counts.launches, 1u);
  EXPECT_EQ(counts.graphLaunches, 4u);
  EXPECT_EQ(counts.graphKernels, 4u);
  EXPECT_EQ(device.graphs, 1);
}

TEST_F(StepGraphsTest, aGraphIsOfOneWidthOfThePageTable) {
  for (auto [past, length] : {std::pair(0, 512), {511, 512}, {512, 1024}, {1023, 1024}, {1024, 18 * 64}}) {
    ASSERT_TRUE(run(past).isOk());
    ASSERT_TRUE(run(past).isOk());
    EXPECT_EQ(seenLength, length) << "code sees nothing of a length but the table's width";
  }
  EXPECT_EQ(device.graphs, 3);
}

TEST_F(StepGraphsTest, aGraphIsOfOneKindOfStep) {
  std::vector<float> logits(size_t(2) * vocabSize);
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(run(3).isOk());
    ASSERT_TRUE(run(3, 2).isOk());
    ASSERT_TRUE(run(3, 2, 1, {logits.data()}).isOk());
    ASSERT_TRUE(run(3, 2, 1, {logits.data()}, /*fixedForms=*/1).isOk());
  }
  EXPECT_EQ(device.graphs, 4);
}

TEST_F(StepGraphsTest, whatIsNoTokenIsLaunched) {
  heddle_kernel_profile counters[1] = {};
  for (int repeat = 0; repeat < 3; ++repeat) {
    profile = nullptr;
    ASSERT_TRUE(run(3, 1, 2).isOk());
    EXPECT_EQ(seenLength, 5);
    profile = counters;
    ASSERT_TRUE(run(3).isOk());
  }
  EXPECT_EQ(device.graphs, 0);
  EXPECT_EQ(device.counts().launches, 6u);
}

TEST_F(StepGraphsTest, fewGraphsAreKept) {
  for (int kind = 0; kind < 2 * StepGraphs::limit; ++kind)
    for (int repeat = 0; repeat < 2; ++repeat)
      ASSERT_TRUE(run(3, 1, 1, {}, kind).isOk());
  EXPECT_EQ(device.graphs, StepGraphs::limit);
  EXPECT_EQ(timesTold, 4 * StepGraphs::limit);
  ASSERT_TRUE(run(4, 1, 1, {}, 2 * StepGraphs::limit - 1).isOk());
  EXPECT_EQ(timesTold, 4 * StepGraphs::limit) << "the last are there";
  ASSERT_TRUE(run(4, 1, 1, {}, 0).isOk());
  EXPECT_EQ(timesTold, 4 * StepGraphs::limit + 1) << "the first are not";
}

TEST_F(StepGraphsTest, whereNoneCanBeRecordedStepsAreLaunched) {
  device.failsToRecord = true;
  EXPECT_TRUE(onDevice.graphRefusal().isOk());
  for (int32_t past = 0; past < 4; ++past)
    ASSERT_TRUE(run(past).isOk());
  EXPECT_EQ(onDevice.graphRefusal().message(), "the graph failed");
  EXPECT_EQ(device.launches, 4);
  EXPECT_EQ(device.counts().launches, 4u);
  EXPECT_EQ(timesTold, 5) << "it was tried once";
}

TEST_F(StepGraphsTest, aDeviceWithoutGraphsSaysSo) {
  device.records = false;
  DeviceStep other;
  ASSERT_TRUE(
      other.create(device, {4096, maxRows, /*maxOutputs=*/2, 2, longContext, vocabSize, hiddenSize, 0}, rope).isOk());
  EXPECT_EQ(other.graphRefusal().message(), "this kind of device has none");
}

// What the device recorded brings the results of each step to where that one wants them.
TEST_F(StepGraphsTest, resultsAreThoseOfTheStep) {
  std::vector<float> first(vocabSize);
  ASSERT_TRUE(run(0, 1, 1, {first.data()}).isOk());
  for (int32_t past = 1; past < 4; ++past) {
    FakeDevice::host(logitsOnDevice)[7] = float(past);
    std::vector<float> logits(vocabSize);
    ASSERT_TRUE(run(past, 1, 1, {logits.data()}).isOk());
    EXPECT_EQ(logits[7], float(past));
  }
  EXPECT_EQ(device.counts().graphLaunches, 3u);
}

} // namespace
