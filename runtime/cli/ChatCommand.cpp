// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --chat: one message per line, the answer after it. Each turn renders the whole conversation; what of it is in the cache
// already is not computed again.
#include "runtime/cli/AnswerStream.h"

#include "bytes/Json.h"
#include "runtime/cli/Cli.h"
#include "runtime/text/template/Template.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace heddle {
namespace {

// A line without its newline. Not found: at the end of the input or on Ctrl-C.
Status readLine(std::string &line, bool &outFound) {
  line.clear();
  int c;
  while ((c = getchar()) != EOF && c != '\n') {
    if (line.size() == Tokenizer::maxText)
      return invalidInput(format("standard input: a line of more than %zu bytes", Tokenizer::maxText));
    line += char(c);
  }
  outFound = c == '\n' || (!line.empty() && !wasInterrupted());
  return ferror(stdin) && !wasInterrupted() ? Status::failure(std::string("standard input: ") + strerror(errno))
                                            : Status();
}

class Chat {
public:
  explicit Chat(OpenedModel &program) : program(program), isTerminal(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {}

  Status run() {
    std::string error;
    conversation = ChatTemplate::parse(program.metadata().tokenizer()->chat_template()->string_view(), error);
    if (!conversation)
      return Status::failure(program.package->path() + ": " + error);
    HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, program.sessionOptions(), session));
    session->setProgress(promptProgress());
    if (!program.options.system.empty())
      addMessage("system", program.options.system);
    if (program.options.prompt)
      HEDDLE_RETURN_IF_ERROR(turn(*program.options.prompt));
    std::string line;
    for (bool found = true; prompt();) {
      HEDDLE_RETURN_IF_ERROR(readLine(line, found));
      if (!found)
        break;
      if (!line.empty())
        HEDDLE_RETURN_IF_ERROR(turn(line));
      clearInterrupt();
    }
    return isTerminal ? writeOut("\n") : Status();
  }

private:
  bool prompt() { return !isTerminal || writeOut("> ").isOk(); }

  void addMessage(const char *role, const std::string &content) {
    messages += (messages.empty() ? "" : ",") + ("{\"role\":\"" + std::string(role)) +
                "\",\"content\":" + jsonString(content) + "}";
  }

  Status turn(const std::string &message) {
    addMessage("user", message);
    RenderedChat rendered;
    std::string error;
    if (!conversation->render("{\"messages\":[" + messages + "],\"add_generation_prompt\":true}",
                              specialTokenVariables(*program.tokenizer), rendered, error))
      return invalidInput(program.package->path() + ": " + error);
    EncodeOptions options;
    options.addSpecial = false; // the template spells them
    options.untrusted = rendered.untrusted;
    std::vector<int32_t> ids;
    if (!program.tokenizer->encode(rendered.text, options, ids, error))
      return invalidInput("the conversation: " + error);
    if (ids.empty())
      return invalidInput("the conversation renders to nothing");
    if (int64_t(ids.size()) > session->context())
      return invalidInput(
          format("the conversation has %zu tokens, the context %lld", ids.size(), (long long)session->context()));

    const int32_t *cached = session->history(0);
    int64_t common =
        std::mismatch(ids.begin(), ids.begin() + std::min<int64_t>(session->length(0), int64_t(ids.size()) - 1), cached)
            .first -
        ids.begin();
    session->truncate(0, common);
    AnswerStream stream(program, /*print=*/true);
    EndReason reason;
    HEDDLE_RETURN_IF_ERROR(generateTokens(
        *session, 0, ids.data() + common, ids.size() - common, program.generateOptions(),
        [](void *user, int32_t id, const float *) { return static_cast<AnswerStream *>(user)->take(id); }, &stream,
        reason));
    HEDDLE_RETURN_IF_ERROR(stream.finish(/*newline=*/true));
    addMessage("assistant", stream.text());
    return Status();
  }

  OpenedModel &program;
  const bool isTerminal;
  std::unique_ptr<ChatTemplate> conversation;
  std::unique_ptr<Session> session;
  std::string messages; // JSON objects, separated by commas
};

} // namespace

Status runChat(OpenedModel &program) {
  return Chat(program).run();
}

} // namespace heddle
