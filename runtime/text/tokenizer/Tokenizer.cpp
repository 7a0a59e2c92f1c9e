// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenDecoder.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <optional>

namespace heddle {

using package::PieceFlag;
using package::TokenizerModel;
using package::TokenKind;

std::unique_ptr<Tokenizer> Tokenizer::create(const package::Tokenizer &table, std::string &error) {
  std::unique_ptr<Tokenizer> result(new Tokenizer);
  result->source = &table;
  if (!result->pieces.create(table, error) || !result->checkIds(error) || !result->readOptions(error) ||
      !result->steps.create(table, error) || !result->addAddedTokens(error) || !TokenDecoder::check(table, error))
    return nullptr;
  if (table.model() == TokenizerModel::Unigram)
    result->sortedPieces = UnigramModel::sortPieces(result->pieces);
  return result;
}

bool Tokenizer::checkIds(std::string &error) const {
  auto inRange = [&](const char *name, int32_t id) {
    if (id >= -1 && id < pieces.size())
      return true;
    error = "tokenizer " + std::string(name) + " " + std::to_string(id) + " is beyond the vocabulary of " +
            std::to_string(pieces.size());
    return false;
  };
  if (!inRange("bos", source->bos()) || !inRange("eos", source->eos()) || !inRange("unknown", source->unknown()) ||
      !inRange("pad", source->pad()) || !inRange("mask", source->mask()))
    return false;
  const package::TextPair *pair = source->pair();
  for (const auto *list :
       {source->prefix(), source->suffix(), pair ? pair->middle() : nullptr, pair ? pair->suffix() : nullptr})
    for (uint32_t i = 0; list && i < list->size(); ++i)
      if (list->Get(i) < 0 || !inRange("prefix or suffix id", list->Get(i)))
        return false;
  return true;
}

bool Tokenizer::readOptions(std::string &error) {
  TokenizerModel model = source->model();
  if (model == TokenizerModel::None || model > TokenizerModel::MAX) {
    error = "tokenizer model " + std::to_string(static_cast<int>(model)) + " is unknown";
    return false;
  }
  modelOptions.model = model;
  modelOptions.unknown = source->drop_unknown() ? -1 : source->unknown();
  modelOptions.byteFallback = source->byte_fallback();
  modelOptions.ignoreMerges = source->ignore_merges();
  modelOptions.fuseUnknown = source->fuse_unknown();
  if (source->continuing_prefix())
    modelOptions.continuingPrefix = source->continuing_prefix()->str();
  if (source->end_of_word_suffix())
    modelOptions.endOfWordSuffix = source->end_of_word_suffix()->str();
  // The search for the longest piece of a word is quadratic in its length.
  modelOptions.maxWord = source->max_word() < 1000 ? source->max_word() : 1000;
  if (model == TokenizerModel::Unigram) {
    double lowest = 0;
    for (int32_t id = 0; id < pieces.size(); ++id)
      if (pieces.kind(id) == TokenKind::Normal && pieces.score(id) < lowest)
        lowest = pieces.score(id);
    modelOptions.unknownScore = lowest - 10; // the penalty that SentencePiece and Hugging Face use
  }
  return true;
}

bool Tokenizer::addAddedTokens(std::string &error) {
  for (int32_t id = 0; id < pieces.size(); ++id) {
    if (!pieces.has(id, PieceFlag::Added))
      continue;
    if (!pieces.has(id, PieceFlag::Normalized)) {
      rawAdded.add(pieces.text(id), id);
      continue;
    }
    std::string spelling(pieces.text(id));
    if (!steps.normalize(spelling, /*origins=*/nullptr, error)) {
      error.insert(0, "tokenizer: added token " + std::to_string(id) + ": ");
      return false;
    }
    normalizedAdded.add(spelling, id);
  }
  return true;
}

// The models keep scratch space from word to word.
struct Tokenizer::Models {
  explicit Models(const Tokenizer &t)
      : bpe(t.pieces, t.modelOptions), unigram(t.pieces, t.modelOptions, t.sortedPieces) {}
  BpeModel bpe;
  UnigramModel unigram;
};

TokenPlace Tokenizer::placeOf(std::string_view text, TextRange range, int32_t word) {
  auto continues = [&](size_t byte) { return byte < text.size() && (text[byte] & 0xC0) == 0x80; };
  size_t begin = range.begin, end = range.end;
  while (continues(begin))
    --begin;
  while (continues(end))
    ++end;
  for (size_t next = begin; next < end && isWhiteSpace(nextCharacter(text, next));)
    begin = next;
  for (size_t before = end; before > begin && isWhiteSpace(previousCharacter(text, before));)
    end = before;
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end), word};
}

