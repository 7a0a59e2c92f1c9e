// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceStep.h"

#include "runtime/session/PageTable.h"

#include <cstring>

namespace heddle {
namespace {

constexpr int64_t alignment = 16; // of the arrays of a step's inputs, in elements: 64 bytes

int64_t aligned(int64_t count) {
  return (count + alignment - 1) / alignment * alignment;
}

} // namespace

Status DeviceStep::create(Device &newDevice, const Sizes &newSizes, const RopeTables &newRope) {
  device = &newDevice;
  sizes = newSizes;
  HEDDLE_RETURN_IF_ERROR(arena.allocate(*device, sizes.arenaBytes, "activations"));
  HEDDLE_RETURN_IF_ERROR(logits.allocate(*device, sizes.maxRows * sizes.vocabSize * sizeof(float), "logits"));
  HEDDLE_RETURN_IF_ERROR(hidden.allocate(*device, sizes.maxRows * sizes.hiddenSize * sizeof(float), "hidden states"));
  int64_t pages = PageTable::pagesOf(sizes.context) + PageTable::pagesOf(sizes.sourceContext);
  HEDDLE_RETURN_IF_ERROR(staged.reserve(5 * aligned(sizes.maxRows) + 2 * aligned(2 * sizes.maxSequences) +
                                            aligned(pages * sizes.maxSequences),
                                        "inputs"));
  HEDDLE_RETURN_IF_ERROR(inputs.allocate(*device, staged.size() * sizeof(int32_t), "inputs"));
  return rope.create(*device, newRope, sizes.context);
}

Status DeviceStep::uploadInputs(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources) {
  int64_t used = 0;
  // Appends `count` values; the array's address takes the place of the host's.
  auto add = [&](const int32_t *&values, int64_t count) {
    memcpy(staged.data() + used, values, count * sizeof(int32_t));
    values = inputs.as<int32_t>() + used;
    used += aligned(count);
  };
  add(step.ids, step.rows);
  add(step.positions, step.rows);
  add(step.row_sequence, step.rows);
  add(step.cache_positions, step.rows);
  add(step.output_rows, step.num_outputs);
  step.sequence_rows = inputs.as<int32_t>() + used;
  for (int64_t i = 0; i < step.num_sequences; ++i) {
    staged[used + 2 * i] = step.sequences[i].first_row;
    staged[used + 2 * i + 1] = step.sequences[i].num_rows;
  }
  used += aligned(2 * step.num_sequences);
  if (sizes.sourceContext) {
    step.source_lengths = inputs.as<int32_t>() + used;
    for (int64_t i = 0; i < step.num_sequences; ++i)
      staged[used++] = step.sources[i].past + step.sources[i].num_rows;
    PageTable table(step.sources, step.num_sequences, sources);
    step.source_page_table = inputs.as<int32_t>() + used;
    step.pages_per_source = table.pagesPerSequence();
    used += table.write(staged.data() + used);
  }
  PageTable table(step.sequences, step.num_sequences, cache);
  step.page_table = inputs.as<int32_t>() + used;
  step.pages_per_sequence = table.pagesPerSequence();
  used += table.write(staged.data() + used);
  return device->upload(inputs.data(), staged.data(), used * sizeof(int32_t));
}

Status DeviceStep::begin(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources) {
  HEDDLE_RETURN_IF_ERROR(rope.begin(step));
  HEDDLE_RETURN_IF_ERROR(uploadInputs(step, cache, sources));
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

Status DeviceStep::end(const heddle_step &step, float *outLogits, float *outHidden) {
  HEDDLE_RETURN_IF_ERROR(launches.finish());
  HEDDLE_RETURN_IF_ERROR(
      device->download(outLogits, logits.data(), step.num_outputs * sizes.vocabSize * sizeof(float)));
  if (!outHidden)
    return Status();
  return device->download(outHidden, hidden.data(), step.rows * sizes.hiddenSize * sizeof(float));
}

} // namespace heddle
