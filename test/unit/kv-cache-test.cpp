// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/PagedKvCache.h"
#include "test/unit/TestModel.h"

#include <gtest/gtest.h>
#include <numeric>
#include <sys/mman.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

constexpr int64_t partBytes = 8192, longContext = 4096, page = HEDDLE_KV_PAGE_SIZE;

struct Cache : PagedKvCache {
  // `layerBytes`: of each layer, where they differ.
  explicit Cache(const std::vector<int64_t> &windows, int32_t sequences = 1,
                 const std::vector<uint64_t> &layerBytes = {}) {
    KvPageLayout layout = {windows.size() * partBytes, windows, layerBytes};
    if (!layerBytes.empty())
      layout.bytes = std::accumulate(layerBytes.begin(), layerBytes.end(), uint64_t(0));
    EXPECT_TRUE(create(layout, sequences, longContext).isOk());
  }
  // Takes `count` tokens in one step, whose pages are written.
  void grow(int32_t sequence, int64_t count, uint8_t value = 1) {
    int64_t past = length(sequence);
    ASSERT_TRUE(makeRoom(sequence, count).isOk());
    setLength(sequence, past + count);
    for (int64_t index = past / page; index < (past + count + page - 1) / page; ++index)
      memset(pages(sequence)[index], value, pageStride());
  }
};

