// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/MemoryScope.h"

#include "bytes/Allocator.h"

namespace heddle {

static thread_local MemoryScope *current = nullptr;

MemoryScope::MemoryScope() : outside(current) {
  current = this;
}

MemoryScope::~MemoryScope() {
  current = outside;
  while (Entry *entry = blocks.takeFirst())
    if (outside)
      outside->blocks.add(entry);
  while (Entry *entry = resources.takeFirst())
    if (outside)
      outside->resources.add(entry);
}

void MemoryScope::List::add(Entry *entry) {
  entry->previous = &end;
  entry->next = end.next;
  end.next->previous = entry;
  end.next = entry;
}

MemoryScope::Entry *MemoryScope::List::takeFirst() {
  Entry *entry = end.next;
  if (entry == &end)
    return nullptr;
  leave(entry);
  return entry;
}

void MemoryScope::enter(Block *block) {
  block->previous = block->next = nullptr; // malloc left them unset
  if (current)
    current->blocks.add(block);
}

void MemoryScope::enter(Resource *resource) {
  if (current)
    current->resources.add(resource);
}

void MemoryScope::leave(Entry *entry) {
  if (!entry->next)
    return;
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
  entry->previous = entry->next = nullptr;
}

void MemoryScope::fail() {
  if (!current)
    return;
  // Resources first: they lie in the blocks.
  while (Entry *entry = current->resources.takeFirst()) {
    auto *resource = static_cast<Resource *>(entry);
    resource->release(resource);
  }
  while (Entry *entry = current->blocks.takeFirst())
    releaseMemory(static_cast<Block *>(entry));
  longjmp(current->place, 1);
}

} // namespace heddle
