// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --io IN OUT of an encoder. Masked tokens are left out of the sequences, wherever they lie, and their outputs are zeros.
#include "bytes/WholeFile.h"
#include "runtime/cli/Cli.h"
#include "runtime/cli/IoTensors.h"
#include "runtime/session/Encoder.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

class EncodeRun {
public:
  explicit EncodeRun(OpenedModel &program)
      : program(program), options(program.options), hiddenSize(program.metadata().hidden_size()) {}

  Status run() {
    HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.ioOutput));
    HEDDLE_RETURN_IF_ERROR(tokens.read(options.ioInput, program.metadata()));
    HEDDLE_RETURN_IF_ERROR(completeRows());
    HEDDLE_RETURN_IF_ERROR(addOutputs());
    std::unique_ptr<Encoder> encoder;
    HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, options.threads, encoder));
    encoder->setProgress(promptProgress());
    std::vector<EncoderInput> inputs;
    inputs.reserve(tokens.rows.size());
    for (const TokenRow &row : tokens.rows)
      inputs.push_back({int32_t(row.ids.size()), row.ids.data(), row.positions.data(), row.tokenTypes.data()});
    HEDDLE_RETURN_IF_ERROR(encoder->run(
        inputs.data(), inputs.size(),
        [](void *user, size_t index, const float *lastHiddenState, const float *poolerOutput) {
          static_cast<EncodeRun *>(user)->take(index, lastHiddenState, poolerOutput);
        },
        this));
    return outputs.write(options.ioOutput);
  }

private:
  // Without position_ids a token's position is its column, as in the family's Hugging Face forward; without token_type_ids its type is 0.
  Status completeRows() {
    const std::string &path = options.ioInput;
    uint32_t context = program.metadata().context();
    for (size_t i = 0; i < tokens.rows.size(); ++i) {
      TokenRow &row = tokens.rows[i];
      if (row.ids.empty())
        return invalidInput(format("%s: attention_mask masks all tokens of row %zu, expected at least one that counts",
                                   path.c_str(), i));
      if (row.ids.size() > context)
        return invalidInput(
            format("%s: row %zu has %zu tokens, the model takes %u", path.c_str(), i, row.ids.size(), context));
      if (row.positions.empty() && row.columns.back() >= int64_t(context))
        return invalidInput(format("%s: row %zu has a token in column %lld, the model has %u positions", path.c_str(),
                                   i, (long long)row.columns.back(), context));
      if (row.positions.empty())
        row.positions.assign(row.columns.begin(), row.columns.end());
      row.tokenTypes.resize(row.ids.size());
    }
    return Status();
  }

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

} // namespace

Status runEncodeIo(OpenedModel &program) {
  return EncodeRun(program).run();
}

} // namespace heddle
