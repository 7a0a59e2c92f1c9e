// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/AnswerStream.h"

namespace heddle {

AnswerStream::AnswerStream(const OpenedModel &program, bool keeps)
    : stream(program.tokenizer.get(), /*skipSpecial=*/true, program.options.stops), keeps(keeps) {}

bool AnswerStream::take(int32_t id) {
  shown.clear();
  bool stopped = stream.append(id, shown);
  if (keeps)
    all += shown;
  if (!shown.empty())
    status = writeOut(shown);
  return !stopped && status.isOk() && !wasInterrupted();
}

Status AnswerStream::finish(bool newline) {
  HEDDLE_RETURN_IF_ERROR(status);
  shown.clear();
  stream.finish(shown);
  if (keeps)
    all += shown;
  return writeOut(shown + (newline ? "\n" : ""));
}

} // namespace heddle
