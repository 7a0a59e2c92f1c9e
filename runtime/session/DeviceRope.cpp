// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceRope.h"

#include <algorithm>

namespace heddle {

// Elements of a table: tables begin at multiples of 64 bytes.
static int64_t tableSize(int64_t context, int64_t width) {
  return (context * width + 15) / 16 * 16;
}

Status DeviceRope::create(Device &newDevice, const RopeTables &newRope, int64_t newContext) {
  device = &newDevice;
  rope = &newRope;
  context = newContext;
  int64_t floats = 0;
  for (size_t table = 0; table < rope->numTables(); ++table)
    floats += tableSize(context, rope->rotaryDim(table));
  HEDDLE_RETURN_IF_ERROR(memory.allocate(*device, floats * sizeof(float), "rotary tables"));
  float *next = memory.as<float>();
  for (size_t table = 0; table < rope->numTables(); ++table) {
    tables.push_back(next);
    next += tableSize(context, rope->rotaryDim(table));
  }
  return Status();
}

// The rows between the lowest and the highest position: what lies between them is as the host's table has it.
Status DeviceRope::begin(heddle_step &step) {
  auto [first, last] = std::minmax_element(step.positions, step.positions + step.rows);
  int64_t begin = *first, end = std::min<int64_t>(*last + 1, context);
  for (size_t table = 0; table < tables.size() && begin < end; ++table) {
    int64_t width = rope->rotaryDim(table);
    HEDDLE_RETURN_IF_ERROR(device->upload(reinterpret_cast<uint8_t *>(tables[table] + begin * width),
                                          rope->tables()[table] + begin * width,
                                          (end - begin) * width * sizeof(float)));
  }
  step.rope_tables = tables.data();
  return Status();
}

} // namespace heddle
