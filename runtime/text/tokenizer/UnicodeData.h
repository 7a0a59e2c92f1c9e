// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables of Unicode's character database, a part of the runtime: a third of a megabyte that most tokenizers of decoders never read.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_UNICODEDATA_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_UNICODEDATA_H

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

enum class NormalForm : uint8_t { Nfc, Nfd, Nfkc, Nfkd };

// General categories, in the order of utf8proc.
enum class Category : uint8_t {
  Cn,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co
};

struct UnicodeData {
  Category (*category)(char32_t character);
  char32_t (*toLower)(char32_t character); // the simple mapping
  char32_t (*toUpper)(char32_t character);
  void (*appendNormalized)(std::string_view text, NormalForm form, std::string &out);
};

} // namespace heddle

#endif
