// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TextSteps.h"
#include "runtime/text/tokenizer/Charsmap.h"
#include "runtime/text/tokenizer/CutProgram.h"
#include "runtime/text/tokenizer/TextParts.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace heddle {

using package::TextOp;

static std::string_view view(const flatbuffers::String *string) {
  return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
}

// More steps than any tokenizer has; each costs a pass over the text.
static constexpr size_t maxSteps = 64;

bool TextSteps::compile(const package::TextStep &step, bool normalizer, std::unique_ptr<Regex> &regex,
                        std::string &error) {
  TextOp op = step.op();
  bool isCutter = op == TextOp::Split || op == TextOp::PrefixSpace || op == TextOp::Metaspace;
  bool fits = normalizer ? op <= TextOp::CollapseSpaces : isCutter;
  if (!fits) {
    error = std::string("a step of type ") + package::EnumNameTextOp(op) + " does not belong there";
    return false;
  }
  if ((op == TextOp::Replace || op == TextOp::Split) && (step.flags() & 1)) {
    const auto *program = step.program();
    regex = program && program->size() ? CutProgram::create(program->data(), program->size(), error)
                                       : heddle_text_parts.regex->compile(view(step.pattern()), error);
    return regex != nullptr;
  }
  return op != TextOp::Charsmap || Charsmap::check(step.bytes(), error);
}

// The step of a table that an error is about.
static std::string stepName(const char *field, size_t index) {
  return "tokenizer " + std::string(field) + "[" + std::to_string(index) + "]: ";
}

bool TextSteps::compileAll(const Steps *steps, const char *field, bool normalizer, std::vector<Step> &out,
                           std::string &error) {
  size_t count = steps ? steps->size() : 0;
  if (count > maxSteps) {
    error = "tokenizer " + std::string(field) + ": " + std::to_string(count) + " steps exceed the limit of " +
            std::to_string(maxSteps);
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    Step compiled{steps->Get(static_cast<uint32_t>(i)), nullptr};
    if (!compile(*compiled.step, normalizer, compiled.regex, error)) {
      error.insert(0, stepName(field, i));
      return false;
    }
    out.push_back(std::move(compiled));
  }
  return true;
}

// Which parts a program is linked with is found from the same table.
static bool checkParts(const package::Tokenizer &table, std::string &error) {
  if (heddle_text_parts.regex && heddle_text_parts.unicode)
    return true;
  TextPartsNeeded needed = textPartsOf(table);
  if ((!needed.regex || heddle_text_parts.regex) && (!needed.unicode || heddle_text_parts.unicode))
    return true;
  error = "the tokenizer needs what this program was linked without";
  return false;
}

bool TextSteps::create(const package::Tokenizer &table, std::string &error) {
  return checkParts(table, error) && compileAll(table.normalizer(), "normalizer", true, normalizers, error) &&
         compileAll(table.pre_tokenizer(), "pre_tokenizer", false, cutters, error);
}

// Normalizers.

static void cleanText(std::string_view text, std::string &out) {
  for (size_t position = 0; position < text.size();) {
    char32_t c = nextCharacter(text, position);
    if (c == 0 || c == 0xFFFD || isControl(c))
      continue;
    appendUtf8(isWhiteSpace(c) ? ' ' : c, out);
  }
}

static void isolateChinese(std::string_view text, std::string &out) {
  for (size_t position = 0; position < text.size();) {
    char32_t c = nextCharacter(text, position);
    bool apart = isChinese(c);
    if (apart)
      out += ' ';
    appendUtf8(c, out);
    if (apart)
      out += ' ';
  }
}

static void lowercase(std::string_view text, std::string &out) {
  for (size_t position = 0; position < text.size();)
    appendLowercase(nextCharacter(text, position), out);
}

static void stripAccents(std::string_view text, bool allMarks, std::string &out) {
  for (size_t position = 0; position < text.size();) {
    char32_t c = nextCharacter(text, position);
    if (allMarks ? !isMark(c) : !isNonspacingMark(c))
      appendUtf8(c, out);
  }
}

static void stripWhiteSpace(std::string_view text, uint32_t flags, TextOrigins *origins, std::string &out) {
  size_t begin = 0, end = text.size();
  for (size_t next = 0; (flags & 1) && next < end && isWhiteSpace(nextCharacter(text, next));)
    begin = next;
  for (size_t before = end; (flags & 2) && before > begin && isWhiteSpace(previousCharacter(text, before));)
    end = before;
  out = text.substr(begin, end - begin);
  if (origins)
    origins->copied(begin, end);
}

static void collapseSpaces(std::string_view text, TextOrigins *origins, std::string &out) {
  for (size_t i = 0; i < text.size(); ++i) {
    bool isFirstSpace = text[i] == ' ' && !out.empty() && out.back() != ' ';
    if (text[i] == ' ' && (!isFirstSpace || text.find_first_not_of(' ', i) == std::string_view::npos))
      continue;
    out += text[i];
    if (origins)
      origins->copied(i, i + 1);
  }
}

// Writes a text whose matches something else stands for.
class Replacement {
public:
  Replacement(std::string_view text, TextOrigins *origins, std::string &out) : text(text), origins(origins), out(out) {}

  // [begin, end) becomes `content`.
  void replace(size_t begin, size_t end, std::string_view content) {
    copyTo(begin);
    out.append(content);
    if (origins)
      origins->became(out.size(), begin, end);
    done = end;
  }
  void finish() { copyTo(text.size()); }

private:
  void copyTo(size_t end) {
    out.append(text.substr(done, end - done));
    if (origins)
      origins->copied(done, end);
  }

  std::string_view text;
  TextOrigins *origins;
  std::string &out;
  size_t done = 0;
};

