// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/Session.h"

#include "runtime/session/HostChoice.h"
#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace heddle {
namespace {

constexpr int64_t maxDeviceOutputs = 512;

KvPageLayout pageLayout(const package::KvPlan &plan) {
  KvPageLayout layout;
  layout.bytes = plan.page_bytes();
  layout.hasStates = plan.state_bytes() > 0;
  if (plan.windows())
    layout.windows.assign(plan.windows()->begin(), plan.windows()->end());
  // Only windows ask where a layer lies.
  for (unsigned i = 0; !layout.windows.empty() && plan.shapes() && i < plan.shapes()->size(); ++i)
    layout.layerBytes.insert(layout.layerBytes.end(), plan.shapes()->Get(i)->num_layers(),
                             plan.shapes()->Get(i)->layer_bytes());
  return layout;
}

} // namespace

Status Session::create(Package &package, const SessionOptions &options, std::unique_ptr<Session> &outSession) {
  if (package::Task task = package.metadata().task(); task != package::Task::Generate && task != package::Task::Seq2Seq)
    return invalidInput(package.path() + (task == package::Task::Graph ? ": a graph" : ": an encoder") +
                        " has no sessions");
  std::unique_ptr<Session> session(new (std::nothrow) Session(package));
  if (!session)
    return outOfMemory();
  HEDDLE_RETURN_IF_ERROR(session->allocate(options));
  outSession = std::move(session);
  return Status();
}

