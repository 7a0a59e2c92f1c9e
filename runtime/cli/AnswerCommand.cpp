// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --answer: where in a context the answer to a question stands. The context is read in windows that overlap; in each, a span of up to 15 tokens has
// the product of two probabilities as its score, that it begins and that it ends the answer, among the window's tokens of the context and its first
// token, which stands for no answer. The best span of all windows is the answer, widened to whole words: so did transformers 4's pipeline.
#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/Utf8.h"
#include "runtime/cli/TextRun.h"

#include <algorithm>

namespace heddle {
namespace {

constexpr size_t mostWindow = 384, mostOverlap = 128, mostAnswer = 15; // tokens

struct Question {
  std::string question, context;
  std::vector<TokenPlace> places; // (tokens of the context)
  float score = -1;
  size_t first = 0, last = 0; // tokens of the context
};

// A sequence: tokens [begin, begin + count) of a question's context, from `row` on.
struct Window {
  size_t question, begin, count, row;
};

class Answers : TextRun {
public:
  using TextRun::TextRun;

  Status answer() {
    HEDDLE_RETURN_IF_ERROR(readQuestions());
    for (size_t i = 0; i < questions.size(); ++i)
      HEDDLE_RETURN_IF_ERROR(addWindows(i));
    unsigned startOutput = outputNamed("start_logits"), endOutput = outputNamed("end_logits");
    HEDDLE_RETURN_IF_ERROR(run([&](size_t index, const float *const *outputs) {
      search(windows[index], outputs[startOutput], outputs[endOutput]);
    }));
    std::string all;
    for (const Question &question : questions)
      all += shown(question);
    return writeOut(all);
  }

private:
  Status readQuestions() {
    if (options.question) {
      Question question{*options.question, options.context.value_or(""), {}};
      if (!options.context)
        HEDDLE_RETURN_IF_ERROR(readAll(stdin, "standard input", question.context));
      questions.push_back(std::move(question));
      return Status();
    }
    if (options.context)
      return invalidInput("--context: --question is expected beside it");
    std::vector<std::string> lines;
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", lines));
    for (size_t i = 0; i < lines.size(); ++i) {
      Question question;
      HEDDLE_RETURN_IF_ERROR(splitPair(lines[i], i, question.question, question.context));
      questions.push_back(std::move(question));
    }
    return Status();
  }

  Status addWindows(size_t index) {
    Question &question = questions[index];
    std::vector<int32_t> asked, ids;
    HEDDLE_RETURN_IF_ERROR(encodeText(program, question.question, index, /*addSpecial=*/false, asked, nullptr));
    HEDDLE_RETURN_IF_ERROR(encodeText(program, question.context, index, /*addSpecial=*/false, ids, &question.places));
    if (asked.empty() || ids.empty())
      return invalidInput(format("question %zu: the %s is empty", index + 1, asked.empty() ? "question" : "context"));
    size_t most = std::min<size_t>(mostWindow, metadata.context()), around = tokensAroundPair() + asked.size();
    if (around >= most)
      return invalidInput(format("question %zu has %zu tokens, which leave a context no room within %zu", index + 1,
                                 asked.size(), most));
    size_t room = most - around, overlap = std::min(mostOverlap, most / 2);
    size_t stride = room > overlap ? room - overlap : (room + 1) / 2;
    size_t row = asked.size() + countOf(metadata.tokenizer()->pair()->middle()) + prefixSize();
    for (size_t begin = 0;; begin += stride) {
      size_t count = std::min(room, ids.size() - begin);
      addJoined(asked.data(), asked.size(), ids.data() + begin, count);
      windows.push_back({index, begin, count, row});
      if (begin + count == ids.size())
        return Status();
    }
  }

  size_t prefixSize() const { return countOf(metadata.tokenizer()->prefix()); }

  // Of each of the window's tokens, how probable it is among them and the first token.
  std::vector<float> probabilities(const Window &window, const float *logits) const {
    std::vector<float> values(logits + window.row, logits + window.row + window.count);
    if (prefixSize())
      values.push_back(logits[0]);
    softmax(values);
    values.resize(window.count);
    return values;
  }

  void search(const Window &window, const float *startLogits, const float *endLogits) {
    std::vector<float> starts = probabilities(window, startLogits), ends = probabilities(window, endLogits);
    Question &question = questions[window.question];
    for (size_t first = 0; first < window.count; ++first)
      for (size_t last = first; last < std::min(first + mostAnswer, window.count); ++last) {
        float score = starts[first] * ends[last];
        bool isEarlier = score == question.score && window.begin + first < question.first;
        if (score > question.score || isEarlier) {
          question.score = score;
          question.first = window.begin + first;
          question.last = window.begin + last;
        }
      }
  }

  std::string shown(const Question &question) const {
    auto place = [&](size_t token) { return question.places[token]; };
    size_t first = question.first, last = question.last;
    while (first > 0 && place(first - 1).word == place(first).word)
      --first;
    while (last + 1 < question.places.size() && place(last + 1).word == place(last).word)
      ++last;
    const std::string &context = question.context;
    std::string answer = context.substr(place(first).begin, place(last).end - place(first).begin);
    size_t begin = charactersBefore(context, place(first).begin), end = charactersBefore(context, place(last).end);
    if (!options.json)
      return underText(question.question, {format("%.4f  [%zu, %zu)  ", question.score, begin, end) + answer});
    return std::string("{\"schema\":") + jsonString(schema::answer) + ",\"answer\":" + jsonString(answer) +
           format(",\"score\":%.9g,\"start\":%zu,\"end\":%zu}\n", question.score, begin, end);
  }

  std::vector<Question> questions;
  std::vector<Window> windows; // (sequences)
};

} // namespace

Status runAnswer(OpenedModel &program) {
  return Answers(program).answer();
}

} // namespace heddle
