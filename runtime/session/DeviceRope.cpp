// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/DeviceRope.h"

#include <algorithm>
#include <cstring>

namespace heddle {

constexpr int64_t rowsAhead = 64;

// Elements of a table: tables begin at multiples of 64 bytes.
static int64_t tableSize(int64_t rows, int64_t width) {
  return (rows * width + 15) / 16 * 16;
}

Status DeviceRope::create(Device &newDevice, RopeTables &newRope) {
  device = &newDevice;
  rope = &newRope;
  numRows = rope->numRows();
  int64_t floats = 0;
  for (size_t table = 0; table < rope->numTables(); ++table)
    floats += tableSize(numRows, rope->rotaryDim(table));
  HEDDLE_RETURN_IF_ERROR(memory.allocate(*device, floats * sizeof(float), "rotary tables"));
  float *next = memory.as<float>();
  for (size_t table = 0; table < rope->numTables(); ++table) {
    tables.push_back(next);
    next += tableSize(numRows, rope->rotaryDim(table));
  }
  return isThere.reserve(numRows, "rotary tables");
}

void DeviceRope::forget() {
  memset(isThere.data(), 0, isThere.size());
}

Status DeviceRope::begin(heddle_step &step) {
  step.rope_tables = tables.data();
  if (tables.empty())
    return Status();
  if (!(rope->mode() == mode))
    forget();
  mode = rope->mode();
  int64_t begin = 0, end = 0; // rows to upload: those of a prompt go together
  for (int64_t row = 0; row < step.rows; ++row) {
    int64_t position = step.positions[row];
    if (position >= numRows || isThere[position])
      continue;
    if (position != end) {
      HEDDLE_RETURN_IF_ERROR(upload(begin, end));
      begin = position;
    }
    // To the end of the block. Frequencies that change with the length leave nothing for the next tokens.
    int64_t wanted =
        mode.dynamicLength ? position + 1 : std::min(rope->endBehind(position), (position / rowsAhead + 1) * rowsAhead);
    for (end = position; end < wanted && !isThere[end]; ++end)
      isThere[end] = 1;
  }
  return upload(begin, end);
}

Status DeviceRope::upload(int64_t begin, int64_t end) {
  rope->prepareRange(mode, begin, end);
  for (size_t table = 0; table < tables.size() && begin < end; ++table) {
    int64_t width = rope->rotaryDim(table);
    HEDDLE_RETURN_IF_ERROR(device->enqueueUpload(reinterpret_cast<uint8_t *>(tables[table] + begin * width),
                                                 rope->tables()[table] + begin * width,
                                                 (end - begin) * width * sizeof(float)));
  }
  return Status();
}

} // namespace heddle
