// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --token-classify: what is labelled in texts, and at which characters.
//
//   tokens -> words (first, average, max) -> spans (all but none) -> without those of label "O"
//
// as transformers' pipeline does it. A word is what the tokenizer's pieces continue, where they say so ("##"), else what spaces separate. A span is
// words, or with `simple` tokens, of one label that follow each other; of labels B-X and I-X, which say where it begins and go on, the name is X.
// Its score is the mean of those of its parts.
#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "runtime/cli/TextRun.h"

#include <algorithm>

namespace heddle {
namespace {

// A token, a word or a span: bytes [begin, end) of the text.
struct Labelled {
  std::string label;
  double score;
  uint32_t begin, end;
  int32_t id; // of a token
};

struct ScoredToken {
  int32_t id;
  TokenPlace place;
  bool continuesWord;
  std::vector<float> scores; // (labels)

  size_t best() const { return size_t(std::max_element(scores.begin(), scores.end()) - scores.begin()); }
};

class TokenClassification : TextRun {
public:
  using TextRun::TextRun;

  Status classify() {
    std::vector<std::string> texts;
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", texts));
    for (size_t i = 0; i < texts.size(); ++i)
      HEDDLE_RETURN_IF_ERROR(add(texts[i], i, metadata.context(), /*withPlaces=*/true));
    std::vector<std::string> answers(texts.size());
    HEDDLE_RETURN_IF_ERROR(run([&](size_t index, const float *const *outputs) {
      std::vector<Labelled> spans =
          spansOf(scoredTokens(texts[index], sequences[index], outputs[outputNamed("logits")]));
      answers[index] = options.json ? asJson(texts[index], spans) : asText(texts[index], spans);
    }));
    std::string all;
    for (const std::string &answer : answers)
      all += answer;
    return writeOut(all);
  }

private:
  // The tokens of the text itself: what the model wants around it is none of them.
  std::vector<ScoredToken> scoredTokens(const std::string &text, const TextSequence &sequence,
                                        const float *logits) const {
    const package::Tokenizer &tokenizer = *metadata.tokenizer();
    size_t before = countOf(tokenizer.prefix()), behind = countOf(tokenizer.suffix());
    bool piecesContinue = tokenizer.continuing_prefix() && tokenizer.continuing_prefix()->size();
    size_t labels = model.labels()->size();
    std::vector<ScoredToken> tokens;
    for (size_t row = before; row + behind < sequence.ids.size(); ++row) {
      TokenPlace place = sequence.places[row];
      bool continues = piecesContinue ? !tokens.empty() && tokens.back().place.word == place.word
                                      : place.begin > 0 && text[place.begin - 1] != ' ';
      ScoredToken token{sequence.ids[row],
                        place,
                        continues && sequence.ids[row] != tokenizer.unknown(),
                        {logits + row * labels, logits + (row + 1) * labels}};
      softmax(token.scores);
      tokens.push_back(std::move(token));
    }
    return tokens;
  }

  Labelled labelled(const ScoredToken *first, const ScoredToken *last, size_t label, double score) const {
    return {model.labels()->Get(unsigned(label))->str(), score, first->place.begin, last->place.end, first->id};
  }

  // The tokens from `first` to `last`, which are a word.
  Labelled word(const ScoredToken *first, const ScoredToken *last) const {
    const ScoredToken *sayer = first;
    if (options.aggregation == Aggregation::Max)
      for (const ScoredToken *token = first; token <= last; ++token)
        if (token->scores[token->best()] > sayer->scores[sayer->best()])
          sayer = token;
    if (options.aggregation != Aggregation::Average)
      return labelled(first, last, sayer->best(), sayer->scores[sayer->best()]);
    std::vector<double> means(first->scores.size());
    for (const ScoredToken *token = first; token <= last; ++token)
      for (size_t label = 0; label < means.size(); ++label)
        means[label] += double(token->scores[label]) / double(last - first + 1);
    size_t best = size_t(std::max_element(means.begin(), means.end()) - means.begin());
    return labelled(first, last, best, means[best]);
  }

  std::vector<Labelled> spansOf(const std::vector<ScoredToken> &tokens) const {
    bool ofTokens = options.aggregation == Aggregation::None || options.aggregation == Aggregation::Simple;
    std::vector<Labelled> parts;
    for (size_t first = 0, next = 0; first < tokens.size(); first = next) {
      for (next = first + 1; !ofTokens && next < tokens.size() && tokens[next].continuesWord;)
        ++next;
      parts.push_back(word(&tokens[first], &tokens[next - 1]));
    }
    if (options.aggregation != Aggregation::None)
      parts = joinNeighbours(parts);
    parts.erase(std::remove_if(parts.begin(), parts.end(), [](const Labelled &part) { return part.label == "O"; }),
                parts.end());
    return parts;
  }

  static bool begins(const std::string &label) { return label.compare(0, 2, "B-") == 0; }
  static std::string tagOf(const std::string &label) {
    return begins(label) || label.compare(0, 2, "I-") == 0 ? label.substr(2) : label;
  }

  static std::vector<Labelled> joinNeighbours(const std::vector<Labelled> &parts) {
    std::vector<Labelled> spans;
    for (size_t first = 0, next = 0; first < parts.size(); first = next) {
      double sum = parts[first].score;
      for (next = first + 1; next < parts.size() && tagOf(parts[next].label) == tagOf(parts[next - 1].label) &&
                             !begins(parts[next].label);
           ++next)
        sum += parts[next].score;
      Labelled span = parts[first];
      span.label = span.label.substr(span.label.find('-') + 1); // npos + 1: all of it
      span.score = sum / double(next - first);
      span.end = parts[next - 1].end;
      spans.push_back(span);
    }
    return spans;
  }

  std::string asJson(const std::string &text, const std::vector<Labelled> &spans) const {
    std::string json = std::string("{\"schema\":") + jsonString(schema::tokenLabels) + ",\"spans\":[";
    for (const Labelled &span : spans) {
      json += (&span == spans.data() ? "{" : ",{");
      if (options.aggregation == Aggregation::None)
        json += "\"token\":" + jsonString(program.tokenText(span.id)) + ",";
      json += "\"label\":" + jsonString(span.label) +
              format(",\"score\":%.9g,\"start\":%zu,\"end\":%zu,\"text\":", span.score,
                     charactersBefore(text, span.begin), charactersBefore(text, span.end)) +
              jsonString(text.substr(span.begin, span.end - span.begin)) + "}";
    }
    return json + "]}\n";
  }

  static std::string asText(const std::string &text, const std::vector<Labelled> &spans) {
    std::vector<std::string> lines;
    for (const Labelled &span : spans)
      lines.push_back(format("%.4f  %s  [%zu, %zu)  ", span.score, span.label.c_str(),
                             charactersBefore(text, span.begin), charactersBefore(text, span.end)) +
                      text.substr(span.begin, span.end - span.begin));
    return underText(text, lines);
  }
};

} // namespace

Status runClassifyTokens(OpenedModel &program) {
  return TokenClassification(program).classify();
}

} // namespace heddle
