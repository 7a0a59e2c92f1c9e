// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --io IN OUT: named tensors in, named tensors out. Masked tokens are left out of the sequences (padding may lie anywhere) and
// their outputs are zeros.
#include "bytes/Safetensors.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Cli.h"
#include "runtime/session/BeamSearch.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

// Integers of a tensor, or an error that names it.
Status readIntegers(const std::string &path, const StoredTensor &tensor, std::vector<int64_t> &values) {
  auto convert = [&](auto example) {
    size_t count = tensor.size / sizeof example;
    values.resize(count);
    for (size_t i = 0; i < count; ++i) {
      memcpy(&example, tensor.data + i * sizeof example, sizeof example);
      values[i] = int64_t(example);
    }
    return Status();
  };
  if (tensor.dtype == "I64")
    return convert(int64_t());
  if (tensor.dtype == "I32")
    return convert(int32_t());
  if (tensor.dtype == "BOOL" || tensor.dtype == "U8")
    return convert(uint8_t());
  return invalidInput(path + ": tensor '" + tensor.name + "' is " + std::string(tensor.dtype) +
                      ", expected I64 or I32");
}

// One row of the batch without its masked tokens.
struct Row {
  std::vector<int32_t> ids, positions; // positions only where the file has position_ids
  std::vector<int64_t> columns;        // (ids): where each token stands
};

class IoRun {
public:
  explicit IoRun(OpenedModel &program)
      : program(program), options(program.options), vocabSize(program.metadata().vocab_size()),
        hiddenSize(program.metadata().hidden_size()) {}

  Status run() {
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.ioOutput));
    HEDDLE_RETURN_IF_ERROR(readInputs());
    HEDDLE_RETURN_IF_ERROR(chooseOutputs());
    SessionOptions sessionOptions = program.sessionOptions(int32_t(std::max<int64_t>(batch, options.beams)));
    sessionOptions.keepHidden = wants("last_hidden_state");
    HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, sessionOptions, session));
    session->setProgress(promptProgress());
    HEDDLE_RETURN_IF_ERROR(forward());
    if (options.hasMaxTokens)
      HEDDLE_RETURN_IF_ERROR(options.beams > 1 ? searchAll() : generateAll());
    return writeSafetensors(options.ioOutput, outputs);
  }

