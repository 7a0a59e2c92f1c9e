// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Running sequences of one model: their cache, activations and threads. A call takes tokens for any number of sequences (a ragged
// batch) and runs the model over them in chunks of at most max_rows tokens. Everything is allocated at creation.
//
// A sequence is its history of ids and positions, of which the cache holds keys and values of the first tokens: all of them, but
// where they have to be computed again. One with an adapter may begin with virtual tokens of that, which nobody but the step sees: they are
// neither counted nor part of the history that callers read. A call appends to all its sequences or, where it fails or is interrupted, to none: each
// keeps its length, and what the cache has lost of it is computed again by the sequence's next call.
//
// A sequence of an encoder-decoder also has a source, which is encoded before its first token. Forks share it.
#ifndef HEDDLE_RUNTIME_SESSION_SESSION_H
#define HEDDLE_RUNTIME_SESSION_SESSION_H

#include "runtime/session/DeviceStep.h"
#include "runtime/session/Encoder.h"
#include "runtime/session/Package.h"
#include "runtime/session/PagedKvCache.h"
#include "runtime/session/RopeTables.h"
#include "runtime/session/StepProfile.h"
#include "runtime/session/StepRun.h"

#include <atomic>

namespace heddle {

struct SessionOptions {
  int32_t threads = 0; // 0: defaultThreadCount()
  int32_t maxSequences = 1;
  int64_t context = 0; // 0: the package's
  bool keepHidden = false;
  bool fixedForms = false;    // bits do not depend on how a sequence is cut into steps
  bool profile = false;       // counts what steps spend in each kernel
  std::string_view device;    // which one, of a model for a device: a number or part of a name; empty: the best
  int64_t cacheTokens = 0;    // that the cache holds of all sequences together; 0: as many as they can have
  int32_t adapter = 0;        // of sequences whose feeds name none: its number, 0: none
  ThreadPool *pool = nullptr; // shared with others, of one thread for a device; null: threads of its own
};

// Of which of a feed's tokens a call gives the logits. Chosen: of the last one, where nobody but chosenToken() will ask for most; a device then
// keeps the logits.
enum class FeedRows : uint8_t { Last, None, All, Chosen };

// Some tokens of one sequence of a ragged batch.
struct Feed {
  int32_t sequence = 0;
  int32_t count = 0;
  const int32_t *ids = nullptr;       // (count)
  const int32_t *positions = nullptr; // (count), or null: they continue the sequence
  FeedRows rows = FeedRows::Last;
  // The number of an adapter, from 1, or -1: none. 0: that of the sequence's tokens so far, of its first ones the session's. A sequence has one.
  int32_t adapter = 0;
  heddle_token_choice choice = {}; // what chosenToken() chooses
};

// Receives the rows of a forward run that its feeds ask for, in any order of feeds, in order within a feed.
class RowSink {
public:
  // Token `token` of feed `feed`; logits (vocab_size), hidden (hidden_size) or null. Both are valid during the call only.
  using Take = void (*)(void *user, size_t feed, int32_t token, const float *logits, const float *hidden);
  RowSink(Take take, void *user) : take(take), user(user) {}
  void operator()(size_t feed, int32_t token, const float *logits, const float *hidden) const {
    take(user, feed, token, logits, hidden);
  }

private:
  Take take;
  void *user;
};

class Session {
public:
  // Opens the package's device, if it was compiled for one.
  static Status create(Package &package, const SessionOptions &options, std::unique_ptr<Session> &outSession);

