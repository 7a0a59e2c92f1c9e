// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "frontends/tokenizer/TokenizerReader.h"

#include <cstring>

namespace heddle::test {

static const char *const byteLevelJson = R"({
  "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                     "special_tokens": {"<s>": {"ids": [0]}}},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġa": 5}, "merges": ["a b", ["Ġ", "a"]]}})";

static std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

static std::string errorOfJson(const std::string &from, const std::string &to) {
  return errorOf({{"tokenizer.json", replaced(byteLevelJson, from, to)}});
}

static void expectPart(const std::string &message, const char *part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(TokenizerJson, ByteLevel) {
  TemporaryFolder folder({{"tokenizer.json", byteLevelJson},
                          {"tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "{{ bos_token }}"})"}});
  LoadedTokenizer t = loadFrom(folder.path());
  EXPECT_EQ(t.encode("ab a"), (Ids{0, 3, 5}));
  EXPECT_EQ(t.decode({3, 5}), "ab a");
  EXPECT_EQ(t.tokenizer->table().bos(), 0);
  EXPECT_EQ(t.tokenizer->table().chat_template()->str(), "{{ bos_token }}");
}

TEST(TokenizerJson, RefusesBadIds) {
  expectPart(errorOfJson("\"b\": 2", "\"b\": 1"), "tokenizer.json: vocab: duplicate id 1 of tokens 'a' and 'b'");
  expectPart(errorOfJson("\"b\": 2", "\"b\": -1"), "id -1 of token 'b' is out of range");
  expectPart(errorOfJson("\"b\": 2", "\"b\": 4000000000"), "id 4000000000 of token 'b' is out of range");
  expectPart(errorOfJson("\"b\": 2", "\"b\": 2.5"), "id 2.5 of token 'b'");
  expectPart(errorOfJson("\"b\": 2", "\"a\": 2"), "duplicate token 'a'");
  expectPart(errorOfJson("\"id\": 0", "\"id\": 1"), "duplicate id 1 of token 'a' and added token '<s>'");
  expectPart(errorOfJson("[0]", "[999]"), "post_processor: id 999 is outside the vocabulary of 6");
}

// How the tokenizer of `json` joins two texts: "middle|suffix|type", or nothing.
static std::string pairOf(const std::string &json) {
  TemporaryFolder folder({{"tokenizer.json", json}});
  LoadedTokenizer loaded = loadFrom(folder.path());
  const package::TextPair *pair = loaded.tokenizer->table().pair();
  if (!pair)
    return "";
  std::string text;
  for (int32_t id : *pair->middle())
    text += std::to_string(id) + " ";
  text += "| ";
  for (int32_t id : *pair->suffix())
    text += std::to_string(id) + " ";
  return text + "| " + std::to_string(pair->type());
}

TEST(TokenizerJson, TwoTextsAreJoinedAsTheTemplateSays) {
  auto withPair = [](const std::string &pair) {
    return replaced(byteLevelJson, "\"special_tokens\"", "\"pair\": [" + pair + "], \"special_tokens\"");
  };
  std::string before = R"({"SpecialToken": {"id": "<s>"}}, )", first = R"({"Sequence": {"id": "A", "type_id": 0}}, )",
              second = R"({"Sequence": {"id": "B", "type_id": 1}})";
  EXPECT_EQ(pairOf(byteLevelJson), "");
  EXPECT_EQ(pairOf(withPair(before + first + before + before + second +
                            R"(, {"SpecialToken": {"id": "<s>", "type_id": 1}})")),
            "0 0 | 0 | 1");
  EXPECT_EQ(pairOf(withPair(before + first + second)), "| | 1");
  // Another beginning than of one text, other types, another order: no program knows how.
  EXPECT_EQ(pairOf(withPair(first + second)), "");
  EXPECT_EQ(pairOf(withPair(before + first + R"({"SpecialToken": {"id": "<s>", "type_id": 1}}, )" + second)), "");
  EXPECT_EQ(
      pairOf(withPair(before + R"({"Sequence": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 1}})")),
      "");
  std::string roberta =
      replaced(byteLevelJson, "\"TemplateProcessing\"", R"("RobertaProcessing", "sep": ["a", 1], "cls": ["<s>", 0])");
  EXPECT_EQ(pairOf(roberta), "1 1 | 1 | 0");
  EXPECT_EQ(pairOf(replaced(roberta, "Roberta", "Bert")), "1 | 1 | 1");
}

TEST(TokenizerJson, RefusesBadPieces) {
  expectPart(errorOfJson("\"b\": 2", "\"" + std::string(100000, 'x') + "\": 2"),
             "length of token 2 (100000 bytes) exceeds the limit of 65536");
  expectPart(errorOfJson("\"a b\"", "\"a z\""), "merge 0 \"a z\" names a piece that is not in the vocabulary");
  expectPart(errorOfJson("\"a b\"", "\"ab\""), "is not two pieces");
  expectPart(errorOfJson("\"BPE\"", "\"WordLevel\""), "is not supported (BPE, Unigram, WordPiece)");
  size_t vocab = std::string(byteLevelJson).find("{\"<s>\": 0");
  std::string empty = byteLevelJson;
  empty.replace(vocab, empty.find('}', vocab) - vocab + 1, "{}");
  expectPart(errorOf({{"tokenizer.json", empty}}), "vocab is empty");
  expectPart(errorOf({{"tokenizer.json", R"({"model": {"type": "Unigram", "vocab": ["a", "b"]}})"}}),
             "is not [token, score]");
  expectPart(errorOf({{"tokenizer.json", R"({"model": {"type": "Unigram", "vocab": [["a", 1e400]]}})"}}),
             "score that is not finite");
  expectPart(errorOf({{"tokenizer.json", R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 7}})"}}),
             "unk_id 7 is outside");
  expectPart(
      errorOf({{"tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]"}})"}}),
      "unk_token '[UNK]' is not in the vocabulary");
}

TEST(TokenizerJson, RefusesBadSteps) {
  const std::string from = R"({"type": "ByteLevel", "add_prefix_space": false})";
  expectPart(errorOfJson(from, R"({"type": "Split", "pattern": {"Regex": "a(?R)?"}})"), "recursion ((?R))");
  expectPart(errorOfJson(from, R"({"type": "Split", "pattern": {"Regex": "("}})"), "regex pattern is not valid");
  expectPart(errorOfJson(from, R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"})"), "behavior");
  expectPart(errorOfJson(from, R"({"type": "UnicodeScripts"})"),
             "pre_tokenizer: type \"UnicodeScripts\" is not supported");
  std::string chain = R"({"type": "Sequence", "normalizers": [{"type": "NFC"})";
  for (int i = 0; i < 16000; ++i)
    chain += R"(, {"type": "NFC"})";
  expectPart(errorOfJson("\"normalizer\": null", "\"normalizer\": " + chain + "]}"),
             "normalizer: a Sequence exceeds the limit of 64 steps");
  expectPart(errorOfJson("\"normalizer\": null", "\"normalizer\": " + std::string(100000, '[')),
             "nested deeper than 64");
  expectPart(
      errorOfJson("\"normalizer\": null", R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA*"})"),
      "is not base64");
  expectPart(errorOfJson("\"normalizer\": null",
                         R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "////////"})"),
             "precompiled_charsmap of 6 bytes");
  expectPart(errorOf({{"tokenizer.json", "{\"model\": \"\xFF\"}"}}), "not UTF-8");
}

// A message names the field of the step that is at fault, and shows the pattern on its one line.
TEST(TokenizerJson, NamesTheStepOfAPattern) {
  const std::string from = R"({"type": "ByteLevel", "add_prefix_space": false})";
  auto cutters = [&](const std::string &second) {
    return errorOfJson(from, R"({"type": "Sequence", "pretokenizers": [)" + from + ", " + second + "]}");
  };
  expectPart(
      cutters(R"({"type": "Split", "pattern": {"Regex": "(\nx"}})"),
      "tokenizer.json: pre_tokenizer.pretokenizers[1].pattern.Regex: regex pattern is not valid (missing closing "
      "parenthesis): (\\x0ax");
  expectPart(
      cutters(R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "a(?R)?"}}]})"),
      "tokenizer.json: pre_tokenizer.pretokenizers[1].pretokenizers[0].pattern.Regex: regex pattern uses recursion");
  expectPart(cutters(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"})"),
             "tokenizer.json: pre_tokenizer.pretokenizers[1]: behavior \"Odd\" is unknown");
  expectPart(cutters(R"({"type": "Split", "pattern": 5})"),
             "pre_tokenizer.pretokenizers[1]: pattern is neither a String nor a Regex");
  expectPart(cutters(R"({"type": "Sequence"})"), "pre_tokenizer.pretokenizers[1]: a Sequence without its list");
  expectPart(
      errorOfJson(
          "\"normalizer\": null",
          R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "content": "", "pattern": {"Regex": "[a&&b]"}}]})"),
      "tokenizer.json: normalizer.normalizers[1].pattern.Regex: regex pattern uses a class intersection (&&), which is "
      "not supported: [a&&b]");
  expectPart(errorOfJson("\"normalizer\": null",
                         R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "////////"})"),
             "tokenizer.json: normalizer.precompiled_charsmap: precompiled_charsmap of 6 bytes");
  expectPart(errorOfJson(R"("decoder": {"type": "ByteLevel"})",
                         R"("decoder": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""})"),
             "tokenizer.json: decoder.pattern.Regex: a decoder that replaces by a regex pattern is not supported: a+");
}

