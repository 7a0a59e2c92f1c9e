// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/TextRun.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/Utf8.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>

namespace heddle {

Status readTextArguments(const CliOptions &options, const char *what, std::vector<std::string> &texts, size_t skipped) {
  texts.assign(options.texts.begin() + ptrdiff_t(std::min(skipped, options.texts.size())), options.texts.end());
  if (!texts.empty())
    return Status();
  if (isatty(STDIN_FILENO))
    return invalidInput(std::string(what) + " are expected, as arguments or one per line on standard input");
  std::string all;
  HEDDLE_RETURN_IF_ERROR(readAll(stdin, "standard input", all));
  for (size_t begin = 0; begin < all.size();) {
    size_t end = std::min(all.find('\n', begin), all.size());
    texts.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts.empty() ? invalidInput(std::string("standard input holds no ") + what) : Status();
}

Status TextRun::splitPair(const std::string &line, size_t index, std::string &first, std::string &second) {
  size_t tab = line.find('\t');
  if (tab == line.npos || line.find('\t', tab + 1) != line.npos)
    return invalidInput(format("line %zu: two texts with one tab between them are expected", index + 1));
  first = line.substr(0, tab);
  second = line.substr(tab + 1);
  return Status();
}

Status encodeText(const OpenedModel &program, const std::string &text, size_t index, bool addSpecial,
                  std::vector<int32_t> &ids, std::vector<TokenPlace> *places) {
  if (!isUtf8(text))
    return invalidInput(format("text %zu is not UTF-8", index + 1));
  EncodeOptions how;
  how.addSpecial = addSpecial;
  std::string error;
  return program.tokenizer->encode(text, how, ids, error, places) ? Status() : invalidInput("the text: " + error);
}

size_t shortenText(const package::Package &metadata, size_t most, std::vector<int32_t> &ids) {
  if (ids.size() <= most)
    return ids.size();
  size_t behind = std::min(countOf(metadata.tokenizer()->suffix()), most);
  std::copy(ids.end() - ptrdiff_t(behind), ids.end(), ids.begin() + ptrdiff_t(most - behind));
  ids.resize(most);
  return most - behind;
}

Status TextRun::add(const std::string &text, size_t index, size_t most, bool withPlaces) {
  TextSequence added;
  HEDDLE_RETURN_IF_ERROR(
      encodeText(program, text, index, /*addSpecial=*/true, added.ids, withPlaces ? &added.places : nullptr));
  if (added.ids.empty())
    return invalidInput(format("text %zu is empty", index + 1));
  size_t kept = shortenText(metadata, most, added.ids);
  if (withPlaces) { // nothing of what stays behind has a place
    added.places.resize(kept);
    added.places.resize(added.ids.size());
  }
  added.types.resize(added.ids.size());
  finish(added);
  return Status();
}

Status TextRun::addIds(const std::vector<int32_t> &ids) {
  if (ids.empty())
    return invalidInput("--prompt-ids: no ids");
  TextSequence added;
  added.ids = ids;
  added.types.resize(ids.size());
  finish(added);
  return Status();
}

size_t TextRun::tokensAroundPair() const {
  const package::Tokenizer &tokenizer = *metadata.tokenizer();
  return countOf(tokenizer.prefix()) + countOf(tokenizer.pair()->middle()) + countOf(tokenizer.pair()->suffix());
}

void TextRun::addJoined(const int32_t *first, size_t firstCount, const int32_t *second, size_t secondCount) {
  const package::TextPair &pair = *metadata.tokenizer()->pair();
  TextSequence added;
  auto append = [&](const flatbuffers::Vector<int32_t> *ids) {
    if (ids)
      added.ids.insert(added.ids.end(), ids->begin(), ids->end());
  };
  append(metadata.tokenizer()->prefix());
  added.ids.insert(added.ids.end(), first, first + firstCount);
  append(pair.middle());
  added.types.resize(added.ids.size());
  added.ids.insert(added.ids.end(), second, second + secondCount);
  append(pair.suffix());
  // A model that tells fewer types apart is given none.
  added.types.resize(added.ids.size(), pair.type() < model.token_types() ? int32_t(pair.type()) : 0);
  finish(added);
}

Status TextRun::addPair(const std::string &first, const std::string &second, size_t index) {
  std::vector<int32_t> a, b;
  HEDDLE_RETURN_IF_ERROR(encodeText(program, first, index, /*addSpecial=*/false, a, nullptr));
  HEDDLE_RETURN_IF_ERROR(encodeText(program, second, index, /*addSpecial=*/false, b, nullptr));
  size_t around = tokensAroundPair(), most = metadata.context();
  if (around >= most)
    return invalidInput(format("two texts need %zu tokens around them, the model takes %zu", around, most));
  while (a.size() + b.size() + around > most)
    (a.size() > b.size() ? a : b).pop_back();
  if (a.size() + b.size() + around == 0)
    return invalidInput(format("text %zu is empty", index + 1));
  addJoined(a.data(), a.size(), b.data(), b.size());
  return Status();
}

void TextRun::finish(TextSequence &sequence) {
  sequence.positions = positionsOf(metadata, {sequence.ids.begin(), sequence.ids.end()});
  sequences.push_back(std::move(sequence));
}

namespace {

struct SortedTake {
  TakeEncoding take;
  void *user;
  const std::vector<size_t> &order;
};

} // namespace

Status TextRun::runSorted(TakeEncoding take, void *user) {
  std::vector<size_t> order(sequences.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    size_t left = sequences[a].ids.size(), right = sequences[b].ids.size();
    return left != right ? left > right : a < b;
  });
  std::vector<EncoderInput> inputs;
  for (size_t index : order) {
    const TextSequence &sequence = sequences[index];
    inputs.push_back({int32_t(sequence.ids.size()), sequence.ids.data(), sequence.positions.data(),
                      sequence.types.data(), /*patches=*/nullptr});
  }
  std::unique_ptr<Encoder> encoder;
  HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, options.threads, /*pool=*/nullptr, encoder));
  encoder->setProgress(promptProgress());
  SortedTake sorted{take, user, order};
  return encoder->run(
      inputs.data(), inputs.size(),
      [](void *all, size_t place, const float *const *outputs) {
        const auto &sorted = *static_cast<const SortedTake *>(all);
        sorted.take(sorted.user, sorted.order[place], outputs);
      },
      &sorted);
}

