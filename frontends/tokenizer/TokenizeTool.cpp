// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizeTool.h"

#include "frontends/Size.h"
#include "frontends/tokenizer/TokenizerReader.h"
#include "runtime/Json.h"
#include "runtime/Template.h"
#include "runtime/Tokenizer.h"

#include <cstring>

namespace heddle {

static constexpr size_t maxLine = 64 << 20;

namespace {

// Reads lines of bounded length.
class LineReader {
public:
  explicit LineReader(FILE *in) : in(in) {}
  enum class Result { Line, End, TooLong };

  Result next(std::string &line) {
    line.clear();
    for (;;) {
      if (begin == end) {
        begin = 0;
        end = fread(buffer, 1, sizeof buffer, in);
        if (end == 0)
          return line.empty() ? Result::End : Result::Line;
      }
      const char *from = buffer + begin;
      const void *newline = memchr(from, '\n', end - begin);
      size_t take = newline ? static_cast<size_t>(static_cast<const char *>(newline) - from) : end - begin;
      if (line.size() + take > maxLine)
        return Result::TooLong;
      line.append(from, take);
      begin += take + (newline ? 1 : 0);
      if (newline)
        return Result::Line;
    }
  }

private:
  FILE *in;
  char buffer[1 << 16];
  size_t begin = 0, end = 0;
};

class TokenizeTool {
public:
  TokenizeTool(const Tokenizer &tokenizer, const ChatTemplate *chat, const TokenizeOptions &options)
      : tokenizer(tokenizer), chat(chat), options(options), variables(specialTokenVariables(tokenizer)) {}

  // Appends the answer to `line`; false with the reason in `error`.
  bool answer(std::string_view line, std::string &out, std::string &error) const {
    JsonValue question = JsonValue::parse(line, error);
    if (!question)
      return false;
    if (!question.is(JsonKind::Object)) {
      error = "expected a JSON object";
      return false;
    }
    if (options.chat)
      return render(question, out, error);
    return options.decode ? decode(question, out, error) : encode(question, out, error);
  }

private:
  bool encode(JsonValue question, std::string &out, std::string &error) const {
    JsonValue text = question.find("text");
    if (!text.is(JsonKind::String)) {
      error = "expected the string \"text\"";
      return false;
    }
    EncodeOptions encoding;
    encoding.parseSpecial = encoding.addSpecial = !options.noSpecial;
    std::vector<int32_t> ids;
    if (!tokenizer.encode(text.string(), encoding, ids, error))
      return false;
    out += "{\"ids\": ";
    appendIds(ids, out);
    out += '}';
    return true;
  }

  bool decode(JsonValue question, std::string &out, std::string &error) const {
    JsonValue list = question.find("ids");
    if (!list.is(JsonKind::Array)) {
      error = "expected the array \"ids\"";
      return false;
    }
    std::vector<int32_t> ids;
    for (JsonItems items(list); items.next();) {
      int64_t id = 0;
      if (!items.value.integer(id) || id < 0 || id >= tokenizer.size()) {
        error = "id " + printable(items.value.raw(), 40) + " at index " + std::to_string(ids.size()) +
                " is not one of the vocabulary's " + std::to_string(tokenizer.size());
        return false;
      }
      ids.push_back(static_cast<int32_t>(id));
    }
    std::string text;
    if (!tokenizer.decode(ids, options.noSpecial, text, error))
      return false;
    out += "{\"text\": ";
    appendJsonString(text, out);
    out += '}';
    return true;
  }