// The rows of the embedding are those of config.json, or what the caller knows better. Rows without a token are padding.
TEST(TokenizerConfig, TokensFitTheEmbedding) {
  std::map<std::string, std::string> files = {
      {"tokenizer.json", replaced(byteLevelJson, "\"added_tokens\": [",
                                  R"("added_tokens": [{"id": 6, "content": "<x>", "special": true}, )")}};
  auto sizeWith = [&](const char *config, int64_t vocabSize) {
    files["config.json"] = config;
    TemporaryFolder folder(files);
    ModelFiles model(folder.path());
    auto table = readTokenizer(model, vocabSize);
    EXPECT_TRUE(table) << (table ? "" : table.message());
    return table ? flatbuffers::GetRoot<package::Tokenizer>(table->data())->pieces()->size() : 0;
  };
  EXPECT_EQ(sizeWith("{}", 0), 7u);
  EXPECT_EQ(sizeWith(R"({"vocab_size": 7})", 0), 7u);
  EXPECT_EQ(sizeWith(R"({"vocab_size": 64})", 0), 7u);
  EXPECT_EQ(sizeWith(R"({"text_config": {"vocab_size": 6}})", 0), 6u);
  EXPECT_EQ(sizeWith(R"({"vocab_size": 64})", 6), 6u);

  files["config.json"] = R"({"vocab_size": 6})";
  TemporaryFolder folder(files);
  EXPECT_EQ(loadFrom(folder.path()).encode("a<x>b"), (Ids{0, 1, 2})); // "<x>" has no bytes in this vocabulary

  // A row that is needed.
  files["tokenizer_config.json"] = R"({"pad_token": "<x>"})";
  expectPart(errorOf(files), "tokenizer.json: pad_token_id 6 is outside the vocabulary of 6 tokens");
  files["config.json"] = R"({"vocab_size": 5})";
  expectPart(errorOf(files),
             "tokenizer.json: id 5 of token ' a' is outside the model's embedding, expected ids below 5 "
             "(vocab_size)");
}

