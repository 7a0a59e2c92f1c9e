// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/Warpgroups.h"

#include "test/ptx/Warp.h"

#include <algorithm>
#include <cstring>

namespace heddle::ptx {

static constexpr int lanes = 32, warpsOfGroup = 4, depth = 16, chunkBytes = 16;

Warpgroups::Warpgroups(int threads, int numRegisters, const std::vector<uint8_t> &shared)
    : numRegisters(numRegisters), shared(shared), states(size_t(threads) * numRegisters), unfenced(shared.size()),
      written(threads), warps(threads / lanes) {
  if (threads % (lanes * warpsOfGroup))
    throw Error("a block of " + std::to_string(threads) + " threads has no whole warpgroups");
}

void Warpgroups::read(int thread, size_t index) const {
  if (states[size_t(thread) * numRegisters + index].sums)
    throw Error("sums of a product that was not waited for are read");
}

void Warpgroups::write(int thread, size_t index) {
  State &state = states[size_t(thread) * numRegisters + index];
  if (state.sums || state.operands)
    throw Error("registers of a product that was not waited for are written");
  state.isFenced = false;
}

void Warpgroups::stored(int thread, size_t offset, size_t bytes) {
  std::fill_n(unfenced.begin() + offset, bytes, thread + 1);
  written[thread].push_back({offset, bytes});
}

void Warpgroups::fenceProxy(int thread) {
  for (const Range &range : written[thread])
    std::replace(unfenced.begin() + range.offset, unfenced.begin() + range.offset + range.bytes, thread + 1, 0);
  written[thread].clear();
}

void Warpgroups::note(int begin, uint64_t what) {
  uint64_t &history = warps[begin / lanes].history;
  history = (history ^ what) * 0x9e3779b97f4a7c15 + 1;
}

void Warpgroups::fence(int begin) {
  for (size_t i = begin * numRegisters; i < (begin + lanes) * numRegisters; ++i)
    states[i].isFenced = true;
  note(begin, 1);
}

// With the swizzle of 128 bytes, bits 4 to 6 of an address are changed by bits 7 to 9.
Warpgroups::Chunk Warpgroups::chunkAt(size_t place) const {
  size_t at = place ^ (place >> 3 & 0x70);
  if (at + chunkBytes > shared.size())
    throw Error("a matrix reaches behind shared memory, to " + std::to_string(at + chunkBytes));
  auto begin = shared.begin() + at, end = begin + chunkBytes;
  auto isUnfenced = [](int thread) { return thread != 0; };
  if (std::any_of(unfenced.begin() + at, unfenced.begin() + at + chunkBytes, isUnfenced))
    throw Error("shared memory at " + std::to_string(at) + " was written and not fenced for the async proxy");
  return {at, {begin, end}};
}

// PTX ISA, "Matrix Descriptor Format" and "Strides", with the swizzle of 128 bytes: a matrix is made of 8 rows of 128 bytes. Rows are columns of the right operand,
// and hold 64 of K, of which a product takes 16; transposed they are of K and hold 64 columns. Such groups follow each other by the stride between columns or, transposed,
// of K; by the leading one between columns, transposed. In order of columns, transposed of K.
std::vector<Warpgroups::Chunk> Warpgroups::chunksOf(uint64_t descriptor, int columns, bool isTransposed) const {
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0)
    throw Error("only matrices with the swizzle of 128 bytes that begin where it begins are known");
  auto field = [&](int bit) { return size_t(descriptor >> bit & 0x3fff) << 4; };
  size_t begin = field(0), leading = field(16), stride = field(32);
  std::vector<Chunk> chunks;
  int rows = isTransposed ? depth : columns, rowBytes = 2 * (isTransposed ? columns : depth);
  for (int row = 0; row < rows; ++row)
    for (int byte = 0; byte < rowBytes; byte += chunkBytes)
      chunks.push_back(chunkAt(begin + row / 8 * stride + row % 8 * 128 + byte / 128 * leading + byte % 128));
  return chunks;
}

// The product is in flight, or done.
void Warpgroups::count(int begin, const Instruction &instruction, int change) {
  for (int thread = begin; thread < begin + lanes; ++thread) {
    for (const Operand &operand : instruction.results)
      of(thread, operand).sums += change;
    for (int i = 0; i < 4; ++i)
      of(thread, instruction.sources[i]).operands += change;
  }
}

void Warpgroups::multiply(int begin, const Instruction &instruction, uint64_t descriptor,
                          std::vector<uint64_t> &registers) {
  WarpValues a(lanes), sums(lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    auto take = [&](const Operand &operand, bool isSum) {
      const State &state = of(begin + lane, operand);
      if (!state.isFenced)
        throw Error("a register of a product was written behind the last wgmma.fence");
      if (isSum ? state.operands : state.sums)
        throw Error("sums of a product in flight are operands of another");
      return uint32_t(registers[(begin + lane) * numRegisters + operand.value]);
    };
    for (int i = 0; i < 4; ++i)
      a[lane].push_back(take(instruction.sources[i], false));
    for (const Operand &operand : instruction.results) {
      uint32_t before = take(operand, true);
      sums[lane].push_back(instruction.startsAtZero ? 0 : before);
    }
  }
  int columns = int(instruction.results.size()) * 2;
  Product product{&instruction, chunksOf(descriptor, columns, instruction.isTransposed)};
  std::vector<uint8_t> stored;
  for (const Chunk &chunk : product.chunks)
    stored.insert(stored.end(), chunk.bytes.begin(), chunk.bytes.end());
  std::vector<uint8_t> b = stored;
  if (instruction.isTransposed)
    for (int number = 0; number < depth * columns; ++number)
      std::memcpy(&b[2 * (number % columns * depth + number / columns)], &stored[2 * number], 2);
  multiplyRows(a, b.data(), columns, sums);
  for (int lane = 0; lane < lanes; ++lane)
    for (size_t i = 0; i < instruction.results.size(); ++i)
      registers[(begin + lane) * numRegisters + instruction.results[i].value] = sums[lane][i];
  count(begin, instruction, 1);
  warps[begin / lanes].open.push_back(std::move(product));
  note(begin, descriptor ^ uint64_t(instruction.line) << 16);
}

void Warpgroups::commit(int begin) {
  Warp &warp = warps[begin / lanes];
  warp.groups.push_back(std::move(warp.open));
  warp.open.clear();
  note(begin, 2);
}

void Warpgroups::wait(int begin, size_t left) {
  Warp &warp = warps[begin / lanes];
  for (; warp.groups.size() > left; warp.groups.pop_front())
    for (const Product &product : warp.groups.front()) {
      for (const Chunk &chunk : product.chunks)
        if (std::memcmp(chunk.bytes.data(), shared.data() + chunk.offset, chunk.bytes.size()) != 0)
          throw Error("shared memory at " + std::to_string(chunk.offset) + " changed under the product of line " +
                      std::to_string(product.instruction->line));
      count(begin, *product.instruction, -1);
    }
  note(begin, 3);
}

void Warpgroups::end() const {
  for (size_t warp = 0; warp < warps.size(); ++warp)
    if (warps[warp].history != warps[warp / warpsOfGroup * warpsOfGroup].history)
      throw Error("the warps of a warpgroup do not multiply the same");
}

} // namespace heddle::ptx
