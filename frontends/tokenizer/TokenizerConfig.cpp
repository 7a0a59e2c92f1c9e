// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizerFiles.h"

#include "bytes/Status.h"

#include <algorithm>

namespace heddle {

using package::PieceFlag;
using package::TokenKind;

namespace {

class TokenizerConfigReader {
public:
  TokenizerConfigReader(ModelFiles &files, TokenizerDraft &draft) : files(files), draft(draft) {}
  Status read();

private:
  std::string path(const char *name) const { return files.pathOf(name); }
  // The file's object, which lasts as long as `files`, or Absent if there is none.
  Expected<JsonValue> open(const char *name);
  Status readAddedTokens(JsonValue tokens, const char *file);
  Status readAddedTokenIds();
  Status readNames(JsonValue config, const char *file);
  Status readSurround(JsonValue config);
  Status readChatTemplate(JsonValue config);
  Status readModelConfig();
  int64_t findPiece(std::string_view text) const;

  ModelFiles &files;
  TokenizerDraft &draft;
};

} // namespace

Expected<JsonValue> TokenizerConfigReader::open(const char *name) {
  if (!files.has(name))
    return JsonValue();
  auto json = openJson(files, name);
  if (!json)
    return json.status();
  return json->root;
}

int64_t TokenizerConfigReader::findPiece(std::string_view text) const {
  // Special tokens first: a byte-level piece may have the same bytes.
  for (bool added : {true, false})
    for (size_t id = 0; id < draft.pieces.size(); ++id) {
      const PieceDraft &piece = draft.pieces[id];
      bool isAdded = (piece.flags & PieceFlag::Added) != PieceFlag::NONE;
      if (piece.kind != TokenKind::Absent && isAdded == added && piece.text == text)
        return static_cast<int64_t>(id);
    }
  return -1;
}

// "added_tokens_decoder": {"32000": {"content": …, "special": …}}.
Status TokenizerConfigReader::readAddedTokens(JsonValue tokens, const char *file) {
  for (JsonItems items(tokens); items.next();) {
    std::string key = items.key.string();
    JsonValue content = items.value.find("content");
    bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || !content.is(JsonKind::String))
      return errorIn(path(file),
                     "added_tokens_decoder: entry '" + printable(key, 40) + "' is not an id with its content");
    int64_t id = std::stoll(key);
    std::string text = content.string();
    bool known = id < static_cast<int64_t>(draft.pieces.size()) &&
                 (draft.pieces[static_cast<size_t>(id)].flags & PieceFlag::Added) != PieceFlag::NONE;
    if (known && draft.pieces[static_cast<size_t>(id)].text == text)
      continue;
    HEDDLE_RETURN_IF_ERROR(addToken(draft, path(file), id, text, items.value));
  }
  return Status();
}

// added_tokens.json: {"token": id}.
Status TokenizerConfigReader::readAddedTokenIds() {
  auto tokens = open("added_tokens.json");
  if (!tokens)
    return tokens.status();
  for (JsonItems items(*tokens); items.next();) {
    int64_t id = -1;
    std::string text = items.key.string();
    if (!items.value.integer(id))
      return errorIn(path("added_tokens.json"),
                     "id " + printable(items.value.raw(), 40) + " of '" + printable(text, 40) + "' is not an integer");
    bool known = id >= 0 && id < static_cast<int64_t>(draft.pieces.size()) &&
                 draft.pieces[static_cast<size_t>(id)].kind != TokenKind::Absent;
    if (!known)
      HEDDLE_RETURN_IF_ERROR(addToken(draft, path("added_tokens.json"), id, text, JsonValue()));
  }
  return Status();
}

// "bos_token": "<s>" or {"content": "<s>", …}, and likewise the others. The first file that names one counts.
Status TokenizerConfigReader::readNames(JsonValue config, const char *file) {
  struct {
    const char *key;
    int64_t *id;
  } names[] = {{"bos_token", &draft.bos},
               {"eos_token", &draft.eos},
               {"unk_token", &draft.unknown},
               {"pad_token", &draft.pad},
               {"mask_token", &draft.mask}};
  for (auto &name : names) {
    auto member = findMember(path(file), config, name.key);
    if (!member)
      return member.status();
    std::string text = member->is(JsonKind::Object) ? member->find("content").string() : member->string();
    int64_t id = text.empty() ? -1 : findPiece(text);
    // Byte-level BPE has the unknown token that its model names, or none.
    if (name.id == &draft.unknown && *name.id < 0)
      draft.dropUnknown = draft.model == package::TokenizerModel::ByteLevelBpe;
    if (id >= 0 && (*name.id < 0 || name.id != &draft.unknown))
      *name.id = id;
    // A named token is special even where the vocabulary does not say so.
    if (id >= 0 && (draft.pieces[static_cast<size_t>(id)].flags & PieceFlag::Added) == PieceFlag::NONE &&
        name.id != &draft.unknown)
      draft.pieces[static_cast<size_t>(id)].flags |= PieceFlag::Added | PieceFlag::Special;
  }
  return Status();
}

