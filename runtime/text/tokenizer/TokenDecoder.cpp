// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TokenDecoder.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace heddle {

using package::TextOp;

static std::string_view view(const flatbuffers::String *string) {
  return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
}

bool TokenDecoder::check(const package::Tokenizer &table, std::string &error) {
  bool fused = false;
  uint32_t count = table.decoder() ? table.decoder()->size() : 0;
  if (count > 64) {
    error = "tokenizer decoder: " + std::to_string(count) + " steps exceed the limit of 64";
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const package::TextStep *step = table.decoder()->Get(i);
    bool known = step->op() == TextOp::Replace || step->op() == TextOp::Metaspace ||
                 (step->op() >= TextOp::ByteFallback && step->op() <= TextOp::SpaceJoin);
    bool streams = !fused || step->op() == TextOp::Fuse || (step->op() == TextOp::TrimToken && step->right() == 0);
    if (!known || !streams || (step->op() == TextOp::Replace && (step->flags() & 1))) {
      error = "tokenizer decoder: step " + std::to_string(i) + " is not one that text can be streamed through";
      return false;
    }
    fused |= step->op() == TextOp::Fuse;
  }
  return true;
}

static void replaceAll(std::string &text, std::string_view pattern, std::string_view content) {
  if (pattern.empty())
    return;
  std::string out;
  size_t done = 0;
  for (size_t at; (at = text.find(pattern, done)) != std::string::npos; done = at + pattern.size())
    out.append(text, done, at - done).append(content);
  text = out.append(text, done, std::string::npos);
}

static bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

static bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

// English contractions and punctuation as BERT's decoder tidies them.
static void tidy(std::string &token) {
  static constexpr const char *pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                             {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto &pair : pairs)
    replaceAll(token, pair[0], pair[1]);
}

static int hexDigit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

// Rewrites one token's text as a step before Fuse does.
void TokenDecoder::applyToken(const package::TextStep &step, int32_t id, std::string &token) {
  std::string_view pattern = view(step.pattern()), content = view(step.content());
  switch (step.op()) {
  case TextOp::Replace:
    replaceAll(token, pattern, content);
    break;
  case TextOp::Metaspace: // of the first token every one goes
    replaceAll(token, content, first && (step.flags() & 3) ? "" : " ");
    break;
  case TextOp::ByteFallback:
    if (token.size() == 6 && startsWith(token, "<0x") && token[5] == '>' && hexDigit(token[3]) >= 0 &&
        hexDigit(token[4]) >= 0)
      token.assign(1, static_cast<char>(hexDigit(token[3]) * 16 + hexDigit(token[4])));
    break;
  case TextOp::TrimToken:
    for (uint32_t n = 0; n < step.left() && !content.empty() && startsWith(token, content); ++n)
      token.erase(0, content.size());
    for (uint32_t n = 0; n < step.right() && !content.empty() && endsWith(token, content); ++n)
      token.erase(token.size() - content.size());
    break;
  case TextOp::WordJoin:
    if (!first && startsWith(token, pattern) && !pattern.empty())
      token.erase(0, pattern.size());
    else if (!first)
      token.insert(0, 1, ' ');
    if (step.flags() & 1)
      tidy(token);
    break;
  case TextOp::SuffixJoin: {
    bool ends = endsWith(token, pattern);
    if (ends)
      token.erase(token.size() - pattern.size());
    if (spaceOwed)
      token.insert(0, 1, ' ');
    spaceOwed = ends;
    break;
  }
  case TextOp::SpaceJoin:
    if (!first)
      token.insert(0, 1, ' ');
    break;
  default:
    break;
  }
}

std::string TokenDecoder::decodeToken(int32_t id, uint32_t &outRest) {
  std::string token(tokenizer.vocabulary().text(id));
  const auto *steps = tokenizer.table().decoder();
  bool fused = false;
  for (outRest = 0; steps && outRest < steps->size() && !fused; ++outRest) {
    applyToken(*steps->Get(outRest), id, token);
    fused = steps->Get(outRest)->op() == TextOp::Fuse;
  }
  return token;
}

std::string TokenDecoder::bytesOf(const Tokenizer &tokenizer, int32_t id) {
  TokenDecoder decoder(tokenizer, /*skipSpecial=*/false);
  decoder.first = false;
  uint32_t rest;
  return id < 0 || id >= tokenizer.size() ? std::string() : decoder.decodeToken(id, rest);
}

void TokenDecoder::append(int32_t id, std::string &out) {
  if (id < 0 || id >= tokenizer.size() || (skipSpecial && tokenizer.isSpecial(id)))
    return;
  uint32_t rest;
  std::string token = decodeToken(id, rest);
  const auto *steps = tokenizer.table().decoder();
  for (uint32_t i = rest; steps && i < steps->size(); ++i) {
    const package::TextStep &step = *steps->Get(i);
    // TrimToken of the whole text: only its start can still change.
    std::string_view content = view(step.content());
    while (!started && startTrimmed < step.left() && !content.empty() && startsWith(token, content)) {
      token.erase(0, content.size());
      ++startTrimmed;
    }
  }
  started |= !token.empty();
  first = false;
  held += token;
  flushWhole(false, out);
}

// Moves the well-formed characters of `held` to `out`. What can never become well-formed turns into U+FFFD, one for each maximal
// subpart (The Unicode Standard, section 3.9).
void TokenDecoder::flushWhole(bool last, std::string &out) {
  size_t position = 0;
  while (position < held.size()) {
    size_t announced = utf8AnnouncedLength(held[position]), length = utf8PrefixLength(held, position);
    bool mayGrow = announced > length && position + length == held.size();
    if (mayGrow && !last)
      break;
    if (length == announced)
      out.append(held, position, length);
    else
      out += "\xEF\xBF\xBD";
    position += length;
  }
  held.erase(0, position);
}

void TokenDecoder::finish(std::string &out) {
  flushWhole(true, out);
}

} // namespace heddle
