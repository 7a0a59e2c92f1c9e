// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an allocator tells a MemoryScope. c-program.c has the runtime's own allocator, in processes without memory.
#include "bytes/MemoryScope.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace heddle;

namespace {

using Block = MemoryScope::Block;

Block *take() {
  auto *block = static_cast<Block *>(malloc(sizeof(Block)));
  MemoryScope::enter(block);
  return block;
}

void give(Block *block) {
  MemoryScope::leave(block);
  free(block);
}

// Blocks that a failed call leaves are found by LeakSanitizer, those that are freed twice by AddressSanitizer.
TEST(MemoryScope, aCallThatFailsGivesBackWhatItTook) {
  volatile int reached = 0;
  EXPECT_FALSE(runInMemory([&] {
    Block *first = take();
    take();
    give(first);
    take();
    reached = 1;
    MemoryScope::fail();
    reached = 2;
  }));
  EXPECT_EQ(reached, 1);
  MemoryScope::fail(); // no call is there to leave
}

TEST(MemoryScope, aCallThatSucceedsKeepsWhatItTook) {
  Block *kept = nullptr;
  EXPECT_TRUE(runInMemory([&] {
    give(take());
    kept = take();
  }));
  EXPECT_EQ(kept->next, nullptr);
  EXPECT_FALSE(runInMemory([] { MemoryScope::fail(); }));
  give(kept); // still there
}

TEST(MemoryScope, whatAnInnerCallKeptBelongsToTheOuterOne) {
  EXPECT_FALSE(runInMemory([] {
    EXPECT_TRUE(runInMemory([] { take(); }));
    EXPECT_FALSE(runInMemory([] {
      take();
      MemoryScope::fail();
    }));
    take();
    MemoryScope::fail();
  }));
}

struct Counted : MemoryScope::Resource {
  explicit Counted(int &released)
      : Resource([](Resource *resource) { ++static_cast<Counted *>(resource)->released; }), released(released) {}
  int &released;
};

TEST(MemoryScope, resourcesOfACallThatFailsAreReleased) {
  int first = 0, second = 0, third = 0;
  Counted outlives(first), given(second), held(third);
  EXPECT_TRUE(runInMemory([&] { MemoryScope::enter(&outlives); }));
  EXPECT_FALSE(runInMemory([&] {
    MemoryScope::enter(&given);
    EXPECT_TRUE(runInMemory([&] { MemoryScope::enter(&held); }));
    MemoryScope::leave(&given);
    MemoryScope::fail();
  }));
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(third, 1);
}

} // namespace
