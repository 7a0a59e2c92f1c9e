// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/PreTokenizers.h"
#include "frontends/tokenizer/StepRecipes.h"
#include "frontends/tokenizer/TokenizerFiles.h"

#include "bytes/Status.h"
#include "bytes/Utf8.h"

namespace heddle {

using package::PieceFlag;
using package::TextOp;
using package::TokenizerModel;
using package::TokenKind;

static std::string_view nextLine(std::string_view &rest) {
  size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (!line.empty() && line.back() == '\r')
    line.remove_suffix(1);
  return line;
}

static Expected<SharedFile> openText(ModelFiles &files, const std::string &name) {
  auto file = files.open(name);
  if (!file)
    return file.status();
  std::string_view text = (*file)->text();
  if (!isUtf8(text))
    return errorIn(files.pathOf(name), "is not valid UTF-8");
  return file;
}

// A "#version" line, then "left right" per rank.
static Status readMergesTxt(ModelFiles &files, const std::string &name, TokenizerDraft &draft) {
  auto file = openText(files, name);
  if (!file)
    return file.status();
  const std::string &path = (*file)->path();
  std::string_view rest = (*file)->text();
  PieceIds ids = indexPieces(draft.pieces);
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = nextLine(rest);
    if (line.empty() || (number == 1 && line.substr(0, 8) == "#version"))
      continue;
    std::string where = "line " + std::to_string(number) + ": merge '" + printable(line, 80) + "'";
    size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      return errorIn(path, where + " is not two pieces with a space between");
    std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    auto a = ids.find(left), b = ids.find(right), c = ids.find(std::string(left).append(right));
    if (a == ids.end() || b == ids.end() || c == ids.end())
      return errorIn(path, where + " names a piece that is not in the vocabulary");
    if (draft.merges.size() >= maxMerges)
      return errorIn(path, "more merges than the limit of " + std::to_string(maxMerges));
    draft.merges.emplace_back(a->second, b->second, c->second);
  }
  return Status();
}

static int64_t markSpecial(TokenizerDraft &draft, std::string_view text) {
  for (size_t id = 0; id < draft.pieces.size(); ++id) {
    PieceDraft &piece = draft.pieces[id];
    if (piece.kind == TokenKind::Absent || piece.text != text)
      continue;
    piece.kind = TokenKind::Control;
    piece.flags = PieceFlag::Special | PieceFlag::Added | PieceFlag::Unmatched;
    return static_cast<int64_t>(id);
  }
  return -1;
}

static void markAll(TokenizerDraft &draft, std::initializer_list<const char *> texts) {
  for (const char *text : texts)
    markSpecial(draft, text);
}

// The class in tokenizer_config.json tells what GPT-2's files do not: how text is cut, and what surrounds it.
static Status readClass(ModelFiles &files, std::string &name, bool &prefixSpace) {
  if (!files.has("tokenizer_config.json"))
    return Status();
  auto json = openJson(files, "tokenizer_config.json");
  if (!json)
    return json.status();
  name = json->root.find("tokenizer_class").string();
  prefixSpace = json->root.find("add_prefix_space").isTrue();
  return Status();
}

Status readVocabJson(ModelFiles &files, const std::string &vocab, TokenizerDraft &draft) {
  draft.file = files.pathOf(vocab);
  auto json = openJson(files, vocab);
  if (!json)
    return json.status();
  HEDDLE_RETURN_IF_ERROR(readVocabObject(json->root, 0, draft));
  if (!files.has("merges.txt"))
    return errorIn(draft.file, "merges.txt is missing beside it");
  HEDDLE_RETURN_IF_ERROR(readMergesTxt(files, "merges.txt", draft));
  std::string name;
  bool prefixSpace = false;
  HEDDLE_RETURN_IF_ERROR(readClass(files, name, prefixSpace));
  draft.model = TokenizerModel::ByteLevelBpe;
  markAll(draft, {"<|endoftext|>", "<|startoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"});
  auto has = [&](const char *part) { return name.find(part) != std::string::npos; };
  if (has("CLIP")) {
    draft.endOfWordSuffix = "</w>";
    draft.normalizer = {StepDraft::of(TextOp::Nfc), StepDraft::replace(R"(\s+)", " "),
                        StepDraft::of(TextOp::Lowercase)};
    draft.normalizer[1].flags = 1;
    draft.preTokenizer = {StepDraft::split(R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
                                           package::SplitBehavior::Removed, true)};
    draft.decoder = {StepDraft{TextOp::SuffixJoin, "</w>", {}, {}}};
  } else {
    if (has("Qwen2"))
      draft.normalizer = {StepDraft::of(TextOp::Nfc)};
    if (prefixSpace)
      draft.preTokenizer.push_back(StepDraft::of(TextOp::PrefixSpace));
    draft.preTokenizer.push_back(StepDraft::split(has("Qwen2") ? findPreTokenizer("qwen2")->patterns[0] : gpt2Pattern));
  }
  draft.mask = markSpecial(draft, "<mask>");
  int64_t first = has("CLIP") ? markSpecial(draft, "<|startoftext|>") : markSpecial(draft, "<s>");
  int64_t last = has("CLIP") ? markSpecial(draft, "<|endoftext|>") : markSpecial(draft, "</s>");
  bool surrounds = has("CLIP") || has("Roberta") || has("Bart") || has("Longformer") || has("LED");
  if (surrounds && first >= 0 && last >= 0)
    draft.prefix = {first}, draft.suffix = {last};
  if (surrounds && !has("CLIP") && first >= 0 && last >= 0)
    draft.pair = TokenizerDraft::Pair{{last, last}, {last}, 0};
  spellPiecesInBytes(draft);
  return Status();
}

