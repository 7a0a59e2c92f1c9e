// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --bench and --profile: tokens per second of reading a prompt and of generating, without sampling.
#include "bytes/MappedFile.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Bandwidth.h"
#include "runtime/cli/Cli.h"
#include "runtime/cli/DeviceUse.h"
#include "runtime/cli/Profile.h"
#include "runtime/session/TokenBatch.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

struct Figures {
  double prefill = 0, decode = 0; // tokens per second, of all sequences together
  double bytesPerToken = 0;       // read to generate one token, cache included; sequences of a batch share the weights
};

class Bench {
public:
  explicit Bench(OpenedModel &program) : program(program), options(program.options) {
    if (hears(*program.package))
      promptSize = program.metadata().encoder()->context();
  }

  Status run() {
    const package::Encoder *encoder = program.metadata().encoder(); // which reads the prompt, where there is one
    int64_t context = program.metadata().context(), longest = encoder ? encoder->context() : context;
    int64_t generated = options.benchDepth + options.benchGenerate + 1, needed = std::max(promptSize, generated);
    if (encoder && promptSize > longest)
      return invalidInput(format("--bench: a prompt of %lld tokens, this model reads up to %lld", (long long)promptSize,
                                 (long long)longest));
    if ((encoder ? generated : needed) > context)
      return invalidInput(format("--bench: %lld tokens (prompt %lld, depth %lld, generate %lld), the context is %lld",
                                 (long long)needed, (long long)promptSize, (long long)options.benchDepth,
                                 (long long)options.benchGenerate, (long long)context));
    if (!options.report.empty())
      HEDDLE_RETURN_IF_ERROR(openReport());
    SessionOptions sessionOptions = program.sessionOptions();
    sessionOptions.profile = options.profile;
    sessionOptions.maxSequences = int32_t(options.benchBatch);
    HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, sessionOptions, session));
    for (int64_t i = 0; i < needed; ++i)
      ids.push_back(int32_t((i * 7919 + 13) % program.metadata().vocab_size()));
    HEDDLE_RETURN_IF_ERROR(makeSound());
    for (int64_t round = 0; round < options.benchRounds; ++round) {
      if (wasInterrupted())
        return Status::failure("interrupted");
      HEDDLE_RETURN_IF_ERROR(measurePrefill());
      HEDDLE_RETURN_IF_ERROR(measureDecode());
    }
    measureLimits();
    // Half of the generated tokens lie before the average one.
    double cached = double(options.benchDepth) + 0.5 * double(options.benchGenerate);
    figures.bytesPerToken = double(program.metadata().bytes_per_token()) / double(options.benchBatch) +
                            cached * double(program.metadata().kv()->bytes_per_token()) +
                            double(program.metadata().kv()->state_bytes());
    HEDDLE_RETURN_IF_ERROR(fillReport());
    return writeOut(options.json ? asJson() : asText());
  }