  // The conversation as the model's template writes it, asking for an answer unless "add_generation_prompt" says otherwise. The
  // template writes BOS itself; special tokens are parsed in its own text only.
  bool render(JsonValue question, std::string &out, std::string &error) const {
    if (!question.find("messages").is(JsonKind::Array)) {
      error = "expected the array \"messages\"";
      return false;
    }
    std::string input(question.raw());
    if (!question.find("add_generation_prompt"))
      input.insert(1, "\"add_generation_prompt\": true, ");
    RenderedChat rendered;
    if (!chat->render(input, variables, rendered, error))
      return false;
    EncodeOptions encoding;
    encoding.parseSpecial = !options.noSpecial;
    encoding.addSpecial = false;
    encoding.untrusted = std::move(rendered.untrusted);
    std::vector<int32_t> ids;
    if (!tokenizer.encode(rendered.text, encoding, ids, error))
      return false;
    out += "{\"text\": ";
    appendJsonString(rendered.text, out);
    out += ", \"ids\": ";
    appendIds(ids, out);
    out += '}';
    return true;
  }

  static void appendIds(const std::vector<int32_t> &ids, std::string &out) {
    out += '[';
    for (size_t i = 0; i < ids.size(); ++i)
      out.append(i ? ", " : "").append(std::to_string(ids[i]));
    out += ']';
  }

  const Tokenizer &tokenizer;
  const ChatTemplate *chat; // with --chat
  const TokenizeOptions &options;
  std::vector<TemplateVariable> variables;
};

} // namespace

static int refuse(FILE *errors, const std::string &message) {
  fprintf(errors, "heddle tokenize: %s\n", message.c_str());
  return 2;
}

int runTokenize(const std::string &model, const TokenizeOptions &options, FILE *in, FILE *out, FILE *errors) {
  auto table = readTokenizer(model);
  if (!table)
    return refuse(errors, table.takeError().message);
  if (table->empty())
    return refuse(errors, printable(model) + ": the model has no tokenizer");
  std::string error;
  auto tokenizer = Tokenizer::create(*flatbuffers::GetRoot<package::Tokenizer>(table->data()), error);
  if (!tokenizer)
    return refuse(errors, printable(model) + ": " + error);
  std::unique_ptr<ChatTemplate> chat;
  if (options.chat) {
    const auto *source = tokenizer->table().chat_template();
    if (!source)
      return refuse(errors, printable(model) + ": the model has no chat_template");
    chat = ChatTemplate::parse({source->c_str(), source->size()}, error);
    if (!chat)
      return refuse(errors, printable(model) + ": " + error);
  }
  TokenizeTool tool(*tokenizer, chat.get(), options);
  LineReader lines(in);
  std::string line;
  for (size_t number = 1;; ++number) {
    std::string where = "input line " + std::to_string(number) + ": ";
    LineReader::Result result = lines.next(line);
    if (result == LineReader::Result::TooLong)
      return refuse(errors, where + "its length exceeds the limit of " + std::to_string(maxLine) + " bytes");
    if (result == LineReader::Result::End)
      break;
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    std::string answer;
    if (!tool.answer(line, answer, error))
      return refuse(errors, where + error);
    answer += '\n';
    if (fwrite(answer.data(), 1, answer.size(), out) != answer.size())
      break;
  }
  if (fflush(out) != 0 || ferror(out)) {
    fprintf(errors, "heddle tokenize: cannot write the answers\n");
    return 1;
  }
  return 0;
}

int runTokenizeCommand(int argc, const char *const *argv, FILE *in, FILE *out, FILE *errors) {
  TokenizeOptions options;
  std::string model;
  bool hasModel = false;
  for (int i = 0; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--no-special")
      options.noSpecial = true;
    else if (word == "--decode")
      options.decode = true;
    else if (word == "--chat")
      options.chat = true;
    else if (word.substr(0, 1) == "-")
      return refuse(errors, "unknown flag '" + printable(word) + "' (--no-special, --decode, --chat)");
    else if (hasModel)
      return refuse(errors, "one MODEL is expected, '" + printable(word) + "' is a second one");
    else
      model = word, hasModel = true;
  }
  if (!hasModel)
    return refuse(errors, "expected MODEL [--no-special] [--decode] [--chat]");
  if (options.decode && options.chat)
    return refuse(errors, "--decode and --chat exclude each other");
  return runTokenize(model, options, in, out, errors);
}

} // namespace heddle
