// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --chat: a conversation, a message per line. Each turn renders what of the conversation fits the context; what of it is in the
// cache already is not computed again. A message that cannot be answered is refused and forgotten, and the conversation goes on.
#include "runtime/cli/AnswerStream.h"

#include "bytes/Json.h"
#include "bytes/Utf8.h"
#include "runtime/cli/ImageRun.h"
#include "runtime/cli/LineReader.h"
#include "runtime/text/template/Template.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace heddle {
namespace {

const char chatHelp[] = "A line is a message; one that ends with \\ goes on in the next line.\n"
                        "  /help   this text\n"
                        "  /reset  forget the conversation, but for --system\n"
                        "  /exit   end, as Ctrl-D does\n";

class Chat {
public:
  explicit Chat(OpenedModel &program)
      : program(program), isTerminal(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)), lines(program, isTerminal) {}
  Status run();

private:
  struct Message {
    const char *role;
    std::string content;
    bool hasImages = false;
  };

  Status readMessage(std::string &message, LineEnd &outEnd);
  std::string help() const;
  Status take(const std::string &message);
  Status reset();
  Status answer();
  Status fit(std::vector<int32_t> &ids);
  std::string contentOf(const Message &message, bool asParts) const;
  Status render(size_t first, std::vector<int32_t> &ids) const;
  Status render(size_t first, bool asParts, std::vector<int32_t> &ids) const;

  OpenedModel &program;
  const bool isTerminal;
  LineReader lines;
  std::unique_ptr<ChatTemplate> conversation;
  std::unique_ptr<Session> session;
  PromptImages images;           // of the first message of a conversation
  std::vector<Message> messages; // a system message first, if there is one
  size_t numSystem = 0;          // 1 if there is one
  bool saidThatTurnsAreDropped = false;
};

Status Chat::run() {
  std::string error;
  conversation = ChatTemplate::parse(program.metadata().tokenizer()->chat_template()->string_view(), error);
  if (!conversation)
    return Status::failure(program.package->path() + ": " + error);
  HEDDLE_RETURN_IF_ERROR(lines.open());
  HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, program.sessionOptions(), session));
  session->setProgress(promptProgress());
  HEDDLE_RETURN_IF_ERROR(images.read(program));
  HEDDLE_RETURN_IF_ERROR(images.begin(program, *session));
  HEDDLE_RETURN_IF_ERROR(reset());
  if (isTerminal)
    program.note("this is " + modelName(program.metadata()) + "; /help says what can be typed");
  if (program.options.prompt)
    HEDDLE_RETURN_IF_ERROR(take(*program.options.prompt));
  if (isTerminal)
    clearInterrupt();
  std::string message;
  for (;;) {
    LineEnd end = LineEnd::Newline;
    Status status = readMessage(message, end);
    if (status.isUsersFault())
      program.report(status);
    else
      HEDDLE_RETURN_IF_ERROR(status);
    if (end == LineEnd::Input || message == "/exit")
      break;
    if (status.isOk() && end == LineEnd::Newline)
      HEDDLE_RETURN_IF_ERROR(take(message));
    if (!isTerminal && wasInterrupted())
      break;
    clearInterrupt();
  }
  if (!isTerminal)
    return Status();
  program.exitCode = 0; // whoever typed has seen what was refused
  return writeOut("\n");
}

Status Chat::readMessage(std::string &message, LineEnd &outEnd) {
  HEDDLE_RETURN_IF_ERROR(lines.read("> ", message, outEnd));
  std::string line;
  while (outEnd == LineEnd::Newline && !message.empty() && message.back() == '\\') {
    HEDDLE_RETURN_IF_ERROR(lines.read(". ", line, outEnd));
    if (outEnd == LineEnd::Input && !wasInterrupted()) { // the message ends with the input
      message.pop_back();
      outEnd = LineEnd::Newline;
      return Status();
    }
    message.back() = '\n';
    message += line;
    if (outEnd == LineEnd::Input && wasInterrupted() && lines.isEditing())
      outEnd = LineEnd::Cancelled; // the message is what was typed
  }
  return Status();
}

std::string Chat::help() const {
  return std::string(chatHelp) +
         (lines.isEditing() ? "Ctrl-C breaks an answer off or drops a line, and ends where nothing is typed.\n"
                            : "Ctrl-C breaks an answer off, and ends where a message is expected.\n") +
         lines.help();
}

// A failure ends the chat: the reader has gone.
Status Chat::take(const std::string &message) {
  if (message.empty())
    return Status();
  if (message == "/help")
    return writeOut(help());
  if (message == "/reset")
    return reset();
  if (!isUtf8(message)) {
    program.report(invalidInput("the message is not UTF-8"));
    return Status();
  }
  messages.push_back({"user", message, messages.size() == numSystem && !program.options.images.empty()});
  Status status = answer();
  if (messages.back().role != std::string_view("assistant"))
    messages.pop_back();
  if (ferror(stdout))
    return status;
  if (!status.isOk() && !wasInterrupted())
    program.report(status);
  return Status();
}

