// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle tune`.

#include "compiler/tools/CompileArguments.h"
#include "compiler/tune/TuneModel.h"

#include "llvm/Support/raw_ostream.h"

using namespace heddle;
using llvm::StringRef;

static const char *const tuneUsage = R"(heddle tune MODEL -o FILE [options]

Measures how the model's kernels run on this machine with other tiles and blocks than the built-in ones, and writes those that are
faster by more than noise (3 %) to FILE, for 'heddle compile MODEL --schedules=FILE'. Products with stored weights are measured with
1, 4, 16 and 512 rows, attention over the cache with 1 row and with 512. The model's weights are not read: what is measured are their
shapes and formats. Candidates take turns, and of each the best of several rounds counts; still, an otherwise idle machine is wanted.
Takes about 10 seconds for each kind of kernel, of which most models have less than ten, and up to 1.5 GB of memory.

  --threads=N                   threads that share each kernel (default: the machine's cores)
  --quick                       one candidate of each kind, a moment each: to see how it goes, not to choose by

Options of 'heddle compile' that say how to compile (--precise, --weights, --activations, --kv ...) are taken as well: kernels differ
by them. The target is this machine.

Example:
  heddle tune model.gguf -o tuned.json && heddle compile model.gguf -o model --schedules=tuned.json

Exit code: 0 the file is written, 1 our or the machine's failure, 2 the input or the command line is at fault.
)";

int heddle::runTuneCommand(int argc, char **argv) {
  TuneOptions options;
  CompileOptions &compile = options.compile;
  std::string error;
  std::vector<char *> rest;
  for (int i = 0; i < argc; ++i) {
    StringRef word = argv[i];
    auto [key, value] = word.split('=');
    if (word == "--threads" && i + 1 < argc)
      value = argv[++i];
    if (word == "--quick")
      options.quick = true;
    else if (key != "--threads")
      rest.push_back(argv[i]);
    else if (value.getAsInteger(10, options.threads) || options.threads < 1 || options.threads > 1024)
      error = ("--threads: '" + value + "' is no number from 1 to 1024").str();
  }
  CompileArguments arguments(compile);
  bool isParsed = arguments.parse(rest.size(), rest.data());
  if (arguments.help) {
    llvm::outs() << tuneUsage;
    return 0;
  }
  if (!isParsed)
    return refuseCommand(arguments.error, compile.jsonDiagnostics);
  // What decides nothing about kernels, or is decided here.
  const std::pair<bool, const char *> misplaced[] = {
      {compile.target != "native", "--target: what is measured is this machine, native"},
      {!compile.schedules.empty(), "--schedules: candidates are measured against the built-in schedules"},
      {compile.output.empty() || compile.output == "-", "no output given: use -o FILE"},
      {compile.emit != Emit::Executable || compile.stopAfter != Stage::Package || compile.sidecar ||
           compile.printCacheKey || !compile.resume.empty() || !compile.report.empty() || !compile.depfile.empty(),
       "tune makes a file of schedules and nothing else: --emit, --stop-after, --resume, --sidecar, --report, "
       "--depfile "
       "and --print-cache-key belong to 'heddle compile'"}};
  for (auto [isWrong, message] : misplaced)
    if (isWrong && error.empty())
      error = message;
  if (!error.empty())
    return refuseCommand(error, compile.jsonDiagnostics);
  setDeathAsJson(compile.jsonDiagnostics);
  Status status = tuneModel(options);
  return status.isOk() ? 0 : failCommand(status, compile.jsonDiagnostics);
}