// SmolLM2 has no piece for U+0004, and calls <|endoftext|> unknown.
TEST(TokenizerConfig, BytesWithoutAPieceAreDroppedUnlessTheModelSaysOtherwise) {
  std::map<std::string, std::string> files = {{"tokenizer.json", byteLevelJson},
                                              {"tokenizer_config.json", R"({"unk_token": "<s>"})"}};
  TemporaryFolder named(files);
  LoadedTokenizer t = loadFrom(named.path());
  EXPECT_EQ(t.encode("a\x04"
                     "b"),
            (Ids{0, 1, 2}));
  EXPECT_EQ(t.tokenizer->table().unknown(), 0);
  files["tokenizer.json"] = replaced(byteLevelJson, "\"BPE\",", "\"BPE\", \"unk_token\": \"<s>\",");
  TemporaryFolder ofModel(files);
  EXPECT_EQ(loadFrom(ofModel.path())
                .encode("a\x04"
                        "b"),
            (Ids{0, 1, 0, 2}));
}

TEST(TokenizerConfig, NamesTheFileOfAnAddedToken) {
  std::map<std::string, std::string> files = {{"tokenizer.json", byteLevelJson}};
  files["tokenizer_config.json"] = R"({"added_tokens_decoder": {"1": {"content": "<x>"}}})";
  expectPart(errorOf(files), "tokenizer_config.json: duplicate id 1 of token 'a' and added token '<x>'");
  files["tokenizer_config.json"] = "{}";
  files["added_tokens.json"] = R"({"<x>": 4000000000})";
  expectPart(errorOf(files), "added_tokens.json: id 4000000000 of added token '<x>' is out of range");
}

