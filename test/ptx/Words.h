// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX text cut into words.
#ifndef HEDDLE_TEST_PTX_WORDS_H
#define HEDDLE_TEST_PTX_WORDS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::ptx {

// Without blanks at both ends.
std::string_view trim(std::string_view text);
// Of which names, numbers and registers are.
bool isWord(char c);
// The decimal number that the text begins with, behind blanks; 0 where there is none.
uint32_t leadingNumber(std::string_view text);
// Comments become blanks; lines stay.
std::string withoutComments(std::string_view text);
// At the commas outside of brackets.
std::vector<std::string_view> splitOperands(std::string_view text);
// At its points: `ld`, `global`, `b32`.
std::vector<std::string> splitName(std::string_view name);
bool contains(const std::vector<std::string> &parts, std::string_view name);
} // namespace heddle::ptx

#endif