Status Session::allocate(const SessionOptions &options) {
  const package::Package &metadata = model.metadata();
  const package::MemoryPlan &plan = *metadata.memory();
  vocabSize = metadata.vocab_size();
  hiddenSize = metadata.hidden_size();
  maxRows = plan.max_rows();
  keepHidden = options.keepHidden;
  askedThreads = options.threads;
  fixedForms = options.fixedForms;
  virtualTokens = metadata.virtual_tokens();
  for (unsigned i = 0; virtualTokens && i < virtualTokens->size(); ++i)
    mostVirtual = std::max<int64_t>(mostVirtual, virtualTokens->Get(i));
  contextLength = options.context ? options.context : metadata.context();
  if (contextLength < 1 || contextLength > metadata.context())
    return invalidInput(
        format("context is %lld, the model was compiled for 1 … %u", (long long)contextLength, metadata.context()));
  contextLength += mostVirtual;
  sequenceLimit = options.maxSequences;
  if (sequenceLimit < 1 || sequenceLimit > 65536)
    return invalidInput(format("max_sequences is %d, expected 1 … 65536", sequenceLimit));
  numAdapters = metadata.adapters() ? int32_t(metadata.adapters()->size()) : 0;
  ownAdapter = options.adapter;
  if (ownAdapter < 0 || ownAdapter > numAdapters)
    return invalidInput(format("adapter is %d, the model has %d", ownAdapter, numAdapters));
  HEDDLE_RETURN_IF_ERROR(model.openDevice(options.device, device));
  // Memory of the host is there once it is written, that of a device at once: 2,048 rows of logits of 128,256 tokens are 1 GB.
  maxOutputs = device ? std::min(maxRows, maxDeviceOutputs) : maxRows;
  // One thread enqueues what a device runs.
  HEDDLE_RETURN_IF_ERROR(pool.create(options.pool, device ? 1 : options.threads));
  if (!options.pool)
    model.sayOfThreads(*pool);
  if (options.cacheTokens < 0)
    return invalidInput(format("cache_tokens is %lld, expected a number from 0", (long long)options.cacheTokens));
  HEDDLE_RETURN_IF_ERROR(
      cache.create(pageLayout(*metadata.kv()), sequenceLimit, contextLength, options.cacheTokens, device));
  if (metadata.task() == package::Task::Seq2Seq) {
    HEDDLE_RETURN_IF_ERROR(sourceCache.create(pageLayout(*metadata.encoder()->cross()), sequenceLimit,
                                              metadata.encoder()->context(), /*budget=*/0, device));
    HEDDLE_RETURN_IF_ERROR(Encoder::create(model, /*threads=*/0, &*pool, encoder, &sourceCache));
    HEDDLE_RETURN_IF_ERROR(sources.reserve(sequenceLimit, "sequences"));
  }
  HEDDLE_RETURN_IF_ERROR(rope.create(metadata, contextLength));
  uint64_t arenaBytes = plan.fixed() + plan.per_row() * maxRows;
  if (device) {
    deviceStep = heddle_session_parts.devices->makeStep();
    if (!deviceStep)
      return outOfMemory();
    HEDDLE_RETURN_IF_ERROR(deviceStep->create(*device,
                                              {arenaBytes, maxRows, maxOutputs, sequenceLimit, contextLength, vocabSize,
                                               hiddenSize, encoder ? int64_t(metadata.encoder()->context()) : 0,
                                               numAdapters > 0, metadata.given() != nullptr},
                                              rope));
  } else {
    HEDDLE_RETURN_IF_ERROR(arena.reserve(arenaBytes, "activations"));
  }
  HEDDLE_RETURN_IF_ERROR(scratch.reserve(scratchStride(plan) * pool->size(), "scratch memory"));
  int64_t outputLimit = std::max<int64_t>(maxRows, sequenceLimit);
  HEDDLE_RETURN_IF_ERROR(logitRows.reserve(outputLimit * vocabSize * sizeof(float), "logits"));
  HEDDLE_RETURN_IF_ERROR(hiddenRows.reserve(maxRows * hiddenSize * sizeof(float), "hidden states"));
  HEDDLE_RETURN_IF_ERROR(idHistory.reserve(sequenceLimit * contextLength, "token ids"));
  if (metadata.given())
    HEDDLE_RETURN_IF_ERROR(tokenHistory.reserve(sequenceLimit * contextLength, "token ids"));
  if (rowsOfToken() > 1) { // the first is zeros
    givenRows.reset(new (std::nothrow) ReservedArray<float>);
    if (!givenRows)
      return outOfMemory();
    HEDDLE_RETURN_IF_ERROR(givenRows->reserve(hiddenSize, "given rows"));
    numGiven = 1;
  }
  HEDDLE_RETURN_IF_ERROR(positionHistory.reserve(sequenceLimit * contextLength, "positions"));
  HEDDLE_RETURN_IF_ERROR(lengths.reserve(sequenceLimit, "sequences"));
  HEDDLE_RETURN_IF_ERROR(prompts.reserve(sequenceLimit, "sequences"));
  if (encoder)
    HEDDLE_RETURN_IF_ERROR(lastEncode.reserve(sequenceLimit, "sequences"));
  HEDDLE_RETURN_IF_ERROR(modes.reserve(sequenceLimit, "sequences"));
  HEDDLE_RETURN_IF_ERROR(adapters.reserve(sequenceLimit, "sequences"));
  HEDDLE_RETURN_IF_ERROR(runs.reserve(sequenceLimit, "sequences"));
  HEDDLE_RETURN_IF_ERROR(sequences.reserve(sequenceLimit, "sequences"));
  for (ReservedArray<int32_t> *rows :
       {&ids, &positions, &rowSequence, &cachePositions, &outputRows, &outputFeed, &outputToken, &rowAdapters})
    HEDDLE_RETURN_IF_ERROR(rows->reserve(maxRows, "rows"));
  HEDDLE_RETURN_IF_ERROR(outputOfFeed.reserve(sequenceLimit, "sequences"));
  HEDDLE_RETURN_IF_ERROR(chosen.reserve(maxRows, "rows"));
  HEDDLE_RETURN_IF_ERROR(choices.reserve(maxRows, "rows"));
  HEDDLE_RETURN_IF_ERROR(ranks.reserve(vocabSize, "ranks of tokens"));
  HEDDLE_RETURN_IF_ERROR(lastHidden.reserve(keepHidden ? sequenceLimit * hiddenSize : 0, "hidden states"));
  if (options.profile && metadata.kernels())
    profile.create(*metadata.kernels());
  if (options.profile && encoder)
    encoder->profileKernels(&profile);
  return Status();
}

Status Session::give(const float *rows, int64_t count, int32_t &outFirst, int64_t columns) {
  if (!model.metadata().given())
    return invalidInput("this model is given no rows: it takes ids of its vocabulary");
  int64_t most = INT32_MAX / std::max<int64_t>(hiddenSize, 1) - vocabSize;
  if (count % rowsOfToken())
    return invalidInput(format("%lld rows, expected %lld for each token", (long long)count, (long long)rowsOfToken()));
  if (count < 1 || count > most - numGiven)
    return invalidInput(format("%lld rows behind %lld, expected 1 … %lld in all", (long long)count, (long long)numGiven,
                               (long long)most));
  // Twice as many where there are too few, so that rows of many images are copied a few times, not once for each image.
  int64_t room = givenRows ? int64_t(givenRows->size()) / hiddenSize : 0;
  if (numGiven + count > room) {
    std::unique_ptr<ReservedArray<float>> more(new (std::nothrow) ReservedArray<float>);
    if (!more)
      return outOfMemory();
    HEDDLE_RETURN_IF_ERROR(more->reserve(std::max(numGiven + count, 2 * room) * hiddenSize, "given rows"));
    if (numGiven)
      memcpy(more->data(), givenRows->data(), numGiven * hiddenSize * sizeof(float));
    givenRows = std::move(more);
  }
  memcpy(givenRows->data() + numGiven * hiddenSize, rows, count * hiddenSize * sizeof(float));
  if (device)
    HEDDLE_RETURN_IF_ERROR(deviceStep->give(rows, numGiven, count));
  int64_t tokens = count / rowsOfToken();
  for (int64_t i = 0; columns && i < tokens; ++i)
    gridPlaces.push_back(
        {int32_t(i / columns), int32_t(i % columns), int32_t(std::max(columns, (tokens + columns - 1) / columns))});
  outFirst = int32_t(idLimit());
  numGiven += count;
  return Status();
}

