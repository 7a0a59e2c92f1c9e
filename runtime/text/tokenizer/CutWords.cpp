// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TextSteps.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace heddle {

using package::SplitBehavior;
using package::TextOp;

namespace {

// Collects the parts of one word as they are found, from left to right, and writes words as the behaviour wants them.
class Cutter {
public:
  Cutter(SplitBehavior behavior, bool invert, std::vector<TextRange> &out)
      : behavior(behavior), invert(invert), out(out) {}

  void beginWord() { lastWasMatch = false, hasLast = false; }
  void part(size_t begin, size_t end, bool isMatch) {
    if (begin == end) {
      hasLast &= !isMatch; // nothing is merged across a match of nothing
      return;
    }
    isMatch ^= invert;
    bool merge = false;
    switch (behavior) {
    case SplitBehavior::Isolated:
      break;
    case SplitBehavior::Removed:
      if (isMatch)
        return;
      break;
    case SplitBehavior::MergedWithPrevious:
      merge = hasLast && isMatch && !lastWasMatch;
      break;
    case SplitBehavior::MergedWithNext:
      merge = hasLast && lastWasMatch && !isMatch;
      break;
    case SplitBehavior::Contiguous:
      merge = hasLast && lastWasMatch == isMatch;
      break;
    }
    if (merge)
      out.back().end = static_cast<uint32_t>(end);
    else
      out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    lastWasMatch = isMatch;
    hasLast = true;
  }

private:
  SplitBehavior behavior;
  bool invert, lastWasMatch = false, hasLast = false;
  std::vector<TextRange> &out;
};

} // namespace

static std::string_view view(const flatbuffers::String *string) {
  return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
}

static bool split(const package::TextStep &step, const Regex *regex, CutText &cut, std::string &error) {
  std::vector<TextRange> words;
  Cutter cutter(step.behavior(), step.flags() & 2, words);
  std::unique_ptr<Regex::Matcher> matcher;
  if (regex)
    matcher = regex->matcher();
  std::string_view pattern = view(step.pattern());
  for (const TextRange &word : cut.words) {
    std::string_view text = std::string_view(cut.text).substr(word.begin, word.end - word.begin);
    cutter.beginWord();
    size_t done = 0, begin = 0, end = 0;
    for (size_t from = 0; from < text.size();) {
      if (regex) {
        if (!matcher->find(text, from, begin, end, error))
          break;
      } else {
        begin = pattern.empty() ? std::string_view::npos : text.find(pattern, from);
        if (begin == std::string_view::npos)
          break;
        end = begin + pattern.size();
      }
      from = end;
      if (begin == end && from < text.size())
        nextCharacter(text, from);
      // A match of nothing cuts, but not once more where a match has ended.
      if (begin == end && begin == done)
        continue;
      cutter.part(word.begin + done, word.begin + begin, false);
      cutter.part(word.begin + begin, word.begin + end, true);
      done = end;
    }
    if (!error.empty())
      return false;
    cutter.part(word.begin + done, word.end, false);
  }
  cut.words.swap(words);
  return true;
}

static size_t endOfCharacter(std::string_view text, size_t begin) {
  nextCharacter(text, begin);
  return begin;
}

// What is put before a word stands for the word's first character, too.
static void prefixSpaces(CutText &cut) {
  std::string text;
  for (TextRange &word : cut.words) {
    size_t begin = text.size();
    if (cut.text[word.begin] != ' ') {
      text += ' ';
      if (cut.origins)
        cut.origins->became(text.size(), word.begin, endOfCharacter(cut.text, word.begin));
    }
    text.append(cut.text, word.begin, word.end - word.begin);
    if (cut.origins)
      cut.origins->copied(word.begin, word.end);
    word = {static_cast<uint32_t>(begin), static_cast<uint32_t>(text.size())};
  }
  cut.text.swap(text);
}

static void metaspace(const package::TextStep &step, CutText &cut) {
  std::string_view sign = view(step.content());
  std::string text;
  std::vector<TextRange> words;
  for (size_t i = 0; i < cut.words.size(); ++i) {
    std::string_view word =
        std::string_view(cut.text).substr(cut.words[i].begin, cut.words[i].end - cut.words[i].begin);
    bool starts = word.substr(0, 1) == " " || word.substr(0, sign.size()) == sign;
    bool prepend = (step.flags() & 1) || ((step.flags() & 2) && cut.first && cut.words[i].begin == 0);
    uint32_t begin = static_cast<uint32_t>(text.size());
    if (prepend && !starts) {
      text.append(sign);
      if (cut.origins)
        cut.origins->became(text.size(), cut.words[i].begin, endOfCharacter(cut.text, cut.words[i].begin));
    }
    for (size_t k = 0; k < word.size(); ++k) {
      bool isSign = word[k] == ' ' || word.substr(k, sign.size()) == sign;
      if (isSign && (step.flags() & 4) && text.size() > begin) {
        words.push_back({begin, static_cast<uint32_t>(text.size())});
        begin = static_cast<uint32_t>(text.size());
      }
      if (word[k] == ' ')
        text.append(sign);
      else
        text += word[k];
      if (cut.origins)
        cut.origins->became(text.size(), cut.words[i].begin + k, cut.words[i].begin + k + 1);
    }
    words.push_back({begin, static_cast<uint32_t>(text.size())});
  }
  cut.text.swap(text);
  cut.words.swap(words);
}

bool cutWords(const package::TextStep &step, const Regex *regex, CutText &cut, std::string &error) {
  const size_t limit = maxGrownText(cut.text.size());
  switch (step.op()) {
  case TextOp::PrefixSpace:
    prefixSpaces(cut);
    break;
  case TextOp::Metaspace:
    metaspace(step, cut);
    break;
  default:
    return split(step, regex, cut, error);
  }
  if (cut.origins)
    cut.origins->finishStep();
  if (cut.text.size() <= limit)
    return true;
  error = "the text grows beyond the limit of " + std::to_string(limit) + " bytes when it is cut into words";
  return false;
}

} // namespace heddle
