// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/ModelKind.h"
#include "runtime/session/DeviceStep.h"
#include "test/unit/FakeDevice.h"
#include "test/unit/TestModel.h"

using namespace heddle;
using namespace heddle::reference;

namespace {

TEST(Device, isSelectedByNumberOrPartOfItsName) {
  const std::string names[] = {"Loom 9000", "Spindle"};
  size_t index = 7;
  EXPECT_TRUE(selectDevice("OpenCL", "", names, 2, index).isOk());
  EXPECT_EQ(index, 0u);
  EXPECT_TRUE(selectDevice("OpenCL", "1", names, 2, index).isOk());
  EXPECT_EQ(index, 1u);
  EXPECT_TRUE(selectDevice("OpenCL", "9000", names, 2, index).isOk());
  EXPECT_EQ(index, 0u);
  EXPECT_TRUE(selectDevice("OpenCL", "0", names, 2, index).isOk());
  EXPECT_EQ(index, 0u);
  EXPECT_TRUE(selectDevice("OpenCL", "2", names, 2, index).code() == StatusCode::InvalidInput);
  EXPECT_TRUE(selectDevice("OpenCL", "Spin", names, 2, index).isOk());
  EXPECT_EQ(index, 1u);
  EXPECT_EQ(selectDevice("OpenCL", "Bobbin", names, 2, index).message(),
            "device: there is no OpenCL device 'Bobbin', only: 0 Loom 9000, 1 Spindle");
}

TEST(Device, targetsAreToldFromProcessors) {
  EXPECT_TRUE(isDeviceTarget("opencl"));
  EXPECT_TRUE(isDeviceTarget("cuda:sm_80"));
  for (const char *target : {"", "native", "cuda", "opencl2", "x86-64-v3"})
    EXPECT_FALSE(isDeviceTarget(target)) << target;
  std::unique_ptr<Device> device;
  EXPECT_EQ(Device::open("vax", "", device).message(), "no device is called 'vax'");
  // Whether or not there is a driver.
  Status status = Device::open("cuda:banana", "", device);
  EXPECT_EQ(status.exitCode(), 1);
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

TEST(Device, aStepIsToldOfItsFirstFailedLaunch) {
  FakeDevice device;
  StepLaunches step;
  auto run = [&](StepLaunches &step, const char *entry) {
    heddle_launch launch = {};
    launch.entry = entry;
    step.launch(&step, &launch);
  };
  step.begin(device);
  for (const char *entry : {"good", "first", "second", "good"})
    run(step, entry);
  EXPECT_EQ(device.launches, 2) << "nothing runs on what a failed launch has left";
  EXPECT_EQ(step.finish().message(), "first failed");
  step.begin(device);
  run(step, "good");
  EXPECT_TRUE(step.finish().isOk());
  EXPECT_EQ(device.launches, 3);
}

// Steps of two sessions, whose launches alternate.
TEST(Device, aFailureBelongsToItsStep) {
  FakeDevice device;
  StepLaunches a, b;
  heddle_launch good = {}, bad = {};
  good.entry = "good";
  bad.entry = "bad";
  a.begin(device);
  b.begin(device);
  a.launch(&a, &bad);
  b.launch(&b, &good);
  EXPECT_EQ(device.launches, 2) << "what another step failed with keeps no launch back";
  EXPECT_TRUE(b.finish().isOk());
  EXPECT_EQ(a.finish().message(), "bad failed");
}

TEST(DeviceCache, aSharedPageIsCopiedOnTheDevice) {
  FakeDevice device;
  PagedKvCache cache;
  ASSERT_TRUE(cache.create({pageBytes, {}}, 2, context, /*budget=*/0, &device).isOk());
  ASSERT_TRUE(cache.makeRoom(0, 3).isOk());
  cache.setLength(0, 3);
  const uint8_t written = 42;
  ASSERT_TRUE(device.upload(cache.pages(0)[0], &written, 1).isOk());
  cache.fork(0, 1);
  EXPECT_EQ(cache.pagesInUse(), 1);

  device.failsToCopy = true;
  EXPECT_EQ(cache.makeRoom(1, 1).message(), "the copy failed");
  EXPECT_EQ(cache.pagesInUse(), 1) << "the page that was to be the copy is free again";
  EXPECT_EQ(cache.pages(1)[0], cache.pages(0)[0]);

  device.failsToCopy = false;
  ASSERT_TRUE(cache.makeRoom(1, 1).isOk());
  EXPECT_NE(cache.pages(1)[0], cache.pages(0)[0]);
  EXPECT_EQ(*FakeDevice::host(cache.pages(1)[0]), written);
  EXPECT_EQ(cache.indexOf(cache.pages(0)[0]), 0);
  EXPECT_EQ(cache.base() + cache.indexOf(cache.pages(1)[0]) * cache.pageStride(), cache.pages(1)[0]);
}

TEST(DeviceCache, lackOfMemoryNamesTheCache) {
  FakeDevice device;
  device.largest = 1000;
  PagedKvCache cache;
  Status status = cache.create({pageBytes, {}}, 2, context, /*budget=*/0, &device);
  EXPECT_TRUE(status.code() == StatusCode::OutOfMemory);
  EXPECT_EQ(status.message(), format("no device memory for %zu bytes of KV cache", 4 * pageBytes));
}

// A step of two sequences: 2 tokens behind 70, and the first of another.
struct DeviceStepTest : testing::Test {
  void SetUp() override {
    ASSERT_TRUE(cache.create({pageBytes, {}}, 2, context, /*budget=*/0, &device).isOk());
    ASSERT_TRUE(cache.makeRoom(1, 1).isOk()); // its page is the first, so that pages are in no order
    ASSERT_TRUE(cache.makeRoom(0, 72).isOk());
    ASSERT_TRUE(rope.create(model.package->metadata(), context).isOk());
    rope.prepare(rope.modeOf(72), positions, 3);
    sequences[0].pages = cache.pages(0);
    sequences[0].past = 70;
    sequences[0].num_rows = 2;
    sequences[1].pages = cache.pages(1);
    sequences[1].num_rows = 1;
    host.ids = ids;
    host.positions = positions;
    host.row_sequence = rowSequence;
    host.cache_positions = positions;
    host.output_rows = outputRows;
    host.sequences = sequences;
    host.rope_tables = rope.tables();
    host.rows = 3;
    host.num_sequences = host.num_outputs = 2;
  }
  template <typename Code>
  Status run(DeviceStep &onDevice, heddle_step &step, const DeviceStep::Results &results, Code code) {
    auto call = [](void *user, const heddle_step &placed) { (*static_cast<Code *>(user))(placed); };
    return onDevice.run(step, cache, sources, results, {call, &code});
  }
  Status run(DeviceStep &onDevice, heddle_step &step, const DeviceStep::Results &results = {}) {
    return run(onDevice, step, results, [](const heddle_step &) {});
  }
  std::vector<int32_t> read(const int32_t *address, size_t count) {
    const int32_t *values = FakeDevice::host(address);
    return {values, values + count};
  }

  TestModel model;
  FakeDevice device;
  PagedKvCache cache, sources;
  RopeTables rope;
  heddle_sequence sequences[2] = {};
  heddle_step host = {};
  const int32_t ids[3] = {5, 6, 7}, positions[3] = {70, 71, 0}, rowSequence[3] = {0, 0, 1}, outputRows[2] = {1, 2};
  const DeviceStep::Sizes sizes = {
      4096, maxRows, /*maxOutputs=*/2, 2, context, vocabSize, hiddenSize, /*sourceContext=*/0, /*hasAdapters=*/false};
};

TEST_F(DeviceStepTest, whatAStepReadsIsOnTheDevice) {
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, sizes, rope).isOk());
  heddle_step step = host;
  ASSERT_TRUE(run(onDevice, step).isOk());
  EXPECT_EQ(read(step.ids, 3), std::vector<int32_t>({5, 6, 7}));
  EXPECT_EQ(read(step.positions, 3), std::vector<int32_t>({70, 71, 0}));
  EXPECT_EQ(read(step.row_sequence, 3), std::vector<int32_t>({0, 0, 1}));
  EXPECT_EQ(read(step.cache_positions, 3), std::vector<int32_t>({70, 71, 0}));
  EXPECT_EQ(read(step.output_rows, 2), std::vector<int32_t>({1, 2}));
  // 72 tokens lie in two pages; the other sequence has one, and 0 where it has none.
  EXPECT_EQ(step.pages_per_sequence, 2);
  EXPECT_EQ(read(step.page_table, 4), std::vector<int32_t>({1, 2, 0, 0}));
  EXPECT_EQ(step.num_pages, 4);
  for (int32_t position : positions)
    EXPECT_EQ(memcmp(FakeDevice::host(step.rope_tables[0]) + int64_t(position) * headDim,
                     rope.tables()[0] + int64_t(position) * headDim, headDim * sizeof(float)),
              0)
        << "rotary row " << position;
  EXPECT_NE(step.device, nullptr);
  for (const void *array : {(const void *)step.ids, (const void *)step.positions, (const void *)step.output_rows})
    EXPECT_EQ((uintptr_t(array) - uintptr_t(step.ids)) % 64, 0u);
}

