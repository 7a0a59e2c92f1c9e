// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a call ended, and the one line that says why. The readers of model files and the runtime share it; the C ABI maps its codes to
// heddle_status. Success carries no string and allocates nothing. A message is one line: file, field or byte offset, value, what was
// expected.
#ifndef HEDDLE_BYTES_STATUS_H
#define HEDDLE_BYTES_STATUS_H

#include "bytes/Text.h"

#include <string>
#include <string_view>
#include <utility>

namespace heddle {

enum class StatusCode : uint8_t {
  Ok,
  Failure,      // ours or the machine's
  InvalidInput, // the user's
  OutOfMemory,
  Cancelled,   // by the caller
  ContextFull, // a sequence longer than the context, or a cache without a free page
  NotFinite,   // NaN or infinite results of the model
  DamagedFile  // a compiled file whose hashes, sizes or offsets are wrong
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : statusCode(code), text(std::move(message)) {}

  // Ours or the machine's fault. (Not a function of the namespace: mlir::failure is called without arguments beside it.)
  static Status failure(std::string message) { return Status(StatusCode::Failure, std::move(message)); }

  bool isOk() const { return statusCode == StatusCode::Ok; }
  StatusCode code() const { return statusCode; }
  const std::string &message() const { return text; }
  // What a program exits with: 2 where the user's input is at fault, 1 where we or the machine are.
  bool isUsersFault() const { return statusCode == StatusCode::InvalidInput || statusCode == StatusCode::ContextFull; }
  int exitCode() const { return isOk() ? 0 : isUsersFault() ? 2 : 1; }

private:
  StatusCode statusCode = StatusCode::Ok;
  std::string text;
};

inline Status invalidInput(std::string message) {
  return Status(StatusCode::InvalidInput, std::move(message));
}
inline Status outOfMemory(std::string message) {
  return Status(StatusCode::OutOfMemory, std::move(message));
}
// What is said where there may be no memory for a message: this one is short enough to need none.
inline Status outOfMemory() {
  return outOfMemory("out of memory");
}
inline Status damagedFile(std::string message) {
  return Status(StatusCode::DamagedFile, std::move(message));
}

// "FILE: WHAT": the input is at fault, in a file.
Status errorIn(std::string_view file, const std::string &what);

} // namespace heddle

// Returns from the caller with the status of the expression unless that is success.
#define HEDDLE_RETURN_IF_ERROR(...)                                                                                    \
  do {                                                                                                                 \
    if (::heddle::Status status_ = (__VA_ARGS__); !status_.isOk())                                                     \
      return status_;                                                                                                  \
  } while (false)

#endif
