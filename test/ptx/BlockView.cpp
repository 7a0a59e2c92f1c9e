// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/BlockView.h"

#include <cstring>
#include <utility>

namespace heddle::ptx {

static uint8_t *byteAt(uint64_t address) {
  return reinterpret_cast<uint8_t *>(address); // NOLINT(performance-no-int-to-ptr)
}

void BlockView::put(const Bytes &bytes) {
  for (auto [address, byte] : bytes)
    *byteAt(address) = byte;
}

void BlockView::beginBlock() {
  for (Bytes *bytes : {&fenced, &own})
    unreleased.push_back(std::exchange(*bytes, {}));
  hasCounted = seesOthers = false;
}

void BlockView::endLaunch() {
  beginBlock();
  for (const Bytes &bytes : unreleased)
    put(bytes);
}

void BlockView::load(uint64_t address, void *to, size_t size) const {
  std::memcpy(to, byteAt(address), size);
  auto cover = [&](const Bytes &bytes) {
    for (auto at = bytes.lower_bound(address); at != bytes.end() && at->first < address + size; ++at)
      static_cast<uint8_t *>(to)[at->first - address] = at->second;
  };
  if (!seesOthers)
    cover(before);
  cover(fenced);
  cover(own);
}

void BlockView::store(uint64_t address, const void *from, size_t size) {
  for (size_t i = 0; i < size; ++i)
    own[address + i] = static_cast<const uint8_t *>(from)[i];
}

uint32_t BlockView::countUp(uint64_t address, uint32_t last) {
  for (auto [stored, byte] : fenced)
    before.emplace(stored, *byteAt(stored));
  put(fenced);
  fenced.clear();
  uint32_t count;
  std::memcpy(&count, byteAt(address), sizeof count);
  uint32_t next = count >= last ? 0 : count + 1;
  std::memcpy(byteAt(address), &next, sizeof next);
  hasCounted = true;
  return count;
}

void BlockView::fence() {
  for (auto [address, byte] : own)
    fenced[address] = byte;
  own.clear();
  seesOthers |= hasCounted;
}

} // namespace heddle::ptx
