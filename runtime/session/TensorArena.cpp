// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A best-fit allocator with boundary tags over reserved address space. A graph holds a few dozen tensors at a time, so a search of the
// whole free list costs less than the call that asks for it.
#include "runtime/session/TensorArena.h"

#include <algorithm>

namespace heddle {

// More than today's machines have; where a limit forbids it, halves are tried.
static constexpr uint64_t mostReserved = uint64_t(1) << 42, fewestReserved = uint64_t(1) << 28;

// The range grows in steps of a large page.
static constexpr uint64_t step = uint64_t(1) << 21;

// A rest that is smaller stays with the block it is a rest of.
static constexpr uint64_t smallestRest = 256;

TensorArena::Block *TensorArena::after(Block *block) const {
  return block == last ? nullptr : reinterpret_cast<Block *>(reinterpret_cast<uint8_t *>(block) + block->size);
}

void TensorArena::addFree(Block *block) {
  block->isFree = true;
  block->wanted = 0;
  block->next = freeList;
  block->other = nullptr;
  if (freeList)
    freeList->other = block;
  freeList = block;
}

void TensorArena::removeFree(Block *block) {
  (block->other ? block->other->next : freeList) = block->next;
  if (block->next)
    block->next->other = block->other;
  block->isFree = false;
}

TensorArena::Block *TensorArena::smallestOf(uint64_t size) const {
  Block *best = nullptr;
  for (Block *block = freeList; block; block = block->next)
    if (block->size >= size && (!best || block->size < best->size))
      best = block;
  return best;
}

// Makes the free block at the end of the range, new or there before, hold `size` bytes. Null if there is no memory for it.
TensorArena::Block *TensorArena::grow(uint64_t size) {
  if (!memory.data()) {
    for (reserved = mostReserved; reserved >= fewestReserved; reserved /= 2)
      if (memory.reserve(reserved, "tensors", /*writable=*/false).isOk())
        break;
    if (reserved < fewestReserved)
      return nullptr;
  }
  Block *end = last && last->isFree ? last : nullptr;
  uint64_t more = (size - (end ? end->size : 0) + step - 1) / step * step;
  if (more > reserved - committed || !memory.commit(committed, more))
    return nullptr;
  // Large pages make the first run cheaper; a graph of a few small tensors would only pay for zeroing one.
  if (committed)
    madvise(memory.data() + committed, more, MADV_HUGEPAGE);
  uint8_t *begin = memory.data() + committed;
  committed += more;
  if (end) {
    end->size += more;
    return end;
  }
  Block *block = reinterpret_cast<Block *>(begin);
  block->size = more;
  block->before = last;
  last = block;
  addFree(block);
  return block;
}

void *TensorArena::allocate(uint64_t wanted) {
  if (wanted > mostReserved)
    return nullptr;
  uint64_t size = (sizeof(Block) + wanted + alignof(Block) - 1) / alignof(Block) * alignof(Block);
  Block *block = smallestOf(size);
  if (!block)
    block = grow(size);
  if (!block)
    return nullptr;
  removeFree(block);
  if (block->size - size >= smallestRest) {
    Block *next = after(block);
    auto rest = reinterpret_cast<Block *>(reinterpret_cast<uint8_t *>(block) + size);
    rest->size = block->size - size;
    rest->before = block;
    block->size = size;
    (next ? next->before : last) = rest;
    addFree(rest);
  }
  block->wanted = wanted;
  held += wanted;
  peak = std::max(peak, held);
  return block + 1;
}

void TensorArena::release(void *memory) {
  Block *block = static_cast<Block *>(memory) - 1;
  held -= block->wanted;
  if (Block *next = after(block); next && next->isFree) {
    removeFree(next);
    Block *beyond = after(next);
    block->size += next->size;
    (beyond ? beyond->before : last) = block;
  }
  if (Block *before = block->before; before && before->isFree) {
    removeFree(before);
    Block *beyond = after(block);
    before->size += block->size;
    (beyond ? beyond->before : last) = before;
    block = before;
  }
  addFree(block);
}

void TensorArena::reset() {
  held = peak = 0;
  last = freeList = nullptr;
  if (!committed)
    return;
  last = memory.as<Block>();
  last->size = committed;
  last->before = nullptr;
  addFree(last);
}

} // namespace heddle
