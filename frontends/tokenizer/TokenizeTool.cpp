// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizeTool.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/Text.h"
#include "frontends/tokenizer/TokenizerReader.h"
#include "runtime/text/template/Template.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cerrno>
#include <cstring>

namespace heddle {

static constexpr size_t maxLine = 64 << 20;

namespace {

enum class LineResult { Line, End, TooLong, Failed };

// The next line of at most `maxLine` bytes. Returns as soon as the line is whole: whoever asks may wait for the answer.
LineResult readLine(FILE *in, std::string &line) {
  line.clear();
  for (int c = 0; (c = getc_unlocked(in)) != EOF;) {
    if (c == '\n')
      return LineResult::Line;
    if (line.size() == maxLine)
      return LineResult::TooLong;
    line.push_back(static_cast<char>(c));
  }
  if (ferror(in))
    return LineResult::Failed;
  return line.empty() ? LineResult::End : LineResult::Line;
}

// How every answer begins.
std::string lineStart() {
  return "{\"schema\": " + jsonString(schema::tokens) + ", ";
}

class TokenizeTool {
public:
  TokenizeTool(const std::string &model, const Tokenizer &tokenizer, const ChatTemplate *chat,
               const TokenizeOptions &options)
      : model(model), tokenizer(tokenizer), chat(chat), options(options) {}

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
    out += lineStart() + "\"ids\": ";
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
    out += lineStart() + "\"text\": ";
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
    std::string text;
    std::vector<int32_t> ids;
    if (!encodeChat(*chat, tokenizer, input, !options.noSpecial, text, ids, error)) {
      error = printable(model) + ": " + error;
      return false;
    }
    out += lineStart() + "\"text\": ";
    appendJsonString(text, out);
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

  const std::string &model;
  const Tokenizer &tokenizer;
  const ChatTemplate *chat; // with --chat
  const TokenizeOptions &options;
};

} // namespace

static int refuse(FILE *errors, const std::string &message) {
  fprintf(errors, "heddle tokenize: %s\n", message.c_str());
  return 2;
}

int runTokenize(const std::string &model, const TokenizeOptions &options, FILE *in, FILE *out, FILE *errors) {
  auto table = readTokenizer(model);
  if (!table)
    return refuse(errors, table.message());
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
  TokenizeTool tool(model, *tokenizer, chat.get(), options);
  std::string line;
  for (size_t number = 1;; ++number) {
    std::string where = "input line " + std::to_string(number) + ": ";
    LineResult result = readLine(in, line);
    if (result == LineResult::TooLong)
      return refuse(errors, where + "its length exceeds the limit of " + std::to_string(maxLine) + " bytes");
    if (result == LineResult::Failed) {
      fprintf(errors, "heddle tokenize: %scannot be read: %s\n", where.c_str(), strerror(errno));
      return 1;
    }
    if (result == LineResult::End)
      break;
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    std::string answer;
    if (!tool.answer(line, answer, error))
      return refuse(errors, where + error);
    answer += '\n';
    if (fwrite(answer.data(), 1, answer.size(), out) != answer.size() || fflush(out) != 0)
      break;
  }
  if (fflush(out) != 0 || ferror(out)) {
    fprintf(errors, "heddle tokenize: cannot write the answers\n");
    return 1;
  }
  return 0;
}

static const char *const help = R"(heddle tokenize MODEL [options] < QUESTIONS > ANSWERS

Turns text to token ids, and back, as the compiled model does. MODEL is a GGUF file, a Hugging Face folder or one of its tokenizer
files. Questions and answers are JSON, one in each line, in the same order; answers also have a key "schema":

  {"text": "a b"}                    -> {"ids": [...]}
  {"ids": [1, 2]}                    -> {"text": "..."}                 with --decode
  {"messages": [{"role": "user", "content": "Hi"}]}
                                     -> {"text": "...", "ids": [...]}   with --chat, by the model's chat template

  --no-special                       special tokens in a text stay text and none is added; with --decode: leave them out
  --decode                           ids to text
  --chat                             messages to the text and the ids of a prompt

Example:
  echo '{"text": "The capital of France is"}' | heddle tokenize model.gguf

Exit code: 0 done, 1 the questions cannot be read or the answers be written, 2 the model, a question or the command line is at fault.
)";

int runTokenizeCommand(int argc, const char *const *argv, FILE *in, FILE *out, FILE *errors) {
  TokenizeOptions options;
  std::string model;
  bool hasModel = false;
  for (int i = 0; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--help" || word == "-h")
      return fputs(help, out) == EOF || fflush(out) != 0;
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
