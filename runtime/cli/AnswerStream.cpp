// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/AnswerStream.h"

namespace heddle {

AnswerStream::AnswerStream(const OpenedModel &program, bool print) : stops(program.options.stops), print(print) {
  if (program.tokenizer)
    decoder.emplace(*program.tokenizer, /*skipSpecial=*/true);
}

bool AnswerStream::take(int32_t id) {
  std::string decoded, shown;
  if (decoder)
    decoder->append(id, decoded);
  stopped |= stops.append(decoded, shown);
  all += shown;
  if (print && !shown.empty())
    status = writeOut(shown);
  return !stopped && status.isOk() && !wasInterrupted();
}

Status AnswerStream::finish(bool newline) {
  HEDDLE_RETURN_IF_ERROR(status);
  std::string decoded, shown;
  if (decoder && !stopped)
    decoder->finish(decoded);
  stops.append(decoded, shown);
  stops.finish(shown);
  all += shown;
  return print ? writeOut(shown + (newline ? "\n" : "")) : Status();
}

} // namespace heddle
