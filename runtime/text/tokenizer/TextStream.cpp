// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TextStream.h"

namespace heddle {

bool TextStream::append(int32_t id, std::string &out) {
  std::string decoded;
  if (decoder && !stopped)
    decoder->append(id, decoded);
  return stopped = stops.append(decoded, out);
}

void TextStream::finish(std::string &out) {
  std::string decoded;
  if (decoder && !stopped)
    decoder->finish(decoded);
  stopped = stops.append(decoded, out);
  stops.finish(out);
}

} // namespace heddle
