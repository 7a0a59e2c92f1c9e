// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the tokens of sequences lie in a cache on a device, by numbers of pages: the device does not follow pointers of the host.
#ifndef HEDDLE_RUNTIME_SESSION_PAGETABLE_H
#define HEDDLE_RUNTIME_SESSION_PAGETABLE_H

#include "runtime/session/PagedKvCache.h"

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

  // Pages of the longest sequence.
  int64_t pagesPerSequence() const { return pages; }
  // Writes (count, pagesPerSequence()) numbers and gives how many these are; 0 for a page that is not there.
  int64_t write(int32_t *out) const {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t page = 0; page < pages; ++page) {
        bool isIts = page < pagesOf(int64_t(sequences[i].past) + sequences[i].num_rows);
        const uint8_t *address = isIts ? sequences[i].pages[page] : nullptr;
        out[i * pages + page] = address ? cache.indexOf(address) : 0;
      }
    return count * pages;
  }

private:
  const heddle_sequence *sequences;
  int64_t count, pages = 0;
  const PagedKvCache &cache;
};

} // namespace heddle

#endif
