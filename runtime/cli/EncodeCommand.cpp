// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --bench and --profile of an encoder.
#include "bytes/JsonSchema.h"
#include "runtime/cli/Bandwidth.h"
#include "runtime/cli/Cli.h"
#include "runtime/cli/Profile.h"
#include "runtime/session/Session.h"
#include "runtime/session/TokenBatch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {

void fillWithNoise(std::vector<float> &numbers) {
  uint32_t state = 1;
  for (float &number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = float(state >> 8) / float(1 << 23) - 1;
  }
}

namespace {

// Images of noise, as many as --dims says.
Status makeImages(const CliOptions &options, const package::Encoder &encoder, TokenBatch &tokens) {
  const package::ImageInput &image = *encoder.image();
  int64_t batch = 1;
  for (auto &[name, size] : options.dims) {
    if (name != "batch")
      return invalidInput("--dims: '" + name + "' is no dimension of this model's inputs (batch)");
    batch = size;
  }
  if (batch < 1 || batch > 65536)
    return invalidInput(format("--dims: batch is %lld, expected 1 … 65536", (long long)batch));
  std::vector<float> pixels(size_t(image.channels()) * image.size() * image.size());
  fillWithNoise(pixels);
  for (int64_t index = 0; index < batch; ++index)
    tokens.addImage(pixels.data(), encoder);
  return Status();
}

// Sequences of ids that no run repeats, as many and as long as --dims says.
Status makeBatch(const CliOptions &options, const package::Package &metadata, TokenBatch &tokens) {
  if (metadata.encoder()->image())
    return makeImages(options, *metadata.encoder(), tokens);
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
  SafetensorsFile file;
  if (!options.benchInput.empty())
    HEDDLE_RETURN_IF_ERROR(file.open(options.benchInput));
  HEDDLE_RETURN_IF_ERROR(options.benchInput.empty() ? makeBatch(options, metadata, tokens)
                                                    : tokens.read(file.tensors(), options.benchInput, metadata));
  HEDDLE_RETURN_IF_ERROR(tokens.completeRows(options.benchInput, metadata));
  std::unique_ptr<Encoder> encoder;
  HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, options.threads, /*pool=*/nullptr, encoder));
  std::vector<EncoderInput> inputs = tokens.encoderInputs();
  int64_t count = 0;
  for (const EncoderInput &input : inputs)
    count += input.count;
  if (options.profile)
    encoder->profileKernels();
  Phase phase;
  double best = INFINITY;
  for (int64_t round = 0; round < options.benchRounds; ++round) {
    if (wasInterrupted())
      return Status::failure("interrupted");
    encoder->kernelProfile().clear();
    uint64_t startTicks = profileTicks();
    double start = secondsNow();
    HEDDLE_RETURN_IF_ERROR(
        encoder->run(inputs.data(), inputs.size(), [](void *, size_t, const float *const *) {}, nullptr));
    double seconds = secondsNow() - start;
    phase.add(seconds, double(profileTicks() - startTicks), encoder->kernelProfile().uses());
    best = std::min(best, seconds);
  }
  MachineLimits limits;
  if (options.profile)
    limits = {measureReadBandwidth(encoder->threadPool(), 5), measurePeaks(encoder->threadPool(), 5)};
  PhaseProfile profile(phase, metadata, limits, options.benchRounds);
  if (options.json) {
    std::string text =
        format("{\"schema\": \"%s\", \"seconds\": %.9g, \"rounds\": %lld, \"sequences\": %zu, \"tokens\": %lld",
               schema::time, best, (long long)options.benchRounds, inputs.size(), (long long)count);
    if (options.profile)
      text += peaksAsJson(limits) + ",\"profile\":" + profile.asJson();
    return writeOut(text + "}\n");
  }
  std::string text =
      format("best of %lld runs: %.3f ms for %lld tokens in %zu sequences: %.1f tokens/s\n",
             (long long)options.benchRounds, best * 1e3, (long long)count, inputs.size(), double(count) / best);
  return writeOut(options.profile ? text + profile.asText("encode") : text);
}

} // namespace heddle
