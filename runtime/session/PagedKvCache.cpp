// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/PagedKvCache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace heddle {

Status PagedKvCache::create(const KvPageLayout &layout, int32_t maxSequences, int64_t context, int64_t budget,
                            Device *newDevice) {
  device = newDevice;
  pageBytes = layout.bytes;
  hasStates = layout.hasStates;
  allHaveWindows = !layout.windows.empty();
  for (uint64_t layer = 0, end = 0; layer < layout.windows.size(); ++layer) {
    uint64_t begin = end;
    end += layout.layerBytes.empty() ? pageBytes / layout.windows.size() : layout.layerBytes[layer];
    int64_t tokens = layout.windows[layer];
    auto known =
        std::find_if(windows.begin(), windows.end(), [&](const Window &window) { return window.tokens == tokens; });
    if (tokens == 0 ||
        (known == windows.end() && windows.size() == 64)) // more lengths than bits: the rest keeps its pages
      allHaveWindows = false;
    else if (known == windows.end())
      windows.push_back({tokens, {{begin, end}}});
    else
      known->layers.push_back({begin, end});
  }
  stride = (pageBytes + 4095) / 4096 * 4096;
  pagesPerSequence = (context + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  uint64_t numEntries = uint64_t(pagesPerSequence) * maxSequences, numPages = numEntries, size;
  if (budget > 0)
    numPages = std::min(numPages, uint64_t(budget - 1) / HEDDLE_KV_PAGE_SIZE + 1);
  if (numEntries > INT32_MAX || __builtin_mul_overflow(numPages, stride, &size))
    return outOfMemory("the cache does not fit into the address space");
  HEDDLE_RETURN_IF_ERROR(device ? deviceMemory.allocate(*device, size, "KV cache")
                                : memory.reserve(size, "KV cache", /*writable=*/false, inLargePages()));
  HEDDLE_RETURN_IF_ERROR(tables.reserve(numEntries, "page tables"));
  HEDDLE_RETURN_IF_ERROR(lengths.reserve(maxSequences, "lengths"));
  HEDDLE_RETURN_IF_ERROR(stateLengths.reserve(maxSequences, "lengths"));
  HEDDLE_RETURN_IF_ERROR(recycled.reserve(maxSequences, "lengths"));
  HEDDLE_RETURN_IF_ERROR(references.reserve(numPages, "page counts"));
  HEDDLE_RETURN_IF_ERROR(discarded.reserve(numPages, "page marks"));
  HEDDLE_RETURN_IF_ERROR(freePages.reserve(numPages, "free pages"));
  uncommitted = numPages;
  committed = 0;
  return Status();
}

// What is given back of a large page stays with the process, so that windows do without.
bool PagedKvCache::inLargePages() const {
  return windows.empty() && stride >= Reserved::largePage / 16;
}

// A large page is accessible as a whole, or it would be made of small ones.
bool PagedKvCache::commit(uint64_t end) {
  if (end <= committed)
    return true;
  uint64_t step = inLargePages() ? Reserved::largePage : 4096;
  uint64_t whole = std::min((end + step - 1) / step * step, references.size() * stride);
  if (!memory.commit(committed, whole - committed))
    return false;
  committed = whole;
  return true;
}

uint8_t *PagedKvCache::take() {
  uint8_t *page;
  if (numFree > 0) {
    page = freePages[--numFree];
  } else {
    uint64_t offset = (references.size() - uncommitted) * stride;
    if (uncommitted == 0 || (!device && !commit(offset + stride)))
      return nullptr;
    page = base() + offset;
    --uncommitted;
  }
  referencesOf(page) = 1;
  discarded[indexOf(page)] = 0;
  return page;
}

void PagedKvCache::release(uint8_t *&page) {
  if (page && --referencesOf(page) == 0)
    freePages[numFree++] = page;
  page = nullptr;
}

Status PagedKvCache::copyPage(uint8_t *to, const uint8_t *from) {
  if (device)
    return device->copy(to, from, pageBytes);
  memcpy(to, from, pageBytes);
  return Status();
}

int64_t PagedKvCache::pagesBefore(const Window &window, int32_t sequence) const {
  return std::max<int64_t>(0, lengths[sequence] - window.tokens + 1) / HEDDLE_KV_PAGE_SIZE;
}

// The whole system pages within the layers' parts. A device keeps its memory.
void PagedKvCache::discard(const Window &window, const uint8_t *page) {
  discarded[indexOf(page)] |= uint64_t(1) << (&window - windows.data());
  for (const LayerRange &layer : window.layers) {
    uint64_t begin = (layer.begin + 4095) / 4096 * 4096, end = layer.end / 4096 * 4096;
    if (!device && begin < end)
      memory.discard(indexOf(page) * stride + begin, end - begin);
  }
}

void PagedKvCache::recycle(int32_t sequence) {
  uint8_t **table = tables.data() + sequence * pagesPerSequence;
  int64_t unseen = allHaveWindows ? pagesPerSequence : 0, total = 0; // pages that no layer sees
  for (const Window &window : windows) {
    unseen = std::min(unseen, pagesBefore(window, sequence));
    total += pagesBefore(window, sequence);
  }
  if (std::exchange(recycled[sequence], total) == total)
    return;
  for (int64_t index = 0; index < unseen; ++index)
    release(table[index]);
  for (const Window &window : windows) {
    uint64_t bit = uint64_t(1) << (&window - windows.data());
    for (int64_t index = unseen; index < pagesBefore(window, sequence); ++index) {
      const uint8_t *page = table[index];
      if (!page || (discarded[indexOf(page)] & bit))
        continue;
      // Sequences share a page at the same place only.
      bool isSeen = false;
      for (size_t other = 0; other < lengths.size(); ++other)
        isSeen |= tables[other * pagesPerSequence + index] == page && pagesBefore(window, int32_t(other)) <= index;
      if (!isSeen)
        discard(window, page);
    }
  }
}

bool PagedKvCache::holdsWindow(int32_t sequence) const {
  if (hasStates && stateLengths[sequence] != lengths[sequence])
    return false;
  uint8_t *const *table = pages(sequence);
  int64_t used = (lengths[sequence] + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  for (const Window &window : windows) {
    uint64_t bit = uint64_t(1) << (&window - windows.data());
    for (int64_t index = pagesBefore(window, sequence); index < used; ++index)
      if (!table[index] || (discarded[indexOf(table[index])] & bit))
        return false;
  }
  return true;
}

Status PagedKvCache::makeRoom(int32_t sequence, int64_t count) {
  uint8_t **table = tables.data() + sequence * pagesPerSequence;
  int64_t begin = lengths[sequence] / HEDDLE_KV_PAGE_SIZE,
          end = (lengths[sequence] + count + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  recycle(sequence); // before a page is taken: it may be one of those
  for (int64_t index = begin; index < end; ++index) {
    if (table[index] && referencesOf(table[index]) == 1)
      continue;
    uint8_t *page = take();
    if (!page && numFree == 0 && uncommitted == 0)
      return Status(StatusCode::ContextFull,
                    format("the cache of %lld tokens is full", (long long)numPages() * HEDDLE_KV_PAGE_SIZE));
    if (!page)
      return outOfMemory(format("no memory for page %lld of the KV cache", (long long)index));
    Status copied = table[index] ? copyPage(page, table[index]) : Status(); // shared, and about to be written
    if (!copied.isOk()) {
      release(page);
      return copied;
    }
    release(table[index]);
    table[index] = page;
  }
  return Status();
}

void PagedKvCache::setLength(int32_t sequence, int64_t length) {
  uint8_t **table = tables.data() + sequence * pagesPerSequence;
  int64_t keep = (length + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  int64_t used =
      (lengths[sequence] + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE; // of which the first may be recycled
  for (int64_t index = keep; index < pagesPerSequence && (table[index] || index < used); ++index)
    release(table[index]);
  if (length == 0)
    stateLengths[sequence] = 0;
  lengths[sequence] = length;
}

void PagedKvCache::fork(int32_t source, int32_t target) {
  if (source == target)
    return;
  setLength(target, 0);
  uint8_t **from = tables.data() + source * pagesPerSequence, **to = tables.data() + target * pagesPerSequence;
  int64_t used = (lengths[source] + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  for (int64_t index = 0; index < used; ++index) {
    to[index] = from[index];
    if (to[index]) // not recycled
      ++referencesOf(to[index]);
  }
  lengths[target] = lengths[source];
  stateLengths[target] = stateLengths[source];
}

} // namespace heddle