Status Session::append(int32_t sequence, const int32_t *newIds, int32_t count, FeedRows rows,
                       const heddle_token_choice &choice) {
  Feed feed = {sequence, count, newIds, nullptr, rows, /*adapter=*/0, choice};
  return step(&feed, 1);
}

const float *Session::logits(size_t feed) {
  if (!isAnswered(feed))
    return nullptr;
  if (areLogitsKept && !deviceStep->downloadLogits(numChosen, logitRows.as<float>() + firstChosen * vocabSize).isOk())
    return nullptr;
  areLogitsKept = false;
  return logitRows.as<float>() + outputOfFeed[feed] * vocabSize;
}

int32_t Session::chosenToken(size_t feed) {
  if (!isAnswered(feed))
    return -1;
  int64_t output = outputOfFeed[feed];
  if (output >= firstChosen && output < firstChosen + numChosen)
    return chosen[output - firstChosen];
  return chooseToken(logitRows.as<float>() + output * vocabSize, vocabSize, runs[feed].choice, ranks.data());
}

void Session::setProgress(Progress newProgress) {
  progress = newProgress;
  if (encoder)
    encoder->setProgress(newProgress);
}

int64_t Session::promptLimit() const {
  return encoder ? model.metadata().encoder()->context() : context();
}

Status Session::encode(const EncoderInput *inputs, const int32_t *ofInputs, size_t numInputs, TakeEncoding take,
                       void *user) {
  answeredFeeds = 0;
  if (!encoder)
    return invalidInput("this model has no encoder: its sequences have no sources");
  HEDDLE_RETURN_IF_ERROR(checkProcess());
  ++numEncodes;
  for (size_t i = 0; i < numInputs; ++i) {
    if (ofInputs[i] < 0 || ofInputs[i] >= sequenceLimit)
      return invalidInput(format("sequence %d is not in [0, %d)", ofInputs[i], sequenceLimit));
    if (lastEncode[ofInputs[i]] == numEncodes)
      return invalidInput(format("sequence %d is twice among the sources", ofInputs[i]));
    lastEncode[ofInputs[i]] = numEncodes;
    if (!inputs[i].ids)
      return invalidInput(format("the ids of sequence %d are a null pointer", ofInputs[i]));
  }
  // Whatever fails now, no sequence goes on with another source than before.
  for (size_t i = 0; i < numInputs; ++i) {
    truncate(ofInputs[i], 0);
    sourceCache.setLength(ofInputs[i], 0);
  }
  return encoder->run(inputs, numInputs, take, user, ofInputs);
}

Status Session::beginAnswer(int32_t sequence, const int32_t *newIds, int32_t count, FeedRows rows,
                            const heddle_token_choice &choice) {
  if (!encoder)
    return append(sequence, newIds, count, rows, choice);
  if (int64_t limit = promptLimit(); count > limit)
    return Status(StatusCode::ContextFull,
                  format("the prompt has %d tokens, the context %lld", count, (long long)limit));
  EncoderInput source;
  source.count = count;
  source.ids = newIds;
  HEDDLE_RETURN_IF_ERROR(encode(&source, &sequence, 1));
  int32_t start = model.metadata().generation()->decoder_start();
  return append(sequence, &start, 1, rows, choice);
}

void Session::truncate(int32_t sequence, int64_t newLength) {
  int64_t length = std::min(newLength, this->length(sequence));
  if (length > 0)
    length += ownTokens(sequence);
  lengths[sequence] = std::min(length, lengths[sequence]);
  // What is left of tokens that saw each other is computed again, with those that follow.
  bool cutsPrompt = length < prompts[sequence];
  cache.setLength(sequence, cutsPrompt ? 0 : std::min(length, cache.length(sequence)));
}

