// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tokenizer as the readers of the formats gather it, and the one way from there into the package's table.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_TOKENIZERDRAFT_H
#define HEDDLE_FRONTENDS_TOKENIZER_TOKENIZERDRAFT_H

#include "bytes/Expected.h"
#include "runtime/schema/package_generated.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heddle {

struct PieceDraft {
  std::string text;
  float score = 0;
  package::TokenKind kind = package::TokenKind::Absent;
  package::PieceFlag flags = package::PieceFlag::NONE;
};

// One TextStep; package.fbs says what each op reads.
struct StepDraft {
  package::TextOp op;
  std::string pattern, content, bytes;
  uint32_t flags = 0;
  package::SplitBehavior behavior = package::SplitBehavior::Isolated;
  uint32_t left = 0, right = 0;
  std::string field = {}; // what a message about the step names; empty for one that the format only implies

  static StepDraft of(package::TextOp op) { return {op, {}, {}, {}}; }
  static StepDraft replace(std::string pattern, std::string content) {
    return {package::TextOp::Replace, std::move(pattern), std::move(content), {}};
  }
  static StepDraft prepend(std::string content) { return {package::TextOp::Prepend, {}, std::move(content), {}}; }
  // Cuts at matches of a regular expression.
  static StepDraft split(std::string regex, package::SplitBehavior behavior = package::SplitBehavior::Isolated,
                         bool invert = false) {
    return {package::TextOp::Split, std::move(regex), {}, {}, invert ? 3u : 1u, behavior};
  }
};

struct TokenizerDraft {
  std::string file; // what messages name
  package::TokenizerModel model = package::TokenizerModel::None;
  std::vector<PieceDraft> pieces; // by id
  size_t gaps = 0;                // ids that added tokens have left out
  std::vector<package::Merge> merges;
  std::vector<StepDraft> normalizer, preTokenizer, decoder;
  bool byteFallback = false, ignoreMerges = false, fuseUnknown = false;
  int64_t bos = -1, eos = -1, unknown = -1, pad = -1, mask = -1;
  bool dropUnknown = false; // `unknown` is only a name: what has no piece is dropped
  std::vector<int64_t> prefix, suffix;
  struct Pair {
    std::vector<int64_t> middle, suffix;
    uint32_t type = 0;
  };
  std::optional<Pair> pair; // as package.fbs has it
  std::string chatTemplate, chatTemplateFile;
  std::string continuingPrefix, endOfWordSuffix;
  uint32_t maxWord = 100;
  int64_t vocabSize = 0; // rows of the model's embedding; 0 where nothing says
};

// Most pieces and merges that any reader accepts, and the longest piece in bytes.
constexpr size_t maxPieces = 4 << 20, maxMerges = 16 << 20, maxPieceBytes = 64 << 10;
constexpr size_t maxChatTemplateBytes = 512 << 10;

// The id of each piece by its text; views into `pieces`. The lowest id wins.
using PieceIds = std::unordered_map<std::string_view, uint32_t>;
PieceIds indexPieces(const std::vector<PieceDraft> &pieces);

// Whether `id` is a piece; the error names file and `field`.
Status checkTokenId(const TokenizerDraft &draft, const char *field, int64_t id);

// Bytes in the printable alphabet of byte-level vocabularies (Ġ for a space) as the bytes they stand for; false if `text` has
// another character.
bool fromByteAlphabet(std::string_view text, std::string &bytes);

// Spells all pieces that the model may answer in bytes instead of the printable alphabet. Those that are not written in it stay as
// they are and out of the model's reach.
void spellPiecesInBytes(TokenizerDraft &draft);

// Checks the draft, writes the table as a FlatBuffer whose root is package::Tokenizer, and tries it: what the runtime would refuse
// (an id out of range, a pattern, a chat template that does not parse) is an error here. Added tokens without a row in the model's
// embedding are left out, so that their text stays text: the model cannot read them, and models whose tokenizer is also that of a larger
// one (Gemma 3 1B with <image_soft_token>) have some. Any other piece out there is an error.
Expected<std::string> writeTokenizer(TokenizerDraft draft);

} // namespace heddle

#endif
