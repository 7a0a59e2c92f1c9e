// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --embed: texts as vectors, pooled as the model's files say.
#include "bytes/WholeFile.h"
#include "runtime/cli/TextRun.h"
#include "runtime/session/Graph.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

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

// hidden (count, width) as what its text is pooled to: (width) numbers for each mode.
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
  return out;
}

// Each row of values (rows, width) gets length 1. As torch.nn.functional.normalize: a length of nothing stays what it is.
void normalizeRows(std::vector<float> &values, size_t width) {
  for (float *row = values.data(); row != values.data() + values.size(); row += width) {
    double squares = 0;
    for (size_t column = 0; column < width; ++column)
      squares += double(row[column]) * row[column];
    double length = std::max(std::sqrt(squares), 1e-12);
    for (size_t column = 0; column < width; ++column)
      row[column] = float(row[column] / length);
  }
}

// The layers behind pooling: values (rows, width) become theirs.
Status applyDense(const OpenedModel &program, std::vector<float> &values, size_t rows, size_t &width) {
  GraphRunner runner(*program.package, /*index=*/0, program.options.threads);
  std::vector<GraphInput> inputs(1);
  inputs.front().shape = {int64_t(rows), int64_t(width)};
  inputs.front().data = values.data();
  std::vector<GraphOutput> outputs;
  HEDDLE_RETURN_IF_ERROR(runner.run(inputs, "the dense layers", outputs));
  width = size_t(outputs.front().shape[1]);
  const float *given = static_cast<const float *>(outputs.front().data);
  values.assign(given, given + rows * width);
  return Status();
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

} // namespace

Status writeEmbeddings(const CliOptions &options, const std::vector<float> &values, size_t rows, size_t width) {
  if (!options.npyFile.empty())
    return writeNpy(options.npyFile, values, int64_t(rows), int64_t(width));
  std::string lines;
  for (size_t row = 0; row < rows; ++row)
    lines += numberList(values.data() + row * width, width) + "\n";
  return writeOut(lines);
}

// The texts of the command line with the model's prompt before them, or the ids of one.
static Status addTexts(TextRun &run, const package::Embedding &embedding) {
  if (run.options.promptIds)
    return run.addIds(*run.options.promptIds);
  std::vector<std::string> texts;
  HEDDLE_RETURN_IF_ERROR(readTextArguments(run.options, "texts", texts));
  std::string prompt = embedding.prompt() ? embedding.prompt()->str() : "";
  size_t most = run.metadata.context();
  if (embedding.max_tokens())
    most = std::min<size_t>(most, embedding.max_tokens());
  for (size_t i = 0; i < texts.size(); ++i)
    HEDDLE_RETURN_IF_ERROR(run.add(prompt + texts[i], i, most));
  return Status();
}

Status runEmbed(OpenedModel &program) {
  const CliOptions &options = program.options;
  if (!options.npyFile.empty())
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.npyFile));
  TextRun run(program);
  const package::Embedding &embedding = *run.model.embedding();
  HEDDLE_RETURN_IF_ERROR(addTexts(run, embedding));
  unsigned hidden = run.outputNamed("last_hidden_state");
  size_t rows = run.sequences.size(), width = size_t(run.widthOf(hidden)) * embedding.pooling()->size();
  std::vector<float> values(rows * width); // (texts, width)
  HEDDLE_RETURN_IF_ERROR(run.run([&](size_t index, const float *const *outputs) {
    std::vector<float> pooled =
        poolText(outputs[hidden], int64_t(run.sequences[index].ids.size()), run.widthOf(hidden), embedding);
    std::copy(pooled.begin(), pooled.end(), values.begin() + ptrdiff_t(index * width));
  }));
  if (embedding.dense())
    HEDDLE_RETURN_IF_ERROR(applyDense(program, values, rows, width));
  if (embedding.normalize())
    normalizeRows(values, width);
  return writeEmbeddings(options, values, rows, width);
}

} // namespace heddle
