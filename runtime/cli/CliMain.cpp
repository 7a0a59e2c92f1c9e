// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle_runtime_main: opens the model, reads the command line, runs the command, and turns a failure into a line and a code.
#include "runtime/cli/ProgramParts.h"
#include "runtime/include/heddle/heddle.h"
#include "runtime/text/tokenizer/TokenDecoder.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace heddle {
namespace {

// Any thread may run the handler, two of them at once.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler takes no lock");

void onInterrupt(int) {
  int savedErrno = errno;
  // If nobody has taken notice of the last Ctrl-C, the next one ends the process wherever it is.
  if (interrupted.exchange(true))
    signal(SIGINT, SIG_DFL);
  errno = savedErrno;
}

// Of what the options of a model have made sure that it can do.
Status notLinked() {
  return Status::failure("this program was linked without the command");
}

const CommandPart *findPart(const package::Package &metadata, bool (*isWanted)(const CommandPart &, Command),
                            Command command) {
  for (const CommandPart *part : heddle_program_parts.commands)
    if (part && part->isOf(metadata) && isWanted(*part, command))
      return part;
  return nullptr;
}

const CommandRun *findRun(const CommandPart &part, Command command) {
  const CommandRun *end = part.commands + part.numCommands;
  const CommandRun *found =
      std::find_if(part.commands, end, [&](const CommandRun &run) { return run.command == command; });
  return found == end ? nullptr : found;
}

Status dispatch(OpenedModel &program) {
  const Package &package = *program.package;
  Command command = program.options.command;
  switch (command) {
  case Command::Replay:
    return runReplay(program);
  case Command::Info:
    return runInfo(program);
  case Command::Check:
    HEDDLE_RETURN_IF_ERROR(program.package->check());
    return writeOut(std::string("weights: all hashes match\n") +
                    (program.package->onDisk().hasCodeHash()
                         ? "code: the hash matches\n"
                         : "code: it has no hash, which only Heddle's own links have\n"));
  case Command::Licenses:
    return runLicenses(program);
  case Command::Version:
    return writeOut(std::string("heddle runtime ") + heddle_version_string() + "\n");
  case Command::Help: {
    const CommandPart *part =
        findPart(package.metadata(), [](const CommandPart &part, Command) { return part.help != nullptr; }, command);
    return part ? writeOut(part->help(program.name, package)) : notLinked();
  }
  default:
    break;
  }
  const CommandPart *part = findPart(
      package.metadata(), [](const CommandPart &part, Command wanted) { return findRun(part, wanted) != nullptr; },
      command);
  return part ? findRun(*part, command)->run(program) : notLinked();
}

// What has to be known before the file is opened, and so before it is known which options it has.
void readOpenOptions(int argc, char **argv, OpenOptions &open) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; ++i)
    if (strcmp(argv[i], "--no-mmap") == 0)
      open.memory = FileMemory::Copied;
    else if (strncmp(argv[i], "--cpu=", 6) == 0)
      open.cpu = argv[i] + 6;
    else if (strcmp(argv[i], "--cpu") == 0 && i + 1 < argc)
      open.cpu = argv[i + 1];
}

Status runProgram(const heddle_model *model, int argc, char **argv, OpenedModel &program) {
  OpenOptions open;
  open.log = {[](void *user, Log::Level level, const char *message) {
                if (level == Log::Warning)
                  static_cast<OpenedModel *>(user)->note(message);
              },
              &program};
  readOpenOptions(argc, argv, open);
  HEDDLE_RETURN_IF_ERROR(Package::open(model, open, program.package));
  HEDDLE_RETURN_IF_ERROR(parseCommandLine(argc, argv, *program.package, program.options));
  const package::Tokenizer *table = program.metadata().tokenizer();
  if (table && table->model() != package::TokenizerModel::None) {
    std::string error;
    program.tokenizer = Tokenizer::create(*table, error);
    if (!program.tokenizer)
      return Status::failure(program.package->path() + ": " + error);
  }
  if (!program.options.hasSeed) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    program.options.sampler.seed = uint64_t(now.tv_sec) * 1000000007 + now.tv_nsec + uint64_t(getpid()) * 7919;
  }
  // Whoever computes first takes the device that is open; --info opens none.
  Device *device = nullptr;
  if (!program.options.device.empty() && program.options.command != Command::Info)
    HEDDLE_RETURN_IF_ERROR(program.package->openDevice(program.options.device, device));
  return dispatch(program);
}

} // namespace

bool wasInterrupted() {
  return interrupted;
}
void clearInterrupt() {
  interrupted = false;
}

