// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --io IN OUT: named tensors in, named tensors out. Masked tokens are left out of the sequences (padding may lie anywhere) and
// their outputs are zeros. Of an encoder-decoder, rows are what its decoder reads, and each has its source.
#include "bytes/WholeFile.h"
#include "runtime/cli/Cli.h"
#include "runtime/cli/IoTensors.h"
#include "runtime/session/GivenRows.h"
#include "runtime/session/TokenBatch.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

class IoRun {
public:
  explicit IoRun(OpenedModel &program)
      : program(program), options(program.options), vocabSize(program.metadata().vocab_size()),
        hiddenSize(program.metadata().hidden_size()) {}

  Status run() {
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.ioOutput));
    SafetensorsFile file;
    HEDDLE_RETURN_IF_ERROR(file.open(options.ioInput));
    HEDDLE_RETURN_IF_ERROR(readTokens(file.tensors()));
    HEDDLE_RETURN_IF_ERROR(chooseOutputs());
    SessionOptions sessionOptions = program.sessionOptions(int32_t(std::max<int64_t>(batch, options.beams)));
    sessionOptions.keepHidden = wants("last_hidden_state");
    HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, sessionOptions, session));
    session->setProgress(promptProgress());
    if (isSeq2Seq)
      HEDDLE_RETURN_IF_ERROR(encode());
    if (program.metadata().given())
      HEDDLE_RETURN_IF_ERROR(give(file.tensors()));
    HEDDLE_RETURN_IF_ERROR(forward());
    if (options.hasMaxTokens)
      HEDDLE_RETURN_IF_ERROR(options.beams > 1 ? searchAll() : generateAll());
    return outputs.write(options.ioOutput);
  }

