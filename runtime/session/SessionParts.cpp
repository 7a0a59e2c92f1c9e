// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What calls parts where they are, and refuses in a line where they are not.
#include "runtime/session/SessionParts.h"

#include "runtime/session/GivenRows.h"

namespace heddle {

Status openDevice(std::string_view target, const std::string &selector, std::unique_ptr<Device> &outDevice) {
  if (!heddle_session_parts.devices)
    return Status::failure("this program was linked without devices, and its target is '" + std::string(target) + "'");
  return heddle_session_parts.devices->open(target, selector, outDevice);
}

Status Encoder::create(Package &package, int32_t threads, ThreadPool *pool, std::unique_ptr<Encoder> &outEncoder,
                       PagedKvCache *sources) {
  return heddle_session_parts.encoder
             ? heddle_session_parts.encoder->create(package, threads, pool, outEncoder, sources)
             : invalidInput(package.path() + ": no encoder");
}

Status GivenRows::create(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows) {
  return heddle_session_parts.given && package.metadata().given()
             ? heddle_session_parts.given->create(package, session, outRows)
             : invalidInput(package.path() + ": the model is given no rows: it takes ids of its vocabulary");
}

} // namespace heddle
