// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizerFiles.h"

#include "bytes/Status.h"

#include <algorithm>
#include <cmath>

namespace heddle {

using package::PieceFlag;
using package::TokenizerModel;
using package::TokenKind;

static constexpr size_t maxJsonFile = 512 << 20;
// Ids that no token has, in a vocabulary and again between it and the tokens added to it: each takes as much memory as a token.
static constexpr size_t maxGaps = 65536;

Expected<JsonFile> openJson(ModelFiles &files, const std::string &name) {
  Expected<JsonFile> json = readJsonFile(files, name, maxJsonFile);
  if (json && !json->root.is(JsonKind::Object))
    return errorIn(files.pathOf(name), "expected a JSON object");
  return json;
}

Expected<JsonValue> findMember(const std::string &file, JsonValue object, std::string_view key) {
  bool duplicate = false;
  JsonValue member = object.find(key, &duplicate);
  if (duplicate)
    return errorIn(file, "duplicate key '" + std::string(key) + "'");
  return member;
}

Status readVocabObject(JsonValue vocab, size_t more, TokenizerDraft &draft) {
  if (!vocab.is(JsonKind::Object))
    return errorIn(draft.file, "vocab is not an object of tokens and ids");
  size_t count = 0;
  for (JsonItems items(vocab); items.next();)
    ++count;
  if (!count)
    return errorIn(draft.file, "vocab is empty");
  // Ids may have holes, but not a vocabulary of them.
  size_t limit = count + more + maxGaps;
  if (count > maxPieces || limit > maxPieces + maxGaps)
    return errorIn(draft.file,
                   "vocab has " + std::to_string(count) + " tokens, the limit is " + std::to_string(maxPieces));
  std::unordered_map<std::string, int64_t> seen;
  seen.reserve(count);
  draft.pieces.reserve(count + more);
  for (JsonItems items(vocab); items.next();) {
    std::string text = items.key.string();
    int64_t id = -1;
    if (!items.value.integer(id) || id < 0 || id >= static_cast<int64_t>(limit))
      return errorIn(draft.file, "vocab: id " + printable(items.value.raw(), 40) + " of token '" + printable(text, 40) +
                                     "' is out of range for " + std::to_string(count) + " tokens");
    if (text.size() > maxPieceBytes)
      return errorIn(draft.file, "vocab: the length of token " + std::to_string(id) + " (" +
                                     std::to_string(text.size()) + " bytes) exceeds the limit of " +
                                     std::to_string(maxPieceBytes));
    if (!seen.emplace(text, id).second)
      return errorIn(draft.file, "vocab: duplicate token '" + printable(text, 40) + "'");
    if (static_cast<size_t>(id) >= draft.pieces.size())
      draft.pieces.resize(static_cast<size_t>(id) + 1);
    PieceDraft &piece = draft.pieces[static_cast<size_t>(id)];
    if (piece.kind != TokenKind::Absent)
      return errorIn(draft.file, "vocab: duplicate id " + std::to_string(id) + " of tokens '" +
                                     printable(piece.text, 40) + "' and '" + printable(text, 40) + "'");
    piece.text = std::move(text);
    piece.kind = TokenKind::Normal;
  }
  return Status();
}

Status addToken(TokenizerDraft &draft, const std::string &file, int64_t id, const std::string &text,
                JsonValue properties) {
  auto isSet = [&](const char *key, bool standard) {
    JsonValue value = properties.find(key);
    return value.is(JsonKind::Bool) ? value.isTrue() : standard;
  };
  if (text.empty() || text.size() > maxPieceBytes)
    return errorIn(file, "added token " + std::to_string(id) + " has a length of " + std::to_string(text.size()) +
                             " bytes, expected 1 to " + std::to_string(maxPieceBytes));
  auto place = static_cast<size_t>(id);
  size_t gap = id < 0 ? 0 : place - std::min(place, draft.pieces.size());
  if (id < 0 || place >= maxPieces || draft.gaps + gap >= maxGaps)
    return errorIn(file, "id " + std::to_string(id) + " of added token '" + printable(text, 40) +
                             "' is out of range, expected 0 to " +
                             std::to_string(std::min(draft.pieces.size() + maxGaps - draft.gaps, maxPieces) - 1));
  draft.gaps += gap;
  if (place >= draft.pieces.size())
    draft.pieces.resize(place + 1);
  PieceDraft &piece = draft.pieces[place];
  if (piece.kind != TokenKind::Absent && piece.text != text)
    return errorIn(file, "duplicate id " + std::to_string(id) + " of token '" + printable(piece.text, 40) +
                             "' and added token '" + printable(text, 40) + "'");
  bool special = isSet("special", true);
  bool ofModel = piece.kind != TokenKind::Absent;
  piece.text = text;
  if (piece.kind != TokenKind::Byte) // the model still falls back to it
    piece.kind = special ? TokenKind::Control : TokenKind::UserDefined;
  piece.flags = PieceFlag::Added;
  if (special)
    piece.flags |= PieceFlag::Special;
  if (special || !ofModel)
    piece.flags |= PieceFlag::Unmatched;
  if (isSet("lstrip", false))
    piece.flags |= PieceFlag::LeftStrip;
  if (isSet("rstrip", false))
    piece.flags |= PieceFlag::RightStrip;
  if (isSet("single_word", false))
    piece.flags |= PieceFlag::SingleWord;
  if (isSet("normalized", !special))
    piece.flags |= PieceFlag::Normalized;
  return Status();
}

namespace {

class TokenizerJsonReader {
public:
  TokenizerJsonReader(const std::string &path, TokenizerDraft &draft) : draft(draft) { draft.file = path; }
  Status read(JsonValue root);

private:
  Status fail(const std::string &what) const { return errorIn(draft.file, what); }
  Status readBpe(JsonValue model);
  Status readMerges(JsonValue merges);
  Status readUnigram(JsonValue model);
  Status readWordPiece(JsonValue model);
  Status readUnknown(JsonValue model);
  Status readAddedTokens(JsonValue tokens);

