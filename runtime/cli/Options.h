// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of a program's options, and which of them a model has.
#ifndef HEDDLE_RUNTIME_CLI_OPTIONS_H
#define HEDDLE_RUNTIME_CLI_OPTIONS_H

#include "runtime/cli/Cli.h"
#include "runtime/model/ModelKind.h"

namespace heddle {

// What a model must have for an option to be one of it.
enum Needs {
  Nothing,
  NeedsSteps,
  NeedsIds,
  NeedsPrompts,
  NeedsSound,
  NeedsLanguages,
  NeedsTimes,
  NeedsRows,
  NeedsTensors,
  NeedsTokenizer,
  NeedsTemplate,
  NeedsEmbedding, // the tasks of encoders of texts begin here
  NeedsLabels,
  NeedsPairs,
  NeedsRanking,
  NeedsTokenLabels,
  NeedsMask,
  NeedsAnswers,
  NeedsTextTask, // and end here
  NeedsFiles,    // of images; the tasks over them begin here
  NeedsImageLabels,
  NeedsVectors, // what is embedded are images, or texts of a graph
  NeedsComparison,
  NeedsSight,     // a prompt may have images
  NeedsImageTask, // and end here
  NeedsGraph,
  NeedsDevice,
  NeedsVariants,
  NeedsAdapters,
  NeedsAttention,
  NeedsEncodedIds
};

// What a command line asks for. An option that has no effect there is refused.
enum Use : unsigned {
  Answer = 1,
  Lines = 2, // --logprobs
  Beams = 4,
  Talk = 8,
  Tensors = 16, // --io
  TensorsOfBeams = 32,
  Steps = 64, // --replay
  Speed = 128,
  Perplexity = 256,
  Words = 512, // --info and its like
  Embedding = 1024,
  Labels = 2048, // --classify
  Speech = 4096, // --audio
  SpeechOfBeams = 8192,
  Ranking = 16384,     // --rerank
  TokenLabels = 32768, // --token-classify
  Masks = 65536,       // --fill-mask
  Answers = 131072,    // --answer
  Comparison = 262144, // --similarity
  Attention = 524288,  // --attention-map
  Prompted = Answer | Lines | Beams | Talk,
  Sampled = Answer | Lines | Talk | Tensors | Speech | Attention,
  Searched = Beams | TensorsOfBeams | SpeechOfBeams,
  Spoken = Speech | SpeechOfBeams,
  Generated = Sampled | Searched,
  OfTexts = Labels | Ranking | TokenLabels | Masks, // they take texts as arguments
  Anything = 1048575
};

struct Option {
  const char *name;      // with its dashes
  const char *arguments; // "N", "IN OUT", or null
  const char *help;      // null: for other programs, --help is silent about it
  Needs needs;
  unsigned uses;                                     // where it has an effect
  Status (*set)(CliOptions &options, char **values); // values after the option
};

inline bool isGraph(const Package &package) {
  return isGraph(package.metadata());
}
inline bool isEncoder(const Package &package) {
  return isEncoder(package.metadata());
}
inline bool isEncoderDecoder(const Package &package) {
  return isEncoderDecoder(package.metadata());
}
inline bool generates(const Package &package) {
  return generates(package.metadata());
}
inline bool hasTokenizer(const Package &package) {
  return hasTokenizer(package.metadata());
}
// Whether arguments are texts or files, as many as there are, instead of a prompt.
bool takesArguments(const Package &package);
// What the model is there for: "continues a prompt".
std::string taskOf(const Package &package);

// The option of that name, of several the one that this model has; null where there is none.
const Option *findOption(std::string_view name, const Package &package);
bool isAvailable(const Option &option, const Package &package);
// Why an option is none of this model, and what the model does instead.
std::string whyMissing(const Option &option, const Package &package);
// What no model of the kind has: the sentence that whyMissing() begins with.
const char *whatIsMissing(Needs needs);
// A line for each option that this model has.
std::string optionLines(const Package &package);

} // namespace heddle

#endif
