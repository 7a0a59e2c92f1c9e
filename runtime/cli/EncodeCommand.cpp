// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --io IN OUT and --bench of an encoder. Masked tokens are left out of the sequences, wherever they lie, and their outputs are zeros.
#include "bytes/JsonSchema.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Bandwidth.h"
#include "runtime/cli/Cli.h"
#include "runtime/cli/IoTensors.h"
#include "runtime/session/Encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {
namespace {

// Without position_ids a token's position is its column, as in the family's Hugging Face forward; without token_type_ids its type is 0.
Status completeRows(TokenBatch &tokens, const std::string &path, uint32_t context) {
  for (size_t i = 0; i < tokens.rows.size(); ++i) {
    TokenRow &row = tokens.rows[i];
    if (row.ids.empty())
      return invalidInput(
          format("%s: attention_mask masks all tokens of row %zu, expected at least one that counts", path.c_str(), i));
    if (row.ids.size() > context)
      return invalidInput(
          format("%s: row %zu has %zu tokens, the model takes %u", path.c_str(), i, row.ids.size(), context));
    if (row.positions.empty() && row.columns.back() >= int64_t(context))
      return invalidInput(format("%s: row %zu has a token in column %lld, the model has %u positions", path.c_str(), i,
                                 (long long)row.columns.back(), context));
    if (row.positions.empty())
      row.positions.assign(row.columns.begin(), row.columns.end());
    row.tokenTypes.resize(row.ids.size());
  }
  return Status();
}

std::vector<EncoderInput> inputsOf(const TokenBatch &tokens) {
  std::vector<EncoderInput> inputs;
  inputs.reserve(tokens.rows.size());
  for (const TokenRow &row : tokens.rows)
    inputs.push_back({int32_t(row.ids.size()), row.ids.data(), row.positions.data(), row.tokenTypes.data()});
  return inputs;
}

class EncodeRun {
public:
  explicit EncodeRun(OpenedModel &program)
      : program(program), options(program.options), hiddenSize(program.metadata().hidden_size()) {}

  Status run() {
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.ioOutput));
    HEDDLE_RETURN_IF_ERROR(tokens.read(options.ioInput, program.metadata()));
    HEDDLE_RETURN_IF_ERROR(completeRows(tokens, options.ioInput, program.metadata().context()));
    HEDDLE_RETURN_IF_ERROR(addOutputs());
    std::unique_ptr<Encoder> encoder;
    HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, options.threads, encoder));
    encoder->setProgress(promptProgress());
    std::vector<EncoderInput> inputs = inputsOf(tokens);
    HEDDLE_RETURN_IF_ERROR(encoder->run(
        inputs.data(), inputs.size(),
        [](void *user, size_t index, const float *lastHiddenState, const float *poolerOutput) {
          static_cast<EncodeRun *>(user)->take(index, lastHiddenState, poolerOutput);
        },
        this));
    return outputs.write(options.ioOutput);
  }

private:
  Status addOutputs() {
    bool hasPooler = program.metadata().encoder()->pooler();
    for (const std::string &name : options.outputs)
      if (name != "last_hidden_state" && !(hasPooler && name == "pooler_output"))
        return invalidInput("--outputs: '" + name + "' is no output of this model (last_hidden_state" +
                            (hasPooler ? ", pooler_output)" : ")"));
    auto wants = [&](const char *name) {
      return options.outputs.empty() ||
             std::find(options.outputs.begin(), options.outputs.end(), name) != options.outputs.end();
    };
    if (wants("last_hidden_state"))
      HEDDLE_RETURN_IF_ERROR(
          outputs.add("last_hidden_state", "F32", {tokens.batch, tokens.length, hiddenSize}, hidden));
    if (hasPooler && wants("pooler_output"))
      HEDDLE_RETURN_IF_ERROR(outputs.add("pooler_output", "F32", {tokens.batch, hiddenSize}, pooled));
    return Status();
  }

  void take(size_t index, const float *lastHiddenState, const float *poolerOutput) {
    const std::vector<int64_t> &columns = tokens.rows[index].columns;
    for (size_t token = 0; hidden && token < columns.size(); ++token)
      memcpy(hidden + (int64_t(index) * tokens.length + columns[token]) * hiddenSize,
             lastHiddenState + token * hiddenSize, hiddenSize * sizeof(float));
    if (pooled)
      memcpy(pooled + index * hiddenSize, poolerOutput, hiddenSize * sizeof(float));
  }

  OpenedModel &program;
  const CliOptions &options;
  const int64_t hiddenSize;
  TokenBatch tokens;
  float *hidden = nullptr, *pooled = nullptr;
  OutputTensors outputs;
};

// Sequences of ids that no run repeats, as many and as long as --dims says.
Status makeBatch(const CliOptions &options, const package::Package &metadata, TokenBatch &tokens) {
  tokens.batch = 1;
  tokens.length = std::min<int64_t>(128, metadata.context());
  for (auto &[name, size] : options.dims) {
    if (name != "batch" && name != "sequence")
      return invalidInput("--dims: '" + name + "' is no dimension of this model's inputs (batch, sequence)");
    (name == "batch" ? tokens.batch : tokens.length) = size;
  }
  if (tokens.length < 1 || tokens.length > int64_t(metadata.context()) || tokens.batch < 1 || tokens.batch > 65536)
    return invalidInput(format("--dims: batch is %lld, expected 1 … 65536, sequence %lld, expected 1 … %u",
                               (long long)tokens.batch, (long long)tokens.length, metadata.context()));
  int64_t next = 13;
  for (int64_t index = 0; index < tokens.batch; ++index) {
    TokenRow row;
    for (int64_t column = 0; column < tokens.length; ++column, next += 7919) {
      row.ids.push_back(int32_t(next % metadata.vocab_size()));
      row.columns.push_back(column);
    }
    tokens.rows.push_back(std::move(row));
  }
  return Status();
}

} // namespace

Status runEncodeBench(OpenedModel &program) {
  const CliOptions &options = program.options;
  const package::Package &metadata = program.metadata();
  TokenBatch tokens;
  HEDDLE_RETURN_IF_ERROR(options.benchInput.empty() ? makeBatch(options, metadata, tokens)
                                                    : tokens.read(options.benchInput, metadata));
  HEDDLE_RETURN_IF_ERROR(completeRows(tokens, options.benchInput, metadata.context()));
  std::unique_ptr<Encoder> encoder;
  HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, options.threads, encoder));
  std::vector<EncoderInput> inputs = inputsOf(tokens);
  int64_t count = 0;
  for (const EncoderInput &input : inputs)
    count += input.count;
  double best = INFINITY;
  for (int64_t round = 0; round < options.benchRounds; ++round) {
    if (wasInterrupted())
      return Status::failure("interrupted");
    double start = secondsNow();
    HEDDLE_RETURN_IF_ERROR(
        encoder->run(inputs.data(), inputs.size(), [](void *, size_t, const float *, const float *) {}, nullptr));
    best = std::min(best, secondsNow() - start);
  }
  if (options.json)
    return writeOut(
        format("{\"schema\": \"%s\", \"seconds\": %.9g, \"rounds\": %lld, \"sequences\": %zu, \"tokens\": %lld}\n",
               schema::time, best, (long long)options.benchRounds, inputs.size(), (long long)count));
  return writeOut(format("best of %lld runs: %.3f ms for %lld tokens in %zu sequences: %.1f tokens/s\n",
                         (long long)options.benchRounds, best * 1e3, (long long)count, inputs.size(),
                         double(count) / best));
}

Status runEncodeIo(OpenedModel &program) {
  return EncodeRun(program).run();
}

} // namespace heddle