static void replaceLiteral(std::string_view text, std::string_view pattern, std::string_view content, size_t limit,
                           TextOrigins *origins, std::string &out) {
  Replacement replacement(text, origins, out);
  for (size_t at, from = 0; !pattern.empty() && (at = text.find(pattern, from)) != std::string_view::npos;
       from = at + pattern.size()) {
    replacement.replace(at, at + pattern.size(), content);
    if (out.size() > limit)
      return;
  }
  replacement.finish();
}

static bool replaceMatches(std::string_view text, const Regex &regex, std::string_view content, size_t limit,
                           TextOrigins *origins, std::string &out, std::string &error) {
  std::unique_ptr<Regex::Matcher> matcher = regex.matcher();
  Replacement replacement(text, origins, out);
  size_t begin = 0, end = 0;
  for (size_t from = 0; from <= text.size() && matcher->find(text, from, begin, end, error);) {
    replacement.replace(begin, end, content);
    from = end;
    if (out.size() > limit)
      break;
    if (begin == end) {
      if (end == text.size())
        break;
      nextCharacter(text, from);
    }
  }
  replacement.finish();
  return error.empty();
}

static void prepend(std::string_view text, std::string_view content, TextOrigins *origins, std::string &out) {
  if (text.empty())
    return;
  out.append(content).append(text);
  if (!origins)
    return;
  size_t first = 0;
  nextCharacter(text, first);
  origins->became(content.size(), 0, first);
  origins->copied(0, text.size());
}

// The steps that see a character and the marks behind it, and no further.
static void rewriteCharacters(const package::TextStep &step, std::string_view text, size_t limit, std::string &out) {
  switch (step.op()) {
  case TextOp::Lowercase:
    return lowercase(text, out);
  case TextOp::StripAccents:
    return stripAccents(text, step.flags() & 1, out);
  case TextOp::CleanText:
    return cleanText(text, out);
  case TextOp::IsolateChinese:
    return isolateChinese(text, out);
  case TextOp::Charsmap:
    return Charsmap(*step.bytes()).map(text, limit, out);
  default: // Nfc … Nfkd
    appendNormalized(text, static_cast<NormalForm>(static_cast<int>(step.op()) - static_cast<int>(TextOp::Nfc)), out);
  }
}

// Whether a character may join the one before it in a normal form: marks, vowels and final consonants of Hangul, voiced marks of half width.
static bool joinsBefore(char32_t c) {
  return isMark(c) || (c >= 0x1160 && c <= 0x11FF) || c == 0xFF9E || c == 0xFF9F;
}

// Origins of what rewriteCharacters made of `text`, which is `whole`. A character stands alone; where that gives something else, it stands with what
// joins it; and where that still does, as a map of longer sequences can, all of the text stands for all.
static void traceCharacters(const package::TextStep &step, std::string_view text, size_t limit, std::string_view whole,
                            TextOrigins &origins) {
  std::string out, alone;
  std::vector<std::pair<size_t, size_t>> ends; // of the joined characters: in `text`, and in what is made of them
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    ends.clear();
    alone.clear();
    size_t last = begin;
    do {
      nextCharacter(text, end);
      rewriteCharacters(step, text.substr(last, end - last), limit, alone);
      ends.emplace_back(last = end, alone.size());
      size_t next = end;
      if (next == text.size() || !joinsBefore(nextCharacter(text, next)))
        break;
    } while (true);
    size_t made = out.size();
    rewriteCharacters(step, text.substr(begin, end - begin), limit, out);
    if (std::string_view(out).substr(made) != alone)
      ends = {{end, out.size() - made}};
    last = begin;
    for (auto [to, size] : ends) {
      origins.became(made + size, last, to);
      last = to;
    }
  }
  if (out == whole)
    return;
  origins.forgetStep();
  origins.became(whole.size(), 0, text.size());
}

bool TextSteps::rewrite(const Step &step, std::string_view text, size_t limit, TextOrigins *origins, std::string &out,
                        std::string &error) {
  std::string_view content = view(step.step->content());
  switch (step.step->op()) {
  case TextOp::Prepend:
    prepend(text, content, origins, out);
    return true;
  case TextOp::Strip:
    stripWhiteSpace(text, step.step->flags(), origins, out);
    return true;
  case TextOp::CollapseSpaces:
    collapseSpaces(text, origins, out);
    return true;
  case TextOp::Replace:
    if (step.regex)
      return replaceMatches(text, *step.regex, content, limit, origins, out, error);
    replaceLiteral(text, view(step.step->pattern()), content, limit, origins, out);
    return true;
  default:
    rewriteCharacters(*step.step, text, limit, out);
    if (origins && out.size() <= limit)
      traceCharacters(*step.step, text, limit, out, *origins);
    return true;
  }
}

bool TextSteps::normalize(std::string &text, TextOrigins *origins, std::string &error) const {
  const size_t limit = maxGrownText(text.size());
  for (const Step &step : normalizers) {
    std::string out;
    if (!rewrite(step, text, limit, origins, out, error)) {
      error.insert(0, stepName("normalizer", static_cast<size_t>(&step - normalizers.data())));
      return false;
    }
    if (out.size() > limit) {
      error = "the text grows beyond the limit of " + std::to_string(limit) + " bytes when it is normalised";
      return false;
    }
    text.swap(out);
    if (origins)
      origins->finishStep();
  }
  return true;
}

bool TextSteps::cut(CutText &cut, std::string &error) const {
  for (size_t i = 0; i < cutters.size(); ++i)
    if (!cutWords(*cutters[i].step, cutters[i].regex.get(), cut, error)) {
      error.insert(0, stepName("pre_tokenizer", i));
      return false;
    }
  return true;
}

} // namespace heddle
