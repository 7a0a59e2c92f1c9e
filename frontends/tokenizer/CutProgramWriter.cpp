// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a pattern as PCRE2 does, as far as programs go, and asks the engine itself which characters each class has: what \p{L} is, or an s whatever
// its case, is said in one place.
#include "frontends/tokenizer/CutProgramWriter.h"

#include "bytes/Utf8.h"
#include "runtime/text/tokenizer/CutProgram.h"
#include "runtime/text/tokenizer/TextParts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

namespace heddle {
namespace {

constexpr size_t mostInstructions = 4096;
constexpr unsigned mostNested = 32;

using Ranges = std::vector<CharacterRange>;

// Characters that the engine is asked about, in order: a stretch of them that it matches stands for all between its ends. Of planes that Unicode has
// nothing in, or leaves to its users, a few stand for all, unless a pattern names characters there by their numbers.
std::string charactersToAsk(bool isEach) {
  std::string text;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    bool isSurrogate = c >= 0xD800 && c <= 0xDFFF, isEmptyPlane = c >= 0x40000 && (c < 0xE0000 || c >= 0xF0000);
    if (!isSurrogate && (isEach || !isEmptyPlane || (c + 3) % 0x10000 < 4))
      appendUtf8(c, text);
  }
  return text;
}

// Instructions whose targets count from the first of them.
struct Fragment {
  std::vector<CutInstruction> code;
  bool mayBeEmpty = true; // it may match no character

  void append(const Fragment &other) {
    auto base = uint32_t(code.size());
    for (CutInstruction instruction : other.code) {
      if (instruction.op >= CutOp::Either && instruction.op <= CutOp::Ahead)
        instruction.a += base;
      code.push_back(instruction);
    }
    mayBeEmpty &= other.mayBeEmpty;
  }
};

struct Count {
  uint32_t least = 1, most = 1;
  bool givesBack = true;
};

class Writer {
public:
  explicit Writer(std::string_view pattern) : pattern(pattern) {}

  std::vector<uint32_t> write() {
    constexpr size_t mostBytes = 1024; // of a pattern: what its copies and classes cost is bounded by that
    if (pattern.size() > mostBytes)
      return {};
    Fragment all = alternatives();
    if (!isSupported || at != pattern.size())
      return {};
    all.code.push_back({CutOp::Accept, 0, 0, 0});
    keepWhatNothingTakes(all.code);
    if (all.code.size() > mostInstructions)
      return {};
    uint32_t numRanges = 0;
    for (const Ranges &ranges : classes)
      numRanges += uint32_t(ranges.size());
    std::vector<uint32_t> words = {uint32_t(all.code.size()), uint32_t(classes.size()), numRanges};
    for (const CutInstruction &instruction : all.code)
      words.insert(words.end(), {uint32_t(instruction.op), instruction.a, instruction.b, instruction.c});
    uint32_t end = 0;
    for (const Ranges &ranges : classes)
      words.push_back(end += uint32_t(ranges.size()));
    for (const Ranges &ranges : classes)
      for (const CharacterRange &range : ranges)
        words.insert(words.end(), {range.first, range.last});
    return words;
  }

private:
  // Characters that are given back are no use to a class that has none of them: \s+x would try each of them again for each space that it begins at.
  void keepWhatNothingTakes(std::vector<CutInstruction> &code) const {
    for (size_t pc = 0; pc + 1 < code.size(); ++pc) {
      const CutInstruction &next = code[pc + 1];
      bool takesOne = next.op == CutOp::Take || ((next.op == CutOp::Repeat || next.op == CutOp::Possess) && next.b > 0);
      if (code[pc].op == CutOp::Repeat && takesOne && areDisjoint(classes[code[pc].a], classes[next.a]))
        code[pc].op = CutOp::Possess;
    }
  }

  // Both in order.
  static bool areDisjoint(const Ranges &a, const Ranges &b) {
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      if (a[i].first <= b[j].last && b[j].first <= a[i].last)
        return false;
      a[i].last < b[j].last ? ++i : ++j;
    }
    return true;
  }

  Fragment refuse() {
    isSupported = false;
    return {};
  }
  bool startsWith(std::string_view text) const { return pattern.substr(at, text.size()) == text; }
  bool eat(std::string_view text) {
    bool found = startsWith(text);
    at += found ? text.size() : 0;
    return found;
  }