TEST_F(DeviceStepTest, numbersOfAdaptersAreOnTheDevice) {
  DeviceStep::Sizes withAdapters = sizes;
  withAdapters.hasAdapters = true;
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, withAdapters, rope).isOk());
  const int32_t adapters[3] = {2, 2, 0};
  heddle_step step = host;
  step.token_types = adapters;
  ASSERT_TRUE(run(onDevice, step).isOk());
  EXPECT_EQ(read(step.token_types, 3), std::vector<int32_t>({2, 2, 0}));
  EXPECT_EQ(read(step.output_rows, 2), std::vector<int32_t>({1, 2}));
}

// Those that are there stay there, and their place grows by more than is asked for.
TEST_F(DeviceStepTest, givenRowsAreUploadedOnce) {
  DeviceStep::Sizes withRows = sizes;
  withRows.isGivenRows = true;
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, withRows, rope).isOk());
  std::vector<float> rows(size_t(2 * hiddenSize));
  const uint64_t before = device.counts().uploadedBytes, copies = device.counts().copies;
  constexpr int64_t numImages = 16;
  for (int64_t image = 0; image < numImages; ++image) {
    std::fill(rows.begin(), rows.end(), float(image));
    ASSERT_TRUE(onDevice.give(rows.data(), 2 * image, 2).isOk());
  }
  EXPECT_EQ(device.counts().uploadedBytes - before, numImages * rows.size() * sizeof(float));
  EXPECT_EQ(device.counts().copies - copies, 4u); // from 2 to 4, 8, 16 and 32 rows
  // Where there is no room for twice as many there may be for those that are needed.
  device.largest = uint64_t(2 * numImages + 2) * hiddenSize * sizeof(float);
  ASSERT_TRUE(onDevice.give(rows.data(), 2 * numImages, 2).isOk());
  EXPECT_EQ(onDevice.give(rows.data(), 2 * numImages + 2, 2).code(), StatusCode::OutOfMemory);
  heddle_step step = host;
  ASSERT_TRUE(run(onDevice, step).isOk());
  for (int64_t image = 0; image < numImages; ++image)
    EXPECT_EQ(FakeDevice::host(step.patches)[(2 * image + 1) * hiddenSize], float(image));
}

