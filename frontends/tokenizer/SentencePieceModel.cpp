// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/StepRecipes.h"
#include "frontends/tokenizer/TokenizerFiles.h"

#include "bytes/Status.h"
#include "bytes/Utf8.h"

#include <cmath>
#include <cstring>

namespace heddle {

using package::PieceFlag;
using package::TokenizerModel;
using package::TokenKind;

namespace {

// The fields of a protobuf message, one after the other. Every length is compared with the bytes that are left; nested messages
// are views, and only the schema's own three levels are entered.
class ProtoFields {
public:
  explicit ProtoFields(std::string_view bytes) : rest(bytes) {}

  // Moves to the next field; false at the end, or with `malformed`.
  bool next() {
    uint64_t tag = 0;
    if (rest.empty() || !varint(tag))
      return false;
    number = tag >> 3;
    wire = static_cast<int>(tag & 7);
    bytes = {};
    size_t length = wire == 1 ? 8 : wire == 5 ? 4 : 0;
    if (wire == 0)
      return varint(value);
    if (wire == 2) {
      if (!varint(value))
        return false;
      length = value;
    } else if (!length) {
      malformed = true;
      return false;
    }
    if (length > rest.size()) {
      malformed = true;
      return false;
    }
    bytes = rest.substr(0, length);
    rest.remove_prefix(length);
    return true;
  }

  uint64_t number = 0, value = 0;
  int wire = 0;
  std::string_view bytes; // of wire types 1, 2 and 5
  bool malformed = false;

private:
  bool varint(uint64_t &out) {
    out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest.empty())
        break;
      uint8_t byte = rest[0];
      rest.remove_prefix(1);
      out |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80))
        return true;
    }
    malformed = true;
    return false;
  }

  std::string_view rest;
};

// ModelProto: pieces = 1, trainer_spec = 2, normalizer_spec = 3 (sentencepiece_model.proto).
class SentencePieceReader {
public:
  SentencePieceReader(const std::string &path, TokenizerDraft &draft) : draft(draft) { draft.file = path; }
  Status read(std::string_view bytes);

private:
  Status fail(const std::string &what) const { return errorIn(draft.file, what); }
  Status truncated(const char *where) const { return fail(std::string(where) + " is malformed or truncated"); }
  Status readPiece(std::string_view bytes);
  Status readTrainer(std::string_view bytes);
  Status readNormalizer(std::string_view bytes);

  TokenizerDraft &draft;
  uint64_t modelType = 1;
  bool prefixSpace = true, collapseSpaces = true;
  std::string charsmap;
};

} // namespace

Status SentencePieceReader::readPiece(std::string_view bytes) {
  ProtoFields fields(bytes);
  PieceDraft piece;
  std::string id = std::to_string(draft.pieces.size());
  uint64_t type = 1;
  while (fields.next()) {
    if (fields.number == 1 && fields.wire == 2)
      piece.text = fields.bytes;
    if (fields.number == 2 && fields.wire == 5)
      memcpy(&piece.score, fields.bytes.data(), 4);
    if (fields.number == 3 && fields.wire == 0)
      type = fields.value;
  }
  if (fields.malformed)
    return truncated(("piece " + id).c_str());
  if (piece.text.empty() || piece.text.size() > maxPieceBytes || !isUtf8(piece.text))
    return fail("piece " + id + " has a length of " + std::to_string(piece.text.size()) +
                " bytes or is not valid UTF-8");
  if (!std::isfinite(piece.score))
    return fail("the score of piece " + id + " is not a finite number");
  if (type < 1 || type > 6)
    return fail("the type of piece " + id + " is " + std::to_string(type) + ", expected 1 to 6");
  piece.kind = static_cast<TokenKind>(type);
  if (piece.kind == TokenKind::Control || piece.kind == TokenKind::Unknown)
    piece.flags = PieceFlag::Special | PieceFlag::Added | PieceFlag::Unmatched;
  else if (piece.kind == TokenKind::UserDefined)
    piece.flags = PieceFlag::Added;
  else if (piece.kind == TokenKind::Byte || piece.kind == TokenKind::Unused)
    piece.flags = PieceFlag::Unmatched;
  if (piece.kind == TokenKind::Unknown)
    draft.unknown = static_cast<int64_t>(draft.pieces.size());
  draft.byteFallback |= piece.kind == TokenKind::Byte;
  if (draft.pieces.size() >= maxPieces)
    return fail("more pieces than the limit of " + std::to_string(maxPieces));
  draft.pieces.push_back(std::move(piece));
  return Status();
}

Status SentencePieceReader::readTrainer(std::string_view bytes) {
  ProtoFields fields(bytes);
  while (fields.next()) {
    if (fields.wire != 0)
      continue;
    int64_t id = static_cast<int32_t>(fields.value);
    if (fields.number == 3)
      modelType = fields.value;
    else if (fields.number == 41)
      draft.bos = id;
    else if (fields.number == 42)
      draft.eos = id;
    else if (fields.number == 43)
      draft.pad = id;
  }
  return fields.malformed ? truncated("trainer_spec") : Status();
}

Status SentencePieceReader::readNormalizer(std::string_view bytes) {
  ProtoFields fields(bytes);
  while (fields.next()) {
    if (fields.number == 2 && fields.wire == 2)
      charsmap = fields.bytes;
    else if (fields.number == 3 && fields.wire == 0)
      prefixSpace = fields.value != 0;
    else if (fields.number == 4 && fields.wire == 0)
      collapseSpaces = fields.value != 0;
  }
  return fields.malformed ? truncated("normalizer_spec") : Status();
}

Status SentencePieceReader::read(std::string_view bytes) {
  ProtoFields fields(bytes);
  // The schema's defaults, for a file that leaves them out.
  draft.bos = 1, draft.eos = 2;
  while (fields.next()) {
    if (fields.wire != 2)
      continue;
    Status field = fields.number == 1   ? readPiece(fields.bytes)
                   : fields.number == 2 ? readTrainer(fields.bytes)
                   : fields.number == 3 ? readNormalizer(fields.bytes)
                                        : Status();
    HEDDLE_RETURN_IF_ERROR(field);
  }
  if (fields.malformed)
    return truncated("the SentencePiece model");
  if (draft.pieces.empty())
    return fail("the vocabulary is empty: no SentencePiece model, or one without pieces");
  if (modelType != 1 && modelType != 2)
    return fail("model_type " + std::to_string(modelType) + " is not supported (1 unigram, 2 BPE)")
        .as(StatusCode::Unsupported);
  if (draft.unknown < 0)
    return fail("no piece has the type 'unknown'");
  draft.model = modelType == 1 ? TokenizerModel::Unigram : TokenizerModel::SentencePieceBpe;
  draft.fuseUnknown = modelType == 1;
  addSentencePieceSteps(draft, std::move(charsmap), collapseSpaces, prefixSpace);
  return Status();
}

Status readSentencePieceModel(ModelFiles &files, const std::string &name, TokenizerDraft &draft) {
  auto file = files.open(name);
  if (!file)
    return file.status();
  return SentencePieceReader(files.pathOf(name), draft).read((*file)->text());
}

} // namespace heddle
