// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encodes sequences with a model that sees all of each at once. Sequences are put into steps whole, as many as there are rows for, of one
// scaling of rotary embeddings: what a sequence gives does not depend on those beside it. Everything is allocated at creation. The encoder of an encoder-decoder also writes keys
// and values of its sequences, for a decoder that answers them.
#ifndef HEDDLE_RUNTIME_SESSION_ENCODER_H
#define HEDDLE_RUNTIME_SESSION_ENCODER_H

#include "runtime/session/DeviceEncode.h"
#include "runtime/session/Package.h"
#include "runtime/session/PagedKvCache.h"
#include "runtime/session/Reserved.h"
#include "runtime/session/RopeTables.h"
#include "runtime/session/StepProfile.h"
#include "runtime/session/StepRun.h"

#include <memory>
#include <vector>

namespace heddle {

// A sequence: (count) each; without positions they count from the first one, without types all are 0. patches: of an image or of sound, (count,
// inputRowWidth()). globals: not 0 for a global token; without them the package says which are.
struct EncoderInput {
  int32_t count = 0;
  const int32_t *ids = nullptr, *positions = nullptr, *tokenTypes = nullptr;
  const float *patches = nullptr;
  const int32_t *globals = nullptr;
};

// Numbers that a token of an encoder is given as that takes no ids; 0: it takes ids. Of an image its patch, and which special token it is, or
// that it is a patch; of sound as package::AudioInput says.
int64_t inputRowWidth(const package::Encoder &encoder);
int64_t imageTokens(const package::ImageInput &image);

// Receives what sequence `index` gives, in the order of the package's outputs: (count, width) where an output is of tokens, (width) where it
// is of sequences. They are valid during the call only.
using TakeEncoding = void (*)(void *user, size_t index, const float *const *outputs);

// The position of each of `ids`, of a whole row, by the rule of the package.
std::vector<int32_t> positionsOf(const package::Package &metadata, const std::vector<int64_t> &ids);

class Encoder { // the part `encoder` (SessionParts.h)
public:
  virtual ~Encoder() = default;
  // `pool` null: `threads` of its own, 0: defaultThreadCount(). `sources`: of an encoder-decoder, the cache that it writes.
  static Status create(Package &package, int32_t threads, ThreadPool *pool, std::unique_ptr<Encoder> &outEncoder,
                       PagedKvCache *sources = nullptr);
  // The same, where the part is linked: for its table.
  static Status createLinked(Package &package, int32_t threads, ThreadPool *pool, std::unique_ptr<Encoder> &outEncoder,
                             PagedKvCache *sources);

  // `take` may be null. `sequences`: of an encoder-decoder, (numInputs) different ones of the cache, which then hold the inputs alone.
  virtual Status run(const EncoderInput *inputs, size_t numInputs, TakeEncoding take, void *user,
                     const int32_t *sequences = nullptr);
  void setProgress(Progress newProgress) { progress = newProgress; }
  void observeKernels(KernelObserver newObserver) { observer = newObserver; }
  // Counts from here on what steps spend in each kernel; in `shared`, where there is one, which counts the steps of a session besides.
  virtual void profileKernels(StepProfile *shared = nullptr);
  StepProfile &kernelProfile() { return *profile; } // empty without profileKernels()
  ThreadPool &threadPool() { return *pool; }

private:
  Encoder(Package &package, PagedKvCache *sources) : model(package), sources(sources) {}
  Status allocate(int32_t threads, ThreadPool *shared);
  Status check(const EncoderInput *inputs, size_t numInputs) const;
  // Where token `token` of the sequence stands; and how its rotary embeddings are scaled for its last position.
  int32_t positionOf(const EncoderInput &input, int32_t token) const;
  RopeTables::Mode ropeModeOf(const EncoderInput &input) const;
  // Puts the sequences from `first` on into a step; gives the one behind the last.
  size_t fill(const EncoderInput *inputs, size_t first, size_t numInputs);
  // Makes room in the cache for the step's sequences.
  Status placeSources(const EncoderInput *inputs, const int32_t *ofInputs);
  Status compute();
  // On return, outputs are the host's.
  Status runStep(heddle_step &step);
  static void waitForKernel(void *encoder, int32_t);
  // Says of the tokens of a sequence, which has been filled in from `row` on, which are global.
  void markGlobals(const EncoderInput &input, int64_t row);
  Status checkFinite() const; // what the step gave

  Package &model;
  PagedKvCache *sources;                           // null where nothing is cached
  int64_t maxRows = 0, rows = 0, numSequences = 0; // rows and sequences of the step
  Device *device = nullptr;                        // null on the CPU
  std::unique_ptr<DeviceEncode> deviceEncode;      // null on the CPU
  Status profileStatus;                            // what the first wait for a kernel of a device said that failed
  ThreadPoolHandle pool;
  Progress progress;
  KernelObserver observer;
  const heddle_step *observed = nullptr; // of a device, the running one
  int64_t kernelsSeen = 0;               // of it
  StepProfile ownProfile, *profile = &ownProfile;
  std::vector<heddle_sequence> profiled;             // the step's sequences, which nothing but the profile asks for
  Reserved arena, scratch, patches;                  // patches: (maxRows, patchWidth)
  int64_t patchWidth = 0;                            // 0: it takes ids
  std::vector<std::unique_ptr<Reserved>> outputs;    // by output: (maxRows, width)
  std::vector<float *> outputRows;                   // (outputs): where each begins
  std::vector<const float *> taken;                  // (outputs): where those of a sequence begin, for TakeEncoding
  std::vector<int64_t> outputCounts;                 // (outputs): rows that a step of a device has made
  ReservedArray<int32_t> ids, positions, tokenTypes; // (maxRows)
  RopeTables rope;                                   // without a table where nothing rotates
  ReservedArray<int32_t> globals;                    // (maxRows), of a model that has global tokens
  ReservedArray<int32_t> firstRows, sequenceRows;    // (maxRows), (maxRows, 2)
  ReservedArray<heddle_sequence> places;             // (maxRows), with pages where there is a cache
  // Of a cache: (maxRows) each, by row.
  ReservedArray<int32_t> rowSequence, cachePositions;
};

} // namespace heddle

#endif