// Of an encoder-decoder: the source of a sequence has pages in a cache of its own, and a length.
TEST_F(DeviceStepTest, sourcesAreOnTheDevice) {
  ASSERT_TRUE(sources.create({pageBytes, {}}, 2, context, /*budget=*/0, &device).isOk());
  ASSERT_TRUE(sources.makeRoom(0, 1).isOk());
  ASSERT_TRUE(sources.makeRoom(1, 65).isOk());
  heddle_sequence ofSources[2] = {};
  ofSources[0].pages = sources.pages(0);
  ofSources[0].num_rows = 1;
  ofSources[1].pages = sources.pages(1);
  ofSources[1].past = 64;
  ofSources[1].num_rows = 1;
  DeviceStep::Sizes withSources = sizes;
  withSources.sourceContext = context;
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, withSources, rope).isOk());
  heddle_step step = host;
  step.sources = ofSources;
  ASSERT_TRUE(run(onDevice, step).isOk());
  EXPECT_EQ(read(step.source_lengths, 2), std::vector<int32_t>({1, 65}));
  EXPECT_EQ(step.pages_per_source, 2);
  EXPECT_EQ(read(step.source_page_table, 4), std::vector<int32_t>({0, 0, 1, 2}));
  EXPECT_EQ(read(step.page_table, 4), std::vector<int32_t>({1, 2, 0, 0}));
  EXPECT_EQ(step.source_cache, sources.base());
  EXPECT_EQ(step.num_source_pages, sources.numPages());
}

