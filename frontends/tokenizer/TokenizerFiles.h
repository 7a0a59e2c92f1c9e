// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Readers of the tokenizer files that lie in a model's folder. Each takes the name of its file there and fills `draft`, whose `file` it
// sets.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_TOKENIZERFILES_H
#define HEDDLE_FRONTENDS_TOKENIZER_TOKENIZERFILES_H

#include "frontends/Json.h"
#include "frontends/tokenizer/TokenizerDraft.h"

namespace heddle {

// A JSON file whose value is an object.
Expected<JsonFile> openJson(ModelFiles &files, const std::string &name);

// The member `key` of an object; an error if it is there twice.
Expected<JsonValue> findMember(const std::string &file, JsonValue object, std::string_view key);

// tokenizer.json.
Status readTokenizerJson(ModelFiles &files, const std::string &name, TokenizerDraft &draft);
// Its normalizer, pre_tokenizer and decoder. `byteLevel` is set where one of them is of type ByteLevel.
Status readTextSteps(JsonValue root, TokenizerDraft &draft, bool &byteLevel);
// Its post_processor.
Status readPostProcessor(TokenizerDraft &draft, JsonValue processor);
// Makes the piece `id` an added token with this text, as members of `properties` say; `file` is where it was read.
Status addToken(TokenizerDraft &draft, const std::string &file, int64_t id, const std::string &text,
                JsonValue properties);

// vocab.json with merges.txt beside it (byte-level BPE), vocab.txt (WordPiece).
Status readVocabJson(ModelFiles &files, const std::string &name, TokenizerDraft &draft);
Status readVocabTxt(ModelFiles &files, const std::string &name, TokenizerDraft &draft);

// The members of {"token": id, …} as pieces; room for `more` tokens beyond.
Status readVocabObject(JsonValue vocab, size_t more, TokenizerDraft &draft);

// tokenizer.model, spiece.model: a SentencePiece ModelProto.
Status readSentencePieceModel(ModelFiles &files, const std::string &name, TokenizerDraft &draft);

// What tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json and chat_template.jinja add to a draft, whichever
// file it came from.
Status readTokenizerConfig(ModelFiles &files, TokenizerDraft &draft);

} // namespace heddle

#endif