void Tokenizer::encodeWord(std::string_view word, Models &models, TokenList tokens) const {
  if (modelOptions.model == TokenizerModel::Unigram)
    models.unigram.encode(word, tokens);
  else if (modelOptions.model == TokenizerModel::WordPiece)
    encodeWordPiece(pieces, modelOptions, word, tokens);
  else
    models.bpe.encode(word, tokens);
}

bool Tokenizer::encodeSection(std::string_view text, TextSection whole, const EncodeOptions &options, Models &models,
                              std::vector<int32_t> &ids, std::string &error, std::vector<TokenPlace> *places) const {
  std::string normal(text.substr(whole.begin, whole.end - whole.begin));
  std::optional<TextOrigins> origins;
  if (places)
    origins.emplace(whole.begin, whole.end);
  if (!steps.normalize(normal, places ? &*origins : nullptr, error))
    return false;
  int32_t word = places && !places->empty() ? places->back().word + 1 : 0;
  // Normalisation moves characters, so that here a stretch is trusted as a whole or not at all.
  bool trusted = !overlaps(options.untrusted, whole.begin, whole.end);
  std::vector<TextRange> nothing;
  AddedTokens::Rules rules{pieces, options.parseSpecial && trusted, nothing};
  for (const TextSection &section : normalizedAdded.split(normal, rules)) {
    if (section.id >= 0) {
      ids.push_back(section.id);
      if (places)
        places->push_back(placeOf(text, origins->of(section.begin, section.end), word++));
      continue;
    }
    CutText cut;
    cut.text = normal.substr(section.begin, section.end - section.begin);
    cut.words = {{0, section.end - section.begin}};
    cut.first = whole.begin == 0 && section.begin == 0;
    std::optional<TextOrigins> cutOrigins;
    if (places)
      cut.origins = &cutOrigins.emplace(origins->slice(section.begin, section.end));
    if (!steps.cut(cut, error))
      return false;
    std::vector<TextRange> ranges;
    for (const TextRange &range : cut.words) {
      ranges.clear();
      encodeWord(std::string_view(cut.text).substr(range.begin, range.end - range.begin), models,
                 {ids, places ? &ranges : nullptr});
      for (const TextRange &token : ranges)
        places->push_back(placeOf(text, cut.origins->of(range.begin + token.begin, range.begin + token.end), word));
      ++word;
    }
  }
  return true;
}

bool Tokenizer::encode(std::string_view text, const EncodeOptions &options, std::vector<int32_t> &ids,
                       std::string &error, std::vector<TokenPlace> *places) const {
  if (text.size() > maxText) {
    error = "the text of " + std::to_string(text.size()) + " bytes exceeds the limit of " + std::to_string(maxText);
    return false;
  }
  size_t invalid = findInvalidUtf8(text);
  if (invalid != std::string_view::npos) {
    error = "the text is not valid UTF-8 at byte " + std::to_string(invalid);
    return false;
  }
  auto append = [&](const flatbuffers::Vector<int32_t> *list) {
    if (!list || !options.addSpecial)
      return;
    ids.insert(ids.end(), list->begin(), list->end());
    if (places)
      places->resize(places->size() + list->size());
  };
  append(source->prefix());
  Models models(*this);
  AddedTokens::Rules rules{pieces, options.parseSpecial, options.untrusted};
  for (const TextSection &section : rawAdded.split(text, rules)) {
    if (section.id < 0) {
      if (!encodeSection(text, section, options, models, ids, error, places))
        return false;
      continue;
    }
    ids.push_back(section.id);
    if (places)
      places->push_back(placeOf(text, {section.begin, section.end}, places->empty() ? 0 : places->back().word + 1));
  }
  append(source->suffix());
  return true;
}

bool Tokenizer::decode(const std::vector<int32_t> &ids, bool skipSpecial, std::string &text, std::string &error) const {
  TokenDecoder decoder(*this, skipSpecial);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= size()) {
      error = "id " + std::to_string(ids[i]) + " at index " + std::to_string(i) + " is outside the vocabulary of " +
              std::to_string(size());
      return false;
    }
    decoder.append(ids[i], text);
  }
  decoder.finish(text);
  return true;
}

} // namespace heddle
