// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceStep.h"

#include "runtime/session/DeviceEncode.h"
#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace heddle {
namespace {

constexpr int64_t alignment = 16; // of the arrays of a step's inputs, in elements: 64 bytes
constexpr int64_t choiceSize = sizeof(heddle_token_choice) / sizeof(int32_t);
constexpr int64_t lockedBytes = int64_t(32) << 20; // for the rows of results, where one row takes no more

int64_t aligned(int64_t count) {
  return (count + alignment - 1) / alignment * alignment;
}

// Sequences of a row each that fill `pages` pages.
void setEqual(const ReservedArray<heddle_sequence> &sequences, int64_t count, int64_t pages) {
  for (int64_t i = 0; i < count; ++i)
    sequences[i] = {int32_t(i), 1, int32_t(pages * HEDDLE_KV_PAGE_SIZE - 1), 0, nullptr};
}

} // namespace

Status DeviceStep::create(Device &newDevice, const Sizes &newSizes, RopeTables &newRope) {
  device = &newDevice;
  sizes = newSizes;
  graphs.begin(*device);
  HEDDLE_RETURN_IF_ERROR(arena.allocate(*device, sizes.arenaBytes, "activations"));
  HEDDLE_RETURN_IF_ERROR(logits.allocate(*device, sizes.maxOutputs * sizes.vocabSize * sizeof(float), "logits"));
  HEDDLE_RETURN_IF_ERROR(chosen.allocate(*device, sizes.maxOutputs * sizeof(int32_t), "logits"));
  HEDDLE_RETURN_IF_ERROR(hidden.allocate(*device, sizes.maxRows * sizes.hiddenSize * sizeof(float), "hidden states"));
  int64_t inputNumbers = (sizes.hasAdapters ? 6 : 5) * aligned(sizes.maxRows) + 4 * aligned(sizes.maxSequences) +
                         aligned(choiceSize * sizes.maxOutputs);
  int64_t inputBytes = inputNumbers * int64_t(sizeof(int32_t));
  HEDDLE_RETURN_IF_ERROR(staged.allocate(*device, inputBytes, "inputs"));
  memset(staged.data(), 0, inputBytes); // what lies between the arrays is uploaded with them
  HEDDLE_RETURN_IF_ERROR(inputs.allocate(*device, inputBytes, "inputs"));
  // Not constant: zeros that nothing writes need no room in the file.
  static uint32_t noCounts[HEDDLE_DEVICE_COUNTERS];
  HEDDLE_RETURN_IF_ERROR(counters.allocate(*device, sizeof noCounts, "counters"));
  HEDDLE_RETURN_IF_ERROR(device->upload(counters.data(), noCounts, sizeof noCounts));
  int64_t rowBytes = (sizes.vocabSize + sizes.hiddenSize) * int64_t(sizeof(float));
  lockedRows = std::clamp<int64_t>(lockedBytes / rowBytes, 1, std::min(sizes.maxOutputs, sizes.maxSequences));
  HEDDLE_RETURN_IF_ERROR(lockedLogits.allocate(*device, lockedRows * sizes.vocabSize * sizeof(float), "logits"));
  HEDDLE_RETURN_IF_ERROR(lockedChosen.allocate(*device, sizes.maxOutputs * sizeof(int32_t), "logits"));
  HEDDLE_RETURN_IF_ERROR(
      lockedHidden.allocate(*device, lockedRows * sizes.hiddenSize * sizeof(float), "hidden states"));
  for (ReservedArray<heddle_sequence> *equal : {&equalSequences, &equalSources})
    HEDDLE_RETURN_IF_ERROR(equal->reserve(sizes.maxSequences, "sequences"));
  HEDDLE_RETURN_IF_ERROR(pages.create(*device, sizes.maxSequences * PageTable::pagesOf(sizes.context)));
  if (sizes.sourceContext)
    HEDDLE_RETURN_IF_ERROR(sourcePages.create(*device, sizes.maxSequences * PageTable::pagesOf(sizes.sourceContext)));
  // Kernels read a row in any case, whatever the id says.
  std::vector<float> noRow(size_t(sizes.isGivenRows ? sizes.hiddenSize : 0));
  if (sizes.isGivenRows)
    HEDDLE_RETURN_IF_ERROR(give(noRow.data(), 0, 1));
  return rope.create(*device, newRope);
}