TEST(TokenizerConfig, RefusesBadCompanions) {
  std::map<std::string, std::string> files = {{"tokenizer.json", byteLevelJson}};
  files["tokenizer_config.json"] = R"({"chat_template": "{% for m in messages %}"})";
  expectPart(errorOf(files), "tokenizer_config.json: chat_template line 1: unexpected end");
  files["tokenizer_config.json"] = R"({"chat_template": 5})";
  expectPart(errorOf(files), "chat_template is not a string");
  files["chat_template.jinja"] = "{{ x | frobnicate }}";
  expectPart(errorOf(files), "chat_template.jinja: chat_template line 1: unknown filter 'frobnicate'");
  files.erase("chat_template.jinja");
  files["tokenizer_config.json"] = R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})";
  expectPart(errorOf(files), "added_tokens_decoder: entry 'x'");
  std::string added;
  for (const char *id : {"60000", "120000"})
    added += (added.empty() ? "\"" : ", \"") + std::string(id) + R"(": {"content": "<)" + id + R"(>"})";
  files["tokenizer_config.json"] = R"({"added_tokens_decoder": {)" + added + "}}";
  expectPart(errorOf(files), "id 120000 of added token '<120000>' is out of range");
  files["tokenizer_config.json"] = "{}";
  files["config.json"] = R"({"vocab_size": 6, "eos_token_id": 9999})";
  expectPart(errorOf(files), "config.json: eos_token_id 9999 is outside the vocabulary of 6");
  files.erase("config.json");
  files["added_tokens.json"] = R"({"<x>": "y"})";
  expectPart(errorOf(files), "added_tokens.json: id");
}

TEST(VocabFiles, JsonAndMerges) {
  std::map<std::string, std::string> files = {{"vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})"},
                                              {"merges.txt", "#version: 0.2\na b\n"}};
  TemporaryFolder folder(files);
  LoadedTokenizer t = loadFrom(folder.path());
  EXPECT_EQ(t.encode("ab<|endoftext|>"), (Ids{2, 3}));
  files["merges.txt"] = "a b\na z\n";
  expectPart(errorOf(files), "merges.txt: line 2: merge 'a z' names a piece that is not in the vocabulary");
  files.erase("merges.txt");
  expectPart(errorOf(files), "merges.txt is missing");
}

