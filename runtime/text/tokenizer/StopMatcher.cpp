// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/StopMatcher.h"

#include <algorithm>

namespace heddle {

bool StopMatcher::append(std::string_view text, std::string &out) {
  if (found)
    return true;
  held += text;
  size_t first = held.npos;
  for (const std::string &stop : stops)
    first = std::min(first, held.find(stop));
  found = first != held.npos;
  size_t certain = found ? first : held.size();
  for (const std::string &stop : stops)
    for (size_t length = std::min(stop.size() - 1, held.size()); !found && length > 0; --length)
      if (held.compare(held.size() - length, length, stop, 0, length) == 0) {
        certain = std::min(certain, held.size() - length);
        break;
      }
  out.append(held, 0, certain);
  held.erase(0, certain);
  return found;
}

void StopMatcher::finish(std::string &out) {
  if (!found)
    out += held;
  held.clear();
}

} // namespace heddle
