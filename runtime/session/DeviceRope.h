// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotary tables on a device, which get the rows that a step reads.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICEROPE_H
#define HEDDLE_RUNTIME_SESSION_DEVICEROPE_H

#include "runtime/device/Device.h"
#include "runtime/session/RopeTables.h"

#include <vector>

namespace heddle {

class DeviceRope {
public:
  // `context`: positions that the tables have.
  Status create(Device &device, const RopeTables &rope, int64_t context);
  // Uploads what the step's positions, which are the host's, read, and puts the device's tables in place of the host's.
  Status begin(heddle_step &step);

private:
  Device *device = nullptr;
  const RopeTables *rope = nullptr;
  int64_t context = 0;
  DeviceMemory memory;
  std::vector<float *> tables; // (num_tables): addresses of (context, rotary_dim)
};

} // namespace heddle

#endif
