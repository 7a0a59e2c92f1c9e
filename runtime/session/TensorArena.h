// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the tensors of a graph's run lie: one range of address space that keeps its memory between runs.
#ifndef HEDDLE_RUNTIME_SESSION_TENSORARENA_H
#define HEDDLE_RUNTIME_SESSION_TENSORARENA_H

#include "runtime/session/Reserved.h"

#include <cstddef>

namespace heddle {

// Blocks lie side by side in one range. A request takes the smallest free block that holds it, and a block that is given back joins
// its free neighbours, so the range grows to little more than the most bytes that are held at one time. What has been touched stays:
// a second run of the same shapes finds every page in place.
class TensorArena {
public:
  // Memory of `size` bytes, aligned to 64, or null where the machine has none left.
  void *allocate(uint64_t size);
  // `memory` comes from allocate and is given back once.
  void release(void *memory);
  // Takes everything back; the pages stay.
  void reset();

  // Bytes that are handed out, and the most that were at one time since the last reset.
  uint64_t heldBytes() const { return held; }
  uint64_t peakBytes() const { return peak; }
  // Bytes of the range that have been made accessible: all that the arena can have touched.
  uint64_t committedBytes() const { return committed; }

private:
  // Before each block. Free blocks form a list in no order.
  struct alignas(64) Block {
    uint64_t size;       // of the block with this header; a multiple of 64
    uint64_t wanted;     // bytes that were asked for; 0 if it is free or empty
    Block *before;       // in memory; null for the first
    Block *next, *other; // of the free list: behind and in front of this one
    bool isFree;
  };

  Block *after(Block *block) const;
  Block *smallestOf(uint64_t size) const;
  Block *grow(uint64_t size);
  void addFree(Block *block);
  void removeFree(Block *block);

  Reserved memory;
  uint64_t reserved = 0, committed = 0, held = 0, peak = 0;
  Block *last = nullptr; // in memory
  Block *freeList = nullptr;
};

} // namespace heddle

#endif
