// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chat templates: the subset of Jinja that models' templates use, parsed once and evaluated with limits.
//
// White space is treated as Hugging Face sets it (trim_blocks, lstrip_blocks). A template has no way to the host: there is nothing
// but its variables, and fuel, memory, output and depth are bounded.
//
// What a user wrote never becomes a special token: the rendered text comes with the stretches that stem from the messages.
#ifndef HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATE_H
#define HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATE_H

#include "runtime/text/tokenizer/AddedTokens.h"

#include <memory>

namespace heddle {

struct TemplateProgram;
class Tokenizer;

struct RenderedChat {
  std::string text;
  std::vector<TextRange> untrusted; // ordered, disjoint; EncodeOptions::untrusted
};

// A variable that the template itself may trust, e.g. ("bos_token", "<s>").
struct TemplateVariable {
  std::string name, value;
};

class ChatTemplate {
public:
  // Null, with "chat_template line N: …" in `error`, if the source is not a template that can be evaluated: an unclosed block, an
  // unknown filter, test or statement, nesting or size beyond the limits.
  static std::unique_ptr<ChatTemplate> parse(std::string_view source, std::string &error);
  ~ChatTemplate();

  // `input` is a JSON object whose members become variables: messages, add_generation_prompt, tools, … A message's "role" is
  // trusted if it is a plain word, everything else in `input` is not.
  bool render(std::string_view input, const std::vector<TemplateVariable> &trusted, RenderedChat &out,
              std::string &error) const;

private:
  ChatTemplate();
  std::unique_ptr<TemplateProgram> program;
};

// bos_token, eos_token, unk_token and pad_token as the tokenizer spells them.
std::vector<TemplateVariable> specialTokenVariables(const Tokenizer &tokenizer);

// Renders the conversation `input` and encodes it: `text` becomes what the template says, `ids` its tokens. The template spells special
// tokens itself, BOS too; what a user wrote holds none, and nothing does where `parseSpecial` is false.
// `rewrite` not null: changes what was rendered before it is encoded.
using RewriteChat = void (*)(const void *user, RenderedChat &rendered);
bool encodeChat(const ChatTemplate &chat, const Tokenizer &tokenizer, std::string_view input, bool parseSpecial,
                std::string &text, std::vector<int32_t> &ids, std::string &error, RewriteChat rewrite = nullptr,
                const void *user = nullptr);

} // namespace heddle

#endif