void Session::fork(int32_t source, int32_t target) {
  if (source == target)
    return;
  cache.fork(source, target);
  if (encoder)
    sourceCache.fork(source, target);
  modes[target] = modes[source];
  adapters[target] = adapters[source];
  lengths[target] = lengths[source];
  prompts[target] = prompts[source];
  auto copy = [&](const ReservedArray<int32_t> &history) {
    memcpy(history.data() + target * contextLength, history.data() + source * contextLength,
           lengths[source] * sizeof(int32_t));
  };
  copy(idHistory);
  copy(positionHistory);
  if (model.metadata().given())
    copy(tokenHistory);
}

Status Session::checkFeeds(const Feed *feeds, size_t numFeeds, bool isForward) const {
  if (numFeeds == 0 || numFeeds > size_t(sequenceLimit))
    return invalidInput(format("%zu feeds in a step, expected 1 … %d", numFeeds, sequenceLimit));
  if (!feeds)
    return invalidInput(format("the %zu feeds of a step are a null pointer", numFeeds));
  for (size_t i = 0; i < numFeeds; ++i) {
    const Feed &feed = feeds[i];
    if (feed.sequence < 0 || feed.sequence >= sequenceLimit)
      return invalidInput(format("sequence %d is not in [0, %d)", feed.sequence, sequenceLimit));
    for (size_t j = 0; j < i; ++j)
      if (feeds[j].sequence == feed.sequence)
        return invalidInput(format("sequence %d is twice in a step", feed.sequence));
    if (feed.count < 1)
      return invalidInput(format("a feed of %d tokens, expected at least 1", feed.count));
    if (!feed.ids)
      return invalidInput(format("the ids of sequence %d are a null pointer", feed.sequence));
    if (feed.rows == FeedRows::All && !isForward)
      return invalidInput(format("feed %zu asks for the logits of all its tokens, which a step does not keep", i));
    if (encoder && sourceCache.length(feed.sequence) == 0)
      return invalidInput(format("sequence %d has no source, which an encoder-decoder answers", feed.sequence));
    int64_t past = length(feed.sequence);
    if (feed.adapter < -1 || feed.adapter > numAdapters)
      return invalidInput(numAdapters
                              ? format("feed %zu: adapter is %d, expected -1 … %d", i, feed.adapter, numAdapters)
                              : format("feed %zu: adapter is %d, the model has none", i, feed.adapter));
    if (int32_t own = adapters[feed.sequence]; past && feed.adapter && std::max(feed.adapter, 0) != own)
      return invalidInput(format("feed %zu: adapter is %d, sequence %d has %d tokens of %s", i, feed.adapter,
                                 feed.sequence, int32_t(past), own ? format("adapter %d", own).c_str() : "none"));
    if (past + feed.count > context())
      return Status(StatusCode::ContextFull,
                    past == 0
                        ? format("the prompt has %d tokens, the context %lld", feed.count, (long long)context())
                        : format("the sequence would have %lld tokens (%d after %lld), the context %lld",
                                 (long long)past + feed.count, feed.count, (long long)past, (long long)context()));
    for (int32_t token = 0; token < feed.count; ++token) {
      if (feed.ids[token] < 0 || feed.ids[token] >= idLimit())
        return invalidInput(
            format("token id %d at position %d is not in [0, %lld)", feed.ids[token], token, (long long)idLimit()));
      // Of the rows of a given token the first one's id stands for it; before all of them stands one of zeros.
      if (int64_t row = feed.ids[token] - vocabSize; row >= 0 && rowsOfToken() > 1 && row % rowsOfToken() != 1)
        return invalidInput(
            format("token id %d at position %d is not the first of a given token's", feed.ids[token], token));
      if (feed.positions && (feed.positions[token] < 0 || feed.positions[token] >= context()))
        return invalidInput(format("position id %d at position %d is not in [0, %lld)", feed.positions[token], token,
                                   (long long)context()));
    }
  }
  return Status();
}

int64_t Session::longestPosition(int32_t sequence, int64_t length) const {
  if (!rope.dependsOnLength())
    return length;
  const int32_t *positionIds = positionHistory.data() + sequence * contextLength;
  return 1 + *std::max_element(positionIds, positionIds + length);
}

// Ids of virtual tokens say nothing: their numbers do.
void Session::beginWithVirtual(int32_t sequence) {
  for (int64_t token = 0; token < ownTokens(sequence); ++token) {
    idHistory.data()[sequence * contextLength + token] = 0;
    positionHistory.data()[sequence * contextLength + token] = int32_t(token);
  }
}