Status DeviceStep::give(const float *rows, int64_t numBefore, int64_t count) {
  uint64_t rowBytes = uint64_t(sizes.hiddenSize) * sizeof(float), before = uint64_t(numBefore) * rowBytes;
  if (numBefore + count > givenRoom) {
    std::unique_ptr<DeviceMemory> more(new (std::nothrow) DeviceMemory);
    if (!more)
      return outOfMemory();
    // Twice as many, so that rows of many images are copied a few times; where there is no room for these, what is needed.
    int64_t least = numBefore + count, room = std::max(least, 2 * givenRoom);
    if (room > least && !more->allocate(*device, uint64_t(room) * rowBytes, "given rows").isOk())
      room = least;
    if (room == least)
      HEDDLE_RETURN_IF_ERROR(more->allocate(*device, uint64_t(room) * rowBytes, "given rows"));
    if (numBefore)
      HEDDLE_RETURN_IF_ERROR(device->copy(more->data(), given->data(), before));
    HEDDLE_RETURN_IF_ERROR(device->upload(more->data() + before, rows, uint64_t(count) * rowBytes));
    given = std::move(more); // only now: what is copied from was needed until the upload's wait
    givenRoom = room;
    return Status();
  }
  return device->upload(given->data() + before, rows, uint64_t(count) * rowBytes);
}

void DeviceStep::stageInputs(heddle_step &step, const Results &results) {
  int64_t used = 0;
  // Takes the next `count` numbers; `values` becomes the address that they will have.
  auto take = [&](const int32_t *&values, int64_t count) {
    int32_t *to = staged.as<int32_t>() + used;
    values = inputs.as<int32_t>() + used;
    used += aligned(count);
    return to;
  };
  auto add = [&](const int32_t *&values, int64_t count) {
    const int32_t *from = values;
    memcpy(take(values, count), from, count * sizeof(int32_t));
  };
  add(step.ids, step.rows);
  add(step.positions, step.rows);
  add(step.row_sequence, step.rows);
  add(step.cache_positions, step.rows);
  if (sizes.hasAdapters)
    add(step.token_types, step.rows);
  add(step.output_rows, step.num_outputs);
  int32_t *rows = take(step.sequence_rows, 2 * step.num_sequences);
  for (int64_t i = 0; i < step.num_sequences; ++i) {
    rows[2 * i] = step.sequences[i].first_row;
    rows[2 * i + 1] = step.sequences[i].num_rows;
  }
  if (sizes.isGivenRows) {
    int32_t *ahead = take(step.sees_ahead, step.num_sequences);
    for (int64_t i = 0; i < step.num_sequences; ++i)
      ahead[i] = step.sequences[i].sees_ahead;
  }
  if (sizes.sourceContext) {
    int32_t *lengths = take(step.source_lengths, step.num_sequences);
    for (int64_t i = 0; i < step.num_sequences; ++i)
      lengths[i] = step.sources[i].past + step.sources[i].num_rows;
  }
  choices = nullptr;
  if (results.choices) {
    const int32_t *address = nullptr;
    memcpy(take(address, choiceSize * step.num_outputs), results.choices, step.num_outputs * sizeof *results.choices);
    choices = reinterpret_cast<const heddle_token_choice *>(address);
  }
  stagedBytes = used * sizeof(int32_t);
}

Status DeviceStep::upload(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources,
                          const Results &results, bool isWide) {
  HEDDLE_RETURN_IF_ERROR(rope.begin(step));
  stageInputs(step, results);
  PageTable table(step.sequences, step.num_sequences, cache);
  if (isWide)
    table.widen(PageTable::pagesOf(sizes.context));
  step.page_table = pages.address();
  step.pages_per_sequence = table.pagesPerSequence();
  HEDDLE_RETURN_IF_ERROR(pages.upload(table));
  if (!sizes.sourceContext)
    return Status();
  PageTable ofSources(step.sources, step.num_sequences, sources);
  if (isWide)
    ofSources.widen(PageTable::pagesOf(sizes.sourceContext));
  step.source_page_table = sourcePages.address();
  step.pages_per_source = ofSources.pagesPerSequence();
  return sourcePages.upload(ofSources);
}

void DeviceStep::forget() {
  rope.forget();
  pages.forget();
  sourcePages.forget();
}

void DeviceStep::placeBuffers(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources) {
  step.arena = arena.data();
  step.logits = logits.as<float>();
  step.last_hidden_state = hidden.as<float>();
  step.device = &launches;
  step.counters = counters.as<uint32_t>();
  step.patches = given ? given->as<float>() : nullptr;
  step.cache = cache.base();
  step.page_stride = cache.pageStride();
  step.num_pages = cache.numPages();
  if (sizes.sourceContext) {
    step.source_cache = sources.base();
    step.source_page_stride = sources.pageStride();
    step.num_source_pages = sources.numPages();
  }
}

