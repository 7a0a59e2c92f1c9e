// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Guards sizes and offsets of the runtime beyond 2^31 bytes, and 2^32 where that is cheap: caches, rotary tables, logits, and the
// files of --io; and that a long context costs memory only where it is filled. Address space is reserved, files have holes: little of
// it is real.
#include "bytes/Safetensors.h"
#include "runtime/session/PagedKvCache.h"
#include "runtime/session/RopeTables.h"
#include "test/unit/TestModel.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

int64_t residentBytes() {
  long long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  EXPECT_TRUE(file && fscanf(file, "%lld %lld", &pages, &resident) == 2);
  if (file)
    fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Large, cacheOfManyGigabytes) {
  constexpr uint64_t bytes = (uint64_t(1) << 30) + 8192;
  constexpr int64_t pages = 6;
  PagedKvCache cache;
  ASSERT_TRUE(cache.create({bytes, {}}, 1, pages * HEDDLE_KV_PAGE_SIZE).isOk());
  int64_t before = residentBytes();
  ASSERT_TRUE(cache.makeRoom(0, pages * HEDDLE_KV_PAGE_SIZE).isOk());
  cache.setLength(0, pages * HEDDLE_KV_PAGE_SIZE);
  for (int64_t page = 0; page < pages; ++page)
    cache.pages(0)[page][0] = cache.pages(0)[page][bytes - 1] = uint8_t(page + 1);
  for (int64_t page = 0; page < pages; ++page) {
    EXPECT_EQ(cache.pages(0)[page] - cache.base(), page * int64_t(cache.pageStride()));
    EXPECT_EQ(cache.indexOf(cache.pages(0)[page]), page);
    EXPECT_EQ(cache.pages(0)[page][0], page + 1);
    EXPECT_EQ(cache.pages(0)[page][bytes - 1], page + 1);
  }
  EXPECT_LT(residentBytes() - before, 64 << 20);
}

TEST(Large, rotaryTablesOfALongContext) {
  constexpr int64_t longest = 1 << 26; // 64 bytes a row: 4 GiB a table
  TestModel model;
  RopeTables tables;
  ASSERT_TRUE(tables.create(model.package->metadata(), longest).isOk());
  int32_t positions[] = {0, (1 << 25) - 1, 1 << 25, longest - 1};
  tables.prepare(tables.modeOf(longest), positions, 4);
  float frequency = model.metadata.rope[0]->inverse_frequency[3];
  for (int64_t position : positions)
    EXPECT_EQ(tables.tables()[0][position * headDim + 3], float(std::cos(double(float(position) * frequency))));
}

constexpr int64_t manyWords = 1 << 24, manyRows = 34; // 2^31 bytes and more

// A model of whose logits only the last of a row is not 0: it says which row it is.
void markRows(const heddle_step *step, int32_t thread, int32_t) {
  for (int64_t output = 0; thread == 0 && output < step->num_outputs; ++output)
    step->logits[(output + 1) * manyWords - 1] = float(output + 1);
}

TEST(Large, logitsOfAChunk) {
  TestModel model;
  model.metadata.vocab_size = manyWords;
  model.metadata.memory->max_rows = manyRows;
  model.open();
  model.code.step = markRows;
  auto session = model.session();
  std::vector<int32_t> ids(manyRows, 5);
  Feed feed = {0, int32_t(manyRows), ids.data(), nullptr, FeedRows::All};
  std::vector<float> marks;
  RowSink sink([](void *user, size_t, int32_t, const float *logits,
                  const float *) { static_cast<std::vector<float> *>(user)->push_back(logits[manyWords - 1]); },
               &marks);
  Status status = session->forward(&feed, 1, sink);
  ASSERT_TRUE(status.isOk()) << status.message();
  ASSERT_EQ(marks.size(), size_t(manyRows));
  for (int64_t row = 0; row < manyRows; ++row)
    EXPECT_EQ(marks[row], float(row + 1));
}

TEST(Large, aLongContextIsReservedAndNotCommitted) {
  TestModel model;
  model.metadata.context = 1 << 20;
  model.open();
  SessionOptions options;
  options.maxSequences = 64; // 32 GiB of cache
  int64_t before = residentBytes();
  auto session = model.session(options);
  ASSERT_TRUE(session);
  int32_t ids[] = {1, 2, 3};
  ASSERT_TRUE(session->append(0, ids, 3).isOk());
  ASSERT_TRUE(session->append(63, ids, 3).isOk());
  EXPECT_LT(residentBytes() - before, 64 << 20);
}

// Memory that is zero.
struct Zeros {
  explicit Zeros(int64_t size)
      : bytes(static_cast<uint8_t *>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        size(size) {}
  ~Zeros() { munmap(bytes, size); }
  uint8_t *bytes;
  int64_t size;
};

std::string scratch(const char *name) {
  return scratchFolder() + "/" + name;
}

int runIo(const std::string &in, const std::string &out) {
  std::string command = "'" HEDDLE_REFERENCE_LLAMA "' --io " + in + " " + out + " --outputs=logits 2>" + scratch("err");
  int status = system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Large, outputsOfIo) {
  constexpr int64_t columns = (1 << 22) + 3; // 1 KiB of logits each
  const uint8_t words[] = {60, 61, 62};
  Zeros ids(columns), mask(columns);
  memcpy(ids.bytes + columns - 3, words, 3);
  memset(mask.bytes + columns - 3, 1, 3);
  std::string in = scratch("in"), out = scratch("out");
  ASSERT_TRUE(writeSafetensors(in, {{"input_ids", "U8", {1, columns}, ids.bytes, uint64_t(columns)},
                                    {"attention_mask", "U8", {1, columns}, mask.bytes, uint64_t(columns)}})
                  .isOk());
  ASSERT_EQ(runIo(in, out), 0);
  struct stat info;
  ASSERT_EQ(stat(out.c_str(), &info), 0);
  EXPECT_GT(info.st_size, int64_t(1) << 32);
  EXPECT_LT(info.st_blocks * 512, 16 << 20) << "zeros take room on the disk";
  ASSERT_TRUE(writeSafetensors(in, {{"input_ids", "U8", {1, 3}, words, 3}}).isOk());
  std::string shortOut = scratch("short");
  ASSERT_EQ(runIo(in, shortOut), 0);
  SafetensorsFile longFile, shortFile;
  ASSERT_TRUE(longFile.open(out).isOk() && shortFile.open(shortOut).isOk());
  const StoredTensor *whole = longFile.find("logits"), *part = shortFile.find("logits");
  ASSERT_EQ(whole->shape, (std::vector<int64_t>{1, columns, vocabSize}));
  EXPECT_EQ(memcmp(whole->data + whole->size - part->size, part->data, part->size), 0);
  for (const std::string &path : {in, out, shortOut})
    unlink(path.c_str());
}

TEST(Large, rowsOfIoBeyondThirtyOneBits) {
  constexpr int64_t columns = int64_t(1) << 31;
  Zeros ids(columns);
  std::string in = scratch("in"), out = scratch("out"), line(4096, '\0');
  ASSERT_TRUE(writeSafetensors(in, {{"input_ids", "U8", {1, columns}, ids.bytes, uint64_t(columns)}}).isOk());
  EXPECT_EQ(runIo(in, out), 2);
  FILE *err = fopen(scratch("err").c_str(), "r");
  ASSERT_TRUE(err && fgets(line.data(), int(line.size()), err));
  fclose(err);
  EXPECT_NE(line.find("rows of 2147483648 tokens, at most 2147483647 are expected"), std::string::npos) << line;
  unlink(in.c_str());
}

} // namespace
