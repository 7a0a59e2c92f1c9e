// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/text/tokenizer/Tokenizer.h"
#include "frontends/tokenizer/TokenizerReader.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

#include <filesystem>
#include <vector>

using namespace heddle;

// What is wrong with where tokens of `text` stand in it; `ids` are those that were given without.
static std::string wrongPlaces(const Tokenizer &tokenizer, std::string_view text, const std::vector<int32_t> &ids) {
  std::vector<int32_t> placed;
  std::vector<TokenPlace> places;
  std::string error;
  if (!tokenizer.encode(text, EncodeOptions(), placed, error, &places))
    return "a text has ids, but no places: " + error;
  if (placed != ids || places.size() != ids.size())
    return "a text has other ids where places are asked for";
  auto isInside = [&](size_t byte) { return byte < text.size() && (text[byte] & 0xC0) == 0x80; };
  int32_t word = -1;
  for (const TokenPlace &place : places) {
    bool isPart = place.word >= 0;
    if (place.begin > place.end || place.end > text.size() || isInside(place.begin) || isInside(place.end) ||
        (isPart && place.word < word) || (!isPart && place.end > 0))
      return "a token stands at bytes " + std::to_string(place.begin) + " to " + std::to_string(place.end) +
             ", in word " + std::to_string(place.word);
    word = isPart ? place.word : word;
  }
  return {};
}

// What is wrong with ids and text of `text`.
static std::string wrongIds(const Tokenizer &tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  std::string error, back;
  if (!tokenizer.encode(text, EncodeOptions(), ids, error))
    return fuzz::wrongMessage(error);
  for (int32_t id : ids)
    if (id < 0 || id >= tokenizer.size())
      return "id " + std::to_string(id) + " of a vocabulary of " + std::to_string(tokenizer.size());
  if (!tokenizer.decode(ids, false, back, error))
    return "ids of a text have none: " + error;
  return wrongPlaces(tokenizer, text, ids);
}

static const package::Tokenizer &tableOf(const std::string &bytes) {
  return *flatbuffers::GetRoot<package::Tokenizer>(bytes.data());
}

// The files of each way to store a tokenizer. A byte 1, which no JSON and no list holds, begins the second.
static constexpr struct {
  const char *first, *second;
} storedAs[] = {{"tokenizer.json", "tokenizer_config.json"},
                {"vocab.json", "merges.txt"},
                {"vocab.txt", "tokenizer_config.json"},
                {"tokenizer.model", nullptr},
                {"tokenizer.gguf", nullptr}};

std::string fuzz::tokenizerFiles(std::string_view bytes) {
  if (bytes.empty())
    return {};
  const auto &names = storedAs[uint8_t(bytes[0]) % std::size(storedAs)];
  bytes.remove_prefix(1);
  for (const char *name :
       {"config.json", "tokenizer_config.json", "merges.txt", "special_tokens_map.json", "added_tokens.json"})
    std::filesystem::remove(fuzzFolder() + "/" + name); // of another target or an earlier call
  size_t end = names.second ? std::min(bytes.find('\1'), bytes.size()) : bytes.size();
  if (end < bytes.size())
    writeFuzzFile(names.second, bytes.substr(end + 1));
  auto table = readTokenizer(writeFuzzFile(names.first, bytes.substr(0, end)));
  if (!table)
    return wrongMessage(table.message());
  if (table->empty())
    return {};
  std::string error;
  std::unique_ptr<Tokenizer> tokenizer = Tokenizer::create(tableOf(*table), error);
  if (!tokenizer)
    return "what the reader wrote, the runtime refuses: " + error;
  return wrongIds(*tokenizer, "Hi there, <s>\xC3\xA9\xE2\x96\x81 42</s>\n\tab  ab");
}

static const char *const byteLevelBpe = R"({
  "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "unk_token": "<s>", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġa": 5, "Ċ": 6, "Ã": 7},
            "merges": ["a b", "Ġ a"]}})";
static const char *const unigram = R"({
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, "decoder": {"type": "Metaspace"},
  "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["▁a", -2.5], ["ab", -2.75], ["b", -4.0]]}})";
static const char *const wordPiece = R"({
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "a": 1, "##a": 2, "b": 3, "##b": 4, "ab": 5, ",": 6, "é": 7}}})";

std::string fuzz::tokenizerText(std::string_view bytes) {
  struct Loaded {
    std::string table;
    std::unique_ptr<Tokenizer> tokenizer;
  };
  static const std::vector<Loaded> kinds = [] {
    std::vector<Loaded> loaded;
    for (const char *json : {byteLevelBpe, unigram, wordPiece}) {
      // In a folder of its own: readers look for a config.json beside it, and other targets write one.
      auto table = readTokenizer(writeFuzzFile("texts/tokenizer.json", json));
      std::string error = table ? "" : table.message();
      loaded.push_back({table ? *table : "", nullptr});
      loaded.back().tokenizer = table ? Tokenizer::create(tableOf(loaded.back().table), error) : nullptr;
      if (!loaded.back().tokenizer) {
        fprintf(stderr, "%s\n", error.c_str());
        abort();
      }
    }
    return loaded;
  }();
  if (bytes.empty())
    return {};
  return wrongIds(*kinds[uint8_t(bytes[0]) % kinds.size()].tokenizer, bytes.substr(1));
}
