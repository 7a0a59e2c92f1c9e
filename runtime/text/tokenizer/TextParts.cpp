// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TextParts.h"

namespace heddle {
namespace {

using package::TextOp;

using Steps = flatbuffers::Vector<flatbuffers::Offset<package::TextStep>>;

void addSteps(const Steps *steps, TextPartsNeeded &needed) {
  for (uint32_t i = 0; steps && i < steps->size(); ++i) {
    const package::TextStep &step = *steps->Get(i);
    TextOp op = step.op();
    needed.regex |= (op == TextOp::Replace || op == TextOp::Split) && (step.flags() & 1) &&
                    !(step.program() && step.program()->size());
    needed.unicode |= op <= TextOp::IsolateChinese || op == TextOp::Charsmap;
  }
}

} // namespace

TextPartsNeeded textPartsOf(const package::Tokenizer &table) {
  TextPartsNeeded needed;
  addSteps(table.normalizer(), needed);
  addSteps(table.pre_tokenizer(), needed);
  // Whether a token stands alone is asked of the characters beside it.
  for (uint32_t i = 0; table.pieces() && i < table.pieces()->size() && !needed.unicode; ++i)
    needed.unicode = table.pieces()->Get(i)->flags() & uint32_t(package::PieceFlag::SingleWord);
  // Filters, methods and tests of templates that ask what letters are, or compare strings whatever their case. A name that stands for something else
  // does no harm.
  std::string_view chat = table.chat_template() ? table.chat_template()->string_view() : std::string_view();
  for (const char *name :
       {"upper", "lower", "title", "capitalize", "isalpha", "isdigit", "isalnum", "sort", "unique", "min", "max"})
    needed.unicode |= chat.find(name) != chat.npos;
  return needed;
}

} // namespace heddle
