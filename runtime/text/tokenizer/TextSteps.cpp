// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TextSteps.h"
#include "runtime/text/tokenizer/Charsmap.h"
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
    regex = Regex::compile(view(step.pattern()), error);
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

bool TextSteps::create(const package::Tokenizer &table, std::string &error) {
  return compileAll(table.normalizer(), "normalizer", true, normalizers, error) &&
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

static void stripWhiteSpace(std::string_view text, uint32_t flags, std::string &out) {
  size_t begin = 0, end = text.size();
  for (size_t next = 0; (flags & 1) && next < end && isWhiteSpace(nextCharacter(text, next));)
    begin = next;
  for (size_t before = end; (flags & 2) && before > begin && isWhiteSpace(previousCharacter(text, before));)
    end = before;
  out = text.substr(begin, end - begin);
}

static void collapseSpaces(std::string_view text, std::string &out) {
  for (char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' '))
      out += c;
  if (!out.empty() && out.back() == ' ')
    out.pop_back();
}

static void replaceLiteral(std::string_view text, std::string_view pattern, std::string_view content, size_t limit,
                           std::string &out) {
  size_t done = 0;
  for (size_t at; !pattern.empty() && (at = text.find(pattern, done)) != std::string_view::npos;
       done = at + pattern.size()) {
    out.append(text.substr(done, at - done)).append(content);
    if (out.size() > limit)
      return;
  }
  out.append(text.substr(done));
}

static bool replaceMatches(std::string_view text, const Regex &regex, std::string_view content, size_t limit,
                           std::string &out, std::string &error) {
  Regex::Matcher matcher(regex);
  size_t done = 0, begin = 0, end = 0;
  for (size_t from = 0; from <= text.size() && matcher.find(text, from, begin, end, error);) {
    out.append(text.substr(done, begin - done)).append(content);
    done = from = end;
    if (out.size() > limit)
      break;
    if (begin == end) {
      if (end == text.size())
        break;
      nextCharacter(text, from);
    }
  }
  out.append(text.substr(done));
  return error.empty();
}

bool TextSteps::normalize(std::string &text, std::string &error) const {
  const size_t limit = maxGrownText(text.size());
  for (const Step &step : normalizers) {
    std::string out;
    switch (step.step->op()) {
    case TextOp::Nfc:
    case TextOp::Nfd:
    case TextOp::Nfkc:
    case TextOp::Nfkd: {
      auto form = static_cast<NormalForm>(static_cast<int>(step.step->op()) - static_cast<int>(TextOp::Nfc));
      appendNormalized(text, form, out);
      break;
    }
    case TextOp::Lowercase:
      lowercase(text, out);
      break;
    case TextOp::StripAccents:
      stripAccents(text, step.step->flags() & 1, out);
      break;
    case TextOp::CleanText:
      cleanText(text, out);
      break;
    case TextOp::IsolateChinese:
      isolateChinese(text, out);
      break;
    case TextOp::Prepend:
      if (!text.empty())
        out.append(view(step.step->content()));
      out += text;
      break;
    case TextOp::Strip:
      stripWhiteSpace(text, step.step->flags(), out);
      break;
    case TextOp::Charsmap:
      Charsmap(*step.step->bytes()).map(text, limit, out);
      break;
    case TextOp::CollapseSpaces:
      collapseSpaces(text, out);
      break;
    default: // Replace
      if (!step.regex)
        replaceLiteral(text, view(step.step->pattern()), view(step.step->content()), limit, out);
      else if (!replaceMatches(text, *step.regex, view(step.step->content()), limit, out, error)) {
        error.insert(0, stepName("normalizer", static_cast<size_t>(&step - normalizers.data())));
        return false;
      }
    }
    if (out.size() > limit) {
      error = "the text grows beyond the limit of " + std::to_string(limit) + " bytes when it is normalised";
      return false;
    }
    text.swap(out);
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
