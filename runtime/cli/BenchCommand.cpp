// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --bench and --profile: tokens per second of reading a prompt and of generating, without sampling.
#include "bytes/MappedFile.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Bandwidth.h"
#include "runtime/cli/Cli.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

struct Figures {
  double prefill = 0, decode = 0; // tokens per second
  double readBandwidth = 0;       // bytes per second
  double bytesPerToken = 0;       // read to generate one token, cache included
};

class Bench {
public:
  explicit Bench(OpenedModel &program) : program(program), options(program.options) {}

  Status run() {
    int64_t context = program.metadata().context(),
            needed = std::max(options.benchPrompt, options.benchDepth + options.benchGenerate + 1);
    if (needed > context)
      return invalidInput(format("--bench: %lld tokens (prompt %lld, depth %lld, generate %lld), the context is %lld",
                                 (long long)needed, (long long)options.benchPrompt, (long long)options.benchDepth,
                                 (long long)options.benchGenerate, (long long)context));
    if (!options.report.empty())
      HEDDLE_RETURN_IF_ERROR(openReport());
    SessionOptions sessionOptions = program.sessionOptions();
    sessionOptions.profile = options.profile;
    HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, sessionOptions, session));
    for (int64_t i = 0; i < needed; ++i)
      ids.push_back(int32_t((i * 7919 + 13) % program.metadata().vocab_size()));
    for (int64_t round = 0; round < options.benchRounds; ++round) {
      if (wasInterrupted())
        return Status::failure("interrupted");
      HEDDLE_RETURN_IF_ERROR(measurePrefill());
      HEDDLE_RETURN_IF_ERROR(measureDecode());
    }
    figures.readBandwidth = measureReadBandwidth(session->threadPool(), 5);
    // Half of the generated tokens lie before the average one.
    double cached = double(options.benchDepth) + 0.5 * double(options.benchGenerate);
    figures.bytesPerToken =
        double(program.metadata().bytes_per_token()) + cached * double(program.metadata().kv()->bytes_per_token());
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
    return Status();
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

  // Feeds ids [0, count) from an empty cache and adds nothing to the figures.
  Status fill(int64_t count) {
    session->truncate(0, 0);
    return count ? session->append(0, ids.data(), int32_t(count)) : Status();
  }

  Status measurePrefill() {
    session->truncate(0, 0);
    double start = secondsNow();
    HEDDLE_RETURN_IF_ERROR(session->append(0, ids.data(), int32_t(options.benchPrompt)));
    figures.prefill = std::max(figures.prefill, double(options.benchPrompt) / (secondsNow() - start));
    addTicks(prefillTicks);
    return Status();
  }

  Status measureDecode() {
    HEDDLE_RETURN_IF_ERROR(fill(options.benchDepth + 1));
    session->clearKernelTicks();
    double start = secondsNow();
    for (int64_t i = 0; i < options.benchGenerate; ++i)
      HEDDLE_RETURN_IF_ERROR(session->append(0, ids.data() + i, 1));
    figures.decode = std::max(figures.decode, double(options.benchGenerate) / (secondsNow() - start));
    addTicks(decodeTicks);
    return Status();
  }

  void addTicks(std::vector<double> &total) {
    size_t count = options.profile && program.metadata().kernels() ? program.metadata().kernels()->size() : 0;
    total.resize(count);
    for (size_t i = 0; i < count; ++i)
      total[i] += double(session->kernelTicks()[i]);
    session->clearKernelTicks();
  }

  // [kernel]: its share of the counted time.
  static std::vector<double> shares(const std::vector<double> &ticks) {
    double sum = 0;
    for (double count : ticks)
      sum += count;
    std::vector<double> result;
    for (double count : ticks)
      result.push_back(sum > 0 ? count / sum : 0);
    return result;
  }

  double decodeShare() const {
    return figures.readBandwidth > 0 ? figures.decode * figures.bytesPerToken / figures.readBandwidth : 0;
  }

  std::string asJson() const {
    std::string text =
        "{\"schema\":" + jsonString(schema::speed) + ",\"model\":" + jsonString(program.metadata().name()->str());
    text += format(",\"threads\":%d,\"prompt\":%lld,\"generate\":%lld,\"depth\":%lld,\"rounds\":%lld",
                   session->threads(), (long long)options.benchPrompt, (long long)options.benchGenerate,
                   (long long)options.benchDepth, (long long)options.benchRounds);
    text += format(",\"prefill\":%.3f,\"decode\":%.3f,\"bytes_per_token\":%.0f,\"read_bandwidth\":%.0f,\"decode_"
                   "bandwidth_share\":%.4f",
                   figures.prefill, figures.decode, figures.bytesPerToken, figures.readBandwidth, decodeShare());
    if (options.profile && program.metadata().kernels()) {
      std::vector<double> prefill = shares(prefillTicks), decode = shares(decodeTicks);
      text += ",\"kernels\":[";
      for (size_t i = 0; i < prefill.size(); ++i) {
        const package::Kernel &kernel = *program.metadata().kernels()->Get(i);
        text += (i ? "," : "") + ("{\"name\":" + jsonString(kernel.name()->str())) +
                ",\"kind\":" + jsonString(kernel.kind() ? kernel.kind()->str() : "") +
                format(",\"prefill_share\":%.9g,\"decode_share\":%.9g}", prefill[i], decode[i]);
      }
      text += "]";
    }
    return text + "}\n";
  }

  std::string asText() const {
    std::string text =
        format("prefill %10.1f tokens/s  (%lld tokens)\ndecode  %10.1f tokens/s  (%lld tokens after %lld)\n",
               figures.prefill, (long long)options.benchPrompt, figures.decode, (long long)options.benchGenerate,
               (long long)options.benchDepth);
    text += format("reads %.1f MB per token: %.1f %% of %.1f GB/s with %d threads\n", figures.bytesPerToken / 1e6,
                   100 * decodeShare(), figures.readBandwidth / 1e9, session->threads());
    std::vector<double> prefill = shares(prefillTicks), decode = shares(decodeTicks);
    if (!prefill.empty())
      text += "prefill  decode  kernel\n";
    for (size_t i = 0; i < prefill.size(); ++i)
      text += format("%5.1f %%  %5.1f %%  %s\n", 100 * prefill[i], 100 * decode[i],
                     program.metadata().kernels()->Get(i)->name()->c_str());
    return text;
  }

  OpenedModel &program;
  const CliOptions &options;
  std::unique_ptr<Session> session;
  std::vector<int32_t> ids;
  Figures figures;
  MappedFile report;
  std::vector<double> prefillTicks, decodeTicks;
};

} // namespace

Status runBench(OpenedModel &program) {
  return Bench(program).run();
}

} // namespace heddle
