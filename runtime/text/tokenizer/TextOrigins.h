// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a text that a tokenizer rewrites comes from in the text that was given.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTORIGINS_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTORIGINS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

// Bytes [begin, end) of a text.
struct TextRange {
  uint32_t begin, end;
};

// Of each byte of a text, the bytes of the given text that it stands for. A step that rewrites the text says of all that it writes, in order,
// where in its own input that comes from, and ends with finishStep().
class TextOrigins {
public:
  // Bytes [begin, end) of the given text, as they are.
  TextOrigins(uint32_t begin, uint32_t end);

  // The step wrote bytes [begin, end) of its input unchanged.
  void copied(size_t begin, size_t end);
  // What the step wrote last, up to byte `size` of its output, stands for bytes [begin, end) of its input; where that is none, for the byte behind,
  // else the one before.
  void became(size_t size, size_t begin, size_t end);
  void forgetStep() { next.clear(); }
  void finishStep();

  // What bytes [begin, end) of the text, of which there is at least one, stand for.
  TextRange of(size_t begin, size_t end) const { return {ranges[begin].begin, ranges[end - 1].end}; }
  // Of bytes [begin, end) alone.
  TextOrigins slice(size_t begin, size_t end) const;

private:
  explicit TextOrigins(uint32_t start) : start(start) {}

  uint32_t start;                      // where the text begins in the given one
  std::vector<TextRange> ranges, next; // by byte of the text, and of what the step has written
};

} // namespace heddle

#endif
