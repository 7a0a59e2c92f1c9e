// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceStep.h"

#include <cstring>

namespace heddle {
namespace {

constexpr int64_t alignment = 16; // of the arrays of a step's inputs, in elements: 64 bytes

int64_t aligned(int64_t count) {
  return (count + alignment - 1) / alignment * alignment;
}

} // namespace

Status DeviceStep::create(Device &newDevice, const Sizes &newSizes, RopeTables &newRope) {
  device = &newDevice;
  sizes = newSizes;
  HEDDLE_RETURN_IF_ERROR(arena.allocate(*device, sizes.arenaBytes, "activations"));
  HEDDLE_RETURN_IF_ERROR(logits.allocate(*device, sizes.maxRows * sizes.vocabSize * sizeof(float), "logits"));
  HEDDLE_RETURN_IF_ERROR(largest.allocate(*device, sizes.maxRows * sizeof(int32_t), "logits"));
  HEDDLE_RETURN_IF_ERROR(hidden.allocate(*device, sizes.maxRows * sizes.hiddenSize * sizeof(float), "hidden states"));
  int64_t inputBytes = (5 * aligned(sizes.maxRows) + 3 * aligned(sizes.maxSequences)) * int64_t(sizeof(int32_t));
  HEDDLE_RETURN_IF_ERROR(staged.allocate(*device, inputBytes, "inputs"));
  memset(staged.data(), 0, inputBytes); // what lies between the arrays is uploaded with them
  HEDDLE_RETURN_IF_ERROR(inputs.allocate(*device, inputBytes, "inputs"));
  HEDDLE_RETURN_IF_ERROR(pages.create(*device, sizes.maxSequences * PageTable::pagesOf(sizes.context)));
  if (sizes.sourceContext)
    HEDDLE_RETURN_IF_ERROR(sourcePages.create(*device, sizes.maxSequences * PageTable::pagesOf(sizes.sourceContext)));
  return rope.create(*device, newRope, sizes.context);
}

Status DeviceStep::uploadInputs(heddle_step &step) {
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
  add(step.output_rows, step.num_outputs);
  int32_t *rows = take(step.sequence_rows, 2 * step.num_sequences);
  for (int64_t i = 0; i < step.num_sequences; ++i) {
    rows[2 * i] = step.sequences[i].first_row;
    rows[2 * i + 1] = step.sequences[i].num_rows;
  }
  if (sizes.sourceContext) {
    int32_t *lengths = take(step.source_lengths, step.num_sequences);
    for (int64_t i = 0; i < step.num_sequences; ++i)
      lengths[i] = step.sources[i].past + step.sources[i].num_rows;
  }
  return device->enqueueUpload(inputs.data(), staged.data(), used * sizeof(int32_t));
}

Status DeviceStep::upload(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources) {
  HEDDLE_RETURN_IF_ERROR(rope.begin(step));
  HEDDLE_RETURN_IF_ERROR(uploadInputs(step));
  PageTable table(step.sequences, step.num_sequences, cache);
  step.page_table = pages.address();
  step.pages_per_sequence = table.pagesPerSequence();
  HEDDLE_RETURN_IF_ERROR(pages.upload(table));
  if (!sizes.sourceContext)
    return Status();
  PageTable ofSources(step.sources, step.num_sequences, sources);
  step.source_page_table = sourcePages.address();
  step.pages_per_source = ofSources.pagesPerSequence();
  return sourcePages.upload(ofSources);
}

void DeviceStep::forget() {
  rope.forget();
  pages.forget();
  sourcePages.forget();
}

Status DeviceStep::begin(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources) {
  if (Status status = upload(step, cache, sources); !status.isOk()) {
    forget();
    (void)device->synchronise(); // it may still read what is to be uploaded
    return status;
  }
  step.arena = arena.data();
  step.logits = logits.as<float>();
  step.last_hidden_state = hidden.as<float>();
  launches.begin(*device);
  step.device = &launches;
  step.cache = cache.base();
  step.page_stride = cache.pageStride();
  step.num_pages = cache.numPages();
  if (sizes.sourceContext) {
    step.source_cache = sources.base();
    step.source_page_stride = sources.pageStride();
    step.num_source_pages = sources.numPages();
  }
  return Status();
}

Status DeviceStep::end(const heddle_step &step, const Results &results) {
  if (results.largest && step.num_outputs)
    launches.findLargest(step.logits, step.num_outputs, int32_t(sizes.vocabSize), largest.as<int32_t>());
  auto download = [&](void *to, const DeviceMemory &from, int64_t bytes) {
    return to ? device->enqueueDownload(to, from.data(), bytes) : Status();
  };
  Status downloaded = download(results.logits, logits, step.num_outputs * sizes.vocabSize * sizeof(float));
  if (downloaded.isOk())
    downloaded = download(results.largest, largest, step.num_outputs * sizeof(int32_t));
  if (downloaded.isOk())
    downloaded = download(results.hidden, hidden, step.rows * sizes.hiddenSize * sizeof(float));
  Status finished = launches.finish();
  if (finished.isOk() && downloaded.isOk())
    return Status();
  forget();
  return finished.isOk() ? downloaded : finished;
}

Status DeviceStep::downloadLogits(int64_t numOutputs, float *outLogits) {
  return device->download(outLogits, logits.data(), numOutputs * sizes.vocabSize * sizeof(float));
}

} // namespace heddle