  // Appends the feeds' tokens and computes the logits of the last token of each feed that wants them.
  Status step(const Feed *feeds, size_t numFeeds) { return run(feeds, numFeeds, nullptr); }
  // Appends them and hands the logits that the feeds ask for to `sink`.
  Status forward(const Feed *feeds, size_t numFeeds, const RowSink &sink) { return run(feeds, numFeeds, &sink); }
  Status append(int32_t sequence, const int32_t *ids, int32_t count, FeedRows rows = FeedRows::Last,
                const heddle_token_choice &choice = {});
  // Of a model that is told things otherwise than by ids of its vocabulary: `rows` (count, hidden_size) get the ids from `outFirst` on, which prompts of
  // all sequences may name as long as the session lives.
  // Of an image of any size they are a grid of `columns` on a side, rows one behind another, where each rotates by its place; 0: they are not. Where the
  // model has rows behind each, these are counted, and their ids stand in no prompt.
  Status give(const float *rows, int64_t count, int32_t &outFirst, int64_t columns = 0);
  // Of an encoder-decoder: input i becomes the source of sequence `sequences[i]`, which loses its tokens. `take` null: nobody asks for what the
  // encoder gives.
  Status encode(const EncoderInput *inputs, const int32_t *sequences, size_t numInputs, TakeEncoding take = nullptr,
                void *user = nullptr);
  // Makes the sequence ready for its first new token, whose logits are those of feed 0: `count` ids are appended, or become the source behind
  // which the decoder starts.
  Status beginAnswer(int32_t sequence, const int32_t *ids, int32_t count, FeedRows rows = FeedRows::Last,
                     const heddle_token_choice &choice = {});
  bool hasSources() const { return encoder != nullptr; }
  // Tokens of the longest prompt of beginAnswer(), and tokens of the sequence that answers it, behind it.
  int64_t promptLimit() const;
  int64_t tokensOfPrompt(int64_t promptSize) const { return hasSources() ? 1 : promptSize; }

  // Of the last token of a feed of the last step; valid until the next. Null for a feed that it had not or that wanted
  // none, once a step failed, and where a device that has kept them does not give them.
  const float *logits(size_t feed);
  // The id that the feed's choice takes by them; -1 where there are none.
  int32_t chosenToken(size_t feed);
  const float *hiddenState(size_t feed) const {
    return keepHidden && isAnswered(feed) ? lastHidden.data() + feed * hiddenSize : nullptr;
  }

  int64_t length(int32_t sequence) const { return lengths[sequence] ? lengths[sequence] - ownTokens(sequence) : 0; }
  // (length): its tokens; for rows that it was given stands the token of prompts that does.
  const int32_t *history(int32_t sequence) const {
    return (model.metadata().given() ? tokenHistory : idHistory).data() + sequence * contextLength +
           ownTokens(sequence);
  }
  // (length): the ids that it was fed.
  const int32_t *fedIds(int32_t sequence) const {
    return idHistory.data() + sequence * contextLength + ownTokens(sequence);
  }
  // A call that was to compute has failed, here or at who calls: the last step's results are not its own, and a cancel has met it.
  void endFailedCall() {
    answeredFeeds = 0;
    isCancelled = false;
  }
  void truncate(int32_t sequence, int64_t newLength);
  void fork(int32_t source, int32_t target);

  const Package &package() const { return model; }
  int64_t context() const { return contextLength - mostVirtual; }
  int32_t maxSequences() const { return sequenceLimit; }
  int32_t threads() const { return pool->size(); }
  // Of what runs on the CPU beside a device's one thread; 0: defaultThreadCount().
  int32_t threadsBeside() const { return askedThreads; }
  ThreadPool &threadPool() { return *pool; }
  int64_t cachePagesInUse() const { return cache.pagesInUse(); }
  // Of the device, whoever asked for it; none on the CPU.
  bool hasDevice() const { return device; }
  // Why a device's tokens are launched kernel by kernel; a success where they are graphs.
  Status graphRefusal() const { return deviceStep ? deviceStep->graphRefusal() : Status(); }
  DeviceCounts deviceCounts() const { return device ? device->counts() : DeviceCounts(); }
  StepProfile &kernelProfile() { return profile; } // empty without SessionOptions::profile
  void setProgress(Progress newProgress);
  // The call that runs, or else the next one, ends as Cancelled before its next chunk. From any thread, and from a signal handler.
  void cancel() { isCancelled = true; }
  // Those of the encoder of an encoder-decoder as well.
  void observeKernels(KernelObserver newObserver) {
    observer = newObserver;
    if (encoder)
      encoder->observeKernels(newObserver);
  }

private:
  // What is left to compute of one feed: tokens [next, end) of its sequence. Of those before next, the cache holds `computed`;
  // those from `wanted` on are new, the others have no output.
  struct Run {
    size_t feed;
    int32_t sequence;
    int64_t computed, next, end, wanted;
    RopeTables::Mode mode;
    FeedRows rows;
    heddle_token_choice choice;