TEST(VocabFiles, WordPieceText) {
  TemporaryFolder folder({{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##able\n"}});
  LoadedTokenizer t = loadFrom(folder.path());
  EXPECT_EQ(t.encode("Unable x"), (Ids{2, 4, 5, 1, 3}));
  EXPECT_EQ(t.decode({2, 4, 5, 3}, true), "unable");
  expectPart(errorOf({{"vocab.txt", "a\nb\n"}}), "[UNK] is missing");
  expectPart(errorOf({{"vocab.txt", "[UNK]\na\na\n"}}), "line 3: duplicate token 'a'");
  expectPart(errorOf({{"vocab.txt", ""}}), "the vocabulary is empty");
}

// Ids are those of transformers' EsmTokenizer.
TEST(VocabFiles, ProteinText) {
  std::string config = R"({"tokenizer_class": "EsmTokenizer"})";
  std::string vocabulary = "<cls>\n<pad>\n<eos>\n<unk>\nL\nA\nG\nV\nM\nK\nT\n<mask>";
  TemporaryFolder folder({{"vocab.txt", vocabulary}, {"tokenizer_config.json", config}});
  LoadedTokenizer t = loadFrom(folder.path());
  EXPECT_EQ(t.encode("MKTLAG"), (Ids{0, 8, 9, 10, 4, 5, 6, 2}));
  EXPECT_EQ(t.encode(" M K\nJxT mk"), (Ids{0, 8, 9, 3, 10, 3, 2}));
  EXPECT_EQ(t.encode("A\u00E9 \u00E9 A"), (Ids{0, 5, 3, 3, 5, 2}));
  expectPart(errorOf({{"vocab.txt", "L\nA\n"}, {"tokenizer_config.json", config}}), "<unk> is missing");
}

// One ModelProto piece: text, score, type.
static std::string protoPiece(const std::string &text, float score, int type) {
  std::string piece = "\x0A" + std::string(1, static_cast<char>(text.size())) + text + "\x15";
  char bytes[4];
  memcpy(bytes, &score, 4);
  piece += std::string(bytes, 4) + "\x18" + static_cast<char>(type);
  return "\x0A" + std::string(1, static_cast<char>(piece.size())) + piece;
}

TEST(SentencePieceModel, ReadsUnigram) {
  std::string model = protoPiece("<unk>", 0, 2) + protoPiece("<s>", 0, 3) + protoPiece("</s>", 0, 3) +
                      protoPiece("\xE2\x96\x81", -1, 1) + protoPiece("a", -2, 1) +
                      protoPiece("\xE2\x96\x81"
                                 "a",
                                 -2, 1) +
                      std::string("\x12\x02\x18\x01", 4);
  TemporaryFolder folder({{"spiece.model", model}});
  LoadedTokenizer t = loadFrom(folder.path());
  EXPECT_EQ(t.encode(" a  aa"), (Ids{5, 5, 4, 2}));
  EXPECT_EQ(t.decode({5, 5, 4}), "a aa");
  expectPart(errorOf({{"spiece.model", model.substr(0, model.size() - 1)}}), "malformed or truncated");
  expectPart(errorOf({{"spiece.model", std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 10)}}),
             "malformed or truncated");
  expectPart(errorOf({{"spiece.model", protoPiece("a", 0, 1)}}), "no piece has the type 'unknown'");
  expectPart(errorOf({{"spiece.model", protoPiece("a", 0, 9)}}), "type of piece 0 is 9");
  expectPart(errorOf({{"spiece.model", protoPiece("a", std::numeric_limits<float>::infinity(), 1)}}),
             "score of piece 0");
  expectPart(errorOf({{"tokenizer.model", ""}}), "the vocabulary is empty");
}

// A GGUF file of metadata alone, written value by value.
class GgufText {
public:
  template <typename T> static std::string number(T value) {
    return std::string(reinterpret_cast<const char *>(&value), sizeof value);
  }
  static std::string string(const std::string &text) { return number<uint64_t>(text.size()) + text; }
  static std::string strings(const std::vector<std::string> &values) {
    std::string bytes = number<uint32_t>(8) + number<uint64_t>(values.size());
    for (const std::string &value : values)
      bytes += string(value);
    return bytes;
  }
  void set(const std::string &key, uint32_t type, const std::string &value) {
    entries += string(key) + number(type) + value;
    ++count;
  }
  std::string bytes() const { return "GGUF" + number<uint32_t>(3) + number<uint64_t>(0) + number(count) + entries; }

private:
  std::string entries;
  uint64_t count = 0;
};

TEST(GgufTokenizer, BytesWithoutAPieceAreDropped) {
  enum : uint32_t { Uint32 = 4, String = 8, Array = 9 };
  GgufText file;
  file.set("general.architecture", String, GgufText::string("llama"));
  file.set("tokenizer.ggml.model", String, GgufText::string("gpt2"));
  file.set("tokenizer.ggml.tokens", Array, GgufText::strings({"<s>", "a", "b"}));
  file.set("tokenizer.ggml.merges", Array, GgufText::strings({}));
  file.set("tokenizer.ggml.unknown_token_id", Uint32, GgufText::number<uint32_t>(0));
  TemporaryFolder folder({{"model.gguf", file.bytes()}});
  LoadedTokenizer t = loadFrom(folder.path() + "/model.gguf");
  EXPECT_EQ(t.encode("a\x04"
                     "b"),
            (Ids{1, 2}));
  EXPECT_EQ(t.tokenizer->table().unknown(), 0);
}

// Gemma 4: joins by rank over text whose spaces are U+2581, bytes of what has no piece.
class GgufRankedText : public ::testing::Test {
protected:
  enum : uint32_t { Uint32 = 4, Bool = 7, String = 8, Array = 9 };
  enum : int32_t { Normal = 1, Control = 3, UserDefined = 4, Byte = 6 };

  GgufText file(const std::string &model, const std::vector<std::string> &merges = {"\u2581 b", "\u2581 \u2581"}) {
    GgufText file;
    file.set("general.architecture", String, GgufText::string("llama"));
    file.set("tokenizer.ggml.model", String, GgufText::string(model));
    file.set("tokenizer.ggml.tokens", Array,
             GgufText::strings({"<bos>", "a", "b", "\u2581", "\u2581b", "\u2581\u2581", "<0xC3>", "<0xA9>", "<|x|>"}));
    std::string kinds = GgufText::number<uint32_t>(5) + GgufText::number<uint64_t>(9);
    for (int32_t kind : {Control, Normal, Normal, UserDefined, Normal, Normal, Byte, Byte, UserDefined})
      kinds += GgufText::number(kind);
    file.set("tokenizer.ggml.token_type", Array, kinds);
    file.set("tokenizer.ggml.merges", Array, GgufText::strings(merges));
    file.set("tokenizer.ggml.bos_token_id", Uint32, GgufText::number<uint32_t>(0));
    return file;
  }
  // What is wrong with the file; empty if it is accepted.
  std::string errorOf(const GgufText &file) {
    TemporaryFolder folder({{"model.gguf", file.bytes()}});
    auto table = readTokenizer(folder.path() + "/model.gguf");
    return table ? "" : table.message();
  }
  Ids encode(const GgufText &file, const char *text) {
    TemporaryFolder folder({{"model.gguf", file.bytes()}});
    return loadFrom(folder.path() + "/model.gguf").encode(text);
  }
};

TEST_F(GgufRankedText, JoinsByRankAndFallsBackToBytes) {
  TemporaryFolder folder({{"model.gguf", file("gemma4").bytes()}});
  LoadedTokenizer t = loadFrom(folder.path() + "/model.gguf");
  EXPECT_EQ(t.encode("a b a<|x|>"), (Ids{0, 1, 4, 3, 1, 8}));
  EXPECT_EQ(t.encode("   b\u00e9"), (Ids{0, 5, 4, 6, 7})); // the first rank is that of "▁b"
  EXPECT_EQ(t.decode({1, 4, 5, 6, 7, 8}), "a b  \u00e9<|x|>");
}

// Some files of Gemma 4 say that none is added, which the model's own never did.
TEST_F(GgufRankedText, BosIsWhatTheModelHas) {
  auto told = [&](const std::string &pre, bool bos) {
    GgufText text = file("gpt2");
    text.set("tokenizer.ggml.pre", String, GgufText::string(pre));
    text.set("tokenizer.ggml.add_bos_token", Bool, GgufText::number(bos));
    return encode(text, "a b");
  };
  EXPECT_EQ(told("gemma4", false), (Ids{0, 1, 4}));
  EXPECT_EQ(told("sarvam-moe", false), (Ids{1, 4}));
  EXPECT_EQ(told("sarvam-moe", true), (Ids{0, 1, 4}));
}

TEST_F(GgufRankedText, Refusals) {
  expectPart(errorOf(file("gemma4", {})), "model.gguf: tokenizer.ggml.merges is empty");
  expectPart(errorOf(file("gemma5")),
             "tokenizer.ggml.model 'gemma5' is not a known tokenizer (gpt2, gemma4, llama, bert, t5)");
  GgufText unknown = file("gpt2");
  unknown.set("tokenizer.ggml.pre", String, GgufText::string("nobody"));
  expectPart(errorOf(unknown), "tokenizer.ggml.pre 'nobody' is not a known pre-tokenizer (gpt-2, ");
}

TEST(ReadTokenizer, AModelMayHaveNone) {
  TemporaryFolder folder({{"config.json", "{}"}});
  auto table = readTokenizer(folder.path());
  ASSERT_TRUE(table);
  EXPECT_TRUE(table->empty());
  auto missing = readTokenizer(folder.path() + "/nothing");
  ASSERT_FALSE(missing);
  expectPart(missing.message(), "no such file");
}

} // namespace heddle::test