  Fragment alternatives() {
    std::vector<Fragment> all;
    do
      all.push_back(sequence());
    while (isSupported && eat("|"));
    Fragment result;
    result.mayBeEmpty = false;
    std::vector<size_t> jumps;
    for (size_t i = 0; i < all.size(); ++i) {
      size_t either = result.code.size();
      bool isLast = i + 1 == all.size();
      if (!isLast)
        result.code.push_back({CutOp::Either, 0, 0, 0});
      bool mayBeEmpty = result.mayBeEmpty || all[i].mayBeEmpty;
      result.append(all[i]);
      result.mayBeEmpty = mayBeEmpty;
      if (isLast)
        break;
      jumps.push_back(result.code.size());
      result.code.push_back({CutOp::Jump, 0, 0, 0});
      result.code[either].a = uint32_t(result.code.size());
    }
    for (size_t jump : jumps)
      result.code[jump].a = uint32_t(result.code.size());
    return result;
  }

  Fragment sequence() {
    Fragment result;
    while (isSupported && at < pattern.size() && pattern[at] != '|' && pattern[at] != ')')
      result.append(piece());
    return result;
  }

  Fragment piece() {
    if (pattern[at] == '(')
      return group();
    std::string_view source = character();
    if (!isSupported)
      return {};
    uint32_t index = classOf(source);
    Count count = counted();
    if (!isSupported)
      return {};
    Fragment result;
    result.mayBeEmpty = count.least == 0;
    if (count.least == 1 && count.most == 1)
      result.code.push_back({CutOp::Take, index, 0, 0});
    else
      result.code.push_back({count.givesBack ? CutOp::Repeat : CutOp::Possess, index, count.least, count.most});
    return result;
  }

  Fragment group() {
    bool wasCaseless = caseless, isAhead = false, isNegative = false;
    if (eat("(?i:"))
      caseless = true;
    else if (eat("(?="))
      isAhead = true;
    else if (eat("(?!"))
      isAhead = isNegative = true;
    else if (!eat("(?:") && (startsWith("(?") || startsWith("(*") || !eat("(")))
      return refuse();
    if (++nested > mostNested)
      return refuse();
    Fragment body = alternatives();
    --nested;
    caseless = wasCaseless;
    if (!isSupported || !eat(")"))
      return refuse();
    if (isAhead) {
      Fragment result;
      result.code.push_back({CutOp::Ahead, uint32_t(body.code.size()) + 2, isNegative, 0});
      // Its targets count from the instruction behind Ahead.
      Fragment inner;
      inner.append(body);
      inner.code.push_back({CutOp::Accept, 0, 0, 0});
      result.append(inner);
      result.mayBeEmpty = true;
      return isQuantifier() ? refuse() : result;
    }
    return repeated(body, counted());
  }

  // A loop over what may be empty would not end.
  Fragment repeated(const Fragment &body, const Count &count) {
    if (!isSupported || (count.least == 1 && count.most == 1))
      return body;
    bool isLoop = count.most == CutProgram::unlimited;
    size_t copies = isLoop ? count.least + 1 : count.most;
    if (!count.givesBack || (isLoop && body.mayBeEmpty) || copies * (body.code.size() + 2) > mostInstructions)
      return refuse();
    Fragment result;
    for (uint32_t i = 0; i < count.least; ++i)
      result.append(body);
    auto size = uint32_t(body.code.size());
    if (isLoop) {
      Fragment loop;
      loop.code.push_back({CutOp::Either, size + 2, 0, 0});
      loop.append(body);
      loop.code.push_back({CutOp::Jump, 0, 0, 0});
      loop.mayBeEmpty = true;
      result.append(loop);
    }
    // Each further copy only where the one before it matches: all of them fail to the end.
    for (uint32_t left = isLoop ? 0 : count.most - count.least; left; --left) {
      Fragment optional;
      optional.code.push_back({CutOp::Either, left * (size + 1), 0, 0});
      optional.append(body);
      optional.mayBeEmpty = true;
      result.append(optional);
    }
    result.mayBeEmpty = count.least == 0 || body.mayBeEmpty;
    return result;
  }

  static bool isOneOf(char c, std::string_view set) { return set.find(c) != set.npos; }
  bool isQuantifier() const { return at < pattern.size() && isOneOf(pattern[at], "?*+{"); }

  // Behind an atom: how often it stands.
  Count counted() {
    Count count;
    if (!isQuantifier())
      return count;
    if (eat("?"))
      count = {0, 1, true};
    else if (eat("*"))
      count = {0, CutProgram::unlimited, true};
    else if (eat("+"))
      count = {1, CutProgram::unlimited, true};
    else if (!bounds(count))
      isSupported = false;
    if (eat("+"))
      count.givesBack = false;
    if (isQuantifier()) // a lazy one among them
      isSupported = false;
    return count;
  }

  // {2}, {2,}, {2,4}
  bool bounds(Count &count) {
    ++at;
    if (!number(count.least))
      return false;
    count.most = count.least;
    if (eat(",") && !startsWith("}") && !number(count.most))
      return false;
    if (pattern[at - 1] == ',')
      count.most = CutProgram::unlimited;
    return eat("}") && count.most >= count.least && count.most > 0;
  }