// ESM's: tokens are found wherever they stand in a text, and what white space leaves of the rest is unknown as a whole.
static Status finishProteins(TokenizerDraft &draft) {
  draft.continuingPrefix.clear();
  for (PieceDraft &piece : draft.pieces)
    if (piece.kind == TokenKind::Normal)
      piece.flags = PieceFlag::Added;
  draft.preTokenizer = {StepDraft::split(R"(\s)", package::SplitBehavior::Removed)};
  draft.decoder = {StepDraft{TextOp::WordJoin, "##", {}, {}}};
  draft.unknown = markSpecial(draft, "<unk>");
  if (draft.unknown < 0)
    return errorIn(draft.file, "the unknown token <unk> is missing from the vocabulary");
  draft.pad = markSpecial(draft, "<pad>");
  draft.mask = markSpecial(draft, "<mask>");
  int64_t first = markSpecial(draft, "<cls>"), last = markSpecial(draft, "<eos>");
  if (first >= 0 && last >= 0) {
    draft.prefix = {first}, draft.suffix = {last};
    draft.pair = TokenizerDraft::Pair{{last}, {last}, 0};
  }
  return Status();
}

// One token per line; ids are line numbers.
Status readVocabTxt(ModelFiles &files, const std::string &name, TokenizerDraft &draft) {
  const std::string path = files.pathOf(name);
  draft.file = path;
  draft.model = TokenizerModel::WordPiece;
  draft.continuingPrefix = "##";
  auto file = openText(files, name);
  if (!file)
    return file.status();
  std::string_view rest = (*file)->text();
  std::unordered_map<std::string_view, size_t> seen;
  while (!rest.empty()) {
    std::string_view line = nextLine(rest);
    std::string id = std::to_string(draft.pieces.size());
    if (draft.pieces.size() >= maxPieces || line.size() > maxPieceBytes)
      return errorIn(path, "token " + id + " exceeds the limit of " + std::to_string(maxPieces) + " tokens or " +
                               std::to_string(maxPieceBytes) + " bytes");
    if (!line.empty() && !seen.emplace(line, draft.pieces.size()).second)
      return errorIn(path, "line " + std::to_string(draft.pieces.size() + 1) + ": duplicate token '" +
                               printable(line, 40) + "'");
    draft.pieces.push_back({std::string(line), 0, line.empty() ? TokenKind::Absent : TokenKind::Normal});
  }
  if (seen.empty())
    return errorIn(path, "the vocabulary is empty");
  std::string kind;
  bool prefixSpace = false, lowercase = true, isolateChinese = true, strip = true;
  HEDDLE_RETURN_IF_ERROR(readClass(files, kind, prefixSpace));
  if (kind.find("Esm") != std::string::npos)
    return finishProteins(draft);
  if (files.has("tokenizer_config.json")) {
    auto json = openJson(files, "tokenizer_config.json");
    if (!json)
      return json.status();
    auto setting = [&](const char *key, bool standard) {
      JsonValue value = json->root.find(key);
      return value.is(JsonKind::Bool) ? value.isTrue() : standard;
    };
    lowercase = setting("do_lower_case", true);
    isolateChinese = setting("tokenize_chinese_chars", true);
    strip = setting("strip_accents", lowercase);
  }
  addBertSteps(draft, lowercase, strip, true, isolateChinese);
  draft.decoder = {StepDraft{TextOp::WordJoin, "##", {}, {}, 1}};
  draft.unknown = markSpecial(draft, "[UNK]");
  if (draft.unknown < 0)
    return errorIn(path, "the unknown token [UNK] is missing from the vocabulary");
  draft.pad = markSpecial(draft, "[PAD]");
  draft.mask = markSpecial(draft, "[MASK]");
  int64_t first = markSpecial(draft, "[CLS]"), last = markSpecial(draft, "[SEP]");
  if (first >= 0 && last >= 0) {
    draft.prefix = {first}, draft.suffix = {last};
    draft.pair = TokenizerDraft::Pair{{last}, {last}, 1};
  }
  return Status();
}

} // namespace heddle
