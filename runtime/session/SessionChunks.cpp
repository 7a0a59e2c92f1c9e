// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the tokens of a call become steps: as many at a time as have room, each on all threads or on the device, and what is handed on of it.
#include "runtime/session/Session.h"

#include "runtime/session/HostChoice.h"
#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <cstring>

namespace heddle {

Status Session::runChunks(const RowSink *sink) {
  int64_t total = 0, done = 0;
  for (size_t i = 0; i < numRuns; ++i)
    total += runs[i].end - runs[i].next;
  while (done < total) {
    if (isCancelled.exchange(false))
      return Status(StatusCode::Cancelled, "cancelled");
    if (sink)
      outputsDone = 0; // it has seen them
    Chunk chunk;
    HEDDLE_RETURN_IF_ERROR(fillChunk(chunk));
    for (size_t i = 0; i < numRuns; ++i)
      if (runs[i].next > runs[i].computed)
        cache.beginStep(runs[i].sequence);
    // The device keeps the logits of its last step alone.
    chunk.isChoiceEnough &= device && !sink && done + chunk.rows == total;
    chunk.isChoiceEnough &= chunk.takesLargest || (device && device->chooser().takesChoices);
    HEDDLE_RETURN_IF_ERROR(compute(chunk));
    for (size_t i = 0; i < numRuns; ++i)
      runs[i].computed = runs[i].next;
    deliver(chunk, sink);
    done += chunk.rows;
    if (progress.report && !progress.report(progress.user, done, total))
      return Status(StatusCode::Cancelled, "interrupted");
  }
  return Status();
}

// The cache keeps what it holds of the tokens from before the call.
void Session::rollBack() {
  for (size_t i = 0; i < numRuns; ++i)
    cache.setLength(runs[i].sequence, std::min(lengths[runs[i].sequence], runs[i].computed));
}

int64_t Session::Run::upToOutputs(int64_t count, int64_t outputs) const {
  for (int64_t token = next; token < next + count; ++token)
    if (gives(token) && outputs-- == 0)
      return token - next;
  return count;
}

// Pages behind a window are free again between chunks: where so many tokens find no room, fewer may.
Status Session::makeRoom(int32_t sequence, int64_t &count) {
  Status status = cache.makeRoom(sequence, count);
  while (status.code() == StatusCode::ContextFull && count > HEDDLE_KV_PAGE_SIZE)
    status = cache.makeRoom(sequence, count /= 2);
  return status;
}

int64_t Session::upToWhole(const Run &run, int64_t count, int64_t rows, bool &outSeesAhead) const {
  const package::GivenRows *given = model.metadata().given();
  const int32_t *idRow = idHistory.data() + run.sequence * contextLength;
  int64_t prompt = prompts[run.sequence], end = run.next;
  outSeesAhead = prompt ? run.next < prompt : given && given->sees_ahead() && idRow[run.next] >= vocabSize;
  if (prompt || !given || !given->sees_ahead())
    end = outSeesAhead ? prompt : run.end;
  else
    while (end < run.end && (idRow[end] >= vocabSize) == outSeesAhead)
      ++end;
  int64_t whole = end - run.next;
  return !outSeesAhead ? std::min(whole, count) : rows && whole > count ? 0 : whole;
}

// Takes rows from the runs in order, as long as they share a rotary mode. Their outputs stand in logitRows behind those that are kept.
Status Session::fillChunk(Chunk &chunk) {
  const RopeTables::Mode *mode = nullptr;
  int32_t offset = model.metadata().position_offset();
  for (size_t i = 0; i < numRuns && chunk.rows < maxRows && chunk.outputs < maxOutputs; ++i) {
    Run &run = runs[i];
    if (run.next == run.end || (mode && !(*mode == run.mode)))
      continue;
    int64_t count =
        run.upToOutputs(std::min<int64_t>(run.end - run.next, maxRows - chunk.rows), maxOutputs - chunk.outputs);
    bool seesAhead = false;
    count = upToWhole(run, count, chunk.rows, seesAhead);
    if (count == 0)
      continue;
    mode = &run.mode;
    int64_t wanted = count;
    if (count > maxRows - chunk.rows)
      return Status(StatusCode::Unsupported, format("%lld rows see each other, a step takes at most %lld",
                                                    (long long)count, (long long)maxRows));
    HEDDLE_RETURN_IF_ERROR(makeRoom(run.sequence, count));
    if (seesAhead && count < wanted)
      return Status(StatusCode::ContextFull,
                    format("%lld rows that see each other find no room in the cache at once", (long long)wanted));
    sequences[chunk.sequences] = {chunk.rows, int32_t(count), int32_t(run.next), seesAhead, cache.pages(run.sequence)};
    // The pair past + num_rows is the length of what they attend to.
    if (encoder)
      sources[chunk.sequences] = {chunk.rows, int32_t(count), int32_t(sourceCache.length(run.sequence) - count), 0,
                                  sourceCache.pages(run.sequence)};
    const int32_t *idRow = idHistory.data() + run.sequence * contextLength,
                  *positionRow = positionHistory.data() + run.sequence * contextLength;
    int64_t own = ownTokens(run.sequence);
    int32_t firstNumber = own ? firstVirtualNumber(adapters[run.sequence]) : 0;
    for (int64_t token = run.next; token < run.next + count; ++token, ++chunk.rows) {
      ids[chunk.rows] = idRow[token];
      positions[chunk.rows] = positionRow[token];
      rowSequence[chunk.rows] = chunk.sequences;
      rowAdapters[chunk.rows] = token < own ? firstNumber + int32_t(token) : adapters[run.sequence];
      cachePositions[chunk.rows] = int32_t(token);
      if (run.gives(token)) {
        outputRows[chunk.outputs] = chunk.rows;
        outputFeed[chunk.outputs] = int32_t(run.feed);
        outputToken[chunk.outputs] = int32_t(token - run.wanted);
        outputOfFeed[run.feed] = outputsDone + chunk.outputs;
        choices[chunk.outputs] = run.choice;
        chunk.isChoiceEnough &= run.rows == FeedRows::Chosen;
        chunk.takesLargest &= run.choice.inverse_temperature == 0;
        ++chunk.outputs;
      }
    }
    ++chunk.sequences;
    run.next += count;
    cache.setLength(run.sequence, run.next);
  }
  rope.prepare(*mode, positions.data(), chunk.rows);
  for (int32_t row = 0; offset && row < chunk.rows; ++row)
    positions[row] += offset;
  return Status();
}

void Session::waitForKernel(void *session, int32_t) {
  auto &self = *static_cast<Session *>(session);
  if (self.profileStatus.isOk())
    self.profileStatus = self.device->synchronise();
  if (self.profileStatus.isOk() && self.observer.observe)
    self.observer.observe(self.observer.user, *self.observed, ++self.kernelsSeen);
}

// On return, hidden states are where `step` names them, and logits, or the tokens chosen by them are known.
Status Session::runStep(heddle_step &step, const Chunk &chunk) {
  if (!device) {
    runStepOn(*pool, model.code().step, step, observer);
    return Status();
  }
  DeviceStep::Results results;
  if (chunk.isChoiceEnough)
    results.chosen = chosen.data();
  else
    results.logits = step.logits;
  if (chunk.isChoiceEnough && !chunk.takesLargest)
    results.choices = choices.data();
  if (keepHidden)
    results.hidden = step.last_hidden_state;
  step.barrier_wait = step.kernel_profile ? waitForKernel : [](void *, int32_t) {};
  step.barrier = this;
  auto runCode = [](void *session, const heddle_step &onDevice) {
    auto &self = *static_cast<Session *>(session);
    self.observed = &onDevice;
    self.kernelsSeen = 0;
    if (self.observer.observe)
      self.observer.observe(self.observer.user, onDevice, 0);
    runStepOn(*self.pool, self.model.code().step, onDevice);
  };
  bool hadGraphs = deviceStep->graphRefusal().isOk();
  Status ended = deviceStep->run(step, cache, sourceCache, results, {runCode, this});
  if (hadGraphs && !deviceStep->graphRefusal().isOk())
    model.say(Log::Info, "device: a step of decode cannot be recorded, and is launched kernel by kernel: " +
                             deviceStep->graphRefusal().message());
  Status profiled;
  std::swap(profiled, profileStatus);
  return profiled.isOk() ? ended : profiled;
}

Status Session::compute(const Chunk &chunk) {
  heddle_step step = {};
  step.weights = model.weights();
  step.arena = arena.data();
  step.scratch = scratch.data();
  step.scratch_stride = scratchStride(*model.metadata().memory());
  step.rope_tables = rope.tables();
  step.ids = ids.data();
  step.positions = positions.data();
  step.row_sequence = rowSequence.data();
  step.cache_positions = cachePositions.data();
  step.sequences = sequences.data();
  step.token_types = rowAdapters.data();
  step.patches = givenRows ? givenRows->data() : nullptr;
  step.sources = encoder ? sources.data() : nullptr;
  step.output_rows = outputRows.data();
  step.logits = logitRows.as<float>() + outputsDone * vocabSize;
  step.last_hidden_state = hiddenRows.as<float>();
  step.rows = chunk.rows;
  step.num_sequences = chunk.sequences;
  step.num_outputs = chunk.outputs;
  step.max_rows = maxRows;
  step.fixed_forms = fixedForms;
  step.kernel_profile = profile.beginStep();
  HEDDLE_RETURN_IF_ERROR(runStep(step, chunk));
  profile.endStep(sequences.data(), chunk.sequences, StepProfile::Sees::UpToItself, step.sources);
  ++stepsDone;
  if (chunk.isChoiceEnough) {
    firstChosen = outputsDone;
    numChosen = chunk.outputs;
    areLogitsKept = true;
  }
  return checkFinite(chunk);
}

Status Session::checkFinite(const Chunk &chunk) {
  for (int32_t output = 0; output < chunk.outputs; ++output) {
    const float *logits = logitRows.as<float>() + (outputsDone + output) * vocabSize;
    if (chunk.isChoiceEnough ? chosen[output] < 0 : !allFinite(logits, vocabSize))
      return Status(StatusCode::NotFinite,
                    format("step %lld: the logits after token %d at position %d are not finite", (long long)stepsDone,
                           ids[outputRows[output]], cachePositions[outputRows[output]]));
  }
  return Status();
}

void Session::deliver(const Chunk &chunk, const RowSink *sink) {
  for (int32_t output = 0; output < chunk.outputs; ++output) {
    const float *hidden = keepHidden ? hiddenRows.as<float>() + outputRows[output] * hiddenSize : nullptr;
    if (sink)
      (*sink)(outputFeed[output], outputToken[output], logitRows.as<float>() + output * vocabSize, hidden);
    else if (hidden)
      memcpy(lastHidden.data() + outputFeed[output] * hiddenSize, hidden, hiddenSize * sizeof(float));
  }
  outputsDone += chunk.outputs;
}

} // namespace heddle
