// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The paged cache of keys and values. Page p of a sequence holds its tokens [64 p, 64 p + 64) of every layer; sequences that
// were forked share pages until one of them writes. Address space for every sequence at full length is reserved once, memory is
// committed when a page is first used.
//
// A layer with a sliding window never looks back beyond it. Where all layers have one, a page that fell out of the widest is
// used again. Where only some have, their part of the page gives its memory back. Forgetting tokens can bring such a page into
// the window again: holdsWindow() then says that the sequence must be computed again.
//
// A layer with a state, whose window is two tokens, has in a page what the page's last token left. What earlier tokens left is gone: once tokens
// are forgotten, but for all of them, the sequence must be computed again, too.
#ifndef HEDDLE_RUNTIME_SESSION_PAGEDKVCACHE_H
#define HEDDLE_RUNTIME_SESSION_PAGEDKVCACHE_H

#include "runtime/device/Device.h"
#include "runtime/model/ModelAbi.h"
#include "runtime/session/Reserved.h"

#include <vector>

namespace heddle {

// A page: the layers one after the other. One that attends and keeps a state counts as two.
struct KvPageLayout {
  uint64_t bytes = 0;
  std::vector<int64_t>
      windows; // (layers): tokens that a layer sees, the newest included, 0: all; empty: all layers see all
  std::vector<uint64_t> layerBytes{}; // (layers): of each; empty: equal parts
  bool hasStates = false;             // of some layers
};

class PagedKvCache {
public:
  // On `device`, or in the host's memory without one. A device commits all pages at once. `budget`: tokens of all sequences together,
  // rounded up to pages; 0: maxSequences x context.
  Status create(const KvPageLayout &layout, int32_t maxSequences, int64_t context, int64_t budget = 0,
                Device *device = nullptr);

  int64_t length(int32_t sequence) const { return lengths[sequence]; }
  uint8_t *const *pages(int32_t sequence) const {
    return tables.data() + sequence * pagesPerSequence;
  } // (pagesPerSequence)

  // Makes pages for tokens [length, length + count) writable and this sequence's own, after what no token from `length` on
  // sees any more was recycled. Does not change the length.
  Status makeRoom(int32_t sequence, int64_t count);
  // Sets the length after a step wrote the tokens, or forgets tokens from the end.
  void setLength(int32_t sequence, int64_t length);
  // A step is about to compute the tokens up to the length: states are theirs from now on.
  void beginStep(int32_t sequence) { stateLengths[sequence] = lengths[sequence]; }
  // Whether everything is there that the token at `length` sees, or goes on from.
  bool holdsWindow(int32_t sequence) const;
  // Makes `target` share the pages of `source`.
  void fork(int32_t source, int32_t target);

  // Page p lies p * pageStride() bytes behind the base.
  uint8_t *base() const { return device ? deviceMemory.data() : memory.data(); }
  uint64_t pageStride() const { return stride; }
  int64_t numPages() const { return references.size(); }
  int32_t indexOf(const uint8_t *page) const { return int32_t((page - base()) / stride); }

  int64_t pagesInUse() const { return numPages() - numFree - uncommitted; }

private:
  struct LayerRange {
    uint64_t begin, end; // bytes of a page
  };
  // Layers with the same window.
  struct Window {
    int64_t tokens;
    std::vector<LayerRange> layers;
  };
  // Pages of a sequence that lie wholly before what its next token sees.
  int64_t pagesBefore(const Window &window, int32_t sequence) const;
  // Once more pages lie before what a layer sees.
  void recycle(int32_t sequence);
  void discard(const Window &window, const uint8_t *page);
  bool inLargePages() const;
  bool commit(uint64_t end); // makes bytes [0, end) accessible
  uint8_t *take();           // a page that nobody refers to, or null without memory
  void release(uint8_t *&page);
  int32_t &referencesOf(const uint8_t *page) { return references[indexOf(page)]; }
  Status copyPage(uint8_t *to, const uint8_t *from);

  Device *device = nullptr;
  Reserved memory;
  uint64_t committed = 0; // bytes of `memory`
  DeviceMemory deviceMemory;
  uint64_t pageBytes = 0, stride = 0; // stride: pageBytes rounded up to 4096
  std::vector<Window> windows;        // of different lengths
  bool allHaveWindows = false;
  bool hasStates = false;
  ReservedArray<int64_t> recycled;   // (maxSequences): sum of pagesBefore() when recycle() last ran
  ReservedArray<uint64_t> discarded; // by page: bit w once the layers of windows[w] gave their memory back
  int64_t pagesPerSequence = 0;
  ReservedArray<uint8_t *> tables;     // (maxSequences, pagesPerSequence): null where there is no page
  ReservedArray<int64_t> lengths;      // (maxSequences) in tokens
  ReservedArray<int64_t> stateLengths; // (maxSequences): tokens that have left a state
  ReservedArray<int32_t> references;   // by page
  ReservedArray<uint8_t *> freePages;  // (numFree) committed, not in use; room for all pages
  int64_t numFree = 0;
  int64_t uncommitted = 0; // pages at the end of `memory` never used so far
};

} // namespace heddle

#endif
