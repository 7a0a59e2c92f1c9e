// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Texts as an encoder takes them. Each is a sequence of its own; sequences are put into steps whole and without padding, so that one more text
// costs its own tokens and no others.
#ifndef HEDDLE_RUNTIME_CLI_TEXTRUN_H
#define HEDDLE_RUNTIME_CLI_TEXTRUN_H

#include "runtime/cli/Cli.h"
#include "runtime/session/Encoder.h"

namespace heddle {

struct TextSequence {
  std::vector<int32_t> ids, positions, types; // (tokens)
  std::vector<TokenPlace> places;             // (tokens), in the text; empty where nobody asks for them
};

class TextRun {
public:
  explicit TextRun(OpenedModel &program)
      : program(program), options(program.options), metadata(program.metadata()), model(*metadata.encoder()) {}

  // The two sides of the tab in `line`, which is text `index`.
  static Status splitPair(const std::string &line, size_t index, std::string &first, std::string &second);

  // Text `index`, which messages count from 1. One that is longer than `most` tokens loses its end, but not what the model wants behind it.
  Status add(const std::string &text, size_t index, size_t most, bool withPlaces = false);
  // A text as its ids, which are taken as they are.
  Status addIds(const std::vector<int32_t> &ids);
  // Two texts as one sequence; of the longer one the end goes until both fit.
  Status addPair(const std::string &first, const std::string &second, size_t index);
  // The ids of two texts, joined as the tokenizer's files say.
  void addJoined(const int32_t *first, size_t firstCount, const int32_t *second, size_t secondCount);
  size_t tokensAroundPair() const;

  // Calls take(index, outputs) for each sequence, the longest first: outputs as TakeEncoding has them.
  template <typename Take> Status run(Take take) {
    return runSorted(
        [](void *user, size_t index, const float *const *outputs) { (*static_cast<Take *>(user))(index, outputs); },
        &take);
  }

  // The number of an output among those that a sequence gives.
  unsigned outputNamed(const char *name) const;
  int64_t widthOf(unsigned output) const { return model.outputs()->Get(output)->width(); }

  OpenedModel &program;
  const CliOptions &options;
  const package::Package &metadata;
  const package::Encoder &model;
  std::vector<TextSequence> sequences;

private:
  Status runSorted(TakeEncoding take, void *user);
  void finish(TextSequence &sequence);
};

// Arguments of the command line behind the first `skipped`, else the lines of standard input. `what` they are: "texts", "files".
Status readTextArguments(const CliOptions &options, const char *what, std::vector<std::string> &texts,
                         size_t skipped = 0);
// The ids of text `index` alone, with their places if `places` is not null.
Status encodeText(const OpenedModel &program, const std::string &text, size_t index, bool addSpecial,
                  std::vector<int32_t> &ids, std::vector<TokenPlace> *places);
// Ids beyond `most` go from the end of a text, but not those that the model wants behind it. Returns how many of the text's own stay before them.
size_t shortenText(const package::Package &metadata, size_t most, std::vector<int32_t> &ids);
// Of ids that a tokenizer's table may leave out.
inline size_t countOf(const flatbuffers::Vector<int32_t> *ids) {
  return ids ? ids->size() : 0;
}
// How the mask is spelled in a text.
std::string maskSpelling(const Package &package);
// In place: numbers that add up to 1.
void softmax(std::vector<float> &values);
// In place: what the numbers of a classifier say.
void scoreLabels(std::vector<float> &values, package::LabelScores kind);
// Numbers of `values`, the greatest first, at most `most` of them; 0: all. Of equal ones the first comes first.
std::vector<size_t> bestFirst(const std::vector<float> &values, size_t most);
// A text's answer for people: the text, and below it a line for each result.
std::string underText(const std::string &text, const std::vector<std::string> &results);
using LabelNames = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
// Scores of labels as one JSON object on a line, and as lines for people; `order`: which of them.
std::string labelsAsJson(const LabelNames &labels, const std::vector<float> &scores, const std::vector<size_t> &order);
std::vector<std::string> labelsAsLines(const LabelNames &labels, const std::vector<float> &scores,
                                       const std::vector<size_t> &order);
// Embeddings (rows, width) as --embed writes them: a JSON array on a line for each, or the file of --npy.
Status writeEmbeddings(const CliOptions &options, const std::vector<float> &values, size_t rows, size_t width);
// Characters before byte `bytes` of `text`.
size_t charactersBefore(const std::string &text, size_t bytes);

} // namespace heddle

#endif