unsigned TextRun::outputNamed(const char *name) const {
  unsigned index = 0;
  while (index + 1 < model.outputs()->size() && model.outputs()->Get(index)->name()->string_view() != name)
    ++index;
  return index;
}

std::string maskSpelling(const Package &package) {
  const package::Tokenizer &tokenizer = *package.metadata().tokenizer();
  const package::Piece &piece = *tokenizer.pieces()->Get(uint32_t(tokenizer.mask()));
  return std::string(reinterpret_cast<const char *>(tokenizer.text()->data()) + piece.offset(), piece.length());
}

void softmax(std::vector<float> &values) {
  float most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (float &value : values)
    sum += value = std::exp(value - most);
  for (float &value : values)
    value = float(value / sum);
}

void scoreLabels(std::vector<float> &values, package::LabelScores kind) {
  if (kind == package::LabelScores::Sigmoid)
    for (float &value : values)
      value = 1 / (1 + std::exp(-value));
  if (kind == package::LabelScores::Softmax)
    softmax(values);
}

std::vector<size_t> bestFirst(const std::vector<float> &values, size_t most) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  size_t kept = most ? std::min(most, order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + ptrdiff_t(kept), order.end(),
                    [&](size_t a, size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.resize(kept);
  return order;
}

std::string underText(const std::string &text, const std::vector<std::string> &results) {
  std::string lines = text + "\n";
  for (const std::string &result : results)
    lines += "  " + result + "\n";
  return lines;
}

std::string labelsAsJson(const LabelNames &labels, const std::vector<float> &scores, const std::vector<size_t> &order) {
  std::string text = std::string("{\"schema\":") + jsonString(schema::labels) + ",\"labels\":[";
  for (size_t i = 0; i < order.size(); ++i)
    text += (i ? ",{\"label\":" : "{\"label\":") + jsonString(labels.Get(unsigned(order[i]))->string_view()) +
            format(",\"score\":%.9g}", scores[order[i]]);
  return text + "]}\n";
}

std::vector<std::string> labelsAsLines(const LabelNames &labels, const std::vector<float> &scores,
                                       const std::vector<size_t> &order) {
  std::vector<std::string> lines;
  lines.reserve(order.size());
  for (size_t index : order)
    lines.push_back(format("%.4f  ", scores[index]) + labels.Get(unsigned(index))->str());
  return lines;
}

size_t charactersBefore(const std::string &text, size_t bytes) {
  return size_t(
      std::count_if(text.begin(), text.begin() + ptrdiff_t(bytes), [](char c) { return (c & 0xC0) != 0x80; }));
}

} // namespace heddle
