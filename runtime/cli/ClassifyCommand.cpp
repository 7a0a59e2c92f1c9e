// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --classify and --rerank: what a classifier of texts, or of pairs of them, says. Scores are those of transformers' pipeline: problem_type and the
// number of labels decide whether they add up to 1.
#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "runtime/cli/TextRun.h"

namespace heddle {
namespace {

class Classification : TextRun {
public:
  using TextRun::TextRun;

  Status classify() {
    HEDDLE_RETURN_IF_ERROR(options.pairs ? addPairs() : addTexts());
    std::vector<std::vector<float>> scores;
    HEDDLE_RETURN_IF_ERROR(score(scores));
    std::string all;
    for (size_t i = 0; i < scores.size(); ++i) {
      std::vector<size_t> order = bestFirst(scores[i], size_t(options.best));
      const LabelNames &labels = *model.labels();
      all += options.json ? labelsAsJson(labels, scores[i], order)
                          : underText(titles[i], labelsAsLines(labels, scores[i], order));
    }
    return writeOut(all);
  }

  // Texts by what the one label says of them beside the query.
  Status rerank() {
    if (options.texts.empty())
      return invalidInput("--rerank: a query is expected, and texts behind it or one per line on standard input");
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", titles, /*skipped=*/1));
    for (size_t i = 0; i < titles.size(); ++i)
      HEDDLE_RETURN_IF_ERROR(addPair(options.texts[0], titles[i], i));
    std::vector<std::vector<float>> scores;
    HEDDLE_RETURN_IF_ERROR(score(scores));
    std::vector<float> ofTexts(scores.size());
    for (size_t i = 0; i < scores.size(); ++i)
      ofTexts[i] = scores[i][0];
    std::vector<std::string> results;
    std::string json = std::string("{\"schema\":") + jsonString(schema::ranking) + ",\"texts\":[";
    for (size_t index : bestFirst(ofTexts, /*most=*/0)) {
      json += (results.empty() ? "" : ",") + format("{\"index\":%zu,\"score\":%.9g,\"text\":", index, ofTexts[index]) +
              jsonString(titles[index]) + "}";
      results.push_back(format("%.4f  ", ofTexts[index]) + titles[index]);
    }
    return writeOut(options.json ? json + "]}\n" : underText(options.texts[0], results));
  }

private:
  Status addTexts() {
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", titles));
    for (size_t i = 0; i < titles.size(); ++i)
      HEDDLE_RETURN_IF_ERROR(add(titles[i], i, metadata.context()));
    return Status();
  }

  Status addPairs() {
    std::vector<std::string> texts;
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", texts));
    bool areLines = options.texts.empty();
    if (!areLines && texts.size() % 2)
      return invalidInput(format("--pairs: %zu texts, expected two for each pair", texts.size()));
    for (size_t i = 0; i < texts.size(); i += areLines ? 1 : 2) {
      std::string first = texts[i], second;
      if (areLines)
        HEDDLE_RETURN_IF_ERROR(splitPair(texts[i], i, first, second));
      else
        second = texts[i + 1];
      titles.push_back(first);
      titles.back().append("\t").append(second);
      HEDDLE_RETURN_IF_ERROR(addPair(first, second, i));
    }
    return Status();
  }

  // scores: (sequences, labels)
  Status score(std::vector<std::vector<float>> &scores) {
    scores.resize(sequences.size());
    return run([&](size_t index, const float *const *outputs) {
      const float *logits = outputs[outputNamed("logits")];
      scores[index].assign(logits, logits + model.labels()->size());
      scoreLabels(scores[index], model.scores());
    });
  }

  std::vector<std::string> titles; // (sequences): what a text, or a pair with its tab, is shown as
};

} // namespace

Status runClassify(OpenedModel &program) {
  return Classification(program).classify();
}

Status runRerank(OpenedModel &program) {
  return Classification(program).rerank();
}

} // namespace heddle
