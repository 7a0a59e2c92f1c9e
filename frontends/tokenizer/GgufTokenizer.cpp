// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/GgufTokenizer.h"

#include "bytes/Status.h"
#include "bytes/Utf8.h"
#include "frontends/tokenizer/PreTokenizers.h"
#include "frontends/tokenizer/StepRecipes.h"

#include <algorithm>
#include <cmath>

namespace heddle {

using package::PieceFlag;
using package::TextOp;
using package::TokenizerModel;
using package::TokenKind;

#define GGML(key) "tokenizer.ggml." key

namespace {

class GgufTokenizerReader {
public:
  GgufTokenizerReader(const GgufFile &file, TokenizerDraft &draft) : file(file), draft(draft) {}
  Status read();

private:
  Status readPieces();
  Status readKinds();
  Status readScores();
  Status readMerges();
  Status readIds();
  Status checkVocabularySize();
  Status readModel(std::string_view model);
  Status readRankedBpe(std::string_view pre);
  Status readByteLevel(bool addSpacePrefix);
  Status readMarkedWords(bool addSpacePrefix);
  Status readWordPiece();
  Status readWords();
  void markSpecial(PieceDraft &piece);
  Status readSentencePiece(bool unigram);
  Status readSpecialAttributes();
  Status surround(bool addBosByDefault, bool addEosByDefault);
  Status fail(const std::string &what) const { return errorIn(file.path(), what); }
  GgufCount perToken() const { return {static_cast<int64_t>(draft.pieces.size()), "tokens", GGML("tokens")}; }

  // The value of a key, or `value` unchanged where there is none.
  Status optional(const char *key, int64_t &value) const;
  Status optional(const char *key, bool &value) const;

  const GgufFile &file;
  TokenizerDraft &draft;
};

} // namespace

Status GgufTokenizerReader::optional(const char *key, int64_t &value) const {
  if (!file.contains(key))
    return Status();
  auto found = file.integer(key);
  if (!found)
    return found.status();
  value = *found;
  return Status();
}

Status GgufTokenizerReader::optional(const char *key, bool &value) const {
  if (!file.contains(key))
    return Status();
  auto found = file.boolean(key);
  if (!found)
    return found.status();
  value = *found;
  return Status();
}

Status GgufTokenizerReader::readPieces() {
  auto tokens = file.strings(GGML("tokens"));
  if (!tokens)
    return tokens.status();
  if (tokens->empty())
    return fail(GGML("tokens") ": the vocabulary is empty");
  if (tokens->size() > maxPieces)
    return fail(GGML("tokens") " has " + std::to_string(tokens->size()) + " tokens, the limit is " +
                std::to_string(maxPieces));
  draft.pieces.resize(tokens->size());
  for (size_t id = 0; id < tokens->size(); ++id) {
    std::string_view text = (*tokens)[id];
    if (text.size() > maxPieceBytes)
      return fail(GGML("tokens") ": the length of token " + std::to_string(id) + " (" + std::to_string(text.size()) +
                  " bytes) exceeds the limit of " + std::to_string(maxPieceBytes));
    if (!isUtf8(text))
      return fail(GGML("tokens") ": token " + std::to_string(id) + " '" + printable(text, 40) + "' is not valid UTF-8");
    draft.pieces[id].text = text;
    draft.pieces[id].kind = TokenKind::Normal;
  }
  return Status();
}

Status GgufTokenizerReader::readKinds() {
  if (!file.contains(GGML("token_type")))
    return Status();
  auto kinds = file.integers(GGML("token_type"), perToken());
  if (!kinds)
    return kinds.status();
  for (size_t id = 0; id < kinds->size(); ++id) {
    int64_t kind = (*kinds)[id];
    if (kind < 0 || kind > 6)
      return fail(GGML("token_type") " of token " + std::to_string(id) + " is " + std::to_string(kind) +
                  ", expected 1 to 6");
    PieceDraft &piece = draft.pieces[id];
    piece.kind = kind == 0 ? TokenKind::Normal : static_cast<TokenKind>(kind);
    if (piece.kind == TokenKind::Control || piece.kind == TokenKind::Unknown)
      piece.flags = PieceFlag::Special | PieceFlag::Added | PieceFlag::Unmatched;
    else if (piece.kind == TokenKind::UserDefined)
      piece.flags = PieceFlag::Added | PieceFlag::Unmatched;
    else if (piece.kind == TokenKind::Byte || piece.kind == TokenKind::Unused)
      piece.flags = PieceFlag::Unmatched;
  }
  return Status();
}

Status GgufTokenizerReader::readScores() {
  auto scores = file.floats(GGML("scores"), perToken());
  if (!scores)
    return scores.status();
  for (size_t id = 0; id < scores->size(); ++id) {
    if (!std::isfinite((*scores)[id]))
      return fail(GGML("scores") " of token " + std::to_string(id) +
                  " is not finite: " + std::to_string((*scores)[id]));
    draft.pieces[id].score = (*scores)[id];
  }
  return Status();
}

// "left right" per rank, in the alphabet of the tokens as they are written.
Status GgufTokenizerReader::readMerges() {
  auto merges = file.strings(GGML("merges"));
  if (!merges)
    return merges.status();
  PieceIds ids = indexPieces(draft.pieces);
  draft.merges.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    std::string_view merge = (*merges)[rank];
    size_t space = merge.find(' ', 1);
    std::string where = GGML("merges") ": merge " + std::to_string(rank) + " '" + printable(merge, 80) + "'";
    if (space == std::string_view::npos || space + 1 == merge.size())
      return fail(where + " is not two pieces with a space between");
    std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    auto a = ids.find(left), b = ids.find(right), c = ids.find(std::string(left).append(right));
    if (a == ids.end() || b == ids.end() || c == ids.end())
      return fail(where + " names a piece that is not in the vocabulary");
    draft.merges.emplace_back(a->second, b->second, c->second);
  }
  return Status();
}