private:
  // The report's line of measured times: one at this indentation, of the page as of the JSON file.
  static constexpr std::string_view measuredLine = "\n  \"measured\": ";

  // Before anything is measured: the user learns of a wrong name at once.
  Status openReport() {
    HEDDLE_RETURN_IF_ERROR(report.open(options.report));
    std::string_view text(reinterpret_cast<const char *>(report.data()), report.size());
    std::string source = "\"sha256\": " + jsonString(program.metadata().source_sha256()->str());
    if (text.find(measuredLine) == text.npos || text.find(source) == text.npos)
      return invalidInput(options.report + ": no report that 'heddle compile --report' wrote of this model");
    std::string target = metadataTarget();
    if (program.package->onDisk().numVariants() > 1 &&
        text.find("\n  \"target\": {\n    \"name\": " + jsonString(target)) == text.npos)
      return invalidInput(options.report + ": the report is of another target than " + target +
                          ", whose code runs: --cpu chooses");
    return Status();
  }

  std::string metadataTarget() const {
    const flatbuffers::String *target = program.metadata().target();
    return target ? target->str() : "";
  }

  Status fillReport() {
    if (options.report.empty())
      return Status();
    std::string_view text(reinterpret_cast<const char *>(report.data()), report.size());
    size_t begin = text.find(measuredLine) + measuredLine.size();
    std::string figures = asJson();
    figures.pop_back(); // its end of line
    return writeWholeFile(options.report, {text.substr(0, begin), figures, text.substr(text.find('\n', begin))});
  }

  void measureLimits() {
    limits.readBandwidth = measureReadBandwidth(session->threadPool(), 5);
    if (options.profile && !runsOnDevice(program.metadata()))
      limits.peaks = measurePeaks(session->threadPool(), 5);
  }

  // Runs a round of a phase that takes `tokens`, and keeps the best speed.
  template <typename Run> Status measure(Phase &phase, DeviceUse &use, double &best, int64_t tokens, Run run) {
    session->kernelProfile().clear();
    DeviceCounts before = session->deviceCounts();
    uint64_t startTicks = profileTicks();
    double start = secondsNow();
    HEDDLE_RETURN_IF_ERROR(run());
    double seconds = secondsNow() - start;
    phase.add(seconds, double(profileTicks() - startTicks), session->kernelProfile().uses());
    use.add(before, session->deviceCounts());
    best = std::max(best, double(tokens) / seconds);
    return Status();
  }

  Status makeSound() {
    if (!hears(*program.package))
      return Status();
    const package::Encoder &encoder = *program.metadata().encoder();
    std::vector<float> features(size_t(encoder.audio()->mel_bins()) * 2 * encoder.context());
    fillWithNoise(features);
    sound.addSound(features.data(), encoder);
    return sound.completeRows("--bench", program.metadata());
  }

  Status beginAnswer(int32_t sequence) {
    if (sound.rows.empty())
      return session->beginAnswer(sequence, ids.data(), int32_t(promptSize));
    int32_t start = program.metadata().generation()->decoder_start();
    std::vector<EncoderInput> inputs = sound.encoderInputs();
    HEDDLE_RETURN_IF_ERROR(session->encode(inputs.data(), &sequence, 1));
    return session->append(sequence, &start, 1);
  }

  Status measurePrefill() {
    session->truncate(0, 0);
    return measure(prefill, useOfPrefill, figures.prefill, promptSize, [&] { return beginAnswer(0); });
  }

  // A token more in every sequence, as of greedy answers.
  Status decodeToken(std::vector<Feed> &feeds, int64_t index) {
    for (size_t sequence = 0; sequence < feeds.size(); ++sequence) {
      feeds[sequence].sequence = int32_t(sequence);
      feeds[sequence].count = 1;
      feeds[sequence].ids = ids.data() + index;
      feeds[sequence].rows = FeedRows::Chosen;
    }
    return session->step(feeds.data(), feeds.size());
  }

  // Of the tokens before, the last two are decoded on a device: the second of a kind records the graph of those that are measured.
  Status measureDecode() {
    std::vector<Feed> feeds(size_t(options.benchBatch));
    int64_t before = options.benchDepth + 1, decoded = session->hasDevice() ? std::min<int64_t>(before - 1, 2) : 0;
    for (int32_t sequence = 0; sequence < options.benchBatch; ++sequence) {
      session->truncate(sequence, 0);
      if (session->hasSources())
        HEDDLE_RETURN_IF_ERROR(beginAnswer(sequence));
      if (int64_t count = before - decoded - session->length(sequence); count > 0)
        HEDDLE_RETURN_IF_ERROR(session->append(sequence, ids.data(), int32_t(count)));
    }
    for (int64_t i = 0; i < decoded; ++i)
      HEDDLE_RETURN_IF_ERROR(decodeToken(feeds, i));
    return measure(decode, useOfDecode, figures.decode, options.benchGenerate * options.benchBatch, [&] {
      for (int64_t i = 0; i < options.benchGenerate; ++i)
        HEDDLE_RETURN_IF_ERROR(decodeToken(feeds, i));
      return Status();
    });
  }

  PhaseProfile profileOf(const Phase &phase) const {
    return PhaseProfile(phase, program.metadata(), limits, options.benchRounds);
  }

  double numSteps() const { return double(options.benchRounds) * double(options.benchGenerate); }

  std::string deviceAsJson() const {
    DeviceCounts counts = session->deviceCounts();
    return ",\"device\":{\"prefill\":" + useOfPrefill.asJson(double(options.benchRounds)) +
           ",\"decode_step\":" + useOfDecode.asJson(numSteps()) +
           format(",\"graphs\":%s,\"programs_built\":%llu,\"programs_cached\":%llu}",
                  session->graphRefusal().isOk() ? "true" : "false", (unsigned long long)counts.builtPrograms,
                  (unsigned long long)counts.cachedPrograms);
  }

  std::string deviceAsText() const {
    DeviceCounts counts = session->deviceCounts();
    return "device, the prompt: " + useOfPrefill.asText(double(options.benchRounds)) +
           "\ndevice, a step of decode: " + useOfDecode.asText(numSteps()) +
           (session->graphRefusal().isOk() ? "" : "\ndevice, no graphs: " + session->graphRefusal().message()) +
           format("\ndevice, programs: %llu built, %llu from the cache\n", (unsigned long long)counts.builtPrograms,
                  (unsigned long long)counts.cachedPrograms);
  }

  double decodeShare() const {
    return limits.readBandwidth > 0 ? figures.decode * figures.bytesPerToken / limits.readBandwidth : 0;
  }

  std::string asJson() const {
    std::string text =
        "{\"schema\":" + jsonString(schema::speed) + ",\"model\":" + jsonString(program.metadata().name()->str());
    text += format(",\"threads\":%d,\"prompt\":%lld,\"generate\":%lld,\"depth\":%lld,\"batch\":%lld,\"rounds\":%lld",
                   session->threads(), (long long)promptSize, (long long)options.benchGenerate,
                   (long long)options.benchDepth, (long long)options.benchBatch, (long long)options.benchRounds);
    text += format(",\"prefill\":%.3f,\"decode\":%.3f,\"bytes_per_token\":%.0f,\"read_bandwidth\":%.0f,\"decode_"
                   "bandwidth_share\":%.4f",
                   figures.prefill, figures.decode, figures.bytesPerToken, limits.readBandwidth, decodeShare());
    if (session->hasDevice())
      text += deviceAsJson();
    if (options.profile) {
      PhaseProfile reading = profileOf(prefill), generating = profileOf(decode);
      text += peaksAsJson(limits) + ",\"prefill_profile\":" + reading.asJson() +
              ",\"decode_profile\":" + generating.asJson() + ",\"kernels\":[";
      for (size_t i = 0; i < prefill.uses.size(); ++i) {
        const package::Kernel &kernel = *program.metadata().kernels()->Get(unsigned(i));
        text += (i ? "," : "") + ("{\"name\":" + jsonString(kernel.name()->str())) +
                ",\"kind\":" + jsonString(kernel.kind() ? kernel.kind()->str() : "") +
                format(",\"prefill_share\":%.9g,\"decode_share\":%.9g}", reading.share(i), generating.share(i));
      }
      text += "]";
    }
    return text + "}\n";
  }

  std::string asText() const {
    std::string batch =
        options.benchBatch > 1 ? format(" in each of %lld sequences", (long long)options.benchBatch) : "";
    std::string text =
        format("prefill %10.1f tokens/s  (%lld tokens)\ndecode  %10.1f tokens/s  (%lld tokens after %lld%s)\n",
               figures.prefill, (long long)promptSize, figures.decode, (long long)options.benchGenerate,
               (long long)options.benchDepth, batch.c_str());
    text += format("reads %.1f MB per token: %.1f %% of %.1f GB/s with %d threads\n", figures.bytesPerToken / 1e6,
                   100 * decodeShare(), limits.readBandwidth / 1e9, session->threads());
    if (session->hasDevice())
      text += deviceAsText();
    if (!options.profile)
      return text;
    for (const Peak &peak : limits.peaks)
      text += format("%-9s%10.1f GFLOP/s\n", peak.name, peak.perSecond * 1e-9);
    PhaseProfile reading = profileOf(prefill), generating = profileOf(decode);
    text += reading.asText("prefill") + generating.asText("decode") + "\nprefill  decode  kernel\n";
    for (size_t i = 0; i < prefill.uses.size(); ++i)
      text += format("%5.1f %%  %5.1f %%  %s\n", 100 * reading.share(i), 100 * generating.share(i),
                     program.metadata().kernels()->Get(unsigned(i))->name()->c_str());
    return text;
  }

  OpenedModel &program;
  const CliOptions &options;
  std::unique_ptr<Session> session;
  int64_t promptSize = options.benchPrompt; // tokens of the prompt, or of the sound
  TokenBatch sound;                         // of noise, where the model hears
  std::vector<int32_t> ids;
  Figures figures;
  MappedFile report;
  MachineLimits limits;
  Phase prefill, decode;
  DeviceUse useOfPrefill, useOfDecode;
};

} // namespace

Status runBench(OpenedModel &program) {
  return Bench(program).run();
}

} // namespace heddle