Status Chat::reset() {
  messages.clear();
  numSystem = program.options.system.empty() ? 0 : 1;
  if (numSystem)
    messages.push_back({"system", program.options.system});
  saidThatTurnsAreDropped = false;
  return Status();
}

// Appends the answer to the messages; none where there is not a token of it.
Status Chat::answer() {
  std::vector<int32_t> ids;
  HEDDLE_RETURN_IF_ERROR(fit(ids));
  const int32_t *cached = session->fedIds(0);
  int64_t common =
      std::mismatch(ids.begin(), ids.begin() + std::min<int64_t>(session->length(0), int64_t(ids.size()) - 1), cached)
          .first -
      ids.begin();
  session->truncate(0, common);
  AnswerStream stream(program, /*keeps=*/true);
  EndReason reason = EndReason::Stopped;
  Status status = generateTokens(
      *session, 0, ids.data() + common, ids.size() - common, program.generateOptions(int64_t(ids.size())),
      [](void *user, int32_t id, const float *) { return static_cast<AnswerStream *>(user)->take(id); }, &stream,
      reason);
  Status shown = stream.finish(/*newline=*/true);
  if (status.isOk() || !stream.text().empty())
    messages.push_back({"assistant", stream.text()});
  if (status.isOk())
    program.noteEnd(reason);
  return status.isOk() ? shown : status;
}

// The ids of the conversation, the oldest turns left out until there is room for an answer too.
Status Chat::fit(std::vector<int32_t> &ids) {
  int64_t context = session->context(), wanted = program.options.hasMaxTokens ? program.options.maxTokens : 256;
  int64_t length = program.maxLength() ? std::min(context, program.maxLength()) : context; // of all turns
  int64_t most = length - std::min(wanted, length / 4);
  for (size_t first = numSystem; first < messages.size(); ++first) {
    if (strcmp(messages[first].role, "user") != 0)
      continue;
    bool isLast = first + 1 == messages.size();
    HEDDLE_RETURN_IF_ERROR(render(first, ids));
    if (int64_t(ids.size()) > (isLast ? context : most))
      continue;
    if (first > numSystem && !saidThatTurnsAreDropped)
      program.note(format("the conversation has outgrown the %s of %lld tokens: its oldest turns are forgotten",
                          length < context ? "model's max_length" : "context", (long long)length));
    saidThatTurnsAreDropped |= first > numSystem;
    messages.erase(messages.begin() + numSystem, messages.begin() + first);
    return Status();
  }
  const char *what = numSystem ? "the message together with that of --system" : "the message";
  std::vector<int32_t> alone; // what --system takes, where the template renders it alone
  if (numSystem && render(messages.size(), alone).isOk() && int64_t(alone.size()) >= context) {
    what = "--system: the message";
    ids = std::move(alone);
  }
  return invalidInput(format("%s has %zu tokens, the context %lld", what, ids.size(), (long long)context));
}

// As templates take it: a text, or a list of parts.
std::string Chat::contentOf(const Message &message, bool asParts) const {
  if (!asParts)
    return jsonString(message.content);
  std::string parts;
  for (size_t i = 0; message.hasImages && i < program.options.images.size(); ++i)
    parts += "{\"type\":\"image\"},";
  return "[" + parts + "{\"type\":\"text\",\"text\":" + jsonString(message.content) + "}]";
}

// The ids of the system message and of those from `first` on. Templates of models that see images take parts; one that takes texts alone
// has no place for images.
Status Chat::render(size_t first, std::vector<int32_t> &ids) const {
  if (!program.metadata().given())
    return render(first, /*asParts=*/false, ids);
  Status status = render(first, /*asParts=*/true, ids);
  return status.isOk() || !program.options.images.empty() ? status : render(first, /*asParts=*/false, ids);
}

Status Chat::render(size_t first, bool asParts, std::vector<int32_t> &ids) const {
  std::string list, error;
  bool hasImages = false;
  for (size_t i = 0; i < messages.size(); ++i)
    if (i < numSystem || i >= first) {
      list += (list.empty() ? "{\"role\":\"" : ",{\"role\":\"") + std::string(messages[i].role) +
              "\",\"content\":" + contentOf(messages[i], asParts) + "}";
      hasImages |= messages[i].hasImages;
    }
  std::string text;
  RewriteChat writeImages = [](const void *user, RenderedChat &rendered) {
    static_cast<const PromptImages *>(user)->write(rendered);
  };
  if (!encodeChat(*conversation, *program.tokenizer, "{\"messages\":[" + list + "],\"add_generation_prompt\":true}",
                  /*parseSpecial=*/true, text, ids, error, hasImages ? writeImages : nullptr, &images))
    return invalidInput(program.package->path() + ": " + error);
  if (ids.empty())
    return invalidInput("the conversation renders to nothing");
  return hasImages ? images.place(ids) : Status();
}

} // namespace

Status runChat(OpenedModel &program) {
  return Chat(program).run();
}

} // namespace heddle