    bool gives(int64_t token) const {
      return rows == FeedRows::All ? token >= wanted : rows != FeedRows::None && token + 1 == end;
    }
    // Of the `count` next tokens, those in front that have no more than `outputs` outputs.
    int64_t upToOutputs(int64_t count, int64_t outputs) const;
  };
  struct Chunk {
    int32_t rows = 0, sequences = 0, outputs = 0;
    bool isChoiceEnough = true; // of every output
    bool takesLargest = true;   // every choice
  };

  explicit Session(Package &package) : model(package) {}
  Status allocate(const SessionOptions &options);
  // Of what is given: a token's own and those behind it.
  int64_t rowsOfToken() const {
    const package::GivenRows *given = model.metadata().given();
    return given ? 1 + int64_t(given->deep()) : 1;
  }
  // Ids from here on name nothing.
  int64_t idLimit() const { return vocabSize + numGiven; }
  bool isAnswered(size_t feed) const { return feed < answeredFeeds && outputOfFeed[feed] >= 0; }
  Status checkProcess() const; // that the threads are there
  Status checkFeeds(const Feed *feeds, size_t numFeeds, bool isForward) const;
  Status begin(const Feed *feeds, size_t numFeeds);
  Status run(const Feed *feeds, size_t numFeeds, const RowSink *sink);
  Status runChunks(const RowSink *sink);
  void rollBack();
  Status fillChunk(Chunk &chunk);
  // Of a model whose given rows, or prompts, see each other: how many of the next `count` tokens of the run a step takes of its sequence, which are all that
  // see each other, or none of them; 0 where these have no room behind `rows` others.
  int64_t upToWhole(const Run &run, int64_t count, int64_t rows, bool &outSeesAhead) const;
  // In the cache, for `count` more tokens of the sequence; becomes how many have some.
  Status makeRoom(int32_t sequence, int64_t &count);
  Status compute(const Chunk &chunk);
  Status runStep(heddle_step &step, const Chunk &chunk);
  Status checkFinite(const Chunk &chunk);
  // barrier_wait of a device under --profile: a kernel's time ends when it has run, not when it is enqueued.
  static void waitForKernel(void *session, int32_t thread);
  void deliver(const Chunk &chunk, const RowSink *sink);
  // Virtual tokens of the sequence's adapter.
  int64_t ownTokens(int32_t sequence) const { return virtualTokens ? virtualCount(adapters[sequence]) : 0; }
  int64_t virtualCount(int32_t adapter) const { return adapter ? (*virtualTokens)[adapter - 1] : 0; }
  // Of the adapter's first virtual token: they are numbered behind the adapters.
  int32_t firstVirtualNumber(int32_t adapter) const {
    int64_t number = 1 + numAdapters;
    for (int32_t i = 1; i < adapter; ++i)
      number += virtualCount(i);
    return int32_t(number);
  }
  void beginWithVirtual(int32_t sequence);
  bool seesAhead(const int32_t *begin, const int32_t *end) const;
  // Of a token without a position of its own, behind one with `last`, -1: none.
  Status nextPosition(int32_t id, int32_t last, int32_t &outPosition);
  int64_t longestPosition(int32_t sequence, int64_t length) const;

