// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/Mutator.h"

#include <algorithm>

using namespace heddle::fuzz;

static bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// The next number in digits behind `at` becomes one at a limit.
void Mutator::changeNumber(std::string &bytes, size_t at) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "-1",
                                        "64",
                                        "65",
                                        "255",
                                        "4294967295",
                                        "4294967296",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "1e400",
                                        "0.5",
                                        "-0"};
  size_t begin = std::find_if(bytes.begin() + at, bytes.end(), isDigit) - bytes.begin();
  size_t end = std::find_if_not(bytes.begin() + begin, bytes.end(), isDigit) - bytes.begin();
  bytes.replace(begin, end - begin, numbers[below(std::size(numbers))]);
}

void Mutator::change(std::string &bytes) {
  if (bytes.empty())
    bytes = words.front();
  size_t at = below(bytes.size()), length = std::min(1 + below(16), bytes.size() - at);
  switch (below(8)) {
  case 0:
    bytes[at] ^= 1 << below(8);
    break;
  case 1:
    bytes[at] = char(random());
    break;
  case 2:
    bytes.erase(at, length);
    break;
  case 3: {
    std::string copy = bytes.substr(at, length);
    bytes.insert(below(bytes.size()), copy);
    break;
  }
  case 4:
    bytes.insert(at, words[below(words.size())]);
    break;
  case 5: {
    const std::string &word = words[below(words.size())];
    bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
    break;
  }
  case 6:
    changeNumber(bytes, at);
    break;
  case 7: // rarely: little is left to change behind it
    if (below(8) == 0)
      bytes.resize(at);
    else
      std::swap(bytes[at], bytes[below(bytes.size())]);
    break;
  }
}

std::string Mutator::mutate(std::string bytes) {
  for (size_t changes = 1 + below(4); changes > 0; --changes)
    change(bytes);
  return bytes;
}