// Writes the feeds behind the histories and states the runs. A sequence whose keys were rotated for another length class, or that
// lost keys of its window, is computed again from its start, one whose computing was broken off from there; only its new tokens
// have outputs.
Status Session::begin(const Feed *feeds, size_t numFeeds) {
  numRuns = 0;
  outputsDone = 0;
  for (size_t i = 0; i < numFeeds; ++i) {
    const Feed &feed = feeds[i];
    bool opens = !lengths[feed.sequence] || lengths[feed.sequence] < prompts[feed.sequence];
    if (!lengths[feed.sequence]) {
      adapters[feed.sequence] = feed.adapter ? std::max(feed.adapter, 0) : ownAdapter;
      beginWithVirtual(feed.sequence);
    }
    int64_t own = ownTokens(feed.sequence), past = std::max(lengths[feed.sequence], own), end = past + feed.count,
            cached = cache.length(feed.sequence);
    int32_t *idRow = idHistory.data() + feed.sequence * contextLength;
    int32_t *positionRow = positionHistory.data() + feed.sequence * contextLength;
    memcpy(idRow + past, feed.ids, feed.count * sizeof(int32_t));
    if (opens)
      prompts[feed.sequence] = seesAhead(idRow + own, idRow + end) ? end : 0;
    if (const package::GivenRows *given = model.metadata().given())
      std::transform(feed.ids, feed.ids + feed.count, tokenHistory.data() + feed.sequence * contextLength + past,
                     [&](int32_t id) { return id < vocabSize ? id : given->token(); });
    // Without ids, positions continue from the last one: left padding and explicit ids shift a whole sequence.
    for (int64_t token = past; token < end; ++token)
      if (feed.positions)
        positionRow[token] = feed.positions[token - past] + int32_t(own);
      else
        HEDDLE_RETURN_IF_ERROR(nextPosition(idRow[token], token ? positionRow[token - 1] : -1, positionRow[token]));
    RopeTables::Mode mode = rope.modeOf(longestPosition(feed.sequence, end));
    if (cached > 0 && (mode.isLong != modes[feed.sequence].isLong || !cache.holdsWindow(feed.sequence)))
      cache.setLength(feed.sequence, cached = 0);
    modes[feed.sequence] = mode;
    runs[numRuns++] = {i, feed.sequence, cached, cached, end, past, mode, feed.rows, feed.choice};
    outputOfFeed[i] = -1;
  }
  return Status();
}

// Whether tokens that a sequence begins with see each other.
bool Session::seesAhead(const int32_t *begin, const int32_t *end) const {
  const package::GivenRows *given = model.metadata().given();
  return given && given->prompt_sees_ahead() && std::any_of(begin, end, [&](int32_t id) { return id >= vocabSize; });
}

// All rows of an image begin with the position behind what stands before it; what follows goes on behind the larger of its sides.
Status Session::nextPosition(int32_t id, int32_t last, int32_t &outPosition) {
  auto limit = int32_t(contextLength - 1);
  const RopeTables::Place *before = last < 0 ? nullptr : rope.placeOf(last);
  int32_t next = std::min(before ? before->next : last + 1, limit);
  outPosition = next;
  if (id < vocabSize || gridPlaces.empty())
    return Status();
  auto token = size_t((id - vocabSize) / rowsOfToken()); // where others stand behind, one stands before
  if (token >= gridPlaces.size())
    return Status();
  const GridPlace &place = gridPlaces[token];
  bool isFirst = place.row == 0 && place.column == 0;
  int32_t first = before && !isFirst ? before->first : next;
  outPosition = rope.numberOf({first, {first, first + place.row, first + place.column}, first + place.span});
  return outPosition >= 0
             ? Status()
             : Status(StatusCode::ContextFull, "images have been shown at too many positions: expected a new session");
}

Status Session::checkProcess() const {
  return pool->isOfThisProcess() ? Status()
                                 : invalidInput("the session was made before fork(), whose child has none of its "
                                                "threads: expected one made here");
}

Status Session::run(const Feed *feeds, size_t numFeeds, const RowSink *sink) {
  answeredFeeds = 0;
  numChosen = 0;
  areLogitsKept = false;
  HEDDLE_RETURN_IF_ERROR(checkProcess());
  HEDDLE_RETURN_IF_ERROR(checkFeeds(feeds, numFeeds, sink));
  HEDDLE_RETURN_IF_ERROR(begin(feeds, numFeeds));
  if (Status status = runChunks(sink); !status.isOk()) {
    rollBack();
    return status;
  }
  for (size_t i = 0; i < numRuns; ++i)
    lengths[runs[i].sequence] = runs[i].end;
  answeredFeeds = sink ? 0 : numFeeds;
  return Status();
}

} // namespace heddle