// System pages of [begin, begin + bytes) that have memory.
size_t residentPages(const uint8_t *begin, size_t bytes) {
  std::vector<unsigned char> resident(bytes / 4096);
  EXPECT_EQ(mincore(const_cast<uint8_t *>(begin), bytes, resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(), [](unsigned char flags) { return flags & 1; });
}

TEST(PagedKvCache, pagesBeyondTheWidestWindowAreUsedAgain) {
  Cache cache({100, 40});
  for (int64_t token = 0; token < longContext; ++token) {
    cache.grow(0, 1);
    ASSERT_LE(cache.pagesInUse(), 3) << token; // 100 tokens lie in at most 3 pages
    ASSERT_TRUE(cache.holdsWindow(0)) << token;
  }
  EXPECT_EQ(cache.pages(0)[0], nullptr);
  cache.setLength(0, 0);
  EXPECT_EQ(cache.pagesInUse(), 0);
}

// Pages that large ones of the system are no multiple of: each is accessible, from the first to the last.
TEST(PagedKvCache, longCachesBeginAtLargePages) {
  constexpr int64_t bytes = int64_t(13) * 65536, context = 10 * page;
  PagedKvCache cache;
  ASSERT_TRUE(cache.create({bytes, {}}, 1, context).isOk());
  for (int64_t index = 0; index < context / page; ++index) {
    ASSERT_TRUE(cache.makeRoom(0, page).isOk());
    cache.setLength(0, (index + 1) * page);
    memset(cache.pages(0)[index], 1, cache.pageStride());
    EXPECT_EQ(cache.pages(0)[index], cache.pages(0)[0] + index * cache.pageStride());
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(cache.pages(0)[0]) % Reserved::largePage, 0u);
}

TEST(PagedKvCache, aBudgetIsSharedBySequences) {
  PagedKvCache cache;
  ASSERT_TRUE(cache.create({partBytes, {}}, 3, longContext, 2 * page + 1).isOk());
  EXPECT_EQ(cache.numPages(), 3);
  auto grow = [&](int32_t sequence, int64_t count) {
    Status status = cache.makeRoom(sequence, count);
    if (status.isOk())
      cache.setLength(sequence, cache.length(sequence) + count);
    return status;
  };
  ASSERT_TRUE(grow(0, page).isOk());
  ASSERT_TRUE(grow(1, page + 1).isOk());
  EXPECT_EQ(grow(2, 1).code(), StatusCode::ContextFull);
  cache.setLength(1, 0);
  EXPECT_TRUE(grow(2, 1).isOk());
  cache.fork(2, 1); // shares the page until it writes
  EXPECT_TRUE(grow(1, 1).isOk());
  EXPECT_EQ(grow(0, 1).code(), StatusCode::ContextFull);
}

TEST(PagedKvCache, aChunkSeesTheWindowOfItsFirstToken) {
  Cache cache({100});
  for (int64_t chunk = 0; chunk < longContext; chunk += 512) {
    cache.grow(0, 512);
    ASSERT_LE(cache.pagesInUse(), (100 + 512) / page + 2);
    for (int64_t token = std::max<int64_t>(0, chunk - 99); token < chunk + 512; ++token)
      ASSERT_NE(cache.pages(0)[token / page], nullptr) << token;
  }
}

TEST(PagedKvCache, layersWithAWindowGiveTheirPartOfAPageBack) {
  Cache cache({0, 100, 0, 100});
  for (int i = 0; i < 640; ++i)
    cache.grow(0, 1, 7);
  EXPECT_EQ(cache.pagesInUse(), 10);
  const uint8_t *old = cache.pages(0)[2], *recent = cache.pages(0)[9];
  for (int layer : {0, 2}) {
    EXPECT_EQ(residentPages(old + layer * partBytes, partBytes), 2u);
    EXPECT_EQ(old[layer * partBytes], 7);
    EXPECT_EQ(old[(layer + 1) * partBytes - 1], 7);
  }
  for (int layer : {1, 3}) {
    EXPECT_EQ(residentPages(old + layer * partBytes, partBytes), 0u);
    EXPECT_EQ(residentPages(recent + layer * partBytes, partBytes), 2u);
  }
}

// As many layers with a window, whose parts are smaller, lie behind those that see all.
TEST(PagedKvCache, layersOfDifferentShapesGiveTheirOwnPartBack) {
  Cache cache({0, 100}, 1, {4 * partBytes, partBytes});
  for (int i = 0; i < 640; ++i)
    cache.grow(0, 1, 7);
  const uint8_t *old = cache.pages(0)[2], *recent = cache.pages(0)[9];
  EXPECT_EQ(cache.pageStride(), 5 * partBytes);
  EXPECT_EQ(residentPages(old, 4 * partBytes), 8u);
  EXPECT_EQ(old[4 * partBytes - 1], 7);
  EXPECT_EQ(residentPages(old + 4 * partBytes, partBytes), 0u);
  EXPECT_EQ(residentPages(recent + 4 * partBytes, partBytes), 2u);
}

TEST(PagedKvCache, sharedPagesStayUntilNobodySeesThem) {
  Cache cache({0, 100}, 2);
  cache.grow(0, 64);
  cache.fork(0, 1);
  const uint8_t *windowed = cache.pages(0)[0] + partBytes;
  cache.grow(0, 512);
  cache.grow(0, 64);
  EXPECT_EQ(residentPages(windowed, partBytes), 2u); // sequence 1 has 64 tokens
  EXPECT_TRUE(cache.holdsWindow(1));
  cache.grow(1, 512);
  cache.grow(1, 64);
  EXPECT_EQ(residentPages(windowed, partBytes), 0u);
  Cache recycling({100}, 2);
  recycling.grow(0, 64);
  recycling.fork(0, 1);
  recycling.grow(0, 512);
  recycling.grow(0, 64);
  EXPECT_EQ(recycling.pages(0)[0], nullptr);
  EXPECT_EQ(recycling.pages(1)[0][0], 1);
  recycling.fork(0, 1); // what was recycled is shared as such
  EXPECT_EQ(recycling.pages(1)[0], nullptr);
  recycling.setLength(0, 0);
  recycling.setLength(1, 0);
  EXPECT_EQ(recycling.pagesInUse(), 0);
}

TEST(PagedKvCache, forgettingTokensCanUncoverWhatIsGone) {
  const std::vector<int64_t> cases[] = {{100}, {0, 100}};
  for (const auto &windows : cases) {
    Cache cache(windows);
    for (int i = 0; i < 640; ++i)
      cache.grow(0, 1);
    cache.setLength(0, 630);
    EXPECT_TRUE(cache.holdsWindow(0));
    cache.setLength(0, 300);
    EXPECT_FALSE(cache.holdsWindow(0));
    cache.setLength(0, 0);
    EXPECT_TRUE(cache.holdsWindow(0));
    cache.grow(0, 200);
    EXPECT_TRUE(cache.holdsWindow(0));
  }
}

// Of a state there is what the last token left, and nothing of those before it.
TEST(PagedKvCache, forgettingTokensLosesStates) {
  PagedKvCache cache;
  ASSERT_TRUE(cache.create({2 * partBytes, {2, 0}, {}, /*hasStates=*/true}, 3, longContext).isOk());
  auto grow = [&](int32_t sequence, int64_t count) {
    ASSERT_TRUE(cache.makeRoom(sequence, count).isOk());
    cache.setLength(sequence, cache.length(sequence) + count);
    cache.beginStep(sequence);
  };
  grow(0, 100);
  const uint8_t *last = cache.pages(0)[1];
  grow(0, 28);
  grow(0, 1); // the first of a page, which goes on from the page before
  EXPECT_EQ(cache.pages(0)[1], last);
  EXPECT_TRUE(cache.holdsWindow(0));
  // Placed, and taken back before anything was computed.
  cache.setLength(0, 140);
  EXPECT_FALSE(cache.holdsWindow(0));
  cache.setLength(0, 129);
  EXPECT_TRUE(cache.holdsWindow(0));
  cache.fork(0, 1);
  cache.setLength(0, 128);
  EXPECT_FALSE(cache.holdsWindow(0));
  EXPECT_TRUE(cache.holdsWindow(1));
  cache.fork(0, 2);
  EXPECT_FALSE(cache.holdsWindow(2));
  cache.setLength(0, 0);
  EXPECT_TRUE(cache.holdsWindow(0));
  grow(0, 65);
  EXPECT_TRUE(cache.holdsWindow(0));
}

TEST(PagedKvCache, withoutWindowsEverythingStays) {
  const std::vector<int64_t> cases[] = {{}, {0, 0}};
  for (const auto &windows : cases) {
    PagedKvCache cache;
    ASSERT_TRUE(cache.create({partBytes, windows}, 1, longContext).isOk());
    for (int chunk = 0; chunk < 8; ++chunk) {
      ASSERT_TRUE(cache.makeRoom(0, 512).isOk());
      cache.setLength(0, cache.length(0) + 512);
    }
    EXPECT_EQ(cache.pagesInUse(), longContext / page);
  }
}

// The reference model with a window of 5 tokens; `windows` is what the package says of its layers.
struct WindowModel : TestModel {
  explicit WindowModel(const std::vector<uint32_t> &windows) {
    reference::window = 5;
    metadata.kv->windows = windows;
    open();
  }
  ~WindowModel() { reference::window = 0; }
};

// Whole pages are used again; a layer's part of a page is given back.
const std::vector<uint32_t> windowCases[] = {{5, 5}, {0, 5}};

std::vector<int32_t> someIds(int count) {
  std::vector<int32_t> ids(count);
  for (int i = 0; i < count; ++i)
    ids[i] = 3 + (i * 37) % 250;
  return ids;
}

TEST(SessionWindow, recyclingChangesNoBit) {
  std::vector<int32_t> ids = someIds(context);
  for (const auto &windows : windowCases) {
    WindowModel keeping({}), recycling(windows);
    auto whole = keeping.session(), recycled = recycling.session();
    for (int i = 0; i < context; ++i) {
      ASSERT_TRUE(whole->append(0, ids.data() + i, 1).isOk());
      ASSERT_TRUE(recycled->append(0, ids.data() + i, 1).isOk());
      ASSERT_EQ(memcmp(whole->logits(0), recycled->logits(0), vocabSize * sizeof(float)), 0) << i;
    }
    EXPECT_EQ(whole->cachePagesInUse(), 2);
    EXPECT_EQ(recycled->cachePagesInUse(), windows[0] ? 1 : 2);
  }
}

// A chunk is as long as the pages that a window leaves, where the cache has room for window and no whole chunk.
TEST(SessionWindow, aChunkTakesTheRoomThatThereIs) {
  auto make = [](WindowModel &model, int64_t cacheTokens) {
    SessionOptions options;
    options.cacheTokens = cacheTokens;
    return model.session(options);
  };
  std::vector<int32_t> ids = someIds(longestContext);
  struct LongModel : WindowModel {
    LongModel() : WindowModel({5, 5}) {
      metadata.context = longestContext;
      metadata.memory->max_rows = 256;
      open();
    }
  } model;
  auto whole = make(model, 0), narrow = make(model, 3 * page);
  for (const std::unique_ptr<Session> *session : {&whole, &narrow}) {
    Status status = (*session)->append(0, ids.data(), longestContext);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  EXPECT_EQ(memcmp(whole->logits(0), narrow->logits(0), vocabSize * sizeof(float)), 0);
}

TEST(SessionWindow, whatIsGoneIsComputedAgain) {
  std::vector<int32_t> ids = someIds(context);
  for (const auto &windows : windowCases) {
    WindowModel model(windows);
    auto session = model.session(), fresh = model.session();
    ASSERT_TRUE(session->append(0, ids.data(), 100).isOk());
    session->truncate(0, 50);
    EXPECT_EQ(session->length(0), 50);
    ASSERT_TRUE(session->append(0, ids.data() + 50, 3).isOk());
    ASSERT_TRUE(fresh->append(0, ids.data(), 53).isOk());
    EXPECT_EQ(session->length(0), 53);
    EXPECT_EQ(memcmp(session->logits(0), fresh->logits(0), vocabSize * sizeof(float)), 0);
  }
}

} // namespace
