// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a call ended, and the one line that says why. The readers of model files and the runtime share it; the C ABI maps its codes to
// heddle_status. Success carries no string and allocates nothing. A message is one line: file, field or byte offset, value, what was
// expected. Where the fault lies in the input is also kept apart from the words, for programs that read diagnostics.
#ifndef HEDDLE_BYTES_STATUS_H
#define HEDDLE_BYTES_STATUS_H

#include "bytes/Text.h"

#include <memory>
#include <optional>
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
  DamagedFile, // a compiled file whose hashes, sizes or offsets are wrong
  Unsupported, // the user's input may be right, but it asks for what we do not do
  Unreadable   // a file that the user names is not there, or cannot be opened
};

// What is known of where in the input a fault lies; empty where it is not.
struct InputPlace {
  std::string file;               // its path
  std::optional<uint64_t> offset; // in bytes of the file
  unsigned line = 0, column = 0;  // of a text, from 1; 0: not known
  std::string tensor;             // its name in the file
  std::string op;                 // a node of a graph, or a part of a layer
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : statusCode(code), text(std::move(message)) {}

  Status(const Status &other);
  Status(Status &&) = default;
  Status &operator=(const Status &other);
  Status &operator=(Status &&) = default;

  // Ours or the machine's fault. (Not a function of the namespace: mlir::failure is called without arguments beside it.)
  static Status failure(std::string message) { return Status(StatusCode::Failure, std::move(message)); }

  bool isOk() const { return statusCode == StatusCode::Ok; }
  StatusCode code() const { return statusCode; }
  const std::string &message() const { return text; }
  // What a program exits with: 2 where the user's input is at fault, 1 where we or the machine are.
  bool isUsersFault() const {
    return statusCode == StatusCode::InvalidInput || statusCode == StatusCode::ContextFull ||
           statusCode == StatusCode::Unsupported || statusCode == StatusCode::Unreadable;
  }
  int exitCode() const { return isOk() ? 0 : isUsersFault() ? 2 : 1; }

  // Null where nothing is known.
  const InputPlace *place() const { return where.get(); }
  // The same failure with more known of its place. What is known already, from who stood nearer to the fault, stays; success stays success.
  Status inFile(std::string_view file) &&;
  Status atByte(uint64_t offset) &&;
  Status ofTensor(std::string_view name) &&;
  Status ofOp(std::string_view name) &&;
  Status at(InputPlace place) &&;
  // The same failure in other words, or of another kind.
  Status saying(std::string message) &&;
  Status as(StatusCode code) &&;

private:
  // Not inline: a status is destroyed wherever a function that gives one is called.
  struct Delete {
    void operator()(InputPlace *place) const;
  };
  InputPlace &knownPlace();

  StatusCode statusCode = StatusCode::Ok;
  std::string text;
  std::unique_ptr<InputPlace, Delete> where;
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
// "FILE: byte N: WHAT"
Status errorAt(std::string_view file, uint64_t offset, const std::string &what);

} // namespace heddle

// Returns from the caller with the status of the expression unless that is success.
#define HEDDLE_RETURN_IF_ERROR(...)                                                                                    \
  do {                                                                                                                 \
    if (::heddle::Status status_ = (__VA_ARGS__); !status_.isOk())                                                     \
      return status_;                                                                                                  \
  } while (false)

#endif
