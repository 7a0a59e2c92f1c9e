// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `heddle verify` hands a binary to run its steps kernel by kernel (BIN --replay IN OUT), and what the binary answers.
//
// IN: a ReplayHeader, then per step a ReplayStep; per feed of the step a ReplayFeed, its ids, (count) int32_t, and for a model that
// encodes the types of its tokens, (count) int32_t; per kernel, in order of launch, a ReplayKernel, per region that is given a
// ReplayRegion and its bytes, and per region that is a result a ReplayRegion. Ids and bytes are filled up to a multiple of 8.
//
// OUT, written while the steps run: per kernel that has ended its number, counted from 1 through all steps (int64_t), then the bytes
// of its results one after the other. A file that ends early says which kernel the process did not survive.
#ifndef HEDDLE_RUNTIME_MODEL_REPLAYFILE_H
#define HEDDLE_RUNTIME_MODEL_REPLAYFILE_H

#include <stdint.h>

namespace heddle {

inline constexpr char replayMagic[8] = {'H', 'D', 'L', 'R', 'P', 'L', 'Y', '2'};

struct ReplayHeader {
  char magic[8];
  int64_t maxRows; // of the package: offsets in the arena depend on it
  int64_t numSequences;
  int64_t numSteps;
};

struct ReplayStep {
  int64_t rows, numFeeds, numKernels;
};

// Tokens that a sequence goes on with; for a model that encodes, a sequence, whose positions are 0, 1, …: ids, types and, of an image, rows
// of patches.
struct ReplayFeed {
  int32_t sequence, count;
};

struct ReplayKernel {
  int64_t numGiven;   // regions that hold what they say before the kernel runs
  int64_t numResults; // regions that are read behind it
};

enum class ReplayBase : int32_t { Arena, Logits, HiddenState, Page, Output };

// `rows` runs of `rowBytes` bytes, `stride` bytes from one to the next; their bytes lie without gaps in a file.
struct ReplayRegion {
  ReplayBase base;
  int32_t feed; // of a page: whose
  int64_t page; // of a page: which of that sequence; of an encoder's output: which
  int64_t offset, rows, rowBytes, stride;

  int64_t bytes() const { return rows * rowBytes; }
};

} // namespace heddle

#endif
