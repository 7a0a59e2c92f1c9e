// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory of a graph's tensors: blocks never overlap, free neighbours join, and a second run needs no more than the first.

#include "runtime/session/TensorArena.h"

#include "gtest/gtest.h"

#include <cstring>
#include <random>
#include <vector>

using namespace heddle;

namespace {

struct Held {
  uint8_t *memory;
  uint64_t size;
  uint8_t mark;
};

bool holdsItsMark(const Held &block) {
  for (uint64_t i = 0; i < block.size; ++i)
    if (block.memory[i] != block.mark)
      return false;
  return true;
}

// Takes and gives back blocks in an order of its own; the most bytes that it holds at one time.
uint64_t runOnce(TensorArena &arena, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Held> held;
  uint64_t now = 0, most = 0;
  for (int step = 0; step < 3000; ++step) {
    if (held.size() < 40 && (held.empty() || random() % 5 < 3)) {
      uint64_t size = random() % (random() % 10 ? 3000 : 200000);
      auto memory = static_cast<uint8_t *>(arena.allocate(size));
      EXPECT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      held.push_back({memory, size, uint8_t(step)});
      memset(memory, uint8_t(step), size);
      most = std::max(most, now += size);
    } else {
      std::swap(held[random() % held.size()], held.back());
      EXPECT_TRUE(holdsItsMark(held.back()));
      now -= held.back().size;
      arena.release(held.back().memory);
      held.pop_back();
    }
    EXPECT_EQ(arena.heldBytes(), now);
  }
  EXPECT_EQ(arena.peakBytes(), most);
  return most;
}

TEST(TensorArena, BlocksKeepWhatIsInThem) {
  TensorArena arena;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    runOnce(arena, seed);
    arena.reset();
    EXPECT_EQ(arena.heldBytes(), 0u);
  }
}

TEST(TensorArena, ASecondRunNeedsNoMoreMemory) {
  TensorArena arena;
  uint64_t most = runOnce(arena, 7), committed = arena.committedBytes();
  EXPECT_LE(committed, most + most / 4 + (uint64_t(1) << 21));
  for (int run = 0; run < 10; ++run) {
    arena.reset();
    runOnce(arena, 7);
    EXPECT_EQ(arena.committedBytes(), committed);
  }
}

TEST(TensorArena, FreeNeighboursJoin) {
  TensorArena arena;
  constexpr uint64_t size = 1 << 20;
  void *blocks[3];
  for (void *&block : blocks)
    block = arena.allocate(size);
  uint64_t committed = arena.committedBytes();
  for (void *block : {blocks[0], blocks[2], blocks[1]})
    arena.release(block);
  EXPECT_EQ(arena.allocate(3 * size), blocks[0]);
  EXPECT_EQ(arena.committedBytes(), committed);
}

TEST(TensorArena, WhatNoMachineHasIsNull) {
  TensorArena arena;
  EXPECT_EQ(arena.allocate(uint64_t(1) << 60), nullptr);
  EXPECT_EQ(arena.allocate(UINT64_MAX), nullptr);
  EXPECT_NE(arena.allocate(0), nullptr);
  EXPECT_EQ(arena.heldBytes(), 0u);
}

} // namespace