Status GgufTokenizerReader::readIds() {
  struct {
    const char *key;
    int64_t *id;
  } fields[] = {{GGML("bos_token_id"), &draft.bos},
                {GGML("eos_token_id"), &draft.eos},
                {GGML("unknown_token_id"), &draft.unknown},
                {GGML("padding_token_id"), &draft.pad}};
  for (auto &field : fields) {
    HEDDLE_RETURN_IF_ERROR(optional(field.key, *field.id));
    if (file.contains(field.key) && *field.id < 0)
      return fail(std::string(field.key) + " is " + std::to_string(*field.id));
    HEDDLE_RETURN_IF_ERROR(checkTokenId(draft, field.key, *field.id));
  }
  return Status();
}

// Every row of the embedding has its token, where the file has an embedding.
Status GgufTokenizerReader::checkVocabularySize() {
  const TensorInfo *embedding = file.tensors().find("token_embd.weight");
  if (embedding && embedding->shape.size() == 2 && embedding->shape[0] != static_cast<int64_t>(draft.pieces.size()))
    return fail(GGML("tokens") " has " + std::to_string(draft.pieces.size()) + " tokens for a vocabulary of " +
                std::to_string(embedding->shape[0]) + " embedding rows (token_embd.weight)");
  return Status();
}

// BOS and EOS around a prompt, as the file says or as its kind of vocabulary has it.
Status GgufTokenizerReader::surround(bool addBos, bool addEos) {
  HEDDLE_RETURN_IF_ERROR(optional(GGML("add_bos_token"), addBos));
  HEDDLE_RETURN_IF_ERROR(optional(GGML("add_eos_token"), addEos));
  if (addBos && draft.bos >= 0)
    draft.prefix = {draft.bos};
  if (addEos && draft.eos >= 0)
    draft.suffix = {draft.eos};
  return Status();
}

// BPE that joins by rank, cut as `name` says.
Status GgufTokenizerReader::readRankedBpe(std::string_view name) {
  const NamedPreTokenizer *pre = findPreTokenizer(name);
  if (!pre)
    return fail(GGML("pre") " '" + printable(name) + "' is not a known pre-tokenizer (" + knownPreTokenizers() + ")");
  bool addSpacePrefix = false;
  HEDDLE_RETURN_IF_ERROR(optional(GGML("add_space_prefix"), addSpacePrefix));
  draft.ignoreMerges = pre->ignoreMerges;
  for (const char *pattern : pre->patterns)
    draft.preTokenizer.push_back(StepDraft::split(pattern));
  HEDDLE_RETURN_IF_ERROR(readMerges());
  HEDDLE_RETURN_IF_ERROR(pre->isByteLevel ? readByteLevel(addSpacePrefix) : readMarkedWords(addSpacePrefix));
  HEDDLE_RETURN_IF_ERROR(surround(pre->bos == NamedPreTokenizer::Bos::ByDefault, false));
  if (pre->bos == NamedPreTokenizer::Bos::Always && draft.bos >= 0)
    draft.prefix = {draft.bos};
  return Status();
}

Status GgufTokenizerReader::readByteLevel(bool addSpacePrefix) {
  draft.model = TokenizerModel::ByteLevelBpe;
  draft.dropUnknown = true;
  if (addSpacePrefix)
    draft.preTokenizer.insert(draft.preTokenizer.begin(), StepDraft::of(TextOp::PrefixSpace));
  spellPiecesInBytes(draft);
  return Status();
}