private:
  bool wants(const char *name) const { return std::find(wanted.begin(), wanted.end(), name) != wanted.end(); }

  // Reads input `name` of shape (batch, length), or (1, length) where that repeats.
  Status readMatrix(const SafetensorsFile &file, const char *name, std::vector<int64_t> &values) {
    const StoredTensor *tensor = file.find(name);
    if (!tensor)
      return Status();
    HEDDLE_RETURN_IF_ERROR(readIntegers(options.ioInput, *tensor, values));
    if (tensor->shape == std::vector<int64_t>{batch, length})
      return Status();
    if (tensor->shape != std::vector<int64_t>{1, length})
      return invalidInput(options.ioInput + ": tensor '" + name + "' has shape " + shapeText(tensor->shape) +
                          ", input_ids has " + shapeText({batch, length}));
    for (int64_t row = 1; row < batch; ++row)
      values.insert(values.end(), values.begin(), values.begin() + length);
    return Status();
  }

  Status readInputs() {
    const std::string &path = options.ioInput;
    SafetensorsFile file;
    HEDDLE_RETURN_IF_ERROR(file.open(path));
    for (const StoredTensor &tensor : file.tensors())
      if (tensor.name != "input_ids" && tensor.name != "attention_mask" && tensor.name != "position_ids")
        return invalidInput(path + ": tensor '" + tensor.name +
                            "' is no input of this model (input_ids, attention_mask, position_ids)");
    const StoredTensor *input = file.find("input_ids");
    if (!input)
      return invalidInput(path + ": no tensor 'input_ids'");
    if (input->shape.size() != 2 || input->shape[0] < 1 || input->shape[1] < 1)
      return invalidInput(path + ": tensor 'input_ids' has shape " + shapeText(input->shape) +
                          ", expected (batch, sequence)");
    batch = input->shape[0];
    length = input->shape[1];
    // Tokens of a feed are counted in 32 bits.
    if (length > INT32_MAX)
      return invalidInput(
          format("%s: rows of %lld tokens, at most %d are expected", path.c_str(), (long long)length, INT32_MAX));
    if (batch > 65536)
      return invalidInput(format("%s: a batch of %lld, at most 65536 are expected", path.c_str(), (long long)batch));
    std::vector<int64_t> ids, mask, positions;
    HEDDLE_RETURN_IF_ERROR(readIntegers(path, *input, ids));
    HEDDLE_RETURN_IF_ERROR(readMatrix(file, "attention_mask", mask));
    HEDDLE_RETURN_IF_ERROR(readMatrix(file, "position_ids", positions));
    rows.resize(batch);
    for (int64_t i = 0; i < batch * length; ++i) {
      if (!mask.empty() && mask[i] != 0 && mask[i] != 1)
        return invalidInput(format("%s: attention_mask[%lld, %lld] is %lld, expected 0 or 1", path.c_str(),
                                   (long long)(i / length), (long long)(i % length), (long long)mask[i]));
      if (!mask.empty() && mask[i] == 0)
        continue;
      Row &row = rows[i / length];
      if (ids[i] < 0 || ids[i] >= vocabSize)
        return invalidInput(format("%s: input_ids[%lld, %lld] is %lld, expected an id in [0, %lld)", path.c_str(),
                                   (long long)(i / length), (long long)(i % length), (long long)ids[i],
                                   (long long)vocabSize));
      row.ids.push_back(int32_t(ids[i]));
      row.columns.push_back(i % length);
      if (!positions.empty()) {
        if (positions[i] < 0 || positions[i] >= int64_t(program.metadata().context()))
          return invalidInput(format("%s: position_ids[%lld, %lld] is %lld, expected one in [0, %u)", path.c_str(),
                                     (long long)(i / length), (long long)(i % length), (long long)positions[i],
                                     program.metadata().context()));
        row.positions.push_back(int32_t(positions[i]));
      }
    }
    return Status();
  }

  Status chooseOutputs() {
    std::vector<std::string> known = {"logits", "last_hidden_state"};
    if (options.hasMaxTokens)
      known.insert(known.end(), {"ids", "generated_logits"});
    for (const std::string &name : options.outputs)
      if (std::find(known.begin(), known.end(), name) == known.end())
        return invalidInput("--outputs: '" + name + "' is no output of this model (logits, last_hidden_state" +
                            (options.hasMaxTokens ? ", ids, generated_logits)" : "; with -n: ids, generated_logits)"));
    wanted = options.outputs.empty() ? known : options.outputs;
    return Status();
  }

  // A zeroed output of `shape`; it is kept until the file is written.
  template <typename T> Status addOutput(const char *name, const char *dtype, std::vector<int64_t> shape, T *&data) {
    uint64_t size = sizeof(T);
    for (int64_t dimension : shape)
      if (__builtin_mul_overflow(size, uint64_t(dimension), &size))
        return outOfMemory(std::string("output '") + name + "' of shape " + shapeText(shape) + " is too large");
    buffers.emplace_back(new Reserved);
    HEDDLE_RETURN_IF_ERROR(buffers.back()->reserve(size, name));
    data = buffers.back()->as<T>();
    outputs.push_back({name, dtype, std::move(shape), data, size});
    return Status();
  }

  Status forward() {
    if (wants("logits"))
      HEDDLE_RETURN_IF_ERROR(addOutput("logits", "F32", {batch, length, vocabSize}, logits));
    if (wants("last_hidden_state"))
      HEDDLE_RETURN_IF_ERROR(addOutput("last_hidden_state", "F32", {batch, length, hiddenSize}, hidden));
    if (!logits && !hidden)
      return Status();
    std::vector<heddle_feed> feeds = feedsOfRows();
    RowSink sink(
        [](void *user, size_t feed, int32_t token, const float *rowLogits, const float *rowHidden) {
          auto &self = *static_cast<IoRun *>(user);
          int64_t row = self.feedRow[feed], at = row * self.length + self.rows[row].columns[token];
          if (self.logits)
            memcpy(self.logits + at * self.vocabSize, rowLogits, self.vocabSize * sizeof(float));
          if (self.hidden)
            memcpy(self.hidden + at * self.hiddenSize, rowHidden, self.hiddenSize * sizeof(float));
        },
        this);
    return feeds.empty() ? Status() : session->forward(feeds.data(), feeds.size(), sink);
  }

  // One feed per row that has tokens.
  std::vector<heddle_feed> feedsOfRows() {
    std::vector<heddle_feed> feeds;
    feedRow.clear();
    for (int64_t i = 0; i < batch; ++i)
      if (const Row &row = rows[i]; !row.ids.empty()) {
        session->truncate(int32_t(i), 0);
        feeds.push_back({int32_t(i), int32_t(row.ids.size()), row.ids.data(),
                         row.positions.empty() ? nullptr : row.positions.data()});
        feedRow.push_back(i);
      }
    return feeds;
  }

  // What stands after the end of a shorter answer.
  int64_t padToken() const {
    const package::Generation *generation = program.metadata().generation();
    std::vector<int32_t> ends = program.endTokens();
    return generation && generation->pad() >= 0 ? generation->pad() : ends.empty() ? 0 : ends[0];
  }

  Status checkRoom() const {
    for (const Row &row : rows) {
      if (row.ids.empty())
        return invalidInput(options.ioInput + ": a row without tokens cannot be continued");
      if (int64_t(row.ids.size()) + options.maxTokens - 1 > session->context())
        return invalidInput(format("%zu tokens and -n %lld, the context is %lld", row.ids.size(),
                                   (long long)options.maxTokens, (long long)session->context()));
    }
    return Status();
  }

  Status generateAll() {
    HEDDLE_RETURN_IF_ERROR(checkRoom());
    int64_t count = options.maxTokens, *ids = nullptr;
    float *picked = nullptr;
    if (wants("ids"))
      HEDDLE_RETURN_IF_ERROR(addOutput("ids", "I64", {batch, count}, ids));
    if (wants("generated_logits"))
      HEDDLE_RETURN_IF_ERROR(addOutput("generated_logits", "F32", {batch, count, vocabSize}, picked));
    std::vector<Sampler> samplers;
    for (int64_t row = 0; row < batch; ++row) {
      SamplerOptions own = options.sampler;
      own.seed += uint64_t(row);
      samplers.emplace_back(own, vocabSize);
      samplers.back().accept(rows[row].ids.data(), int64_t(rows[row].ids.size()));
    }
    std::vector<int32_t> ends = program.endTokens(), last(batch);
    std::vector<heddle_feed> feeds = feedsOfRows();
    for (int64_t i = 0; ids && i < batch * count; ++i)
      ids[i] = padToken();
    for (int64_t step = 0; step < count && !feeds.empty(); ++step) {
      HEDDLE_RETURN_IF_ERROR(session->step(feeds.data(), feeds.size()));
      std::vector<heddle_feed> next;
      for (size_t feed = 0; feed < feeds.size(); ++feed) {
        int32_t row = feeds[feed].sequence;
        const float *rowLogits = session->logits(feed);
        last[row] = samplers[row].sample(rowLogits);
        if (ids)
          ids[row * count + step] = last[row];
        if (picked)
          memcpy(picked + (row * count + step) * vocabSize, rowLogits, vocabSize * sizeof(float));
        if (std::find(ends.begin(), ends.end(), last[row]) == ends.end())
          next.push_back({row, 1, &last[row], nullptr});
      }
      feeds = std::move(next);
    }
    return Status();
  }

  // The rows one after the other; answers of a row follow each other.
  Status searchAll() {
    HEDDLE_RETURN_IF_ERROR(checkRoom());
    int64_t count = options.maxTokens, answers = batch * options.returned, *ids = nullptr;
    float *picked = nullptr;
    if (wants("ids"))
      HEDDLE_RETURN_IF_ERROR(addOutput("ids", "I64", {answers, count}, ids));
    if (wants("generated_logits"))
      HEDDLE_RETURN_IF_ERROR(addOutput("generated_logits", "F32", {answers, count, vocabSize}, picked));
    BeamOptions beam;
    beam.beams = options.beams;
    beam.returned = options.returned;
    beam.lengthPenalty = options.lengthPenalty;
    beam.earlyStopping = options.earlyStopping;
    beam.repetitionPenalty = options.sampler.repetitionPenalty;
    beam.eos = program.endTokens();
    beam.maxTokens = count;
    for (int64_t row = 0; row < batch; ++row) {
      if (!rows[row].positions.empty())
        return invalidInput(options.ioInput + ": position_ids and --beam do not go together");
      std::vector<BeamResult> results;
      HEDDLE_RETURN_IF_ERROR(searchBeams(*session, rows[row].ids, beam, results));
      for (int64_t answer = 0; answer < options.returned; ++answer) {
        const std::vector<int32_t> &found = results[answer].ids;
        int64_t at = (row * options.returned + answer) * count;
        for (int64_t i = 0; ids && i < count; ++i)
          ids[at + i] = i < int64_t(found.size()) ? found[i] : padToken();
        if (picked)
          HEDDLE_RETURN_IF_ERROR(scoreAnswer(rows[row].ids, found, picked + at * vocabSize));
      }
    }
    return Status();
  }

  // The logits that each token of an answer was picked from: (answer, vocab_size).
  Status scoreAnswer(const std::vector<int32_t> &prompt, const std::vector<int32_t> &answer, float *picked) {
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), answer.begin(), answer.end() - !answer.empty());
    struct Target {
      float *picked;
      int64_t first, vocabSize;
    } target = {picked, int64_t(prompt.size()) - 1, vocabSize};
    RowSink sink(
        [](void *user, size_t, int32_t token, const float *rowLogits, const float *) {
          auto &target = *static_cast<Target *>(user);
          if (token >= target.first)
            memcpy(target.picked + (token - target.first) * target.vocabSize, rowLogits,
                   target.vocabSize * sizeof(float));
        },
        &target);
    session->truncate(0, 0);
    heddle_feed feed = {0, int32_t(whole.size()), whole.data(), nullptr};
    return answer.empty() ? Status() : session->forward(&feed, 1, sink);
  }

  OpenedModel &program;
  const CliOptions &options;
  const int64_t vocabSize, hiddenSize;
  int64_t batch = 0, length = 0;
  std::vector<Row> rows;
  std::vector<int64_t> feedRow; // by feed: its row
  std::vector<std::string> wanted;
  std::unique_ptr<Session> session;
  float *logits = nullptr, *hidden = nullptr;
  std::vector<TensorToWrite> outputs;
  std::vector<std::unique_ptr<Reserved>> buffers;
};

} // namespace

Status runIo(OpenedModel &program) {
  return IoRun(program).run();
}

} // namespace heddle
