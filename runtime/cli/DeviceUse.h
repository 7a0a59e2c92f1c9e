// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --bench on a device: what a phase asked the device for.
#ifndef HEDDLE_RUNTIME_CLI_DEVICEUSE_H
#define HEDDLE_RUNTIME_CLI_DEVICEUSE_H

#include "runtime/device/Device.h"

#include <string>

namespace heddle {

class DeviceUse {
public:
  // What is counted between the two is of the phase; a phase has several such times.
  void add(const DeviceCounts &before, const DeviceCounts &after);
  // Of one of `parts`, as a step of decode.
  std::string asJson(double parts) const;
  std::string asText(double parts) const;

private:
  DeviceCounts sum;
};

} // namespace heddle

#endif
