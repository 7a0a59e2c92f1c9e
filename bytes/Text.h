// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text for messages: what a file or a caller says is shown so that a line stays one line.
#ifndef HEDDLE_BYTES_TEXT_H
#define HEDDLE_BYTES_TEXT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// printf into a string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

// `text` as it may stand in a message: control bytes and bytes outside ASCII as \xNN, at most `limit` bytes of it.
std::string printable(std::string_view text, size_t limit = 160);

// The most bytes of UTF-8 `text` that are whole characters and at most `limit`.
size_t wholeCharacters(const std::string &text, size_t limit);

// Two lower-case digits per byte.
std::string hexadecimal(const uint8_t *bytes, size_t count);

// "(2, 3)", as messages spell a shape.
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace heddle

#endif
