// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/text/template/Template.h"

#include "test/fuzz/Targets.h"

using namespace heddle;

static constexpr std::string_view defaultMessages =
    R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"}],
        "add_generation_prompt": true, "tools": [{"name": "clock"}]})";

std::string fuzz::chatTemplate(std::string_view bytes) {
  size_t end = bytes.find('\1');
  std::string_view messages = end == bytes.npos ? defaultMessages : bytes.substr(end + 1);
  std::string error;
  auto chat = ChatTemplate::parse(bytes.substr(0, end), error);
  if (!chat)
    return wrongMessage(error);
  RenderedChat out;
  if (!chat->render(messages, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, out, error))
    return wrongMessage(error);
  size_t at = 0;
  for (const TextRange &range : out.untrusted) {
    if (range.begin < at || range.end < range.begin || range.end > out.text.size())
      return "untrusted ranges overlap or reach beyond the text";
    at = range.end;
  }
  return {};
}
