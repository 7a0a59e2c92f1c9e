// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line of a compiled model. Options.cpp has the table of options; each command has its file.
#ifndef HEDDLE_RUNTIME_CLI_CLI_H
#define HEDDLE_RUNTIME_CLI_CLI_H

#include "runtime/model/ModelKind.h"
#include "runtime/session/BeamSearch.h"
#include "runtime/session/Generator.h"
#include "runtime/session/Package.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdio>
#include <optional>

namespace heddle {

enum class Command {
  Generate,
  Chat,
  Io,
  Replay,
  Bench,
  Perplexity,
  Transcribe,
  Embed,
  Classify,
  Similarity,
  Rerank,
  ClassifyTokens,
  FillMask,
  AnswerQuestion,
  AttentionMap,
  Info,
  Check,
  Licenses,
  Version,
  Help
};

// How labels of tokens become labels of words and spans.
enum class Aggregation { None, Simple, First, Average, Max };

struct CliOptions {
  Command command = Command::Generate;
  std::optional<std::string> prompt;
  std::vector<std::string>
      texts; // of a model that encodes, instead of a prompt; of one that sees images alone, their files
  std::vector<std::string> images; // --image, of a model that reads texts beside them
  std::string npyFile;             // --npy
  bool pairs = false;
  Aggregation aggregation = Aggregation::First;
  std::optional<std::string> question, context;
  int32_t best = 0; // --top-k of a model that encodes; 0: as the command likes
  std::optional<std::vector<int32_t>> promptIds;
  std::string system;
  int64_t maxTokens = 0; // -n; 0: up to the context
  bool hasMaxTokens = false, printIds = false, ignoreEos = false, deterministic = false, json = false, profile = false,
       plainLines = false, timestamps = false;
  EarlyStopping earlyStopping = EarlyStopping::No;
  std::string audioFile, language, task; // --audio; empty: the model's
  SamplerOptions sampler;
  bool hasSeed = false;
  std::vector<std::string> stops;
  std::optional<int32_t> eos;
  std::string adapterName; // --adapter; empty: none
  int32_t adapter = 0;     // its number, 0: none
  int32_t beams = 1, returned = 1, logprobs = 0, threads = 0;
  float lengthPenalty = 1;
  std::string ioInput, ioOutput, perplexityFile, device, report, attentionFile;
  std::vector<std::string> outputs;                  // --outputs
  std::string entry;                                 // --entry: which graph; empty: the first
  std::string benchInput;                            // --input
  std::vector<std::pair<std::string, int64_t>> dims; // --dims
  int64_t benchPrompt = 512, benchGenerate = 64, benchDepth = 0, benchRounds = 5, benchBatch = 1;
};

// A model with its command line, opened.
struct OpenedModel {
  std::string name; // as the user called it
  std::unique_ptr<Package> package;
  std::unique_ptr<Tokenizer> tokenizer; // null: the model has none
  CliOptions options;
  int exitCode = 0; // of the first error

  // Says on stderr what has failed, in one line.
  void report(const Status &status);
  void note(const std::string &text) const; // on stderr
  // Says where an answer ends that nobody wanted to end.
  void noteEnd(EndReason reason) const;
  const package::Package &metadata() const { return package->metadata(); }
  SessionOptions sessionOptions(int32_t maxSequences = 1) const;
  std::vector<int32_t> endTokens() const;
  // The most tokens of a prompt and its answer together, where the model's files say so and -n does not count; 0: none.
  int64_t maxLength() const;
  // The longest answer behind so many tokens: -n, else what the model's files say; 0: as the context has room.
  int64_t longestAnswer(int64_t promptTokens) const;
  int64_t newTokens(const Session &session, int64_t promptTokens) const; // that, as far as there is room
  GenerateOptions generateOptions(int64_t promptTokens) const;
  BeamOptions beamOptions(int64_t maxTokens) const;
  Status encode(const std::string &text, std::vector<int32_t> &ids, bool addSpecial = true) const;
  std::string tokenText(int32_t id) const;
};

Status parseCommandLine(int argc, char **argv, const Package &package, CliOptions &options);
// The text of --help, by the kind of model.
std::string generatingHelp(const std::string &name, const Package &package);
std::string soundHelp(const std::string &name, const Package &package);
std::string encoderHelp(const std::string &name, const Package &package);
std::string graphHelp(const std::string &name, const Package &package);

// Set by Ctrl-C; commands end at the next token or chunk.
bool wasInterrupted();
void clearInterrupt();
Progress promptProgress(); // shows the progress of long prompts on a terminal

inline bool hears(const Package &package) {
  return hears(package.metadata());
}
inline bool seesFiles(const Package &package) {
  return seesFiles(package.metadata());
}
// Numbers in [-1, 1) that look random and are the same every time.
void fillWithNoise(std::vector<float> &numbers);

// What is left of `file`, called `name`, if it is not too much for a text.
Status readAll(FILE *file, const std::string &name, std::string &text);

// The ids of the prompt: --prompt-ids, the argument, or standard input. `images`: those beside it; null: there are none.
class PromptImages;
Status readPrompt(const OpenedModel &program, std::vector<int32_t> &ids, const PromptImages *images = nullptr);

// Writes all of `text` to stdout at once; fails where the disk is full or the reader has gone.
Status writeOut(const std::string &text);

Status runGenerate(OpenedModel &program);
Status runChat(OpenedModel &program);
Status runIo(OpenedModel &program);
Status runEncodeBench(OpenedModel &program);
Status runBench(OpenedModel &program);
Status runReplay(OpenedModel &program);
Status runFunctionIo(OpenedModel &program);
Status runGraphBench(OpenedModel &program);
Status runPerplexity(OpenedModel &program);
Status runTranscribe(OpenedModel &program);
Status runEmbed(OpenedModel &program);
Status runClassify(OpenedModel &program);
Status runClassifyImages(OpenedModel &program);
Status runEmbedTensors(OpenedModel &program); // of images, and of graphs that read texts
Status runSimilarity(OpenedModel &program);
Status runClassifyTokens(OpenedModel &program);
Status runRerank(OpenedModel &program);
Status runFillMask(OpenedModel &program);
Status runAnswer(OpenedModel &program);
Status runAttentionMap(OpenedModel &program);
Status runInfo(const OpenedModel &program);
Status runLicenses(const OpenedModel &program);

} // namespace heddle

#endif