  TokenizerDraft &draft;
};

} // namespace

static bool isTrue(JsonValue object, const char *key) {
  return object.find(key).isTrue();
}

static int64_t findPiece(const TokenizerDraft &draft, std::string_view text) {
  for (size_t id = 0; id < draft.pieces.size(); ++id)
    if (draft.pieces[id].kind != TokenKind::Absent && draft.pieces[id].text == text)
      return static_cast<int64_t>(id);
  return -1;
}

Status TokenizerJsonReader::readUnknown(JsonValue model) {
  JsonValue unknown = model.find("unk_token");
  if (!unknown.is(JsonKind::String))
    return Status();
  draft.unknown = findPiece(draft, unknown.string());
  if (draft.unknown < 0)
    return fail("model.unk_token '" + printable(unknown.string(), 40) + "' is not in the vocabulary");
  return Status();
}

// "left right" or ["left", "right"] per rank. A piece's continuing prefix goes where it is joined to its left.
Status TokenizerJsonReader::readMerges(JsonValue merges) {
  if (!merges.is(JsonKind::Array))
    return fail("model.merges is not an array");
  size_t count = 0;
  for (JsonItems items(merges); items.next();)
    ++count;
  if (count > maxMerges)
    return fail("model.merges has " + std::to_string(count) + " entries, the limit is " + std::to_string(maxMerges));
  draft.merges.reserve(count);
  PieceIds ids = indexPieces(draft.pieces);
  for (JsonItems items(merges); items.next();) {
    std::string where =
        "model.merges: merge " + std::to_string(draft.merges.size()) + " " + printable(items.value.raw(), 80);
    std::string left, right;
    if (items.value.is(JsonKind::String)) {
      left = items.value.string();
      size_t space = left.find(' ');
      if (space == std::string::npos || left.find(' ', space + 1) != std::string::npos)
        return fail(where + " is not two pieces with a space between");
      right = left.substr(space + 1);
      left.resize(space);
    } else {
      JsonItems pair(items.value);
      bool two = items.value.is(JsonKind::Array) && pair.next() && pair.value.is(JsonKind::String);
      left = two ? pair.value.string() : "";
      two = two && pair.next() && pair.value.is(JsonKind::String);
      right = two ? pair.value.string() : "";
      if (!two || pair.next())
        return fail(where + " is not two pieces");
    }
    const std::string &prefix = draft.continuingPrefix;
    bool prefixed = !prefix.empty() && right.compare(0, prefix.size(), prefix) == 0;
    auto a = ids.find(left), b = ids.find(right), c = ids.find(left + right.substr(prefixed ? prefix.size() : 0));
    if (a == ids.end() || b == ids.end() || c == ids.end())
      return fail(where + " names a piece that is not in the vocabulary");
    draft.merges.emplace_back(a->second, b->second, c->second);
  }
  return Status();
}

Status TokenizerJsonReader::readBpe(JsonValue model) {
  draft.byteFallback = isTrue(model, "byte_fallback");
  draft.ignoreMerges = isTrue(model, "ignore_merges");
  draft.fuseUnknown = isTrue(model, "fuse_unk");
  draft.continuingPrefix = model.find("continuing_subword_prefix").string();
  draft.endOfWordSuffix = model.find("end_of_word_suffix").string();
  draft.model = TokenizerModel::SentencePieceBpe;
  HEDDLE_RETURN_IF_ERROR(readMerges(model.find("merges")));
  if (draft.byteFallback)
    for (PieceDraft &piece : draft.pieces)
      if (piece.kind == TokenKind::Normal && piece.text.size() == 6 && piece.text.compare(0, 3, "<0x") == 0 &&
          piece.text[5] == '>') {
        piece.kind = TokenKind::Byte;
        piece.flags |= PieceFlag::Unmatched;
      }
  return readUnknown(model);
}

Status TokenizerJsonReader::readUnigram(JsonValue model) {
  draft.model = TokenizerModel::Unigram;
  draft.byteFallback = isTrue(model, "byte_fallback");
  draft.fuseUnknown = true;
  JsonValue vocab = model.find("vocab");
  if (!vocab.is(JsonKind::Array))
    return fail("model.vocab of a Unigram model is an array of [token, score]");
  size_t count = 0;
  for (JsonItems items(vocab); items.next();)
    ++count;
  if (!count || count > maxPieces)
    return fail(count
                    ? "model.vocab has " + std::to_string(count) + " tokens, the limit is " + std::to_string(maxPieces)
                    : "model.vocab is empty");
  draft.pieces.reserve(count);
  for (JsonItems items(vocab); items.next();) {
    std::string where = "model.vocab: entry " + std::to_string(draft.pieces.size());
    JsonItems pair(items.value);
    PieceDraft piece;
    bool good = items.value.is(JsonKind::Array) && pair.next() && pair.value.is(JsonKind::String);
    piece.text = good ? pair.value.string() : "";
    double score = 0;
    if (!good || !pair.next() || !pair.value.number(score) || pair.next())
      return fail(where + " of the Unigram model is not [token, score]: " + printable(items.value.raw(), 60));
    if (!std::isfinite(static_cast<float>(score)))
      return fail(where + " has a score that is not finite: " + printable(items.value.raw(), 60));
    piece.score = static_cast<float>(score);
    piece.kind = TokenKind::Normal;
    bool isByte =
        draft.byteFallback && piece.text.size() == 6 && piece.text.compare(0, 3, "<0x") == 0 && piece.text[5] == '>';
    if (isByte) {
      piece.kind = TokenKind::Byte;
      piece.flags |= PieceFlag::Unmatched;
    }
    draft.pieces.push_back(std::move(piece));
  }
  JsonValue unknown = model.find("unk_id");
  if (unknown && !unknown.is(JsonKind::Null)) {
    if (!unknown.integer(draft.unknown) || draft.unknown < 0 || draft.unknown >= static_cast<int64_t>(count))
      return fail("model.unk_id " + printable(unknown.raw(), 40) + " is outside the vocabulary of " +
                  std::to_string(count));
    draft.pieces[static_cast<size_t>(draft.unknown)].kind = TokenKind::Unknown;
    draft.pieces[static_cast<size_t>(draft.unknown)].flags |= PieceFlag::Unmatched;
  }
  return Status();
}

Status TokenizerJsonReader::readWordPiece(JsonValue model) {
  draft.model = TokenizerModel::WordPiece;
  JsonValue prefix = model.find("continuing_subword_prefix"), longest = model.find("max_input_chars_per_word");
  draft.continuingPrefix = prefix.is(JsonKind::String) ? prefix.string() : "##";
  int64_t characters = 100;
  if (longest && (!longest.integer(characters) || characters < 1 || characters > 1000))
    return fail("model.max_input_chars_per_word " + printable(longest.raw(), 40) + " is outside 1 to 1000");
  draft.maxWord = static_cast<uint32_t>(characters);
  HEDDLE_RETURN_IF_ERROR(readUnknown(model));
  if (draft.unknown < 0)
    return fail("model.unk_token is missing, WordPiece needs it");
  return Status();
}

Status TokenizerJsonReader::readAddedTokens(JsonValue tokens) {
  if (!tokens || tokens.is(JsonKind::Null))
    return Status();
  if (!tokens.is(JsonKind::Array))
    return fail("added_tokens is not an array");
  size_t count = 0;
  for (JsonItems items(tokens); items.next();)
    if (++count > maxPieces)
      return fail("added_tokens exceeds the limit of " + std::to_string(maxPieces));
  for (JsonItems items(tokens); items.next();) {
    int64_t id = -1;
    JsonValue content = items.value.find("content");
    if (!items.value.find("id").integer(id) || !content.is(JsonKind::String))
      return fail("added_tokens: an entry without id and content: " + printable(items.value.raw(), 80));
    HEDDLE_RETURN_IF_ERROR(addToken(draft, draft.file, id, content.string(), items.value));
  }
  return Status();
}

Status TokenizerJsonReader::read(JsonValue root) {
  auto model = findMember(draft.file, root, "model");
  if (!model)
    return model.status();
  if (!model->is(JsonKind::Object))
    return fail("model is missing");
  JsonValue type = model->find("type"), vocab = model->find("vocab");
  bool unigram = type.equals("Unigram") || (!type && vocab.is(JsonKind::Array));
  bool wordPiece = type.equals("WordPiece") || (!type && model->find("max_input_chars_per_word"));
  bool bpe = type.equals("BPE") || (!type && !unigram && !wordPiece && model->find("merges"));
  if (!unigram && !wordPiece && !bpe)
    return fail("model.type " + printable(type.raw(), 40) + " is not supported (BPE, Unigram, WordPiece)")
        .as(StatusCode::Unsupported);
  JsonValue added = root.find("added_tokens");
  if (!unigram) {
    size_t more = 0;
    for (JsonItems items(added); items.next();)
      ++more;
    HEDDLE_RETURN_IF_ERROR(readVocabObject(vocab, more, draft));
  }
  HEDDLE_RETURN_IF_ERROR(unigram ? readUnigram(*model) : bpe ? readBpe(*model) : readWordPiece(*model));
  HEDDLE_RETURN_IF_ERROR(readAddedTokens(added));
  bool byteLevel = false;
  HEDDLE_RETURN_IF_ERROR(readTextSteps(root, draft, byteLevel));
  if (byteLevel && !bpe)
    return fail("ByteLevel with a model that is not BPE is not supported").as(StatusCode::Unsupported);
  // A SentencePieceBpe table without merges joins by score, which tokenizer.json has not.
  if (bpe && !byteLevel && draft.merges.empty())
    return fail("model.merges is empty");
  if (byteLevel) {
    draft.model = TokenizerModel::ByteLevelBpe;
    spellPiecesInBytes(draft);
    std::string suffix = draft.endOfWordSuffix, prefix = draft.continuingPrefix;
    if ((!suffix.empty() && !fromByteAlphabet(suffix, draft.endOfWordSuffix)) ||
        (!prefix.empty() && !fromByteAlphabet(prefix, draft.continuingPrefix)))
      return fail("end_of_word_suffix or continuing_subword_prefix is not in the byte alphabet");
  }
  return readPostProcessor(draft, root.find("post_processor"));
}

Status readTokenizerJson(ModelFiles &files, const std::string &name, TokenizerDraft &draft) {
  auto json = openJson(files, name);
  if (!json)
    return json.status();
  return TokenizerJsonReader(files.pathOf(name), draft).read(json->root);
}

} // namespace heddle