// Pieces of SentencePiece's spelling whose joins have ranks (Gemma 4).
Status GgufTokenizerReader::readMarkedWords(bool addSpacePrefix) {
  if (draft.merges.empty()) // the table would join by score
    return fail(GGML("merges") " is empty");
  draft.model = TokenizerModel::SentencePieceBpe;
  addSentencePieceSteps(draft, {}, /*collapseSpaces=*/false, addSpacePrefix);
  draft.fuseUnknown = true;
  for (PieceDraft &piece : draft.pieces) {
    draft.byteFallback |= piece.kind == TokenKind::Byte;
    if (piece.kind == TokenKind::UserDefined) // the model answers it, too, where its text is made of spaces
      piece.flags = PieceFlag::Added;
  }
  return Status();
}

void GgufTokenizerReader::markSpecial(PieceDraft &piece) {
  piece.kind = TokenKind::Control;
  piece.flags = PieceFlag::Special | PieceFlag::Added | PieceFlag::Unmatched;
}

// GGUF marks the start of a word with U+2581 where vocab.txt marks its continuation with "##", also of added tokens, which begin words. Files
// that say of no token that it is special mean those of BERT's names, marked or not.
Status GgufTokenizerReader::readWords() {
  constexpr std::string_view wordStart = "\xE2\x96\x81", byteSpace = "\xC4\xA0";
  constexpr std::string_view special[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
  size_t numOthers = 0;
  for (PieceDraft &piece : draft.pieces) {
    bool isWord = std::string_view(piece.text).substr(0, wordStart.size()) == wordStart;
    std::string_view text = std::string_view(piece.text).substr(isWord ? wordStart.size() : 0);
    bool isSpecial = std::find(std::begin(special), std::end(special), text) != std::end(special);
    if (piece.kind != TokenKind::Normal && piece.kind != TokenKind::UserDefined)
      continue;
    for (std::string_view mark : {wordStart, byteSpace})
      numOthers += isWord && text.size() > mark.size() && text.substr(0, mark.size()) == mark;
    if (isWord)
      piece.text.erase(0, wordStart.size());
    if (isSpecial)
      markSpecial(piece);
    else if (!isWord && piece.kind == TokenKind::Normal)
      piece.text.insert(0, draft.continuingPrefix);
  }
  // What converters make of any vocabulary of a model that calls itself BERT, such as CamemBERT's.
  if (numOthers > draft.pieces.size() / 10)
    return fail(GGML("model") " is 'bert', but " + std::to_string(numOthers) +
                " tokens mark the spaces of another kind of vocabulary: texts would not become what the model was "
                "trained on")
        .as(StatusCode::Unsupported);
  return Status();
}

Status GgufTokenizerReader::readWordPiece() {
  draft.model = TokenizerModel::WordPiece;
  draft.continuingPrefix = "##";
  HEDDLE_RETURN_IF_ERROR(readWords());
  bool cased = false;
  for (const PieceDraft &piece : draft.pieces) // what is in brackets is no word
    cased |= piece.kind == TokenKind::Normal && piece.text.find('[') == std::string::npos &&
             std::any_of(piece.text.begin(), piece.text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  // Where the file does not say whether text is lowercased first, a vocabulary without capitals tells.
  bool lowercase = !cased;
  HEDDLE_RETURN_IF_ERROR(optional("tokenizer.ggml.normalizer.lowercase", lowercase));
  bool stripAccents = lowercase;
  HEDDLE_RETURN_IF_ERROR(optional("tokenizer.ggml.normalizer.strip_accents", stripAccents));
  addBertSteps(draft, lowercase, stripAccents, true, true);
  draft.decoder = {StepDraft{TextOp::WordJoin, "##", {}, {}, 1}};
  // Files from before the keys for them mean the tokens of these names.
  auto named = [&](int64_t id, std::string_view text) {
    for (size_t piece = 0; id < 0 && piece < draft.pieces.size(); ++piece)
      if (draft.pieces[piece].text == text)
        return static_cast<int64_t>(piece);
    return id;
  };
  draft.unknown = named(draft.unknown, "[UNK]");
  int64_t first = named(draft.bos, "[CLS]"), last = named(draft.eos, "[SEP]");
  HEDDLE_RETURN_IF_ERROR(optional(GGML("cls_token_id"), first));
  HEDDLE_RETURN_IF_ERROR(optional(GGML("seperator_token_id"), last)); // spelled so in the format
  HEDDLE_RETURN_IF_ERROR(checkTokenId(draft, GGML("cls_token_id"), first));
  HEDDLE_RETURN_IF_ERROR(checkTokenId(draft, GGML("seperator_token_id"), last));
  draft.bos = draft.bos < 0 ? first : draft.bos;
  draft.eos = draft.eos < 0 ? last : draft.eos;
  for (int64_t id : {first, last, draft.unknown, draft.pad})
    if (id >= 0 && draft.pieces[size_t(id)].kind == TokenKind::Normal)
      markSpecial(draft.pieces[size_t(id)]);
  if (first >= 0)
    draft.prefix = {first};
  if (last >= 0)
    draft.suffix = {last};
  return Status();
}

Status GgufTokenizerReader::readSentencePiece(bool unigram) {
  draft.model = unigram ? TokenizerModel::Unigram : TokenizerModel::SentencePieceBpe;
  HEDDLE_RETURN_IF_ERROR(readScores());
  bool addSpacePrefix = true, removeExtra = false;
  HEDDLE_RETURN_IF_ERROR(optional(GGML("add_space_prefix"), addSpacePrefix));
  HEDDLE_RETURN_IF_ERROR(optional(GGML("remove_extra_whitespaces"), removeExtra));
  std::string charsmap;
  if (unigram && file.contains(GGML("precompiled_charsmap"))) {
    auto bytes = file.bytes(GGML("precompiled_charsmap"));
    if (!bytes)
      return bytes.status();
    charsmap = *bytes;
  }
  addSentencePieceSteps(draft, std::move(charsmap), removeExtra, addSpacePrefix);
  for (const PieceDraft &piece : draft.pieces)
    draft.byteFallback |= piece.kind == TokenKind::Byte;
  draft.fuseUnknown = unigram;
  if (draft.unknown < 0)
    for (size_t id = 0; id < draft.pieces.size() && draft.unknown < 0; ++id)
      if (draft.pieces[id].kind == TokenKind::Unknown)
        draft.unknown = static_cast<int64_t>(id);
  if (draft.unknown < 0 && !draft.byteFallback)
    return fail(GGML("unknown_token_id") " is missing, and no token has the type 'unknown'");
  return surround(!unigram, unigram);
}

// Tokens that take neighbouring white space with them; GGUF leaves this to the model's name.
Status GgufTokenizerReader::readSpecialAttributes() {
  if (!file.contains("general.name"))
    return Status();
  auto name = file.string("general.name");
  if (!name)
    return name.status();
  std::string lower;
  for (char c : *name)
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  bool phi3 = lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
  for (PieceDraft &piece : draft.pieces) {
    if (!phi3 || (piece.flags & PieceFlag::Added) == PieceFlag::NONE)
      continue;
    if (piece.text != "<unk>" && piece.text != "<s>" && piece.text != "<|endoftext|>")
      piece.flags |= PieceFlag::RightStrip;
  }
  return Status();
}

Status GgufTokenizerReader::readModel(std::string_view model) {
  if (model == "llama" || model == "t5")
    return readSentencePiece(model == "t5");
  if (model == "bert")
    return readWordPiece();
  if (model == "gemma4") // says how it is cut as well
    return readRankedBpe(model);
  if (model != "gpt2")
    return fail(GGML("model") " '" + printable(model) + "' is not a known tokenizer (gpt2, gemma4, llama, bert, t5)");
  if (!file.contains(GGML("pre")))
    return readRankedBpe("default");
  auto pre = file.string(GGML("pre"));
  if (!pre)
    return pre.status();
  return readRankedBpe(*pre);
}

Status GgufTokenizerReader::read() {
  draft.file = draft.chatTemplateFile = file.path();
  if (!file.contains(GGML("model")) && !file.contains(GGML("tokens")))
    return Status();
  auto model = file.string(GGML("model"));
  if (!model)
    return model.status();
  if (*model == "none" || *model == "no_vocab")
    return Status();
  HEDDLE_RETURN_IF_ERROR(readPieces());
  HEDDLE_RETURN_IF_ERROR(readKinds());
  HEDDLE_RETURN_IF_ERROR(readIds());
  HEDDLE_RETURN_IF_ERROR(checkVocabularySize());
  HEDDLE_RETURN_IF_ERROR(readModel(*model));
  HEDDLE_RETURN_IF_ERROR(readSpecialAttributes());
  if (!file.contains("tokenizer.chat_template"))
    return Status();
  auto chatTemplate = file.string("tokenizer.chat_template");
  if (!chatTemplate)
    return chatTemplate.status();
  draft.chatTemplate = *chatTemplate;
  return Status();
}

Status readGgufTokenizer(const GgufFile &file, TokenizerDraft &draft) {
  return GgufTokenizerReader(file, draft).read();
}

} // namespace heddle