TEST_F(DeviceStepTest, resultsComeBack) {
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, sizes, rope).isOk());
  heddle_step step = host;
  auto compute = [](const heddle_step &placed) {
    FakeDevice::host(placed.logits)[vocabSize] = 1.5f;
    FakeDevice::host(placed.last_hidden_state)[size_t(2) * hiddenSize] = 2.5f;
  };
  std::vector<float> logits(size_t(2) * vocabSize), hidden(size_t(3) * hiddenSize);
  ASSERT_TRUE(run(onDevice, step, {logits.data()}, compute).isOk());
  EXPECT_EQ(logits[vocabSize], 1.5f);
  step = host;
  ASSERT_TRUE(run(onDevice, step, {logits.data(), nullptr, hidden.data()}, compute).isOk());
  EXPECT_EQ(hidden[size_t(2) * hiddenSize], 2.5f);

  step = host;
  Status status = run(onDevice, step, {logits.data()}, [](const heddle_step &placed) {
    heddle_launch launch = {};
    launch.entry = "broken";
    placed.device->launch(placed.device, &launch);
  });
  EXPECT_EQ(status.message(), "broken failed");
}

// What a step needs that the device has already, is not uploaded again: rotary rows of a block of tokens, numbers of
// pages. And a step waits once.
TEST_F(DeviceStepTest, aStepUploadsWhatChanged) {
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, sizes, rope).isOk());
  std::vector<float> logits(vocabSize);
  auto run = [&](int32_t position, int32_t sequence) {
    heddle_sequence fed = {};
    fed.pages = cache.pages(sequence);
    fed.past = position;
    fed.num_rows = 1;
    heddle_step step = host;
    rope.prepare(rope.modeOf(72), &position, 1);
    step.positions = step.cache_positions = &position;
    step.sequences = &fed;
    step.output_rows = rowSequence;
    step.rows = step.num_sequences = step.num_outputs = 1;
    DeviceCounts before = device.counts();
    EXPECT_TRUE(this->run(onDevice, step, {logits.data()}).isOk());
    EXPECT_EQ(read(step.page_table, 1)[0], cache.indexOf(fed.pages[0]));
    EXPECT_EQ(memcmp(FakeDevice::host(step.rope_tables[0]) + int64_t(position) * headDim,
                     rope.tables()[0] + int64_t(position) * headDim, headDim * sizeof(float)),
              0)
        << "rotary row " << position;
    DeviceCounts after = device.counts();
    EXPECT_EQ(after.waits - before.waits, 1u);
    EXPECT_EQ(after.downloads - before.downloads, 1u);
    return after.uploads - before.uploads;
  };
  EXPECT_EQ(run(0, 0), 3u) << "inputs, rotary rows, pages";
  EXPECT_EQ(run(1, 0), 1u) << "inputs";
  EXPECT_EQ(run(63, 0), 1u);
  EXPECT_EQ(run(64, 0), 3u) << "the next block, and the next page";
  EXPECT_EQ(run(65, 0), 1u);
  EXPECT_EQ(run(5, 0), 1u);
  EXPECT_EQ(run(0, 1), 2u) << "the page of another sequence";
  EXPECT_EQ(run(0, 1), 1u);
}

// What a failed upload was to bring is not taken to be there.
TEST_F(DeviceStepTest, aFailedUploadIsRepeated) {
  DeviceStep onDevice;
  ASSERT_TRUE(onDevice.create(device, sizes, rope).isOk());
  device.failsToUpload = true;
  heddle_step step = host;
  EXPECT_EQ(run(onDevice, step).message(), "the upload failed");
  device.failsToUpload = false;
  step = host;
  ASSERT_TRUE(run(onDevice, step).isOk());
  EXPECT_EQ(read(step.page_table, 4), std::vector<int32_t>({1, 2, 0, 0}));
  EXPECT_EQ(memcmp(FakeDevice::host(step.rope_tables[0]) + int64_t(70) * headDim,
                   rope.tables()[0] + int64_t(70) * headDim, headDim * sizeof(float)),
            0);
}

TEST_F(DeviceStepTest, lackOfMemoryIsNamed) {
  device.largest = 100;
  DeviceStep onDevice;
  EXPECT_EQ(onDevice.create(device, sizes, rope).message(), "no device memory for 4096 bytes of activations");
}

TEST(DevicePackage, aModelForTheProcessorHasNoDevice) {
  TestModel model;
  Device *device = nullptr;
  ASSERT_TRUE(model.package->openDevice("", device).isOk());
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(model.package->openDevice("0", device).message(), "device: this model was compiled for the CPU");
}

TEST(DevicePackage, aModelForAnUnknownGpuSaysWhyItCannotRun) {
  TestModel model;
  model.metadata.target = "cuda:banana";
  model.open();
  std::unique_ptr<Session> session;
  Status status = Session::create(*model.package, {}, session);
  EXPECT_EQ(status.exitCode(), 1);
  EXPECT_EQ(session, nullptr);
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

} // namespace