private:
  bool wants(const char *name) const { return std::find(wanted.begin(), wanted.end(), name) != wanted.end(); }

  Status readTokens(const std::vector<StoredTensor> &tensors) {
    const package::Package &metadata = program.metadata();
    if (!isSeq2Seq)
      return tokens.read(tensors, options.ioInput, metadata);
    HEDDLE_RETURN_IF_ERROR(sources.read(tensors, options.ioInput, metadata));
    HEDDLE_RETURN_IF_ERROR(sources.completeRows(options.ioInput, metadata));
    bool isGiven = std::any_of(tensors.begin(), tensors.end(),
                               [](const StoredTensor &tensor) { return tensor.name == "decoder_input_ids"; });
    if (isGiven)
      HEDDLE_RETURN_IF_ERROR(tokens.read(tensors, options.ioInput, metadata, BatchSide::Decoder));
    else if (options.hasMaxTokens)
      startRows();
    else
      return invalidInput(options.ioInput + ": no tensor 'decoder_input_ids', which is expected without -n");
    if (tokens.batch != sources.batch)
      return invalidInput(format("%s: decoder_input_ids has %lld rows, %s %lld", options.ioInput.c_str(),
                                 (long long)tokens.batch, inputNames(metadata).front(), (long long)sources.batch));
    return Status();
  }

  // What a decoder begins with where nobody says it.
  void startRows() {
    TokenRow row;
    row.ids = {program.metadata().generation()->decoder_start()};
    row.columns = {0};
    tokens.batch = sources.batch;
    tokens.length = 1;
    tokens.rows.assign(size_t(sources.batch), row);
  }

  Status encode() {
    float *states = nullptr;
    if (wants("encoder_last_hidden_state"))
      HEDDLE_RETURN_IF_ERROR(
          outputs.add("encoder_last_hidden_state", "F32", {batch, sources.length, hiddenSize}, states));
    struct Target {
      const IoRun &self;
      float *states;
    } target = {*this, states};
    std::vector<EncoderInput> inputs = sources.encoderInputs();
    std::vector<int32_t> sequences(inputs.size());
    for (size_t i = 0; i < sequences.size(); ++i)
      sequences[i] = int32_t(i);
    TakeEncoding take = [](void *user, size_t index, const float *const *given) {
      const float *lastHiddenState = given[0];
      auto &target = *static_cast<Target *>(user);
      const std::vector<int64_t> &columns = target.self.sources.rows[index].columns;
      int64_t width = target.self.hiddenSize, first = int64_t(index) * target.self.sources.length;
      for (size_t token = 0; token < columns.size(); ++token)
        memcpy(target.states + (first + columns[token]) * width, lastHiddenState + int64_t(token) * width,
               width * sizeof(float));
    };
    return session->encode(inputs.data(), sequences.data(), inputs.size(), states ? take : nullptr, &target);
  }

  // What the graph makes of its inputs, where they are there, stands for the tokens of all rows that do, in order.
  Status give(const std::vector<StoredTensor> &tensors) {
    std::unique_ptr<GivenRows> given;
    HEDDLE_RETURN_IF_ERROR(GivenRows::create(*program.package, *session, given));
    std::vector<StoredTensor> inputs;
    for (const StoredTensor &tensor : tensors)
      for (const std::string &input : given->inputs())
        if (tensor.name == input)
          inputs.push_back(tensor);
    if (inputs.empty())
      return Status();
    HEDDLE_RETURN_IF_ERROR(given->add(inputs, options.ioInput));
    int64_t expected = given->numRows(), found = 0;
    for (const TokenRow &row : rows)
      found += countGiven(program.metadata(), row.ids);
    if (found != expected)
      return invalidInput(format("%s: input_ids has %lld times the token %d, %s stands for %lld",
                                 options.ioInput.c_str(), (long long)found, given->token(), inputs[0].name.c_str(),
                                 (long long)expected));
    size_t next = 0;
    for (const TokenRow &row : rows)
      given->replace(fedIds.emplace_back(row.ids), next);
    return Status();
  }

  // The ids that the session takes for row `row`.
  const std::vector<int32_t> &idsOf(int64_t row) const {
    return fedIds.empty() ? rows[size_t(row)].ids : fedIds[size_t(row)];
  }

  Status chooseOutputs() {
    std::vector<std::string> known = {"logits", "last_hidden_state"};
    if (isSeq2Seq)
      known.emplace_back("encoder_last_hidden_state");
    if (options.hasMaxTokens)
      known.insert(known.end(), {"ids", "generated_logits"});
    for (const std::string &name : options.outputs)
      if (std::find(known.begin(), known.end(), name) == known.end())
        return invalidInput("--outputs: '" + name + "' is no output of this model (logits, last_hidden_state" +
                            (isSeq2Seq ? ", encoder_last_hidden_state" : "") +
                            (options.hasMaxTokens ? ", ids, generated_logits)" : "; with -n: ids, generated_logits)"));
    wanted = options.outputs.empty() ? known : options.outputs;
    return Status();
  }

  Status forward() {
    if (wants("logits"))
      HEDDLE_RETURN_IF_ERROR(outputs.add("logits", "F32", {batch, length, vocabSize}, logits));
    if (wants("last_hidden_state"))
      HEDDLE_RETURN_IF_ERROR(outputs.add("last_hidden_state", "F32", {batch, length, hiddenSize}, hidden));
    if (!logits && !hidden)
      return Status();
    std::vector<Feed> feeds = feedsOfRows(FeedRows::All);
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
  std::vector<Feed> feedsOfRows(FeedRows wantedRows) {
    std::vector<Feed> feeds;
    feedRow.clear();
    for (int64_t i = 0; i < batch; ++i)
      if (const TokenRow &row = rows[i]; !row.ids.empty()) {
        session->truncate(int32_t(i), 0);
        feeds.push_back({int32_t(i), int32_t(row.ids.size()), idsOf(i).data(),
                         row.positions.empty() ? nullptr : row.positions.data(), wantedRows, row.adapter});
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
    for (const TokenRow &row : rows) {
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
      HEDDLE_RETURN_IF_ERROR(outputs.add("ids", "I64", {batch, count}, ids));
    if (wants("generated_logits"))
      HEDDLE_RETURN_IF_ERROR(outputs.add("generated_logits", "F32", {batch, count, vocabSize}, picked));
    std::vector<Sampler> samplers;
    for (int64_t row = 0; row < batch; ++row) {
      SamplerOptions own = options.sampler;
      own.seed += uint64_t(row);
      samplers.emplace_back(own, vocabSize);
      samplers.back().accept(rows[row].ids.data(), int64_t(rows[row].ids.size()));
    }
    std::vector<int32_t> ends = program.endTokens(), last(batch);
    AnswerRules rules = AnswerRules::of(program.metadata(), ends);
    std::vector<uint32_t> mask(size_t(rules.isEmpty() ? 0 : maskWords(vocabSize)));
    std::vector<Feed> feeds = feedsOfRows(FeedRows::Last);
    for (int64_t i = 0; ids && i < batch * count; ++i)
      ids[i] = padToken();
    for (int64_t step = 0; step < count && !feeds.empty(); ++step) {
      HEDDLE_RETURN_IF_ERROR(session->step(feeds.data(), feeds.size()));
      std::vector<Feed> next;
      for (size_t feed = 0; feed < feeds.size(); ++feed) {
        int32_t row = feeds[feed].sequence;
        const float *rowLogits = session->logits(feed);
        std::fill(mask.begin(), mask.end(), ~uint32_t(0));
        if (!mask.empty())
          rules.allow(
              {session->history(row), size_t(session->length(row)), rows[row].ids.size(), step + 1 == count, rowLogits},
              vocabSize, mask.data());
        last[row] = samplers[row].sample(rowLogits, mask.empty() ? nullptr : mask.data());
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
      HEDDLE_RETURN_IF_ERROR(outputs.add("ids", "I64", {answers, count}, ids));
    if (wants("generated_logits"))
      HEDDLE_RETURN_IF_ERROR(outputs.add("generated_logits", "F32", {answers, count, vocabSize}, picked));
    BeamOptions beam = program.beamOptions(count);
    beam.hasSource = isSeq2Seq;
    std::vector<EncoderInput> inputs = sources.encoderInputs();
    for (int64_t row = 0; row < batch; ++row) {
      if (!rows[row].positions.empty())
        return invalidInput(options.ioInput +
                            ": neither position_ids nor masked tokens between others go together with --beam");
      std::vector<BeamResult> results;
      const int32_t first = 0;
      if (isSeq2Seq)
        HEDDLE_RETURN_IF_ERROR(session->encode(&inputs[size_t(row)], &first, 1));
      HEDDLE_RETURN_IF_ERROR(searchBeams(*session, idsOf(row), beam, results));
      for (int64_t answer = 0; answer < options.returned; ++answer) {
        const std::vector<int32_t> &found = results[answer].ids;
        int64_t at = (row * options.returned + answer) * count;
        for (int64_t i = 0; ids && i < count; ++i)
          ids[at + i] = i < int64_t(found.size()) ? found[i] : padToken();
        if (picked)
          HEDDLE_RETURN_IF_ERROR(scoreAnswer(idsOf(row), found, picked + at * vocabSize));
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
    Feed feed = {0, int32_t(whole.size()), whole.data(), nullptr, FeedRows::All};
    return answer.empty() ? Status() : session->forward(&feed, 1, sink);
  }

  OpenedModel &program;
  const CliOptions &options;
  const int64_t vocabSize, hiddenSize;
  const bool isSeq2Seq = program.metadata().task() == package::Task::Seq2Seq;
  TokenBatch tokens, sources;
  const int64_t &batch = tokens.batch, &length = tokens.length;
  const std::vector<TokenRow> &rows = tokens.rows;
  std::vector<std::vector<int32_t>> fedIds; // (batch) where the model is given rows, else empty
  std::vector<int64_t> feedRow;             // by feed: its row
  std::vector<std::string> wanted;
  std::unique_ptr<Session> session;
  float *logits = nullptr, *hidden = nullptr;
  OutputTensors outputs;
};

} // namespace

Status runIo(OpenedModel &program) {
  return IoRun(program).run();
}

} // namespace heddle
