// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call that comes back where memory lacks, although it is made of containers.
//
// The runtime has no exceptions, so that a container cannot tell its caller that an allocation failed. runInMemory lets a whole call
// fail instead: the allocator lists the blocks that the call takes, and where it finds no more, it gives everything on the list back and
// returns to runInMemory by longjmp. No destructor runs on that way. The call therefore owns nothing but memory of `operator new` and
// what is listed as a Resource (no lock, no open descriptor), changes no object that outlives it but by its last statement, and runs on
// one thread.
//
// Programs with another allocator (tests, the compiler) have no such list: there a lack of memory ends the program, as everywhere else.
#ifndef HEDDLE_BYTES_MEMORYSCOPE_H
#define HEDDLE_BYTES_MEMORYSCOPE_H

#include <csetjmp>
#include <cstddef>

namespace heddle {

class MemoryScope {
public:
  // Linked while it is listed. Entered and left on the thread that acquired it.
  struct Entry {
    Entry *previous = nullptr, *next = nullptr;
  };
  // Stands before the bytes of a block from malloc.
  struct alignas(std::max_align_t) Block : Entry {};
  // What is no memory, a member of the object that owns it.
  struct Resource : Entry {
    explicit Resource(void (*release)(Resource *)) : release(release) {}
    void (*const release)(Resource *);
  };

  // Becomes the scope of this thread.
  MemoryScope();
  // What is left goes to the scope outside of this one, or to whoever holds it.
  ~MemoryScope();
  MemoryScope(const MemoryScope &) = delete;
  MemoryScope &operator=(const MemoryScope &) = delete;

  // Lists what was acquired, if this thread has a scope; and takes it off before it is given back.
  static void enter(Block *block);
  static void enter(Resource *resource);
  static void leave(Entry *entry);
  // Gives back all that this thread's scope has listed and returns to it; returns to the caller where there is none.
  static void fail();

  jmp_buf place; // where fail() goes to

private:
  // A ring of entries; this one stands for its end.
  struct List {
    List() { end.previous = end.next = &end; }
    void add(Entry *entry);
    Entry *takeFirst(); // null: none is left
    Entry end;
  };

  List blocks, resources;
  MemoryScope *outside;
};

// Runs `call`. False, with all that it acquired given back, if memory was lacking.
template <typename Call> bool runInMemory(const Call &call) {
  MemoryScope scope;
  if (setjmp(scope.place) != 0)
    return false;
  call();
  return true;
}

} // namespace heddle

#endif
