// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a block sees of global memory while others of its launch run beside it, as little as PTX's memory model promises: blocks run one after the
// other here, but what one has stored is for others as it was before the launch, until it has fenced and then counted, and others have counted and then
// fenced. Of kernels without fences and atomic operations on global memory, nobody can tell.
#ifndef HEDDLE_TEST_PTX_BLOCKVIEW_H
#define HEDDLE_TEST_PTX_BLOCKVIEW_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace heddle::ptx {

class BlockView {
public:
  // A block begins: what the last one has not released nobody sees.
  void beginBlock();
  // The launch is done: everyone sees all.
  void endLaunch();

  void load(uint64_t address, void *to, size_t size) const;
  void store(uint64_t address, const void *from, size_t size);
  // By a thread of the block, on memory that all share: one up, from `last` to 0. Returns what it was.
  uint32_t countUp(uint64_t address, uint32_t last);
  void fence();

private:
  using Bytes = std::map<uint64_t, uint8_t>;
  static void put(const Bytes &bytes);

  Bytes own, fenced;             // stored by the block, and what a fence comes behind; neither is released
  Bytes before;                  // of what was released, what it was before the launch
  std::vector<Bytes> unreleased; // of blocks that are done
  bool hasCounted = false, seesOthers = false;
};

} // namespace heddle::ptx

#endif
