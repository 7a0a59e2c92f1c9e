// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --classify and --embed of models that see images, --similarity of those that compare them with texts.
#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/ImageRun.h"
#include "runtime/cli/TextRun.h"

namespace heddle {
namespace {

// What stands for an image or a text, the best first; of hidden states the first one.
using Outputs = std::vector<const char *>;
Outputs ofImages() {
  return {"image_embeds", "pooler_output", "last_hidden_state"};
}
Outputs ofTexts() {
  return {"text_embeds", "pooler_output"};
}

// (rows, width), one behind the other.
struct Rows {
  std::vector<float> values;
  size_t count = 0, width = 0;

  void add(const std::vector<float> &row) {
    values.insert(values.end(), row.begin(), row.end());
    width = row.size();
    ++count;
  }
};

Status embedImages(OpenedModel &program, const std::vector<std::string> &files, Rows &rows) {
  if (files.empty())
    return Status();
  ImageTower tower(program);
  HEDDLE_RETURN_IF_ERROR(tower.create(ofImages()));
  std::vector<float> row;
  for (const std::string &file : files) {
    HEDDLE_RETURN_IF_ERROR(tower.see(file, row));
    rows.add(row);
  }
  return Status();
}

Status embedTexts(OpenedModel &program, const std::vector<std::string> &texts, Rows &rows) {
  if (texts.empty())
    return Status();
  TextTower tower(program);
  HEDDLE_RETURN_IF_ERROR(tower.create(ofTexts()));
  std::vector<float> row;
  for (size_t i = 0; i < texts.size(); ++i) {
    HEDDLE_RETURN_IF_ERROR(tower.read(texts[i], i, row));
    rows.add(row);
  }
  return Status();
}

} // namespace

Status runClassifyImages(OpenedModel &program) {
  const CliOptions &options = program.options;
  const package::Package &metadata = program.metadata();
  const LabelNames &labels = *(metadata.encoder() ? metadata.encoder()->labels() : metadata.labels());
  package::LabelScores kind = metadata.encoder() ? metadata.encoder()->scores() : metadata.scores();
  std::vector<std::string> files;
  HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "files", files));
  ImageTower tower(program);
  HEDDLE_RETURN_IF_ERROR(tower.create({"logits"}));
  std::vector<float> scores;
  for (const std::string &file : files) {
    HEDDLE_RETURN_IF_ERROR(tower.see(file, scores));
    scoreLabels(scores, kind);
    std::vector<size_t> order = bestFirst(scores, size_t(options.best));
    HEDDLE_RETURN_IF_ERROR(writeOut(options.json ? labelsAsJson(labels, scores, order)
                                                 : underText(file, labelsAsLines(labels, scores, order))));
  }
  return Status();
}

Status runEmbedTensors(OpenedModel &program) {
  const CliOptions &options = program.options;
  if (!options.npyFile.empty())
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.npyFile));
  bool seesImages = program.metadata().image_processing(), readsTexts = program.tokenizer != nullptr;
  std::vector<std::string> files = options.images, texts;
  if (!readsTexts)
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "files", files));
  else if (!seesImages || files.empty() || !options.texts.empty())
    HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", texts));
  Rows rows;
  HEDDLE_RETURN_IF_ERROR(embedImages(program, files, rows));
  HEDDLE_RETURN_IF_ERROR(embedTexts(program, texts, rows));
  return writeEmbeddings(options, rows.values, rows.count, rows.width);
}

Status runSimilarity(OpenedModel &program) {
  const CliOptions &options = program.options;
  if (options.images.empty())
    return invalidInput("--similarity: images are expected (--image FILE)");
  std::vector<std::string> texts;
  HEDDLE_RETURN_IF_ERROR(readTextArguments(options, "texts", texts));
  Rows rows;
  HEDDLE_RETURN_IF_ERROR(embedTexts(program, texts, rows));
  Tower comparison;
  HEDDLE_RETURN_IF_ERROR(comparison.create(program, "image_embeds", {"logits_per_image"}));
  ImageTower tower(program);
  HEDDLE_RETURN_IF_ERROR(tower.create({"image_embeds"}));
  std::vector<float> image, logits;
  for (const std::string &file : options.images) {
    HEDDLE_RETURN_IF_ERROR(tower.see(file, image));
    int64_t width = int64_t(image.size());
    HEDDLE_RETURN_IF_ERROR(comparison.call(file,
                                           {floatTensor("image_embeds", {1, width}, image),
                                            floatTensor("text_embeds", {int64_t(texts.size()), width}, rows.values)},
                                           logits));
    std::vector<float> scores = logits;
    scoreLabels(scores, program.metadata().scores());
    std::string json = std::string("{\"schema\":") + jsonString(schema::similarity) + ",\"image\":" + jsonString(file) +
                       ",\"texts\":[";
    std::vector<std::string> lines;
    for (size_t index : bestFirst(scores, size_t(options.best))) {
      json += (lines.empty() ? "" : ",") +
              format("{\"index\":%zu,\"score\":%.9g,\"logit\":%.9g,\"text\":", index, scores[index], logits[index]) +
              jsonString(texts[index]) + "}";
      lines.push_back(format("%.4f  ", scores[index]) + texts[index]);
    }
    HEDDLE_RETURN_IF_ERROR(writeOut(options.json ? json + "]}\n" : underText(file, lines)));
  }
  return Status();
}

} // namespace heddle
