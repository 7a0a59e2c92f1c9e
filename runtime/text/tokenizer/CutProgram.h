// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pattern that was compiled with the model: a program of a matcher that backtracks, with the characters of its classes. What runs it needs neither
// an engine of regular expressions nor tables of Unicode: the compiler has asked those.
//
// Words: the number of instructions, of classes and of ranges; then the instructions (four words each: operation, a, b, c), the end of each class among
// the ranges (one word), and the ranges (two words each: the first character and the last, in order).
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_CUTPROGRAM_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_CUTPROGRAM_H

#include "runtime/text/tokenizer/Regex.h"

#include <cstdint>
#include <vector>

namespace heddle {

enum class CutOp : uint32_t {
  Accept, // the match ends here
  Take,   // one character of class a
  Repeat, // characters of class a, at least b and at most c, as many as there are; what follows may ask for some of them back
  Possess, // the same, and gives none back
  Either,  // goes on behind it; where that fails, at instruction a
  Jump,    // goes on at instruction a
  Ahead // whether the instructions behind it match from here (b: do not), up to their Accept; goes on at instruction a
};

struct CutInstruction {
  CutOp op;
  uint32_t a, b, c;
};

struct CharacterRange {
  uint32_t first, last;
};

class CutProgram : public Regex {
public:
  static constexpr uint32_t headerWords = 3, unlimited = UINT32_MAX;

  // Null, with the reason in `error`, for words that are no program. `words` outlive the object.
  static std::unique_ptr<Regex> create(const uint32_t *words, size_t count, std::string &error);

  std::unique_ptr<Matcher> matcher() const override;

  const CutInstruction &at(uint32_t pc) const { return code[pc]; }
  bool has(uint32_t index, char32_t character) const;

private:
  struct Class {
    uint64_t ascii[2]; // a bit for each character below 128
    const CharacterRange *begin, *end;
  };
  bool checkCode(std::string &error) const;

  const CutInstruction *code = nullptr;
  uint32_t numInstructions = 0;
  std::vector<Class> classes;
};

} // namespace heddle

#endif