  bool number(uint32_t &value) {
    size_t begin = at;
    for (value = 0; at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9' && value < 1000; ++at)
      value = 10 * value + uint32_t(pattern[at] - '0');
    return at > begin && value < 1000;
  }

  // The source of an atom of one character.
  std::string_view character() {
    size_t begin = at;
    char c = pattern[at];
    if (c == '[')
      bracket();
    else if (c == '\\')
      escape();
    else if (isOneOf(c, "^$?*+{}]"))
      isSupported = false;
    else
      nextCharacter(pattern, at);
    return pattern.substr(begin, at - begin);
  }

  void bracket() {
    ++at;
    eat("^");
    bool isFirst = true;
    for (; isSupported && at < pattern.size() && (isFirst || pattern[at] != ']'); isFirst = false) {
      if (startsWith("[:") || startsWith("[.") || startsWith("[="))
        isSupported = false;
      else if (pattern[at] == '\\')
        escape();
      else
        nextCharacter(pattern, at);
    }
    isSupported &= eat("]");
  }

  // Of one character or of a class of them; most letters stand for something else.
  void escape() {
    ++at;
    if (at == pattern.size()) {
      isSupported = false;
      return;
    }
    char c = pattern[at];
    bool isWord = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80);
    bool isKnown = isOneOf(c, "sSdDwWhHvVrntfpPx");
    nextCharacter(pattern, at);
    isSupported &= !isWord || isKnown;
    if (isOneOf(c, "pPx") && startsWith("{")) {
      at = std::min(pattern.find('}', at), pattern.size());
      isSupported &= eat("}");
    } else if (isOneOf(c, "pP")) { // \pL
      isSupported &= at < pattern.size() && isalpha(static_cast<unsigned char>(pattern[at]));
      at += at < pattern.size();
    } else if (c == 'x') {
      for (int digit = 0; digit < 2 && at < pattern.size() && isxdigit(static_cast<unsigned char>(pattern[at]));
           ++digit)
        ++at;
    }
  }

  std::string withFlags(const std::string &source) const { return caseless ? "(?i:" + source + ")" : source; }

  uint32_t classOf(std::string_view source) {
    std::string key = withFlags(std::string(source));
    auto [found, isNew] = indices.emplace(key, uint32_t(classes.size()));
    if (!isNew)
      return found->second;
    classes.push_back(knownRangesOf(std::string(source), key));
    return found->second;
  }

  // As rangesOf(), which takes milliseconds, while a process may read many tokenizers with the same classes.
  Ranges knownRangesOf(const std::string &source, const std::string &key) {
    static std::mutex mutex;
    static std::map<std::string, Ranges> known;
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = known.find(key); found != known.end())
      return found->second;
    Ranges ranges = rangesOf(source);
    constexpr size_t mostKnown = 256;
    if (isSupported && known.size() < mostKnown)
      known.emplace(key, ranges);
    return ranges;
  }

  // The characters that the engine matches with an atom. Stretches that match and stretches that do not take turns, so that it looks at each character
  // once; where its complement is none, characters are passed one by one.
  Ranges rangesOf(const std::string &source) {
    std::string error;
    std::unique_ptr<Regex> inside = heddle_part_regex.compile("\\G(?:" + withFlags(source) + ")++", error),
                           outside = heddle_part_regex.compile("\\G(?:(?!" + withFlags(source) + ")(?s:.))++", error);
    Ranges ranges;
    isSupported &= inside && outside;
    if (!isSupported)
      return ranges;
    bool namesNumbers = source.find("\\x") != source.npos ||
                        std::any_of(source.begin(), source.end(), [](char byte) { return (byte & 0xF0) == 0xF0; });
    const std::string all = charactersToAsk(namesNumbers);
    std::unique_ptr<Regex::Matcher> in = inside->matcher(), out = outside->matcher();
    for (size_t at = 0, begin = 0, end = 0; at < all.size() && error.empty(); at = end) {
      if (in->find(all, at, begin, end, error)) {
        size_t first = begin, last = end;
        char32_t firstCharacter = nextCharacter(all, first);
        ranges.push_back({firstCharacter, previousCharacter(all, last)});
      } else if (!out->find(all, at, begin, end, error)) {
        end = at;
        nextCharacter(all, end);
      }
    }
    isSupported &= error.empty();
    return ranges;
  }

  const std::string_view pattern;
  size_t at = 0;
  bool caseless = false, isSupported = true;
  unsigned nested = 0;
  std::map<std::string, uint32_t> indices; // of classes, by what the engine is asked
  std::vector<Ranges> classes;
};

} // namespace

std::vector<uint32_t> writeCutProgram(std::string_view pattern) {
  return Writer(pattern).write();
}

} // namespace heddle
