// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an encoder does with texts: BIN --embed, --classify and --classify-tokens. A text is a sequence of its own; sequences are put into
// steps whole and without padding, so that one more text costs its own tokens and no others.
#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/Utf8.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Cli.h"
#include "runtime/session/Encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unistd.h>

namespace heddle {
namespace {

struct Text {
  std::vector<int32_t> ids, positions;
};

class TextRun {
public:
  explicit TextRun(OpenedModel &program)
      : program(program), options(program.options), metadata(program.metadata()), model(*metadata.encoder()) {}

  // Those of the command line, else the lines of standard input.
  Status read() {
    std::vector<std::string> given = options.texts;
    if (given.empty()) {
      if (isatty(STDIN_FILENO))
        return invalidInput("texts are expected, as arguments or one per line on standard input");
      std::string all;
      HEDDLE_RETURN_IF_ERROR(readAll(stdin, "standard input", all));
      for (size_t begin = 0; begin < all.size();) {
        size_t end = std::min(all.find('\n', begin), all.size());
        given.push_back(all.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    if (given.empty())
      return invalidInput("standard input holds no text");
    for (size_t i = 0; i < given.size(); ++i)
      HEDDLE_RETURN_IF_ERROR(add(given[i], i));
    return Status();
  }

  Status run(TakeEncoding take) {
    std::vector<int32_t> types(metadata.context());
    std::vector<EncoderInput> inputs;
    for (const Text &text : texts)
      inputs.push_back({int32_t(text.ids.size()), text.ids.data(), text.positions.data(), types.data()});
    std::unique_ptr<Encoder> encoder;
    HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, options.threads, /*pool=*/nullptr, encoder));
    encoder->setProgress(promptProgress());
    return encoder->run(inputs.data(), inputs.size(), take, this);
  }

  // The number of an output among those that a sequence gives.
  unsigned outputNamed(const char *name) const {
    unsigned index = 0;
    while (index + 1 < model.outputs()->size() && model.outputs()->Get(index)->name()->string_view() != name)
      ++index;
    return index;
  }
  int64_t widthOf(unsigned output) const { return model.outputs()->Get(output)->width(); }

  OpenedModel &program;
  const CliOptions &options;
  const package::Package &metadata;
  const package::Encoder &model;
  std::vector<Text> texts;

private:
  // A text that is too long loses its end, but not what the model wants behind it.
  Status add(const std::string &text, size_t index) {
    Text added;
    bool isEmbedded = options.command == Command::Embed;
    std::string prompt = isEmbedded && model.embedding()->prompt() ? model.embedding()->prompt()->str() : "";
    if (!isUtf8(text))
      return invalidInput(format("text %zu is not UTF-8", index + 1));
    HEDDLE_RETURN_IF_ERROR(program.encode(prompt + text, added.ids));
    size_t most = metadata.context();
    if (isEmbedded && model.embedding()->max_tokens())
      most = std::min<size_t>(most, model.embedding()->max_tokens());
    if (added.ids.size() > most) {
      const auto *suffix = metadata.tokenizer()->suffix();
      size_t behind = suffix ? std::min<size_t>(suffix->size(), most) : 0;
      std::copy(added.ids.end() - ptrdiff_t(behind), added.ids.end(), added.ids.begin() + ptrdiff_t(most - behind));
      added.ids.resize(most);
    }
    if (added.ids.empty())
      return invalidInput(format("text %zu is empty", index + 1));
    added.positions = positionsOf(metadata, {added.ids.begin(), added.ids.end()});
    texts.push_back(std::move(added));
    return Status();
  }
};

// sum of weight(i) * hidden[i], over what divides it: (width) numbers behind `out`.
void poolMean(const float *hidden, int64_t count, int64_t width, package::Pooling mode, std::vector<float> &out) {
  double divisor = mode == package::Pooling::Mean             ? double(count)
                   : mode == package::Pooling::MeanSqrtLength ? std::sqrt(double(count))
                                                              : double(count) * double(count + 1) / 2;
  for (int64_t column = 0; column < width; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < count; ++row)
      sum += double(hidden[row * width + column]) * (mode == package::Pooling::WeightedMean ? double(row + 1) : 1.0);
    out.push_back(float(sum / divisor));
  }
}

// hidden (count, width) as the embedding of its text.
std::vector<float> poolText(const float *hidden, int64_t count, int64_t width, const package::Embedding &kind) {
  std::vector<float> out;
  for (auto mode : *kind.pooling()) {
    if (mode == package::Pooling::Cls || mode == package::Pooling::LastToken) {
      const float *row = hidden + (mode == package::Pooling::Cls ? 0 : count - 1) * width;
      out.insert(out.end(), row, row + width);
    } else if (mode == package::Pooling::Max) {
      for (int64_t column = 0; column < width; ++column) {
        float most = hidden[column];
        for (int64_t row = 1; row < count; ++row)
          most = std::max(most, hidden[row * width + column]);
        out.push_back(most);
      }
    } else {
      poolMean(hidden, count, width, package::Pooling(mode), out);
    }
  }
  double squares = 0;
  for (float value : out)
    squares += double(value) * value;
  // As torch.nn.functional.normalize: a length of nothing stays what it is.
  if (double length = std::max(std::sqrt(squares), 1e-12); kind.normalize())
    for (float &value : out)
      value = float(value / length);
  return out;
}

// NumPy's format of an array (rows, width) of f32, version 1.0.
Status writeNpy(const std::string &path, const std::vector<float> &values, int64_t rows, int64_t width) {
  std::string header =
      format("{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }", (long long)rows, (long long)width);
  constexpr size_t before = 10; // magic, version, length of the header
  header.append(63 - (before + header.size()) % 64, ' ').push_back('\n');
  std::string start("\x93NUMPY\x01\x00", 8);
  start.push_back(char(header.size() & 255));
  start.push_back(char(header.size() >> 8));
  return writeWholeFile(
      path, {start, header, {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)}});
}

std::string numberList(const float *values, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i)
    text += format(i ? ",%.9g" : "%.9g", values[i]);
  return text + "]";
}

