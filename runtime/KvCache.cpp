// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/KvCache.h"

#include <cstring>

namespace heddle {

Status KvCache::create(uint64_t newPageBytes, int32_t maxSequences, int64_t context, Device *newDevice) {
  device = newDevice;
  pageBytes = newPageBytes;
  stride = (pageBytes + 4095) / 4096 * 4096;
  pagesPerSequence = (context + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  uint64_t numPages = uint64_t(pagesPerSequence) * maxSequences, size;
  if (__builtin_mul_overflow(numPages, stride, &size))
    return outOfMemory("the cache does not fit into the address space");
  HEDDLE_RETURN_IF_ERROR(device ? deviceMemory.allocate(*device, size, "KV cache")
                                : memory.reserve(size, "KV cache", /*writable=*/false));
  tables.assign(numPages, nullptr);
  lengths.assign(maxSequences, 0);
  references.assign(numPages, 0);
  freePages.reserve(numPages);
  uncommitted = numPages;
  return Status();
}

uint8_t *KvCache::take() {
  uint8_t *page;
  if (!freePages.empty()) {
    page = freePages.back();
    freePages.pop_back();
  } else {
    uint64_t offset = (references.size() - uncommitted) * stride;
    if (uncommitted == 0 || (!device && !memory.commit(offset, stride)))
      return nullptr;
    page = base() + offset;
    --uncommitted;
  }
  referencesOf(page) = 1;
  return page;
}

void KvCache::release(uint8_t *&page) {
  if (page && --referencesOf(page) == 0)
    freePages.push_back(page);
  page = nullptr;
}

Status KvCache::copyPage(uint8_t *to, const uint8_t *from) {
  if (device)
    return device->copy(to, from, pageBytes);
  memcpy(to, from, pageBytes);
  return Status();
}

Status KvCache::makeRoom(int32_t sequence, int64_t count) {
  uint8_t **table = tables.data() + sequence * pagesPerSequence;
  int64_t begin = lengths[sequence] / HEDDLE_KV_PAGE_SIZE,
          end = (lengths[sequence] + count + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  for (int64_t index = begin; index < end; ++index) {
    if (table[index] && referencesOf(table[index]) == 1)
      continue;
    uint8_t *page = take();
    if (!page)
      return outOfMemory(format("no memory for page %lld of the KV cache", (long long)index));
    Status copied = table[index] ? copyPage(page, table[index]) : Status();  // shared, and about to be written
    if (!copied.isOk()) {
      release(page);
      return copied;
    }
    release(table[index]);
    table[index] = page;
  }
  return Status();
}

void KvCache::setLength(int32_t sequence, int64_t length) {
  uint8_t **table = tables.data() + sequence * pagesPerSequence;
  int64_t keep = (length + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  for (int64_t index = keep; index < pagesPerSequence && table[index]; ++index)
    release(table[index]);
  lengths[sequence] = length;
}

void KvCache::fork(int32_t source, int32_t target) {
  if (source == target)
    return;
  setLength(target, 0);
  uint8_t **from = tables.data() + source * pagesPerSequence, **to = tables.data() + target * pagesPerSequence;
  int64_t used = (lengths[source] + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  for (int64_t index = 0; index < used; ++index) {
    to[index] = from[index];
    ++referencesOf(to[index]);
  }
  lengths[target] = lengths[source];
}

} // namespace heddle