std::array<DeviceStep::Download, DeviceStep::numResults> DeviceStep::downloads(const heddle_step &step,
                                                                               const Results &results) const {
  uint64_t logitBytes = sizes.vocabSize * sizeof(float), hiddenBytes = sizes.hiddenSize * sizeof(float);
  return {
      {{results.logits, logits, lockedLogits, step.num_outputs * logitBytes, lockedRows * logitBytes},
       {results.chosen, chosen, lockedChosen, step.num_outputs * sizeof(int32_t), sizes.maxOutputs * sizeof(int32_t)},
       {results.hidden, hidden, lockedHidden, step.rows * hiddenBytes, lockedRows * hiddenBytes}}};
}

bool DeviceStep::mayBeGraph(const heddle_step &step, const Results &results) const {
  if (!graphs.refusal().isOk() || step.rows != step.num_sequences || step.kernel_profile)
    return false;
  auto all = downloads(step, results);
  return std::all_of(all.begin(), all.end(), [](const Download &one) { return !one.to || one.isLocked(); });
}

Status DeviceStep::run(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources,
                       const Results &results, const Code &code) {
  bool isOfGraphs = mayBeGraph(step, results);
  Status status = upload(step, cache, sources, results, isOfGraphs);
  if (status.isOk()) {
    placeBuffers(step, cache, sources);
    // All that code reads of the host is now the same in steps whose heddle_step is.
    if (isOfGraphs) {
      setEqual(equalSequences, step.num_sequences, step.pages_per_sequence);
      setEqual(equalSources, step.num_sequences, step.pages_per_source);
      step.sequences = equalSequences.data();
      step.sources = step.sources ? equalSources.data() : nullptr;
    }
    status = launch(step, results, code, isOfGraphs);
  }
  if (!status.isOk()) {
    forget();
    (void)device->synchronise(); // it may still read what is to be uploaded
  }
  return status;
}

// What is enqueued on the launches of a step, in a graph as well.
Status DeviceStep::enqueue(const heddle_step &step, const Results &results, const Code &code) {
  launches.begin(*device);
  HEDDLE_RETURN_IF_ERROR(device->enqueueUpload(inputs.data(), staged.data(), stagedBytes));
  code.run(code.user, step);
  if (results.chosen && step.num_outputs)
    launches.chooseTokens(step.logits, choices, step.num_outputs, int32_t(sizes.vocabSize), chosen.as<int32_t>());
  for (const Download &one : downloads(step, results))
    if (one.to)
      HEDDLE_RETURN_IF_ERROR(
          device->enqueueDownload(one.isLocked() ? one.locked.data() : one.to, one.from.data(), one.bytes));
  return launches.failure();
}

// Where that fails, the step is launched kernel by kernel, and says what is wrong with it.
void DeviceStep::record(StepGraphs::Kind &kind, const heddle_step &step, const Results &results, const Code &code) {
  Status status = device->beginRecording();
  if (status.isOk()) {
    status = enqueue(step, results, code);
    Status ended = device->endRecording(kind.graph);
    if (status.isOk())
      status = ended;
  }
  if (status.isOk())
    return;
  device->releaseGraph(kind.graph);
  graphs.giveUp(std::move(status));
}

Status DeviceStep::launch(const heddle_step &step, const Results &results, const Code &code, bool isOfGraphs) {
  uint32_t which = (results.logits ? 1 : 0) | (results.chosen ? 2 : 0) | (results.hidden ? 4 : 0) | (choices ? 8 : 0);
  StepGraphs::Kind *kind = isOfGraphs ? graphs.find(step, which) : nullptr;
  if (kind && !kind->graph.handle)
    record(*kind, step, results, code);
  bool isGraph = kind && kind->graph.handle;
  HEDDLE_RETURN_IF_ERROR(isGraph ? device->enqueueGraph(kind->graph) : enqueue(step, results, code));
  HEDDLE_RETURN_IF_ERROR(device->synchronise());
  for (const Download &one : downloads(step, results))
    if (one.to && one.isLocked())
      memcpy(one.to, one.locked.data(), one.bytes);
  return Status();
}

Status DeviceStep::downloadLogits(int64_t numOutputs, float *outLogits) {
  return device->download(outLogits, logits.data(), numOutputs * sizes.vocabSize * sizeof(float));
}

} // namespace heddle

const heddle::DeviceSupport heddle_part_devices = {
    heddle::Device::open,
    []() -> std::unique_ptr<heddle::DeviceStep> {
      return std::unique_ptr<heddle::DeviceStep>(new (std::nothrow) heddle::DeviceStep);
    },
    []() -> std::unique_ptr<heddle::DeviceEncode> {
      return std::unique_ptr<heddle::DeviceEncode>(new (std::nothrow) heddle::DeviceEncode);
    }};
