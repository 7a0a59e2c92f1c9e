// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a call of the runtime ended, and the one line that says why. Success carries no string and allocates nothing.
#ifndef HEDDLE_BYTES_STATUS_H
#define HEDDLE_BYTES_STATUS_H

#include "runtime/include/heddle/heddle.h"

#include <string>

namespace heddle {

// printf into a string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

// The most bytes of UTF-8 `text` that are whole characters and at most `limit`.
size_t wholeCharacters(const std::string &text, size_t limit);

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(heddle_status code, std::string message) : statusCode(code), text(std::move(message)) {}

  bool isOk() const { return statusCode == HEDDLE_OK; }
  heddle_status code() const { return statusCode; }
  const std::string &message() const { return text; }
  // What a program exits with: 2 where the user's input is at fault, 1 where we or the machine are.
  int exitCode() const { return isOk() ? 0 : statusCode == HEDDLE_INVALID_INPUT ? 2 : 1; }

private:
  heddle_status statusCode = HEDDLE_OK;
  std::string text;
};

inline Status invalidInput(std::string message) {
  return Status(HEDDLE_INVALID_INPUT, std::move(message));
}
inline Status failure(std::string message) {
  return Status(HEDDLE_FAILURE, std::move(message));
}
inline Status outOfMemory(std::string message) {
  return Status(HEDDLE_OUT_OF_MEMORY, std::move(message));
}

} // namespace heddle

#define HEDDLE_RETURN_IF_ERROR(expression)                                                                             \
  do {                                                                                                                 \
    if (::heddle::Status status_ = (expression); !status_.isOk())                                                      \
      return status_;                                                                                                  \
  } while (false)

#endif
