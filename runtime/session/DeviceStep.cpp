// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceStep.h"

#include <algorithm>
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
  rope = &newRope;
  HEDDLE_RETURN_IF_ERROR(arena.allocate(*device, sizes.arenaBytes, "activations"));
  HEDDLE_RETURN_IF_ERROR(logits.allocate(*device, sizes.maxRows * sizes.vocabSize * sizeof(float), "logits"));
  HEDDLE_RETURN_IF_ERROR(hidden.allocate(*device, sizes.maxRows * sizes.hiddenSize * sizeof(float), "hidden states"));
  int64_t pages = (sizes.context + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  HEDDLE_RETURN_IF_ERROR(staged.reserve(
      5 * aligned(sizes.maxRows) + aligned(2 * sizes.maxSequences) + pages * sizes.maxSequences, "inputs"));
  HEDDLE_RETURN_IF_ERROR(inputs.allocate(*device, staged.size() * sizeof(int32_t), "inputs"));
  int64_t floats = 0;
  for (size_t table = 0; table < rope->numTables(); ++table)
    floats += aligned(sizes.context * rope->rotaryDim(table));
  HEDDLE_RETURN_IF_ERROR(ropeMemory.allocate(*device, floats * sizeof(float), "rotary tables"));
  float *next = ropeMemory.as<float>();
  for (size_t table = 0; table < rope->numTables(); ++table) {
    ropeTables.push_back(next);
    next += aligned(sizes.context * rope->rotaryDim(table));
  }
  return Status();
}

Status DeviceStep::uploadInputs(heddle_step &step, const PagedKvCache &cache) {
  int64_t used = 0, pages = 0;
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
    const heddle_sequence &sequence = step.sequences[i];
    staged[used + 2 * i] = sequence.first_row;
    staged[used + 2 * i + 1] = sequence.num_rows;
    pages =
        std::max<int64_t>(pages, (sequence.past + sequence.num_rows + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE);
  }
  used += aligned(2 * step.num_sequences);
  step.page_table = inputs.as<int32_t>() + used;
  for (int64_t i = 0; i < step.num_sequences; ++i)
    for (int64_t page = 0; page < pages; ++page) {
      const uint8_t *address = step.sequences[i].pages[page];
      staged[used++] = address ? cache.indexOf(address) : 0;
    }
  step.pages_per_sequence = pages;
  return device->upload(inputs.data(), staged.data(), used * sizeof(int32_t));
}

// The rows between the lowest and the highest position: what lies between them is as the host's table has it.
Status DeviceStep::uploadRope(heddle_step &step) {
  auto [first, last] = std::minmax_element(step.positions, step.positions + step.rows);
  int64_t begin = *first, end = std::min<int64_t>(*last + 1, sizes.context);
  for (size_t table = 0; table < ropeTables.size() && begin < end; ++table) {
    int64_t width = rope->rotaryDim(table);
    HEDDLE_RETURN_IF_ERROR(device->upload(reinterpret_cast<uint8_t *>(ropeTables[table] + begin * width),
                                          rope->tables()[table] + begin * width,
                                          (end - begin) * width * sizeof(float)));
  }
  step.rope_tables = ropeTables.data();
  return Status();
}

Status DeviceStep::begin(heddle_step &step, const PagedKvCache &cache) {
  HEDDLE_RETURN_IF_ERROR(uploadRope(step));
  HEDDLE_RETURN_IF_ERROR(uploadInputs(step, cache));
  step.arena = arena.data();
  step.logits = logits.as<float>();
  step.last_hidden_state = hidden.as<float>();
  launches.begin(*device);
  step.device = &launches;
  step.cache = cache.base();
  step.page_stride = cache.pageStride();
  step.num_pages = cache.numPages();
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
