// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The full engine for patterns of pre-tokenizers.
#include "runtime/text/tokenizer/TextParts.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "bytes/Text.h"

#include <new>

namespace heddle {
namespace {

constexpr size_t maxPattern = 64 << 10;
constexpr uint32_t matchLimit = 20000000, depthLimit = 100000, heapLimitKib = 64 << 10, nestLimit = 64;

// PCRE2's memory comes from where all other does, so that the runtime has one answer to its lack.
pcre2_general_context *createContext() {
  return pcre2_general_context_create([](size_t size, void *) { return ::operator new(size); },
                                      [](void *memory, void *) { ::operator delete(memory); }, nullptr);
}

// What the pattern uses that is not supported, or null. Escapes are skipped in pairs.
const char *unsupportedConstruct(std::string_view pattern) {
  bool inClass = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    std::string_view rest = pattern.substr(i);
    if (rest[0] == '\\') {
      if (rest.substr(0, 3) == "\\g<" || rest.substr(0, 3) == "\\g'")
        return "a subroutine call (\\g<…>)";
      ++i;
    } else if (inClass) {
      if (rest.substr(0, 2) == "&&")
        return "a class intersection (&&)";
      inClass = rest[0] != ']';
    } else if (rest[0] == '[') {
      inClass = true;
      // A bracket right after the opening one (or its negation) is a member.
      if (rest.substr(1, 1) == "]" || rest.substr(1, 2) == "^]")
        i += rest[1] == ']' ? 1 : 2;
    } else if (rest.substr(0, 2) == "(*") {
      return "a verb ((*…))";
    } else if (rest.substr(0, 3) == "(?R" || rest.substr(0, 3) == "(?0") {
      return "recursion ((?R))";
    } else if (rest.substr(0, 3) == "(?&" || rest.substr(0, 4) == "(?P>") {
      return "a subroutine call";
    } else if (rest.substr(0, 3) == "(?(") {
      return "a condition";
    } else if (rest.substr(0, 3) == "(?C") {
      return "a callout";
    } else if (rest.substr(0, 2) == "(?" && rest.size() > 3) {
      size_t digit = rest[2] == '+' || rest[2] == '-' ? 3 : 2;
      if (rest[digit] >= '0' && rest[digit] <= '9')
        return "recursion into a group";
    }
  }
  return nullptr;
}

// `pattern` with \w and \s as Oniguruma and Unicode's regular expressions (UTS 18, annex C) read them, which is not PCRE2's: marks are word
// characters, numbers that are no decimal digits are not, and U+180E is no white space. Only Oniguruma has six numbers of Latin-1 in a \w outside
// of brackets. A negated one within brackets stays PCRE2's.
std::string withUnicodeClasses(std::string_view pattern) {
  static constexpr const char *word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})", *latinNumbers = R"(\xB2\xB3\xB9\xBC-\xBE)",
                              *space = R"(\t-\r\x85\p{Z})";
  std::string out;
  bool inClass = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char escaped = pattern[++i];
      bool isWord = escaped == 'w' || escaped == 'W', isSpace = escaped == 's' || escaped == 'S';
      bool isNegated = escaped == 'W' || escaped == 'S';
      if ((!isWord && !isSpace) || (inClass && isNegated))
        out.append(1, c).append(1, escaped);
      else if (inClass)
        out += isWord ? word : space;
      else
        out.append(isNegated ? "[^" : "[").append(isWord ? word : space).append(isWord ? latinNumbers : "").append("]");
      continue;
    }
    inClass = inClass ? c != ']' : c == '[';
    out += c;
  }
  return out;
}

class PcreRegex : public Regex {
public:
  explicit PcreRegex(pcre2_code *code) : code(code) {}
  PcreRegex(const PcreRegex &) = delete;
  PcreRegex &operator=(const PcreRegex &) = delete;
  ~PcreRegex() override { pcre2_code_free(code); }
  std::unique_ptr<Regex::Matcher> matcher() const override;

private:
  pcre2_code *code;
};

class PcreMatcher : public Regex::Matcher {
public:
  explicit PcreMatcher(const pcre2_code *code);
  PcreMatcher(const PcreMatcher &) = delete;
  PcreMatcher &operator=(const PcreMatcher &) = delete;
  ~PcreMatcher() override;
  bool find(std::string_view subject, size_t from, size_t &begin, size_t &end, std::string &error) override;

private:
  const pcre2_code *code;
  pcre2_match_data *data;
  pcre2_match_context *context;
};

std::unique_ptr<Regex::Matcher> PcreRegex::matcher() const {
  return std::unique_ptr<Regex::Matcher>(new PcreMatcher(code));
}

std::unique_ptr<Regex> compile(std::string_view pattern, std::string &error) {
  if (pattern.size() > maxPattern) {
    error = "regex pattern of " + std::to_string(pattern.size()) + " bytes exceeds the limit of " +
            std::to_string(maxPattern);
    return nullptr;
  }
  if (const char *construct = unsupportedConstruct(pattern)) {
    error = "regex pattern uses " + std::string(construct) + ", which is not supported: " + printable(pattern, 200);
    return nullptr;
  }
  const std::string unicode = withUnicodeClasses(pattern);
  pcre2_general_context *general = createContext();
  pcre2_compile_context *context = pcre2_compile_context_create(general);
  pcre2_set_parens_nest_limit(context, nestLimit);
  int code = 0;
  PCRE2_SIZE offset = 0;
  // Lines: ^ and $ match at them in the reference implementation of tokenizer.json.
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
  pcre2_code *compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(unicode.data()), unicode.size(), options, &code, &offset, context);
  pcre2_compile_context_free(context);
  pcre2_general_context_free(general);
  if (!compiled) {
    char text[160] = "";
    pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR *>(text), sizeof text);
    error = "regex pattern is not valid (" + std::string(text) + "): " + printable(pattern, 200);
    return nullptr;
  }
  return std::unique_ptr<Regex>(new PcreRegex(compiled));
}

PcreMatcher::PcreMatcher(const pcre2_code *code) : code(code) {
  pcre2_general_context *general = createContext();
  data = pcre2_match_data_create(1, general);
  context = pcre2_match_context_create(general);
  pcre2_general_context_free(general);
  pcre2_set_match_limit(context, matchLimit);
  pcre2_set_depth_limit(context, depthLimit);
  pcre2_set_heap_limit(context, heapLimitKib);
}

PcreMatcher::~PcreMatcher() {
  pcre2_match_data_free(data);
  pcre2_match_context_free(context);
}

bool PcreMatcher::find(std::string_view subject, size_t from, size_t &begin, size_t &end, std::string &error) {
  int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), from, PCRE2_NO_UTF_CHECK,
                           data, context);
  if (result >= 0) {
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data);
    begin = range[0];
    end = range[1];
    return true;
  }
  if (result != PCRE2_ERROR_NOMATCH) {
    char text[160] = "";
    pcre2_get_error_message(result, reinterpret_cast<PCRE2_UCHAR *>(text), sizeof text);
    error = "the regex pattern gave up after byte " + std::to_string(from) + " of a text of " +
            std::to_string(subject.size()) + " bytes: " + text;
  }
  return false;
}

} // namespace
} // namespace heddle

const heddle::RegexEngine heddle_part_regex = {heddle::compile};
