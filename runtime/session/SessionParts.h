// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of this room a program may be linked without (runtime/README.md, "Parts"). The functions of these classes are virtual, and nothing but the
// table names what makes them, so that what the table lacks is not linked.
#ifndef HEDDLE_RUNTIME_SESSION_SESSIONPARTS_H
#define HEDDLE_RUNTIME_SESSION_SESSIONPARTS_H

#include "bytes/Status.h"

#include <memory>
#include <string>
#include <string_view>

namespace heddle {

class Device;
class DeviceEncode;
class DeviceStep;
class Encoder;
class GivenRows;
class Package;
class PagedKvCache;
class Session;
class ThreadPool;

// Devices of every kind, and a model's memory on them. Null where there is no memory for the object.
struct DeviceSupport {
  Status (*open)(std::string_view target, const std::string &selector, std::unique_ptr<Device> &outDevice);
  std::unique_ptr<DeviceStep> (*makeStep)();
  std::unique_ptr<DeviceEncode> (*makeEncode)();
};

struct EncoderSupport {
  Status (*create)(Package &package, int32_t threads, ThreadPool *pool, std::unique_ptr<Encoder> &outEncoder,
                   PagedKvCache *sources);
};

struct GivenSupport {
  Status (*create)(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows);
};

// Device::open(), where the program has devices.
Status openDevice(std::string_view target, const std::string &selector, std::unique_ptr<Device> &outDevice);

} // namespace heddle

// Names of the linker; constants that are initialised as such.
// NOLINTBEGIN(readability-identifier-naming, bugprone-dynamic-static-initializers)
extern "C" {

struct heddle_session_parts_table {
  const heddle::DeviceSupport *devices;  // null: of a program for the CPU
  const heddle::EncoderSupport *encoder; // null: the model has none
  const heddle::GivenSupport *given;     // null: sessions are given no rows
};
extern const heddle_session_parts_table heddle_session_parts;

extern const heddle::DeviceSupport heddle_part_devices;
extern const heddle::EncoderSupport heddle_part_encoder;
extern const heddle::GivenSupport heddle_part_given;

} // extern "C"
// NOLINTEND(readability-identifier-naming, bugprone-dynamic-static-initializers)

#endif
