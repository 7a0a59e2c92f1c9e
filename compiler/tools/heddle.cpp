// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command `heddle`.

#include "bytes/JsonSchema.h"
#include "compiler/tools/CompileArguments.h"
#include "frontends/tokenizer/TokenizeTool.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <unistd.h>

using namespace heddle;
using llvm::StringRef;

static const char *const usage = R"(Heddle compiles Transformer models to native programs.

  heddle compile MODEL -o OUT      compile a GGUF or ONNX file, a Hugging Face folder or an MLIR module
  heddle inspect FILE [--json]     show what is in a model file or in what was compiled (--check: are its weights whole)
  heddle verify MODEL              evaluate the model after every stage and name the first that changed a result
  heddle tune MODEL -o FILE        measure schedules of the model's kernels here, for compile --schedules=FILE
  heddle tokenize MODEL            text to ids and back, as JSON lines
  heddle COMMAND --help            all options of a command
  heddle --licenses                licences of what is in the tools and in what they make
  heddle --version

Example:
  heddle compile model.gguf -o model
  ./model "The capital of France is"
)";

// SPDX expressions. test/package/install.test looks for each library that is installed.
static const char *const licenses = R"(In the tools
  Apache-2.0 WITH LLVM-exception                 Heddle; headers of LLVM and MLIR
  Apache-2.0                                     headers of FlatBuffers
  BSD-3-Clause                                   PCRE2; headers of Protocol Buffers
  MIT                                            utf8proc; headers of Halide and of JSON for Modern C++
  Unicode-DFS-2015                               Unicode data in utf8proc
  GPL-3.0-or-later WITH GCC-exception-3.1        headers of libstdc++

Beside them in lib/heddle/host, where Heddle was installed with its libraries; texts are in share/doc/heddle/licenses
  Apache-2.0 WITH LLVM-exception                 libLLVM, libMLIR, ld.lld
  MIT AND Apache-2.0 WITH LLVM-exception         libHalide, which holds an LLVM
  MIT                                            libffi, libxml2, libz3
  BSD-3-Clause                                   libedit, libprotobuf-lite, libzstd
  BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware
                                                 libmd
  BSD-4-Clause AND BSD-3-Clause AND BSD-2-Clause AND ISC AND MIT AND Beerware AND libutil-David-Nugent
                                                 libbsd
  LicenseRef-public-domain                       liblzma
  Unicode-DFS-2016                               libicudata, libicuuc
  X11-distribute-modifications-variant           libtinfo
  Zlib                                           libz

In what they make, beside the model; a program says with --licenses which of them it holds
  Apache-2.0 WITH LLVM-exception                 Heddle's runtime and generated code
  Apache-2.0                                     headers of FlatBuffers
  BSD-3-Clause                                   PCRE2
  MIT                                            utf8proc; Halide, in kernels that it generates
  Unicode-DFS-2015                               Unicode data in utf8proc
  GPL-3.0-or-later WITH GCC-exception-3.1        headers of libstdc++, arithmetic of libgcc
  LGPL-2.1-or-later WITH GCC-exception-2.0-note  start files of the GNU C library
  LicenseRef-NVIDIA-libdevice                    NVIDIA libdevice, in kernels that Halide generates for CUDA
)";

int heddle::refuseCommand(const std::string &message, bool asJson) {
  printFinding({Finding::Severity::Error, "command-line", 2, message, {}}, asJson);
  return 2;
}

int heddle::failCommand(const Status &status, bool asJson) {
  printFinding(Finding::error(status), asJson);
  return status.exitCode();
}

static bool diesAsJson = false;

void heddle::setDeathAsJson(bool asJson) {
  diesAsJson = asJson;
}

// Says `line` and ends, without temporary files. Of several threads that come here the first one speaks; nothing is allocated.
[[noreturn]] static void die(StringRef line) {
  static std::atomic<bool> isEnding{false};
  while (isEnding.exchange(true))
    pause();
  (void)!write(STDERR_FILENO, line.data(), line.size());
  llvm::sys::RunInterruptHandlers();
  _exit(1);
}

// The same of an error of that code. What JSON would have to escape becomes a space.
[[noreturn]] static void dieOf(const char *code, const char *reason) {
  char text[384], line[640];
  snprintf(text, sizeof text, "%s", reason);
  for (char *c = text; *c; ++c)
    if (*c == '"' || *c == '\\' || static_cast<unsigned char>(*c) < ' ' || static_cast<unsigned char>(*c) > '~')
      *c = ' ';
  if (diesAsJson)
    snprintf(line, sizeof line,
             "{\"code\":\"%s\",\"exit_code\":1,\"message\":\"%s\",\"schema\":\"%s\",\"severity\":\"error\"}\n", code,
             text, schema::diagnostic);
  else
    snprintf(line, sizeof line, "heddle: error: %s\n", text);
  die(line);
}

[[noreturn]] static void onBadAlloc(void *, const char *, bool) {
  dieOf("out-of-memory", "out of memory");
}

// What LLVM cannot go on with: a thread that cannot be started, for one.
[[noreturn]] static void onFatalError(void *, const char *reason, bool) {
  dieOf("failure", reason);
}

static int runCompile(int argc, char **argv) {
  CompileOptions options;
  CompileArguments arguments(options);
  if (!arguments.parse(argc, argv))
    return refuseCommand(arguments.error, options.jsonDiagnostics);
  if (arguments.help) {
    llvm::outs() << CompileArguments::usage();
    return 0;
  }
  setDeathAsJson(options.jsonDiagnostics);
  CompileNotes notes;
  if (Status status = compileModel(options, &notes); !status.isOk())
    return failCommand(status, options.jsonDiagnostics);
  if (options.printCacheKey)
    llvm::outs() << notes.cacheKey << "\n";
  if (options.quiet)
    return 0;
  for (const Finding &warning : notes.warnings)
    printFinding(warning, options.jsonDiagnostics);
  if (!notes.summary.empty()) {
    InputPlace made;
    made.file = options.output;
    printFinding({Finding::Severity::Note, "made", 0, notes.summary, made}, options.jsonDiagnostics);
  }
  return 0;
}

int main(int argc, char **argv) {
  llvm::install_bad_alloc_error_handler(onBadAlloc);
  llvm::install_out_of_memory_new_handler();
  llvm::install_fatal_error_handler(onFatalError);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); // a file over the limit is a failed write that is reported
  StringRef command = argc > 1 ? argv[1] : "--help";
  if (command == "compile")
    return runCompile(argc - 2, argv + 2);
  if (command == "inspect")
    return runInspectCommand(argc - 2, argv + 2);
  if (command == "tune")
    return runTuneCommand(argc - 2, argv + 2);
  if (command == "verify")
    return runVerifyCommand(argc - 2, argv + 2);
  if (command == "tokenize")
    return runTokenizeCommand(argc - 2, argv + 2, stdin, stdout, stderr);
  if (command == "--version") {
    llvm::outs() << "heddle " HEDDLE_VERSION "\n";
    return 0;
  }
  if (command == "--licenses") {
    llvm::outs() << licenses;
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    llvm::outs() << usage;
    return 0;
  }
  return refuseCommand(("unknown command '" + command + "'; 'heddle --help' lists them").str());
}
