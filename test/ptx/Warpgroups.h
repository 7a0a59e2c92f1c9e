// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// wgmma in a block: products that are unfinished until they are waited for. What PTX leaves undefined is an error, be its result right or not:
//   - reading sums, or overwriting sums or left operands, of products that are in flight;
//   - registers that were written behind the last wgmma.fence;
//   - shared memory that a thread wrote and did not fence for the async proxy, or that changes under a product;
//   - the four warps of a warpgroup not doing the same.
// That writes of other warps come before is the barrier's; without one, warps in another order leave other bits.
#ifndef HEDDLE_TEST_PTX_WARPGROUPS_H
#define HEDDLE_TEST_PTX_WARPGROUPS_H

#include "test/ptx/Program.h"

#include <deque>

namespace heddle::ptx {

class Warpgroups {
public:
  Warpgroups(int threads, int numRegisters, const std::vector<uint8_t> &shared);

  // What other instructions of a thread do with a register.
  void read(int thread, size_t index) const;
  void write(int thread, size_t index);
  // A thread has written to shared memory, or fences for the async proxy what it has.
  void stored(int thread, size_t offset, size_t bytes);
  void fenceProxy(int thread);

  // Of the warp whose first thread is `begin`. `registers`: (threads, numRegisters); `descriptor`: of the right operand.
  void fence(int begin);
  void multiply(int begin, const Instruction &instruction, uint64_t descriptor, std::vector<uint64_t> &registers);
  void commit(int begin);
  void wait(int begin, size_t left);
  // The block is done.
  void end() const;

private:
  // 16 bytes of shared memory: 8 numbers that lie side by side, of K, or transposed of columns.
  struct Chunk {
    size_t offset;
    std::vector<uint8_t> bytes;
  };
  struct Product {
    const Instruction *instruction;
    std::vector<Chunk> chunks;
  };
  struct State {
    uint8_t sums = 0, operands = 0; // in how many products in flight
    bool isFenced = false;          // not written since
  };
  struct Warp {
    std::vector<Product> open; // not committed
    std::deque<std::vector<Product>> groups;
    uint64_t history = 0; // of what it did
  };
  struct Range {
    size_t offset, bytes;
  };
  State &of(int thread, const Operand &operand) { return states[size_t(thread) * numRegisters + operand.value]; }
  Chunk chunkAt(size_t place) const;
  std::vector<Chunk> chunksOf(uint64_t descriptor, int columns, bool isTransposed) const;
  void count(int begin, const Instruction &instruction, int change);
  void note(int begin, uint64_t what);

  size_t numRegisters;
  const std::vector<uint8_t> &shared;
  std::vector<State> states;               // (threads, numRegisters)
  std::vector<int> unfenced;               // by byte of shared memory: the thread that wrote it, plus 1
  std::vector<std::vector<Range>> written; // by thread
  std::vector<Warp> warps;
};

} // namespace heddle::ptx

#endif
