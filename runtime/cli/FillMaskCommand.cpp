// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --fill-mask: the most probable tokens for each mask in a text, each mask alone, as transformers' pipeline has them.
#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "runtime/cli/TextRun.h"

#include <algorithm>

namespace heddle {

Status runFillMask(OpenedModel &program) {
  const CliOptions &options = program.options;
  TextRun run(program);
  int32_t mask = run.metadata.tokenizer()->mask();
  std::vector<std::string> texts;
  HEDDLE_RETURN_IF_ERROR(readTextArguments(program.options, "texts", texts));
  for (size_t i = 0; i < texts.size(); ++i) {
    // A text is not cut: what goes could hold a mask, or say what it stands for.
    HEDDLE_RETURN_IF_ERROR(run.add(texts[i], i, SIZE_MAX));
    const std::vector<int32_t> &ids = run.sequences.back().ids;
    if (ids.size() > run.metadata.context())
      return invalidInput(
          format("text %zu has %zu tokens, the model takes %u", i + 1, ids.size(), run.metadata.context()));
    if (std::find(ids.begin(), ids.end(), mask) == ids.end())
      return invalidInput(format("text %zu has no ", i + 1) + maskSpelling(*program.package));
  }
  unsigned output = run.outputNamed("logits");
  size_t width = size_t(run.widthOf(output));
  std::vector<std::string> answers(texts.size());
  HEDDLE_RETURN_IF_ERROR(run.run([&](size_t index, const float *const *outputs) {
    const std::vector<int32_t> &ids = run.sequences[index].ids;
    bool isOnly = std::count(ids.begin(), ids.end(), mask) == 1;
    std::vector<std::string> lines, masks;
    for (size_t row = 0; row < ids.size(); ++row) {
      if (ids[row] != mask)
        continue;
      std::vector<float> scores(outputs[output] + row * width, outputs[output] + (row + 1) * width);
      softmax(scores);
      std::string tokens;
      for (size_t id : bestFirst(scores, options.best ? size_t(options.best) : 5)) {
        std::string token = program.tokenText(int32_t(id));
        tokens += (tokens.empty() ? "" : ",") + ("{\"token\":" + jsonString(token)) +
                  format(",\"id\":%zu,\"score\":%.9g}", id, scores[id]);
        lines.push_back((isOnly ? "" : format("mask %zu  ", masks.size() + 1)) + format("%.4f  ", scores[id]) +
                        token.substr(std::min(token.find_first_not_of(' '), token.size())));
      }
      masks.push_back("[" + tokens + "]");
    }
    std::string json = std::string("{\"schema\":") + jsonString(schema::masks) + ",\"masks\":[";
    for (const std::string &one : masks)
      json += (&one == masks.data() ? "" : ",") + one;
    answers[index] = options.json ? json + "]}\n" : underText(texts[index], lines);
  }));
  std::string all;
  for (const std::string &answer : answers)
    all += answer;
  return writeOut(all);
}

} // namespace heddle
