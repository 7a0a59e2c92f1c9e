// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command `heddle`.

#include "compiler/tools/CompileArguments.h"
#include "frontends/tokenizer/TokenizeTool.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/JSON.h"
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
  heddle tokenize MODEL            text to ids and back, as JSON lines
  heddle COMMAND --help            all options of a command
  heddle --version

Example:
  heddle compile model.gguf -o model
  ./model "The capital of France is"
)";

static void printDiagnostic(StringRef severity, int code, const llvm::Twine &message, bool asJson) {
  if (asJson)
    llvm::errs() << llvm::json::Object{{"severity", severity},
                                       {"exit_code", code},
                                       {"message", llvm::json::fixUTF8(message.str())}}
                 << "\n";
  else
    llvm::errs() << "heddle: " << severity << ": " << message << "\n";
}

int heddle::failCommand(int code, const llvm::Twine &message, bool asJson) {
  printDiagnostic("error", code, message, asJson);
  return code;
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

[[noreturn]] static void onBadAlloc(void *, const char *, bool) {
  die("heddle: error: out of memory\n");
}

// What LLVM cannot go on with: a thread that cannot be started, for one.
[[noreturn]] static void onFatalError(void *, const char *reason, bool) {
  char line[512];
  snprintf(line, sizeof line, "heddle: error: %s\n", reason);
  die(line);
}

static int runCompile(int argc, char **argv) {
  CompileOptions options;
  CompileArguments arguments(options);
  if (!arguments.parse(argc, argv))
    return failCommand(2, arguments.error, arguments.jsonErrors);
  if (arguments.help) {
    llvm::outs() << CompileArguments::usage();
    return 0;
  }
  std::string error;
  CompileNotes notes;
  CompileStatus status = compileModel(options, error, &notes);
  if (status != CompileStatus::Done)
    return failCommand(int(status), error, arguments.jsonErrors);
  if (options.quiet)
    return 0;
  for (const std::string &warning : notes.warnings)
    printDiagnostic("warning", 0, warning, arguments.jsonErrors);
  if (!notes.summary.empty() && arguments.jsonErrors)
    printDiagnostic("note", 0, notes.summary, true);
  else if (!notes.summary.empty())
    llvm::errs() << notes.summary << "\n";
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
  if (command == "verify")
    return runVerifyCommand(argc - 2, argv + 2);
  if (command == "tokenize")
    return runTokenizeCommand(argc - 2, argv + 2, stdin, stdout, stderr);
  if (command == "--version") {
    llvm::outs() << "heddle " HEDDLE_VERSION "\n";
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    llvm::outs() << usage;
    return 0;
  }
  return failCommand(2, "unknown command '" + command + "'; 'heddle --help' lists them");
}
