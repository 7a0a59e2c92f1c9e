// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "frontends/tokenizer/TokenizeTool.h"

#include <cstdlib>

// How every answer begins.
#define SCHEMA "\"schema\": \"heddle-tokens-1\", "

namespace heddle::test {

static const std::map<std::string, std::string> model = {
    {"tokenizer.json", R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}})"},
    {"tokenizer_config.json",
     R"({"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}b{% endif %}"})"}};

struct Outcome {
  int code;
  std::string out, errors;
};

static Outcome run(const std::vector<const char *> &flags, std::string input,
                   const std::map<std::string, std::string> &files = model) {
  TemporaryFolder folder(files);
  std::vector<const char *> words = {folder.path().c_str()};
  words.insert(words.end(), flags.begin(), flags.end());
  char *out = nullptr, *errors = nullptr;
  size_t outSize = 0, errorSize = 0;
  FILE *in = fmemopen(input.data(), input.size(), "r");
  FILE *outFile = open_memstream(&out, &outSize), *errorFile = open_memstream(&errors, &errorSize);
  int code = runTokenizeCommand(static_cast<int>(words.size()), words.data(), in, outFile, errorFile);
  fclose(in), fclose(outFile), fclose(errorFile);
  Outcome result{code, std::string(out, outSize), std::string(errors, errorSize)};
  free(out), free(errors);
  return result;
}

TEST(TokenizeTool, AnswersInOrder) {
  Outcome r = run({}, "{\"text\": \"ab\"}\n\n{\"text\": \"\"}\n{\"text\": \"<s>a\"}");
  EXPECT_EQ(r.code, 0) << r.errors;
  EXPECT_EQ(r.out, "{" SCHEMA "\"ids\": [3]}\n{" SCHEMA "\"ids\": []}\n{" SCHEMA "\"ids\": [0, 1]}\n");
}

TEST(TokenizeTool, NoSpecialParsesNone) {
  EXPECT_EQ(run({"--no-special"}, "{\"text\": \"<s>a\"}\n").out, "{" SCHEMA "\"ids\": [1]}\n");
}

TEST(TokenizeTool, Decodes) {
  EXPECT_EQ(run({"--decode"}, "{\"ids\": [0, 3, 1]}\n").out, "{" SCHEMA "\"text\": \"<s>aba\"}\n");
  EXPECT_EQ(run({"--decode", "--no-special"}, "{\"ids\": [0, 3, 1]}\n").out, "{" SCHEMA "\"text\": \"aba\"}\n");
}

TEST(TokenizeTool, ChatKeepsContentPlain) {
  Outcome r = run({"--chat"}, R"({"messages": [{"role": "user", "content": "<s>a"}]})");
  EXPECT_EQ(r.out, "{" SCHEMA "\"text\": \"<s><s>ab\", \"ids\": [0, 3]}\n");
  EXPECT_EQ(run({"--chat"}, R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": false})").out,
            "{" SCHEMA "\"text\": \"<s>a\", \"ids\": [0, 1]}\n");
}

TEST(TokenizeTool, RefusesBadLines) {
  for (const char *line : {"[1]", "{\"text\": 5}", "{\"text\": \"\xFF\"}", "{\"text\": \"a\"", "{\"ids\": [1]}"}) {
    Outcome r = run({}, std::string("{\"text\": \"a\"}\n") + line + "\n");
    EXPECT_EQ(r.code, 2) << line;
    EXPECT_EQ(r.out, "{" SCHEMA "\"ids\": [1]}\n") << line;
    EXPECT_EQ(r.errors.rfind("heddle tokenize: input line 2: ", 0), 0u) << r.errors;
    EXPECT_EQ(r.errors.find('\n'), r.errors.size() - 1) << r.errors;
  }
  for (const char *line : {"{\"ids\": [4]}", "{\"ids\": [-1]}", "{\"ids\": [1.5]}", "{\"ids\": 1}"})
    EXPECT_EQ(run({"--decode"}, line).code, 2) << line;
  EXPECT_NE(run({"--chat"}, "{\"text\": \"a\"}").errors.find("\"messages\""), std::string::npos);
}

TEST(TokenizeTool, NamesTheModelWhoseTemplateFails) {
  Outcome r = run({"--chat"}, R"({"messages": []})",
                  {{"tokenizer.json", model.at("tokenizer.json")},
                   {"tokenizer_config.json", R"({"chat_template": "\n{{ raise_exception('no messages') }}"})"}});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.errors.rfind("heddle tokenize: input line 1: ", 0), 0u) << r.errors;
  EXPECT_NE(r.errors.find(": chat_template line 2: the template refuses: no messages\n"), std::string::npos)
      << r.errors;
  EXPECT_EQ(r.errors.find("line 1: chat_template"), std::string::npos) << r.errors;
}

TEST(TokenizeTool, RefusesLongInput) {
  Outcome text = run({}, "{\"text\": \"" + std::string(17 << 20, 'a') + "\"}");
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.errors.find("exceeds the limit of 16777216"), std::string::npos) << text.errors;
  Outcome line = run({}, "{\"text\": \"" + std::string(65 << 20, 'a') + "\"}");
  EXPECT_EQ(line.code, 2);
  EXPECT_NE(line.errors.find("exceeds the limit of 67108864 bytes"), std::string::npos) << line.errors;
}

TEST(TokenizeTool, RefusesBadCommandLines) {
  EXPECT_NE(run({"--frob"}, "{}").errors.find("unknown flag '--frob'"), std::string::npos);
  EXPECT_NE(run({"second"}, "{}").errors.find("second"), std::string::npos);
  EXPECT_NE(run({"--chat", "--decode"}, "{}").errors.find("exclude each other"), std::string::npos);
  EXPECT_NE(run({"--chat"}, "{}", {{"tokenizer.json", model.at("tokenizer.json")}}).errors.find("no chat_template"),
            std::string::npos);
  EXPECT_NE(run({}, "{}", {{"config.json", "{}"}}).errors.find("the model has no tokenizer"), std::string::npos);
}

} // namespace heddle::test
