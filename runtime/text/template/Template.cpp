// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/Template.h"

#include "runtime/text/template/TemplateEvaluator.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace heddle {

// Limits on a template, and on one rendering of it; what a rendering may use grows with its input.
static constexpr size_t maxSource = 512 << 10, maxOutput = 64 << 20;
static constexpr size_t baseMemory = 32 << 20, memoryPerInputByte = 16;
static constexpr int64_t baseFuel = 2000000;

ChatTemplate::ChatTemplate() : program(new TemplateProgram) {}
ChatTemplate::~ChatTemplate() = default;

// One kind of line end, and none at the very end: what Jinja makes of a source.
static std::string plainLines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      out += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      out += '\n';
  }
  if (!out.empty() && out.back() == '\n')
    out.pop_back();
  return out;
}

std::unique_ptr<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string &error) {
  if (source.size() > maxSource) {
    error = "chat_template has a size of " + std::to_string(source.size()) + " bytes, the limit is " +
            std::to_string(maxSource);
    return nullptr;
  }
  size_t bad = findInvalidUtf8(source), nul = source.find('\0');
  if (bad != std::string_view::npos || nul != std::string_view::npos) {
    error = "chat_template is not text: byte " + std::to_string(bad < nul ? bad : nul) +
            (bad < nul ? " is not valid UTF-8" : " is NUL");
    return nullptr;
  }
  std::unique_ptr<ChatTemplate> result(new ChatTemplate);
  if (!parseTemplate(plainLines(source), *result->program, error))
    return nullptr;
  return result;
}

bool ChatTemplate::render(std::string_view input, const std::vector<TemplateVariable> &trusted, RenderedChat &out,
                          std::string &error) const {
  std::string reason;
  JsonValue question = JsonValue::parse(input, reason);
  if (!question.is(JsonKind::Object)) {
    error = reason.empty() ? "expected a JSON object with \"messages\"" : reason;
    return false;
  }
  TemplateHeap heap(baseMemory + memoryPerInputByte * input.size());
  TemplateEvaluator evaluator(*program, heap, baseFuel + static_cast<int64_t>(input.size()), maxOutput);
  for (const TemplateVariable &variable : trusted)
    evaluator.setVariable(variable.name, heap.text(variable.value, true));
  for (JsonItems members(question); members.next() && !heap.exhausted();)
    evaluator.setVariable(members.key.string(), heap.fromJson(members.value));
  if (heap.exhausted()) {
    error = "the messages exceed the limit of memory for a template's values";
    return false;
  }
  TemplateText text;
  if (!evaluator.run(text, error))
    return false;
  out.text = std::move(text.bytes);
  out.untrusted = std::move(text.untrusted);
  return true;
}

std::vector<TemplateVariable> specialTokenVariables(const Tokenizer &tokenizer) {
  const package::Tokenizer &table = tokenizer.table();
  std::vector<TemplateVariable> variables;
  auto add = [&](const char *name, int32_t id) {
    if (id >= 0)
      variables.push_back({name, std::string(tokenizer.vocabulary().text(id))});
  };
  add("bos_token", table.bos());
  add("eos_token", table.eos());
  add("unk_token", table.unknown());
  add("pad_token", table.pad());
  return variables;
}

bool encodeChat(const ChatTemplate &chat, const Tokenizer &tokenizer, std::string_view input, bool parseSpecial,
                std::string &text, std::vector<int32_t> &ids, std::string &error, RewriteChat rewrite,
                const void *user) {
  RenderedChat rendered;
  if (!chat.render(input, specialTokenVariables(tokenizer), rendered, error))
    return false;
  if (rewrite)
    rewrite(user, rendered);
  EncodeOptions options;
  options.parseSpecial = parseSpecial;
  options.addSpecial = false;
  options.untrusted = std::move(rendered.untrusted);
  text = std::move(rendered.text);
  ids.clear();
  if (tokenizer.encode(text, options, ids, error))
    return true;
  error = "the conversation: " + error;
  return false;
}

} // namespace heddle
