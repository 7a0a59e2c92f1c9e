// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of this room a program may be linked without (runtime/README.md, "Parts"). Nothing but the table names a part's functions, so that what the
// table lacks is not linked.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTPARTS_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTPARTS_H

#include "runtime/schema/package_generated.h"
#include "runtime/text/tokenizer/Regex.h"
#include "runtime/text/tokenizer/UnicodeData.h"

// Names of the linker; constants that are initialised as such.
// NOLINTBEGIN(readability-identifier-naming, bugprone-dynamic-static-initializers)
extern "C" {

struct heddle_text_parts_table {
  const heddle::RegexEngine *regex;   // null: no regular expressions are compiled
  const heddle::UnicodeData *unicode; // null: nothing is known of characters beyond white space
};
extern const heddle_text_parts_table heddle_text_parts;

extern const heddle::RegexEngine heddle_part_regex;
extern const heddle::UnicodeData heddle_part_unicode;

} // extern "C"
// NOLINTEND(readability-identifier-naming, bugprone-dynamic-static-initializers)

namespace heddle {

// What a tokenizer, with its chat template, needs of the table.
struct TextPartsNeeded {
  bool regex = false, unicode = false;
};
TextPartsNeeded textPartsOf(const package::Tokenizer &table);

} // namespace heddle

#endif
