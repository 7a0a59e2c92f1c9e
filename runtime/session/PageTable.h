// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the tokens of sequences lie in a cache on a device, by numbers of pages: the device does not follow pointers of the host.
#ifndef HEDDLE_RUNTIME_SESSION_PAGETABLE_H
#define HEDDLE_RUNTIME_SESSION_PAGETABLE_H

#include "runtime/session/PagedKvCache.h"
#include "runtime/session/Reserved.h"

#include <algorithm>

namespace heddle {

class PageTable {
public:
  static int64_t pagesOf(int64_t tokens) { return (tokens + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE; }

  // Of `count` sequences with pages in `cache`.
  PageTable(const heddle_sequence *sequences, int64_t count, const PagedKvCache &cache)
      : sequences(sequences), count(count), cache(cache) {
    for (int64_t i = 0; i < count; ++i)
      pages = std::max(pages, pagesOf(int64_t(sequences[i].past) + sequences[i].num_rows));
  }

  // Room for sequences to grow: pages for the next power of two, at least 8, at most `limit`.
  void widen(int64_t limit) {
    int64_t wide = 8;
    while (wide < pages)
      wide *= 2;
    pages = std::max(pages, std::min(wide, limit));
  }
  // Pages of the longest sequence, or what the table was widened to.
  int64_t pagesPerSequence() const { return pages; }
  // Of (count, pagesPerSequence()).
  int64_t size() const { return count * pages; }
  // 0 for a page that is not there.
  int32_t numberOf(int64_t sequence, int64_t page) const {
    bool isIts = page < pagesOf(int64_t(sequences[sequence].past) + sequences[sequence].num_rows);
    const uint8_t *address = isIts ? sequences[sequence].pages[page] : nullptr;
    return address ? cache.indexOf(address) : 0;
  }

private:
  const heddle_sequence *sequences;
  int64_t count, pages = 0;
  const PagedKvCache &cache;
};

// The table of a session's steps, of which the device keeps what the last step had: a step uploads the numbers from the
// first to the last that are others, which are none in most steps of one token.
class PageTableOnDevice {
public:
  // Room for tables of `size` numbers.
  Status create(Device &newDevice, int64_t size) {
    device = &newDevice;
    HEDDLE_RETURN_IF_ERROR(memory.allocate(*device, size * sizeof(int32_t), "page tables"));
    HEDDLE_RETURN_IF_ERROR(known.reserve(size, "page tables"));
    numKnown = size;
    return device->upload(memory.data(), known.data(), size * sizeof(int32_t));
  }
  Status upload(const PageTable &table) {
    int64_t first = table.size(), end = 0, pages = table.pagesPerSequence();
    for (int64_t i = 0; i < table.size(); ++i) {
      int32_t number = table.numberOf(i / pages, i % pages);
      if (i < numKnown && known[i] == number)
        continue;
      known[i] = number;
      first = std::min(first, i);
      end = i + 1;
    }
    numKnown = std::max(numKnown, end);
    if (first >= end)
      return Status();
    return device->enqueueUpload(memory.data() + first * sizeof(int32_t), known.data() + first,
                                 (end - first) * sizeof(int32_t));
  }
  // What was uploaded may not have arrived.
  void forget() { numKnown = 0; }
  const int32_t *address() const { return memory.as<int32_t>(); }

private:
  Device *device = nullptr;
  DeviceMemory memory;
  ReservedArray<int32_t> known; // what lies on the device, of which the first numKnown are certain
  int64_t numKnown = 0;
};

} // namespace heddle

#endif
