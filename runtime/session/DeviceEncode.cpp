// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceEncode.h"

#include "runtime/session/PageTable.h"

#include <cstring>

namespace heddle {
namespace {

constexpr int64_t numArrays = 7;

// Of the arrays of an encode's inputs, in elements: they begin at multiples of 64 bytes.
int64_t aligned(int64_t count) {
  return (count + 15) / 16 * 16;
}

// Of sequences that have so many rows together: most numbers where half of them are sequences of one row and one has the others.
int64_t largestPageTable(int64_t rows) {
  int64_t half = rows / 2 + HEDDLE_KV_PAGE_SIZE;
  return aligned(half * PageTable::pagesOf(half));
}

} // namespace

Status DeviceEncode::create(Device &newDevice, const Sizes &newSizes, RopeTables &newRope) {
  device = &newDevice;
  sizes = newSizes;
  HEDDLE_RETURN_IF_ERROR(arena.allocate(*device, sizes.arenaBytes, "activations"));
  int64_t inputBytes = (numArrays * aligned(sizes.maxRows) + aligned(2 * sizes.maxRows) +
                        (sizes.hasSources ? largestPageTable(sizes.maxRows) : 0)) *
                       int64_t(sizeof(int32_t));
  HEDDLE_RETURN_IF_ERROR(staged.allocate(*device, inputBytes, "inputs"));
  memset(staged.data(), 0, inputBytes); // what lies between the arrays is uploaded with them
  HEDDLE_RETURN_IF_ERROR(inputs.allocate(*device, inputBytes, "inputs"));
  HEDDLE_RETURN_IF_ERROR(patches.allocate(*device, sizes.maxRows * sizes.patchWidth * sizeof(float), "patches"));
  for (int64_t width : sizes.outputWidths) {
    results.emplace_back(new (std::nothrow) DeviceMemory);
    if (!results.back())
      return outOfMemory();
    HEDDLE_RETURN_IF_ERROR(results.back()->allocate(*device, sizes.maxRows * width * sizeof(float), "outputs"));
    resultRows.push_back(results.back()->as<float>());
  }
  return rope.create(*device, newRope);
}

Status DeviceEncode::upload(heddle_step &step, const PagedKvCache *sources) {
  HEDDLE_RETURN_IF_ERROR(rope.begin(step));
  int64_t used = 0;
  // The next `count` values; the array's address on the device.
  auto add = [&](int64_t count, auto valueOf) {
    for (int64_t i = 0; i < count; ++i)
      staged.as<int32_t>()[used + i] = valueOf(i);
    const int32_t *address = inputs.as<int32_t>() + used;
    used += aligned(count);
    return address;
  };
  auto copy = [&](const int32_t *&values, int64_t count) {
    if (values)
      values = add(count, [from = values](int64_t i) { return from[i]; });
  };
  copy(step.ids, step.rows);
  copy(step.positions, step.rows);
  copy(step.token_types, step.rows);
  copy(step.globals, step.rows);
  copy(step.output_rows, step.num_outputs);
  copy(step.sequence_rows, 2 * step.num_sequences);
  const heddle_sequence *sequences = step.sequences;
  int64_t sequence = 0;
  auto sequenceOf = [&](int64_t row) {
    while (row >= sequences[sequence].first_row + sequences[sequence].num_rows)
      ++sequence;
    return int32_t(sequence);
  };
  step.row_sequence = add(step.rows, sequenceOf);
  sequence = 0;
  step.cache_positions =
      add(step.rows, [&](int64_t row) { return int32_t(row) - sequences[sequenceOf(row)].first_row; });
  if (sources) {
    PageTable table(sequences, step.num_sequences, *sources);
    step.source_page_table = inputs.as<int32_t>() + used;
    step.pages_per_source = table.pagesPerSequence();
    int64_t pages = table.pagesPerSequence();
    add(table.size(), [&](int64_t i) { return table.numberOf(i / pages, i % pages); });
    step.source_cache = sources->base();
    step.source_page_stride = sources->pageStride();
    step.num_source_pages = sources->numPages();
  }
  HEDDLE_RETURN_IF_ERROR(device->enqueueUpload(inputs.data(), staged.data(), used * sizeof(int32_t)));
  if (!sizes.patchWidth)
    return Status();
  return device->enqueueUpload(patches.data(), step.patches, step.rows * sizes.patchWidth * sizeof(float));
}

Status DeviceEncode::begin(heddle_step &step, const PagedKvCache *sources) {
  if (Status status = upload(step, sources); !status.isOk()) {
    rope.forget();
    (void)device->synchronise(); // it may still read what is to be uploaded
    return status;
  }
  step.patches = patches.as<float>();
  step.arena = arena.data();
  step.outputs = resultRows.data();
  launches.begin(*device);
  step.device = &launches;
  return Status();
}

Status DeviceEncode::end(const std::vector<int64_t> &counts, const std::vector<float *> &outputs) {
  Status downloaded;
  for (size_t i = 0; i < outputs.size() && downloaded.isOk(); ++i)
    downloaded =
        device->enqueueDownload(outputs[i], results[i]->data(), counts[i] * sizes.outputWidths[i] * sizeof(float));
  Status finished = launches.finish();
  if (finished.isOk() && downloaded.isOk())
    return Status();
  rope.forget();
  return finished.isOk() ? downloaded : finished;
}

} // namespace heddle