Progress promptProgress() {
  Progress progress;
  progress.report = [](void *user, int64_t done, int64_t total) {
    static bool shown = false;
    if (total == 1) // a generated token: who takes it looks for Ctrl-C
      return true;
    if ((shown || done < total) && isatty(STDERR_FILENO)) {
      shown = done < total;
      fprintf(stderr, shown ? "\rreading the prompt: %3d %%" : "\r\033[K", int(done * 100 / total));
      fflush(stderr);
    }
    return !wasInterrupted();
  };
  return progress;
}

Status writeOut(const std::string &text) {
  if (fwrite(text.data(), 1, text.size(), stdout) == text.size() && fflush(stdout) == 0)
    return Status();
  return Status::failure(std::string("standard output: ") + strerror(errno));
}

void OpenedModel::report(const Status &status) {
  std::string line = status.message().substr(0, wholeCharacters(status.message(), 4000));
  for (char &c : line)
    if (c == '\n' || c == '\r')
      c = ' ';
  fprintf(stderr, "%s: error: %s\n", name.c_str(), line.c_str());
  exitCode = exitCode ? exitCode : status.exitCode();
}

void OpenedModel::note(const std::string &text) const {
  fprintf(stderr, "%s: note: %s\n", name.c_str(), text.c_str());
}

void OpenedModel::noteEnd(EndReason reason) const {
  if (reason == EndReason::Context)
    note(format("the answer ends because the context of %u tokens is full", metadata().context()));
  if (reason == EndReason::MaxTokens && !options.hasMaxTokens)
    note("the answer ends because it is as long as the model's files let it be; -n says another length");
}

SessionOptions OpenedModel::sessionOptions(int32_t maxSequences) const {
  SessionOptions session;
  session.threads = options.threads;
  session.maxSequences = maxSequences;
  session.device = options.device;
  session.adapter = options.adapter;
  session.fixedForms = options.deterministic;
  return session;
}

std::vector<int32_t> OpenedModel::endTokens() const {
  if (options.ignoreEos)
    return {};
  if (options.eos)
    return {*options.eos};
  return endTokensOf(metadata());
}

int64_t OpenedModel::maxLength() const {
  const package::Generation *generation = metadata().generation();
  return options.hasMaxTokens || !generation || generation->max_new_tokens() ? 0 : generation->max_length();
}

int64_t OpenedModel::longestAnswer(int64_t promptTokens) const {
  if (int64_t length = maxLength())
    return std::max<int64_t>(1, length - promptTokens);
  const package::Generation *generation = metadata().generation();
  return options.hasMaxTokens || !generation ? options.maxTokens : generation->max_new_tokens();
}

int64_t OpenedModel::newTokens(const Session &session, int64_t promptTokens) const {
  int64_t room = session.context() - promptTokens + 1; // the last token is not fed back
  int64_t longest = longestAnswer(promptTokens);
  return longest ? std::min(longest, room) : room;
}

GenerateOptions OpenedModel::generateOptions(int64_t promptTokens) const {
  GenerateOptions generate;
  generate.sampler = options.sampler;
  generate.maxTokens = longestAnswer(promptTokens);
  generate.eos = endTokens();
  generate.rules = AnswerRules::of(metadata(), generate.eos);
  return generate;
}

BeamOptions OpenedModel::beamOptions(int64_t maxTokens) const {
  BeamOptions beam;
  beam.beams = options.beams;
  beam.returned = options.returned;
  beam.lengthPenalty = options.lengthPenalty;
  beam.earlyStopping = options.earlyStopping;
  beam.repetitionPenalty = options.sampler.repetitionPenalty;
  beam.eos = endTokens();
  beam.rules = AnswerRules::of(metadata(), beam.eos);
  beam.maxTokens = maxTokens;
  return beam;
}

Status OpenedModel::encode(const std::string &text, std::vector<int32_t> &ids, bool addSpecial) const {
  if (!tokenizer)
    return invalidInput("this model was compiled without a tokenizer: it takes --prompt-ids and --io");
  std::string error;
  EncodeOptions encoding;
  encoding.addSpecial = addSpecial;
  return tokenizer->encode(text, encoding, ids, error) ? Status() : invalidInput("the prompt: " + error);
}

std::string OpenedModel::tokenText(int32_t id) const {
  std::string text;
  if (tokenizer) {
    TokenDecoder decoder(*tokenizer, /*skipSpecial=*/false);
    decoder.append(id, text);
    decoder.finish(text);
  }
  return text;
}

} // namespace heddle

int heddle_runtime_main(const heddle_model *model, int argc, char **argv) {
  using namespace heddle;
  OpenedModel program;
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : nullptr;
  program.name = argc > 0 ? (slash ? slash + 1 : argv[0]) : model->name;
  struct sigaction action = {};
  action.sa_handler = onInterrupt; // without SA_RESTART: reading a line ends
  sigaction(SIGINT, &action, nullptr);
  Status status = runProgram(model, argc, argv, program);
  if (wasInterrupted()) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  if (!status.isOk())
    program.report(status);
  return program.exitCode;
}
