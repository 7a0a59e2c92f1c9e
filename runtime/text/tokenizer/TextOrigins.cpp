// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TextOrigins.h"

#include <algorithm>

namespace heddle {

TextOrigins::TextOrigins(uint32_t begin, uint32_t end) : start(begin) {
  ranges.reserve(end - begin);
  for (uint32_t byte = begin; byte < end; ++byte)
    ranges.push_back({byte, byte + 1});
}

void TextOrigins::copied(size_t begin, size_t end) {
  next.insert(next.end(), ranges.begin() + ptrdiff_t(begin), ranges.begin() + ptrdiff_t(end));
}

void TextOrigins::became(size_t size, size_t begin, size_t end) {
  TextRange from{start, start}; // of a text that has become empty
  if (begin < end)
    from = of(begin, end);
  else if (!ranges.empty())
    from = ranges[std::min(begin, ranges.size() - 1)];
  next.resize(size, from);
}

void TextOrigins::finishStep() {
  ranges.swap(next);
  next.clear();
}

TextOrigins TextOrigins::slice(size_t begin, size_t end) const {
  TextOrigins part(start);
  part.ranges.assign(ranges.begin() + ptrdiff_t(begin), ranges.begin() + ptrdiff_t(end));
  return part;
}

} // namespace heddle