  Package &model;
  Device *device = nullptr;                                     // null: kernels run on the pool's threads
  std::unique_ptr<DeviceStep> deviceStep;                       // null on the CPU
  const flatbuffers::Vector<uint32_t> *virtualTokens = nullptr; // (adapters); null: there are none
  int64_t vocabSize = 0, hiddenSize = 0;
  int64_t maxRows = 0, maxOutputs = 0;        // of a step
  int64_t contextLength = 0, mostVirtual = 0; // virtual tokens are part of the first
  int32_t sequenceLimit = 0, numAdapters = 0, ownAdapter = 0, askedThreads = 0;
  bool keepHidden = false, fixedForms = false;
  PagedKvCache cache;
  PagedKvCache sourceCache; // of an encoder-decoder
  RopeTables rope;
  ThreadPoolHandle pool;
  std::unique_ptr<Encoder> encoder; // of an encoder-decoder, else null
  std::atomic<bool> isCancelled{false};
  Progress progress;
  KernelObserver observer;
  const heddle_step *observed = nullptr; // of a device, the running one
  int64_t kernelsSeen = 0;               // of it

  Reserved arena, scratch, logitRows, hiddenRows;
  ReservedArray<int32_t> idHistory, positionHistory; // (maxSequences, context) each
  ReservedArray<int32_t> tokenHistory;               // the same, of a model that is given rows
  ReservedArray<int64_t>
      lengths; // (maxSequences): tokens of the history, virtual ones among them; the cache holds at most these
  ReservedArray<int64_t> prompts;        // (maxSequences): tokens in front that see each other; 0: none do
  ReservedArray<int64_t> lastEncode;     // (maxSequences), of an encoder-decoder: in which call its source was given
  int64_t numEncodes = 0;                // of those calls
  ReservedArray<int32_t> adapters;       // (maxSequences): with which the cached keys were computed, 0: none
  ReservedArray<RopeTables::Mode> modes; // (maxSequences): with which the cached keys were rotated
  ReservedArray<Run> runs;               // (numRuns) of the running call; room for maxSequences
  size_t numRuns = 0;
  ReservedArray<heddle_sequence> sequences, sources;                              // (maxSequences) of the chunk
  ReservedArray<int32_t> ids, positions, rowSequence, cachePositions, outputRows; // (maxRows)
  ReservedArray<int32_t> rowAdapters;                                             // (maxRows)
  ReservedArray<int32_t> outputFeed, outputToken;                                 // (maxRows): whose each output row is
  ReservedArray<int64_t> outputOfFeed; // (maxSequences): row of logitRows, -1: none
  // Of the rows of the last chunk from `firstChosen` on the device has told the tokens; their logits are there as well, unless it keeps them.
  ReservedArray<int32_t> chosen;              // (maxRows)
  ReservedArray<heddle_token_choice> choices; // (maxRows) of the chunk
  ReservedArray<uint64_t> ranks;              // (vocab_size), where the host chooses
  int64_t firstChosen = 0, numChosen = 0;
  bool areLogitsKept = false;
  size_t answeredFeeds = 0;                        // of the last step, if it was one and succeeded
  std::unique_ptr<ReservedArray<float>> givenRows; // (numGiven or more, hiddenSize); null where there are none
  int64_t numGiven = 0;
  // (numGiven), where rows rotate by their place in an image: its row and column there, and how many positions the image takes.
  struct GridPlace {
    int32_t row, column, span;
  };
  std::vector<GridPlace> gridPlaces;
  ReservedArray<float> lastHidden; // (maxSequences, hiddenSize)
  StepProfile profile;
  Status profileStatus;    // of waitForKernel
  int64_t outputsDone = 0; // rows of logitRows that the running call has filled
  int64_t stepsDone = 0;   // for messages
};

} // namespace heddle

#endif
