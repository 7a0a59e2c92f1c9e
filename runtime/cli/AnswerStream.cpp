// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/AnswerStream.h"

namespace heddle {

AnswerStream::AnswerStream(const OpenedModel &program, bool print)
    : stream(program.tokenizer.get(), /*skipSpecial=*/true, program.options.stops), print(print) {}

bool AnswerStream::take(int32_t id) {
  std::string shown;
  bool stopped = stream.append(id, shown);
  all += shown;
  if (print && !shown.empty())
    status = writeOut(shown);
  return !stopped && status.isOk() && !wasInterrupted();
}

Status AnswerStream::finish(bool newline) {
  HEDDLE_RETURN_IF_ERROR(status);
  std::string shown;
  stream.finish(shown);
  all += shown;
  return print ? writeOut(shown + (newline ? "\n" : "")) : Status();
}

} // namespace heddle