// add_bos_token and add_eos_token of the classes whose post-processor they rule.
Status TokenizerConfigReader::readSurround(JsonValue config) {
  std::string name = config.find("tokenizer_class").string();
  bool ruled = name.find("Llama") != std::string::npos || name.find("Gemma") != std::string::npos ||
               name.find("Mistral") != std::string::npos;
  bool sentencePiece = draft.file.size() > 6 && draft.file.compare(draft.file.size() - 6, 6, ".model") == 0;
  bool t5 = name.find("T5") != std::string::npos || draft.file.find("spiece.model") != std::string::npos;
  JsonValue addBos = config.find("add_bos_token"), addEos = config.find("add_eos_token");
  auto apply = [](std::vector<int64_t> &list, int64_t id, JsonValue wanted, bool standard, bool ruled) {
    bool there = id >= 0 && std::find(list.begin(), list.end(), id) != list.end();
    bool add = wanted.is(JsonKind::Bool) ? wanted.isTrue() : standard;
    if (add && !there && id >= 0)
      list.push_back(id);
    if (!add && there && ruled && wanted.is(JsonKind::Bool))
      list.erase(std::find(list.begin(), list.end(), id));
  };
  apply(draft.prefix, draft.bos, addBos, sentencePiece && !t5, ruled);
  apply(draft.suffix, draft.eos, addEos, sentencePiece && t5, ruled);
  return Status();
}

Status TokenizerConfigReader::readChatTemplate(JsonValue config) {
  std::string plain = path("chat_template.jinja");
  if (files.has("chat_template.jinja")) {
    auto file = files.open("chat_template.jinja");
    if (!file)
      return file.status();
    if ((*file)->size() > maxChatTemplateBytes)
      return errorIn(plain, "chat_template has a size of " + std::to_string((*file)->size()) + " bytes, the limit is " +
                                std::to_string(maxChatTemplateBytes));
    draft.chatTemplate.assign((*file)->text());
    draft.chatTemplateFile = plain;
    return Status();
  }
  const char *source = "tokenizer_config.json";
  auto found = findMember(path(source), config, "chat_template");
  if (!found)
    return found.status();
  JsonValue value = *found;
  if (!value || value.is(JsonKind::Null)) {
    source = "chat_template.json";
    auto other = open(source);
    if (!other)
      return other.status();
    value = other->find("chat_template");
  }
  // Several templates: [{"name": "default", "template": …}, …].
  JsonValue chosen = value;
  for (JsonItems items(value); items.next();)
    if (items.value.find("name").equals("default") || !chosen.is(JsonKind::String))
      chosen = items.value.find("template");
  if (!chosen || chosen.is(JsonKind::Null))
    return Status();
  draft.chatTemplateFile = path(source);
  if (!chosen.is(JsonKind::String))
    return errorIn(draft.chatTemplateFile, "chat_template is not a string");
  draft.chatTemplate = chosen.string();
  return Status();
}

// Ids in config.json that the tokenizer's files left open; all are checked.
Status TokenizerConfigReader::readModelConfig() {
  auto config = open("config.json");
  if (!config)
    return config.status();
  JsonValue text = config->find("text_config").is(JsonKind::Object) ? config->find("text_config") : *config;
  int64_t size = 0;
  if (text.find("vocab_size").integer(size) && size > 0 && !draft.vocabSize)
    draft.vocabSize = size;
  size = std::max(size, static_cast<int64_t>(draft.pieces.size()));
  struct {
    const char *key;
    int64_t *id;
  } names[] = {{"bos_token_id", &draft.bos}, {"eos_token_id", &draft.eos}, {"pad_token_id", &draft.pad}};
  for (auto &name : names) {
    JsonValue value = text.find(name.key);
    auto check = [&](JsonValue one) -> Status {
      int64_t id = -1;
      if (one.integer(id) && (id < -1 || id >= size))
        return errorIn(path("config.json"), std::string(name.key) + " " + std::to_string(id) +
                                                " is outside the vocabulary of " + std::to_string(size));
      if (*name.id < 0 && id >= 0 && id < static_cast<int64_t>(draft.pieces.size()))
        *name.id = id;
      return Status();
    };
    if (value.is(JsonKind::Array)) {
      for (JsonItems items(value); items.next();)
        HEDDLE_RETURN_IF_ERROR(check(items.value));
    } else {
      HEDDLE_RETURN_IF_ERROR(check(value));
    }
  }
  return Status();
}

Status TokenizerConfigReader::read() {
  auto config = open("tokenizer_config.json");
  if (!config)
    return config.status();
  auto map = open("special_tokens_map.json");
  if (!map)
    return map.status();
  HEDDLE_RETURN_IF_ERROR(readAddedTokenIds());
  HEDDLE_RETURN_IF_ERROR(readAddedTokens(config->find("added_tokens_decoder"), "tokenizer_config.json"));
  HEDDLE_RETURN_IF_ERROR(readNames(*map, "special_tokens_map.json"));
  HEDDLE_RETURN_IF_ERROR(readNames(*config, "tokenizer_config.json"));
  HEDDLE_RETURN_IF_ERROR(readModelConfig());
  HEDDLE_RETURN_IF_ERROR(readSurround(*config));
  return readChatTemplate(*config);
}

Status readTokenizerConfig(ModelFiles &files, TokenizerDraft &draft) {
  return TokenizerConfigReader(files, draft).read();
}

} // namespace heddle
