// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizerDraft.h"

#include "bytes/Status.h"
#include "frontends/tokenizer/CutProgramWriter.h"
#include "runtime/text/template/Template.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <cmath>

namespace heddle {

using package::PieceFlag;
using package::TokenKind;

PieceIds indexPieces(const std::vector<PieceDraft> &pieces) {
  PieceIds ids;
  ids.reserve(pieces.size());
  for (size_t id = 0; id < pieces.size(); ++id)
    if (pieces[id].kind != TokenKind::Absent)
      ids.emplace(pieces[id].text, static_cast<uint32_t>(id));
  return ids;
}

Status checkTokenId(const TokenizerDraft &draft, const char *field, int64_t id) {
  if (id >= -1 && id < static_cast<int64_t>(draft.pieces.size()))
    return Status();
  return errorIn(draft.file, std::string(field) + " " + std::to_string(id) + " is outside the vocabulary of " +
                                 std::to_string(draft.pieces.size()) + " tokens");
}

// Printable bytes stand for themselves; the others, in order, for U+0100 and what follows.
static bool isPrintableByte(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

bool fromByteAlphabet(std::string_view text, std::string &bytes) {
  static const std::vector<int> byteOf = [] {
    std::vector<int> table(0x144, -1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte)
      table[isPrintableByte(byte) ? byte : next++] = byte;
    return table;
  }();
  bytes.clear();
  for (size_t position = 0; position < text.size();) {
    char32_t c = nextCharacter(text, position);
    if (c >= byteOf.size() || byteOf[c] < 0)
      return false;
    bytes += static_cast<char>(byteOf[c]);
  }
  return true;
}

void spellPiecesInBytes(TokenizerDraft &draft) {
  std::string bytes;
  for (PieceDraft &piece : draft.pieces) {
    bool model = piece.kind == TokenKind::Normal || piece.kind == TokenKind::Unused;
    if (model && (piece.flags & PieceFlag::Added) == PieceFlag::NONE && fromByteAlphabet(piece.text, bytes))
      piece.text = bytes;
    else
      piece.flags |= PieceFlag::Unmatched;
  }
}

static Status checkPieces(const TokenizerDraft &draft) {
  if (draft.pieces.empty())
    return errorIn(draft.file, "the vocabulary is empty");
  if (draft.pieces.size() > maxPieces)
    return errorIn(draft.file, "a vocabulary of " + std::to_string(draft.pieces.size()) +
                                   " tokens exceeds the limit of " + std::to_string(maxPieces));
  std::vector<bool> bytes(256);
  for (size_t id = 0; id < draft.pieces.size(); ++id) {
    const PieceDraft &piece = draft.pieces[id];
    std::string name = "token " + std::to_string(id);
    if (piece.text.size() > maxPieceBytes)
      return errorIn(draft.file, name + " has a length of " + std::to_string(piece.text.size()) +
                                     " bytes, the limit is " + std::to_string(maxPieceBytes));
    if (!std::isfinite(piece.score))
      return errorIn(draft.file, "the score of " + name + " is not a finite number");
    if (piece.kind != TokenKind::Byte)
      continue;
    std::string_view text = piece.text;
    auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
    bool wellFormed =
        text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>' && digit(text[3]) >= 0 && digit(text[4]) >= 0;
    if (!wellFormed)
      return errorIn(draft.file,
                     "byte " + name + " is spelled '" + printable(text, 40) + "', expected <0x00> to <0xFF>");
    size_t value = static_cast<size_t>(digit(text[3])) * 16 + static_cast<size_t>(digit(text[4]));
    if (bytes[value])
      return errorIn(draft.file, "byte " + name + " '" + printable(text) + "' is there twice");
    bytes[value] = true;
  }
  return Status();
}

static Status fitToEmbedding(TokenizerDraft &draft) {
  size_t rows = draft.vocabSize > 0 ? static_cast<size_t>(draft.vocabSize) : draft.pieces.size();
  if (draft.pieces.size() <= rows)
    return Status();
  for (size_t id = rows; id < draft.pieces.size(); ++id) {
    const PieceDraft &piece = draft.pieces[id];
    if (piece.kind != TokenKind::Absent && (piece.flags & PieceFlag::Added) == PieceFlag::NONE)
      return errorIn(draft.file, "id " + std::to_string(id) + " of token '" + printable(piece.text, 40) +
                                     "' is outside the model's embedding, expected ids below " + std::to_string(rows) +
                                     " (vocab_size)");
  }
  draft.pieces.resize(rows);
  // A model that has no row for it fills no masks.
  if (draft.mask >= static_cast<int64_t>(rows))
    draft.mask = -1;
  return Status();
}

static Status checkDraft(const TokenizerDraft &draft) {
  HEDDLE_RETURN_IF_ERROR(checkPieces(draft));
  for (auto [field, id] : {std::pair("bos_token_id", draft.bos), std::pair("eos_token_id", draft.eos),
                           std::pair("unk_token_id", draft.unknown), std::pair("pad_token_id", draft.pad),
                           std::pair("mask_token_id", draft.mask)})
    HEDDLE_RETURN_IF_ERROR(checkTokenId(draft, field, id));
  const TokenizerDraft::Pair pair = draft.pair.value_or(TokenizerDraft::Pair());
  for (const auto *list : {&draft.prefix, &draft.suffix, &pair.middle, &pair.suffix})
    for (int64_t id : *list) {
      HEDDLE_RETURN_IF_ERROR(checkTokenId(draft, "post_processor id", id));
      if (id < 0)
        return errorIn(draft.file, "post_processor adds id " + std::to_string(id));
    }
  bool needsUnknown = draft.model == package::TokenizerModel::WordPiece;
  if (needsUnknown && draft.unknown < 0)
    return errorIn(draft.file, "a WordPiece vocabulary needs an unknown token (unk_token), there is none");
  if (draft.merges.size() > maxMerges)
    return errorIn(draft.file,
                   std::to_string(draft.merges.size()) + " merges exceed the limit of " + std::to_string(maxMerges));
  if (draft.chatTemplate.size() > maxChatTemplateBytes)
    return errorIn(draft.chatTemplateFile, "chat_template has a size of " + std::to_string(draft.chatTemplate.size()) +
                                               " bytes, the limit is " + std::to_string(maxChatTemplateBytes));
  return Status();
}

using Steps = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<package::TextStep>>>;

static Steps writeSteps(flatbuffers::FlatBufferBuilder &builder, const std::vector<StepDraft> &steps) {
  std::vector<flatbuffers::Offset<package::TextStep>> offsets;
  for (const StepDraft &step : steps) {
    auto pattern = step.pattern.empty() ? 0 : builder.CreateString(step.pattern);
    auto content = step.content.empty() ? 0 : builder.CreateString(step.content);
    auto bytes = step.bytes.empty()
                     ? 0
                     : builder.CreateVector(reinterpret_cast<const uint8_t *>(step.bytes.data()), step.bytes.size());
    bool isRegex = (step.op == package::TextOp::Replace || step.op == package::TextOp::Split) && (step.flags & 1);
    std::vector<uint32_t> words = isRegex ? writeCutProgram(step.pattern) : std::vector<uint32_t>();
    auto program = words.empty() ? 0 : builder.CreateVector(words);
    offsets.push_back(package::CreateTextStep(builder, step.op, pattern, content, bytes, step.flags, step.behavior,
                                              step.left, step.right, program));
  }
  return builder.CreateVector(offsets);
}

static std::string serialize(const TokenizerDraft &draft) {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  std::string text;
  std::vector<package::Piece> pieces;
  for (const PieceDraft &piece : draft.pieces) {
    pieces.emplace_back(static_cast<uint32_t>(text.size()), static_cast<uint32_t>(piece.text.size()), piece.score,
                        piece.kind, static_cast<uint8_t>(piece.flags), 0);
    text += piece.text;
  }
  auto ids = [](const std::vector<int64_t> &list) { return std::vector<int32_t>(list.begin(), list.end()); };
  auto pieceVector = builder.CreateVectorOfStructs(pieces);
  auto textVector = builder.CreateVector(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  auto mergeVector = builder.CreateVectorOfStructs(draft.merges);
  auto normalizer = writeSteps(builder, draft.normalizer);
  auto preTokenizer = writeSteps(builder, draft.preTokenizer);
  auto decoder = writeSteps(builder, draft.decoder);
  auto prefix = builder.CreateVector(ids(draft.prefix)), suffix = builder.CreateVector(ids(draft.suffix));
  flatbuffers::Offset<package::TextPair> pair; // null where there is none
  if (draft.pair) {
    auto middle = builder.CreateVector(ids(draft.pair->middle)), behind = builder.CreateVector(ids(draft.pair->suffix));
    pair = package::CreateTextPair(builder, middle, behind, draft.pair->type);
  }
  auto chatTemplate = builder.CreateString(draft.chatTemplate);
  auto continuing = builder.CreateString(draft.continuingPrefix), ending = builder.CreateString(draft.endOfWordSuffix);
  package::TokenizerBuilder table(builder);
  table.add_model(draft.model);
  table.add_pieces(pieceVector);
  table.add_text(textVector);
  table.add_merges(mergeVector);
  table.add_normalizer(normalizer);
  table.add_pre_tokenizer(preTokenizer);
  table.add_decoder(decoder);
  table.add_byte_fallback(draft.byteFallback);
  table.add_ignore_merges(draft.ignoreMerges);
  table.add_fuse_unknown(draft.fuseUnknown);
  table.add_bos(static_cast<int32_t>(draft.bos));
  table.add_eos(static_cast<int32_t>(draft.eos));
  table.add_unknown(static_cast<int32_t>(draft.unknown));
  table.add_pad(static_cast<int32_t>(draft.pad));
  table.add_prefix(prefix);
  table.add_suffix(suffix);
  if (!draft.chatTemplate.empty())
    table.add_chat_template(chatTemplate);
  table.add_continuing_prefix(continuing);
  table.add_end_of_word_suffix(ending);
  table.add_max_word(draft.maxWord);
  table.add_drop_unknown(draft.dropUnknown);
  table.add_mask(static_cast<int32_t>(draft.mask));
  if (draft.pair)
    table.add_pair(pair);
  builder.Finish(table.Finish());
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
}

// What is wrong with a step names the field that it was read from.
static Status checkSteps(const TokenizerDraft &draft, const package::Tokenizer &table) {
  struct {
    const char *field;
    const std::vector<StepDraft> &drafts;
    const flatbuffers::Vector<flatbuffers::Offset<package::TextStep>> &steps;
  } lists[] = {{"normalizer", draft.normalizer, *table.normalizer()},
               {"pre_tokenizer", draft.preTokenizer, *table.pre_tokenizer()}};
  for (const auto &list : lists)
    for (uint32_t i = 0; i < list.steps.size(); ++i) {
      std::string error;
      std::unique_ptr<Regex> regex;
      if (!TextSteps::compile(*list.steps.Get(i), &list.drafts == &draft.normalizer, regex, error))
        return errorIn(draft.file, (list.drafts[i].field.empty() ? list.field : list.drafts[i].field) + ": " + error);
    }
  return Status();
}

Expected<std::string> writeTokenizer(TokenizerDraft draft) {
  HEDDLE_RETURN_IF_ERROR(fitToEmbedding(draft));
  HEDDLE_RETURN_IF_ERROR(checkDraft(draft));
  size_t textBytes = 0;
  for (const PieceDraft &piece : draft.pieces)
    textBytes += piece.text.size();
  if (textBytes > (256u << 20))
    return errorIn(draft.file,
                   "tokens of " + std::to_string(textBytes) + " bytes together exceed the limit of 256 MiB");
  std::string bytes = serialize(draft);
  const package::Tokenizer &table = *flatbuffers::GetRoot<package::Tokenizer>(bytes.data());
  HEDDLE_RETURN_IF_ERROR(checkSteps(draft, table));
  std::string error;
  if (!Tokenizer::create(table, error))
    return errorIn(draft.file, error);
  if (!draft.chatTemplate.empty() && !ChatTemplate::parse(draft.chatTemplate, error))
    return errorIn(draft.chatTemplateFile, error);
  return bytes;
}

} // namespace heddle
