// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regular expressions of pre-tokenizers, with limits: a pattern that backtracks without end is an error, not a hang.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_REGEX_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_REGEX_H

#include <memory>
#include <string>
#include <string_view>

namespace heddle {

class Regex {
public:
  virtual ~Regex() = default;

  // Finds matches in a subject from left to right. One per thread; `subject` is well-formed UTF-8.
  class Matcher {
  public:
    virtual ~Matcher() = default;
    // The first match at or after `from`: true with [begin, end), or false, with `error` set if a limit was hit.
    virtual bool find(std::string_view subject, size_t from, size_t &begin, size_t &end, std::string &error) = 0;
  };
  virtual std::unique_ptr<Matcher> matcher() const = 0;
};

// What compiles patterns, a part of the runtime: PCRE2.
struct RegexEngine {
  // Null, with the reason in `error`, if the pattern is malformed, too long (64 KiB), or uses what tokenizers have no
  // business with: recursion, subroutine calls, conditions, verbs, class intersections.
  std::unique_ptr<Regex> (*compile)(std::string_view pattern, std::string &error);
};

} // namespace heddle

#endif
