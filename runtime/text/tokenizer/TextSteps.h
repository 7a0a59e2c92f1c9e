// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of a tokenizer before its model: normalizers rewrite a text, pre-tokenizers cut it into words.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTSTEPS_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTSTEPS_H

#include "runtime/text/tokenizer/AddedTokens.h"
#include "runtime/text/tokenizer/Regex.h"

namespace heddle {

// A text and its words, which lie in it in order.
struct CutText {
  std::string text;
  std::vector<TextRange> words;
  bool first = true;              // it starts where the whole input starts
  TextOrigins *origins = nullptr; // of cut.text, where they are asked for
};

// One pre-tokenizer: replaces cut.words (and, where it adds characters, cut.text). `regex` is the compiled pattern, if any.
bool cutWords(const package::TextStep &step, const Regex *regex, CutText &cut, std::string &error);

// No text grows beyond this. Unicode's own forms grow one at most 11-fold.
constexpr size_t maxGrownText(size_t original) {
  return (1 << 20) + 32 * original;
}

class TextSteps {
public:
  // Checks one step of the normalizer or the pre-tokenizer and compiles its pattern, if it has one; `error` says what is wrong with it.
  static bool compile(const package::TextStep &step, bool normalizer, std::unique_ptr<Regex> &regex,
                      std::string &error);

  // Checks and compiles the steps of `table`, which outlives the object.
  bool create(const package::Tokenizer &table, std::string &error);

  // Replaces `text` by its normal form. `origins` may be null.
  bool normalize(std::string &text, TextOrigins *origins, std::string &error) const;
  // Cuts cut.text; cut.words is one word on entry.
  bool cut(CutText &cut, std::string &error) const;

private:
  struct Step {
    const package::TextStep *step;
    std::unique_ptr<Regex> regex; // where flag 1 of Replace and Split asks for one
  };
  static bool rewrite(const Step &step, std::string_view text, size_t limit, TextOrigins *origins, std::string &out,
                      std::string &error);
  using Steps = flatbuffers::Vector<flatbuffers::Offset<package::TextStep>>;
  static bool compileAll(const Steps *steps, const char *field, bool normalizer, std::vector<Step> &out,
                         std::string &error);

  std::vector<Step> normalizers, cutters;
};

} // namespace heddle

#endif
