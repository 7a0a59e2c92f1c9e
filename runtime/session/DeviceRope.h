// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotary tables on a device. A row is uploaded when a step first reads it, with those of the next tokens, and stays
// there as long as steps have the same frequencies.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICEROPE_H
#define HEDDLE_RUNTIME_SESSION_DEVICEROPE_H

#include "runtime/device/Device.h"
#include "runtime/session/RopeTables.h"

#include <vector>

namespace heddle {

class DeviceRope {
public:
  Status create(Device &device, RopeTables &rope);
  // Enqueues the upload of what the step's positions, which are the host's, read and what the device lacks, and puts
  // the device's tables in place of the host's, which were prepared for the step.
  Status begin(heddle_step &step);
  // What was uploaded may not have arrived.
  void forget();

private:
  Status upload(int64_t begin, int64_t end);

  Device *device = nullptr;
  RopeTables *rope = nullptr;
  int64_t numRows = 0;   // of a table
  RopeTables::Mode mode; // of the rows that are there
  DeviceMemory memory;
  std::vector<float *> tables;    // (num_tables): addresses of (numRows, rotary_dim)
  ReservedArray<uint8_t> isThere; // (numRows)
};

} // namespace heddle

#endif