// In place: what the numbers of a classifier say.
void scoreLabels(std::vector<float> &values, package::LabelScores kind) {
  if (kind == package::LabelScores::Sigmoid)
    for (float &value : values)
      value = 1 / (1 + std::exp(-value));
  if (kind != package::LabelScores::Softmax)
    return;
  float most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (float &value : values)
    sum += value = std::exp(value - most);
  for (float &value : values)
    value = float(value / sum);
}

std::string labelWith(const package::Encoder &model, size_t label, float score) {
  return "{\"label\":" + jsonString(model.labels()->Get(unsigned(label))->string_view()) +
         format(",\"score\":%.9g}", score);
}

struct Embeddings : TextRun {
  using TextRun::TextRun;
  std::vector<float> values; // (texts, width)
};

struct Lines : TextRun {
  using TextRun::TextRun;
  std::string text;
};

} // namespace

Status runEmbed(OpenedModel &program) {
  if (!program.options.npyFile.empty())
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(program.options.npyFile));
  Embeddings run(program);
  HEDDLE_RETURN_IF_ERROR(run.read());
  HEDDLE_RETURN_IF_ERROR(run.run([](void *user, size_t index, const float *const *outputs) {
    auto &run = *static_cast<Embeddings *>(static_cast<TextRun *>(user));
    unsigned hidden = run.outputNamed("last_hidden_state");
    std::vector<float> pooled =
        poolText(outputs[hidden], int64_t(run.texts[index].ids.size()), run.widthOf(hidden), *run.model.embedding());
    run.values.insert(run.values.end(), pooled.begin(), pooled.end());
  }));
  size_t width = run.values.size() / run.texts.size();
  if (!program.options.npyFile.empty())
    return writeNpy(program.options.npyFile, run.values, int64_t(run.texts.size()), int64_t(width));
  std::string lines;
  for (size_t text = 0; text < run.texts.size(); ++text)
    lines += numberList(run.values.data() + text * width, width) + "\n";
  return writeOut(lines);
}

Status runClassify(OpenedModel &program) {
  Lines run(program);
  HEDDLE_RETURN_IF_ERROR(run.read());
  HEDDLE_RETURN_IF_ERROR(run.run([](void *user, size_t, const float *const *outputs) {
    auto &run = *static_cast<Lines *>(static_cast<TextRun *>(user));
    const float *logits = outputs[run.outputNamed("logits")];
    std::vector<float> scores(logits, logits + run.model.labels()->size());
    scoreLabels(scores, run.model.scores());
    std::vector<size_t> order(scores.size());
    for (size_t label = 0; label < order.size(); ++label)
      order[label] = label;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    run.text += std::string("{\"schema\":") + jsonString(schema::labels) + ",\"labels\":[";
    for (size_t i = 0; i < order.size(); ++i)
      run.text += (i ? "," : "") + labelWith(run.model, order[i], scores[order[i]]);
    run.text += "]}\n";
  }));
  return writeOut(run.text);
}

Status runClassifyTokens(OpenedModel &program) {
  Lines run(program);
  HEDDLE_RETURN_IF_ERROR(run.read());
  HEDDLE_RETURN_IF_ERROR(run.run([](void *user, size_t index, const float *const *outputs) {
    auto &run = *static_cast<Lines *>(static_cast<TextRun *>(user));
    const float *logits = outputs[run.outputNamed("logits")];
    size_t labels = run.model.labels()->size();
    run.text += std::string("{\"schema\":") + jsonString(schema::tokenLabels) + ",\"tokens\":[";
    bool isFirst = true;
    // What the model wants around a text is none of its tokens.
    const package::Tokenizer &tokenizer = *run.metadata.tokenizer();
    size_t before = tokenizer.prefix() ? tokenizer.prefix()->size() : 0;
    size_t behind = tokenizer.suffix() ? tokenizer.suffix()->size() : 0;
    for (size_t token = before; token + behind < run.texts[index].ids.size(); ++token) {
      int32_t id = run.texts[index].ids[token];
      std::vector<float> scores(logits + token * labels, logits + (token + 1) * labels);
      scoreLabels(scores, package::LabelScores::Softmax);
      size_t best = size_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
      run.text += (isFirst ? "{\"token\":" : ",{\"token\":") + jsonString(run.program.tokenText(id)) + "," +
                  labelWith(run.model, best, scores[best]).substr(1);
      isFirst = false;
    }
    run.text += "]}\n";
  }));
  return writeOut(run.text);
}

} // namespace heddle
