// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/Cli.h"

#include "bytes/Utf8.h"
#include "runtime/session/Graph.h"
#include "runtime/session/TokenBatch.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace heddle {
namespace {

Status integer(const char *option, std::string_view text, int64_t least, int64_t most, int64_t &value) {
  uint64_t magnitude = 0;
  bool isNegative = !text.empty() && text[0] == '-', ok = text.size() > size_t(isNegative);
  for (char c : text.substr(isNegative))
    ok = ok && c >= '0' && c <= '9' && !__builtin_mul_overflow(magnitude, 10u, &magnitude) &&
         !__builtin_add_overflow(magnitude, uint64_t(c - '0'), &magnitude) && magnitude <= INT64_MAX;
  value = isNegative ? -int64_t(magnitude) : int64_t(magnitude);
  if (ok && value >= least && value <= most)
    return Status();
  std::string shown(text.substr(0, 80));
  return invalidInput(
      format("%s: '%s' is not an integer in [%lld, %lld]", option, shown.c_str(), (long long)least, (long long)most));
}

template <typename T> Status integerInto(const char *option, const char *text, int64_t least, int64_t most, T &out) {
  int64_t value = 0;
  HEDDLE_RETURN_IF_ERROR(integer(option, text, least, most, value));
  out = T(value);
  return Status();
}

Status numberInto(const char *option, const char *text, const NumberRange &range, float &out) {
  char *end = nullptr;
  double value = strtod(text, &end);
  if (end == text || *end || !range.contains(value))
    return invalidInput(format("%s: '%.80s' is not a number in [%g, %g]", option, text, range.least, range.most));
  out = float(value);
  return Status();
}

// "1,2,3", with spaces allowed after commas; an empty list for "".
Status idList(const char *option, std::string_view text, std::vector<int32_t> &ids) {
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ')
      item.remove_prefix(1);
    int64_t id = 0;
    HEDDLE_RETURN_IF_ERROR(integer(option, item, 0, INT32_MAX, id));
    ids.push_back(int32_t(id));
    if (comma + 1 == text.size())
      return invalidInput(std::string(option) + ": the list ends with a comma");
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return Status();
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin)
      items.emplace_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return items;
}

// "batch=2,sequence=16"
Status dimensionList(const char *option, std::string_view text, std::vector<std::pair<std::string, int64_t>> &dims) {
  for (const std::string &item : split(text)) {
    size_t equals = item.find('=');
    if (equals == item.npos || equals == 0)
      return invalidInput(std::string(option) + ": '" + item + "' is not NAME=SIZE");
    int64_t size = 0;
    HEDDLE_RETURN_IF_ERROR(integer(option, std::string_view(item).substr(equals + 1), 0, INT32_MAX, size));
    dims.emplace_back(item.substr(0, equals), size);
  }
  return Status();
}

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
  NeedsEmbedding,
  NeedsLabels,
  NeedsTokenLabels,
  NeedsGraph,
  NeedsDevice,
  NeedsVariants
};

const char *const missing[] = {"",
                               "this model runs a graph and generates nothing",
                               "this model hears sound of one length and reads no prompt",
                               "this model answers a text and continues none",
                               "this model hears no sound",
                               "this model's files name no tokens for it",
                               "this model's files name no token that asks for no times",
                               "this model runs a graph and has no steps",
                               "of this model the speed is measured by --prompt, --generate and --depth",
                               "this model was compiled without a tokenizer",
                               "this model was compiled without a chat template",
                               "this model encodes no texts",
                               "this model does not classify texts",
                               "this model does not classify tokens",
                               "this model is no graph",
                               "this model was compiled for the CPU",
                               "this model was compiled for one target"};

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
  Labels = 2048, // --classify, --classify-tokens
  Speech = 4096, // --audio
  SpeechOfBeams = 8192,
  Prompted = Answer | Lines | Beams | Talk,
  Sampled = Answer | Lines | Talk | Tensors | Speech,
  Searched = Beams | TensorsOfBeams | SpeechOfBeams,
  Spoken = Speech | SpeechOfBeams,
  Generated = Sampled | Searched,
  Anything = 16383
};

struct Option {
  const char *name;      // with its dashes
  const char *arguments; // "N", "IN OUT", or null
  const char *help;      // null: for other programs, --help is silent about it
  Needs needs;
  unsigned uses;                                     // where it has an effect
  Status (*set)(CliOptions &options, char **values); // values after the option
};

// What an option does: SET assigns, TAKE may refuse.
#define TAKE(...)                                                                                                      \
  [](CliOptions &o, char **v) -> Status {                                                                              \
    (void)v;                                                                                                           \
    return __VA_ARGS__;                                                                                                \
  }
#define SET(...) TAKE(__VA_ARGS__, Status())

const Option optionTable[] = {
    {"-n", "N", "new tokens (default: until the answer ends or the context is full)", NeedsSteps, Generated,
     TAKE(o.hasMaxTokens = true, integerInto("-n", v[0], 1, INT32_MAX, o.maxTokens))},
    {"--temp", "T", "temperature; 0 takes the most probable token", NeedsSteps, Generated,
     TAKE(numberInto("--temp", v[0], temperatureRange, o.sampler.temperature))},
    {"--top-k", "K", "sample from the K most probable tokens; 0: all", NeedsSteps, Sampled,
     TAKE(integerInto("--top-k", v[0], 0, INT32_MAX, o.sampler.topK))},
    {"--top-p", "P", "sample from the tokens that hold probability P", NeedsSteps, Sampled,
     TAKE(numberInto("--top-p", v[0], probabilityRange, o.sampler.topP))},
    {"--min-p", "P", "drop tokens below P times the best one's probability", NeedsSteps, Sampled,
     TAKE(numberInto("--min-p", v[0], probabilityRange, o.sampler.minP))},
    {"--repeat-penalty", "R", "divide the logits of tokens seen before by R; 1: off", NeedsSteps, Generated,
     TAKE(numberInto("--repeat-penalty", v[0], penaltyRange, o.sampler.repetitionPenalty))},
    {"--seed", "N", "the same seed gives the same answer", NeedsSteps, Sampled,
     TAKE(o.hasSeed = true, integerInto("--seed", v[0], 0, INT64_MAX, o.sampler.seed))},
    {"--stop", "TEXT", "end the answer before TEXT; may be repeated", NeedsTokenizer, Answer | Beams | Talk,
     TAKE(!*v[0]         ? invalidInput("--stop: an empty text")
          : isUtf8(v[0]) ? (o.stops.push_back(v[0]), Status())
                         : invalidInput("--stop: the text is not UTF-8"))},
    {"--chat", nullptr, "talk: one message per line, with the model's chat template", NeedsTemplate, Anything,
     SET(o.command = Command::Chat)},
    {"--system", "TEXT", "system message of --chat", NeedsTemplate, Talk,
     TAKE(o.system = v[0], isUtf8(v[0]) ? Status() : invalidInput("--system: the text is not UTF-8"))},
    {"--plain-lines", nullptr, "with --chat on a terminal: no line editor and no history", NeedsTemplate, Talk,
     SET(o.plainLines = true)},
    {"--beam", "N", "beam search with N beams", NeedsSteps, Generated & ~Talk,
     TAKE(integerInto("--beam", v[0], 1, 256, o.beams))},
    {"--num-return-sequences", "N", "answers of a beam search, best first", NeedsSteps, Beams | TensorsOfBeams,
     TAKE(integerInto("--num-return-sequences", v[0], 1, 256, o.returned))},
    {"--length-penalty", "X", "beam scores are divided by length^X", NeedsSteps, Searched,
     TAKE(numberInto("--length-penalty", v[0], {-100, 100}, o.lengthPenalty))},
    {"--early-stopping", nullptr, "end a beam search when N answers are complete", NeedsSteps, Searched,
     SET(o.earlyStopping = true)},
    {"--logprobs", "N", "print each token as a JSON line with the N most probable ones", NeedsSteps, Lines,
     TAKE(integerInto("--logprobs", v[0], 1, 1000, o.logprobs))},
    {"--prompt-ids", "IDS", "a prompt as token ids: 1,2,3", NeedsIds, Prompted & ~Talk,
     TAKE(o.promptIds.emplace(), idList("--prompt-ids", v[0], *o.promptIds))},
    {"--print-ids", nullptr, "print the new token ids, separated by commas", NeedsSteps, Answer | Beams | Spoken,
     SET(o.printIds = true)},
    {"--ignore-eos", nullptr, "go on after end tokens", NeedsSteps, Generated, SET(o.ignoreEos = true)},
    {"--eos", "ID", "the token that ends an answer, instead of the model's", NeedsSteps, Generated,
     TAKE(o.eos = 0, integerInto("--eos", v[0], 0, INT32_MAX, *o.eos))},
    {"--io", "IN OUT", "named tensors in, named tensors out (safetensors); the list is below", Nothing, Anything,
     SET(o.command = Command::Io, o.ioInput = v[0], o.ioOutput = v[1])},
    {"--replay", "IN OUT", nullptr, NeedsRows, Anything,
     SET(o.command = Command::Replay, o.ioInput = v[0], o.ioOutput = v[1])},
    {"--outputs", "A,B", "which tensors --io writes", Nothing, Tensors | TensorsOfBeams, SET(o.outputs = split(v[0]))},
    {"--perplexity", "FILE", "perplexity of a text", NeedsPrompts, Anything,
     SET(o.command = Command::Perplexity, o.perplexityFile = v[0])},
    {"--audio", "FILE", "write what is said in a WAV file", NeedsSound, Anything,
     TAKE(o.command = Command::Transcribe, o.audioFile = v[0],
          *v[0] ? Status() : invalidInput("--audio: a file is expected"))},
    {"--language", "NAME", "the language of the sound, as en (default: the model's, else the one that is heard)",
     NeedsLanguages, Spoken, SET(o.language = v[0])},
    {"--task", "NAME", "transcribe, or translate into English (default: the model's)", NeedsLanguages, Spoken,
     SET(o.task = v[0])},
    {"--timestamps", nullptr, "a line for each thing said, with its times", NeedsTimes, Spoken,
     SET(o.timestamps = true)},
    {"--embed", nullptr,
     "embeddings of the texts that are given, or of the lines of standard input: a JSON array on a line for each",
     NeedsEmbedding, Anything, SET(o.command = Command::Embed)},
    {"--npy", "FILE", "with --embed: write them as an array (texts, width) of NumPy", NeedsEmbedding, Embedding,
     TAKE(*v[0] ? (o.npyFile = v[0], Status()) : invalidInput("--npy: a file is expected"))},
    {"--classify", nullptr,
     "labels of the texts that are given, or of the lines of standard input, best first: a JSON object on a line for "
     "each",
     NeedsLabels, Anything, SET(o.command = Command::Classify)},
    {"--classify-tokens", nullptr, "the label of each token of the texts, in the same form", NeedsTokenLabels, Anything,
     SET(o.command = Command::ClassifyTokens)},
    {"--threads", "N", "worker threads (default: physical cores; at most the CPUs of the affinity mask)", Nothing,
     Anything, TAKE(integerInto("--threads", v[0], 1, 1024, o.threads))},
    {"--device", "D", "which device to run on: its number, or part of its name (default: the first GPU)", NeedsDevice,
     Anything, TAKE(*v[0] ? (o.device = v[0], Status()) : invalidInput("--device: a number or a name is expected"))},
    {"--cpu", "TARGET", "run the code for TARGET, one of those that --info lists (default: the best for this machine)",
     NeedsVariants, Anything, TAKE(*v[0] ? Status() : invalidInput("--cpu: a target is expected"))},
    {"--no-mmap", nullptr,
     "read the model into memory instead of mapping its file, which somebody may truncate meanwhile", Nothing, Anything,
     TAKE(Status())},
    {"--deterministic", nullptr,
     "the same bits for every batch, chunk, cache state and thread count: so without it, but for latent attention",
     NeedsSteps, Anything, SET(o.deterministic = true)},
    {"--bench", nullptr, "measure the speed", Nothing, Anything, SET(o.command = Command::Bench)},
    {"--entry", "NAME",
     "with --io and --bench: which of the model's graphs runs (default: of --io each that has all its inputs, of "
     "--bench the first)",
     NeedsGraph, Tensors | Speed, SET(o.entry = v[0])},
    {"--input", "FILE", "with --bench: inputs from a safetensors file (default: random ones)", NeedsTensors, Speed,
     SET(o.benchInput = v[0])},
    {"--dims", "A=N,B=M",
     "with --bench: sizes of named dimensions of random inputs (a graph's: 1; of a model that encodes: "
     "batch=1,sequence=128)",
     NeedsTensors, Speed, TAKE(dimensionList("--dims", v[0], o.dims))},
    {"--profile", nullptr,
     "with --bench: time, bytes and operations of each kind of kernel, beside the machine's limits", NeedsRows,
     Anything, SET(o.command = Command::Bench, o.profile = true)},
    {"--prompt", "N", "with --bench: tokens of the prompt (512)", NeedsIds, Speed,
     TAKE(integerInto("--prompt", v[0], 1, INT32_MAX, o.benchPrompt))},
    {"--generate", "N", "with --bench: tokens to generate (64)", NeedsSteps, Speed,
     TAKE(integerInto("--generate", v[0], 1, INT32_MAX, o.benchGenerate))},
    {"--depth", "N", "with --bench: tokens in the cache before generating (0)", NeedsSteps, Speed,
     TAKE(integerInto("--depth", v[0], 0, INT32_MAX, o.benchDepth))},
    {"--batch", "N", "with --bench: sequences that generate together, a token of each per step (1)", NeedsSteps, Speed,
     TAKE(integerInto("--batch", v[0], 1, 1024, o.benchBatch))},
    {"--rounds", "N", "with --bench: rounds, of which the best counts (5)", Nothing, Speed,
     TAKE(integerInto("--rounds", v[0], 1, 100000, o.benchRounds))},
    {"--report", "FILE", "with --bench: fill the measured times into what 'heddle compile --report=FILE' wrote",
     NeedsSteps, Speed, SET(o.report = v[0], o.profile = true)},
    {"--json", nullptr, "with --bench and --profile: one JSON object", Nothing, Speed, SET(o.json = true)},
    {"--info", nullptr, "what this model was compiled from and for", Nothing, Anything, SET(o.command = Command::Info)},
    {"--check", nullptr, "hash all weights and the code", Nothing, Anything, SET(o.command = Command::Check)},
    {"--licenses", nullptr, "licences of the model and of the code in this file", Nothing, Anything,
     SET(o.command = Command::Licenses)},
    {"--version", nullptr, "version of the runtime", Nothing, Anything, SET(o.command = Command::Version)},
    {"--help", nullptr, "this text", Nothing, Anything, SET(o.command = Command::Help)},
};

bool isGraph(const Package &package) {
  return package.metadata().task() == package::Task::Graph;
}

bool isEncoder(const Package &package) {
  return package.metadata().task() == package::Task::Encode;
}

bool isEncoderDecoder(const Package &package) {
  return package.metadata().task() == package::Task::Seq2Seq;
}

} // namespace

bool hears(const Package &package) {
  return isEncoderDecoder(package) && package.metadata().encoder()->audio();
}

namespace {

bool generates(const Package &package) {
  return package.metadata().task() == package::Task::Generate || isEncoderDecoder(package);
}

bool isAvailable(const Option &option, const Package &package) {
  const package::Tokenizer *tokenizer = package.metadata().tokenizer();
  bool readsText = tokenizer && tokenizer->model() != package::TokenizerModel::None;
  bool hasTokenizer = generates(package) && readsText;
  const package::Encoder *encoder = isEncoder(package) && readsText ? package.metadata().encoder() : nullptr;
  switch (option.needs) {
  case Nothing:
    return true;
  case NeedsSteps:
    return generates(package);
  case NeedsIds:
    return generates(package) && !hears(package);
  case NeedsSound:
    return hears(package);
  case NeedsLanguages: {
    const package::Speech *speech = hears(package) ? package.metadata().encoder()->speech() : nullptr;
    return speech && speech->languages() && speech->languages()->size();
  }
  case NeedsTimes:
    return hears(package) && package.metadata().encoder()->speech()->no_timestamps() >= 0;
  case NeedsPrompts:
    return hasTokenizer && !isEncoderDecoder(package);
  case NeedsRows:
    return !isGraph(package);
  case NeedsTensors:
    return !generates(package);
  case NeedsTokenizer:
    return hasTokenizer;
  case NeedsTemplate:
    return hasTokenizer && !isEncoderDecoder(package) && tokenizer->chat_template() &&
           tokenizer->chat_template()->size();
  case NeedsEmbedding:
    return encoder && encoder->embedding();
  case NeedsLabels:
    return encoder && encoder->task() == package::EncoderTask::Classify;
  case NeedsTokenLabels:
    return encoder && encoder->task() == package::EncoderTask::ClassifyTokens;
  case NeedsGraph:
    return isGraph(package);
  case NeedsDevice:
    return package.metadata().target() && isDeviceTarget(package.metadata().target()->string_view());
  case NeedsVariants:
    return package.onDisk().numVariants() > 1;
  }
  return false;
}

// Why an option is none of this model.
const char *whyMissing(const Option &option, const Package &package) {
  bool isOfTexts = option.needs >= NeedsEmbedding && option.needs <= NeedsTokenLabels;
  const package::Tokenizer *tokenizer = package.metadata().tokenizer();
  if (isOfTexts && isEncoder(package) && (!tokenizer || tokenizer->model() == package::TokenizerModel::None))
    return missing[NeedsTokenizer];
  if (option.needs >= NeedsSound && option.needs <= NeedsTimes)
    return missing[hears(package) ? option.needs : NeedsSound];
  if (option.needs == NeedsPrompts && generates(package) && !isEncoderDecoder(package))
    return missing[NeedsTokenizer];
  if (option.needs == NeedsDevice || option.needs == NeedsVariants || isOfTexts || generates(package))
    return missing[option.needs];
  if (isGraph(package))
    return missing[option.needs == NeedsRows ? NeedsRows : NeedsSteps];
  return "this model encodes and generates nothing";
}

Use useOf(const CliOptions &options) {
  switch (options.command) {
  case Command::Generate:
    return options.beams > 1 ? Beams : options.logprobs ? Lines : Answer;
  case Command::Chat:
    return Talk;
  case Command::Io:
    return options.beams > 1 ? TensorsOfBeams : Tensors;
  case Command::Replay:
    return Steps;
  case Command::Bench:
    return Speed;
  case Command::Perplexity:
    return Perplexity;
  case Command::Transcribe:
    return options.beams > 1 ? SpeechOfBeams : Speech;
  case Command::Embed:
    return Embedding;
  case Command::Classify:
  case Command::ClassifyTokens:
    return Labels;
  case Command::Info:
  case Command::Check:
  case Command::Licenses:
  case Command::Version:
  case Command::Help:
    break;
  }
  return Words;
}

// What an option of few uses belongs to; null where it has many.
const char *ownerOf(unsigned uses) {
  if (uses == Talk)
    return "--chat";
  if (!(uses & ~Searched))
    return "--beam with more than one beam";
  if (uses == (Tensors | TensorsOfBeams))
    return "--io";
  if (uses == Embedding)
    return "--embed";
  if (uses == Spoken)
    return "--audio";
  return uses == Speed ? "--bench" : uses == (Tensors | Speed) ? "--io and --bench" : nullptr;
}

// `command` is the option that chose what is done; empty: none did.
Status checkUses(const CliOptions &options, const std::vector<const Option *> &given, std::string_view command) {
  Use use = useOf(options);
  std::string doing(use & (Beams | TensorsOfBeams) ? "--beam" : use == Lines ? "--logprobs" : command);
  for (const Option *option : given) {
    if (option->uses & use)
      continue;
    bool isOfOtherSearches = use == SpeechOfBeams && !(option->uses & ~Searched);
    const char *owner = isOfOtherSearches ? nullptr : ownerOf(option->uses);
    return invalidInput(owner ? std::string(option->name) + " belongs to " + owner
                              : doing + " takes no " + option->name);
  }
  return options.prompt && !(use & (Prompted | Embedding | Labels))
             ? invalidInput("'" + *options.prompt + "': " + doing + " takes no prompt")
             : Status();
}

Status checkCombination(const CliOptions &options, const Package &package, const std::vector<const Option *> &given,
                        std::string_view command) {
  int64_t vocabSize = package.metadata().vocab_size();
  bool takesTexts = useOf(options) & (Embedding | Labels);
  if (options.prompt && !generates(package) && !takesTexts)
    return invalidInput("'" + *options.prompt + "': this model " + (isGraph(package) ? "runs a graph" : "encodes") +
                        " and takes no prompt (--io IN OUT runs it)");
  if (options.prompt && hears(package))
    return invalidInput("'" + *options.prompt + "': " + missing[NeedsIds] + " (--audio FILE)");
  HEDDLE_RETURN_IF_ERROR(checkUses(options, given, command));
  if (options.command == Command::Generate && (!generates(package) || hears(package)))
    return invalidInput(std::string("nothing to do: ") +
                        (isGraph(package) ? "--io IN OUT runs the graph"
                         : hears(package) ? "--audio FILE writes what is said"
                                          : "--io IN OUT encodes") +
                        " (--help lists what else this model can do)");
  if (!options.benchInput.empty() && !options.dims.empty())
    return invalidInput("--input and --dims: one of them is expected");
  if (options.prompt && options.promptIds)
    return invalidInput("a prompt as text and as --prompt-ids: one of them is expected");
  if (options.returned > options.beams)
    return invalidInput(
        format("--num-return-sequences (%d) is more than --beam (%d)", options.returned, options.beams));
  if (options.beams > 1 && options.sampler.temperature > 0)
    return invalidInput("--beam takes no --temp above 0");
  if (options.eos && *options.eos >= vocabSize)
    return invalidInput(format("--eos: token id %d is not in [0, %lld)", *options.eos, (long long)vocabSize));
  if (options.sampler.topP <= 0 && generates(package))
    return invalidInput("--top-p: 0 leaves no token, expected a number above it");
  return Status();
}

} // namespace

Status parseCommandLine(int argc, char **argv, const Package &package, CliOptions &options) {
  if (const package::Generation *generation = package.metadata().generation()) {
    options.sampler.temperature = generation->temperature();
    options.sampler.topK = generation->top_k();
    options.sampler.topP = generation->top_p();
    options.sampler.minP = generation->min_p();
    options.sampler.repetitionPenalty = generation->repetition_penalty();
    options.lengthPenalty = generation->length_penalty();
    options.earlyStopping = generation->early_stopping();
  }
  if (hears(package))
    options.timestamps = package.metadata().encoder()->speech()->timestamps();
  bool onlyPrompt = false, hasTemperature = false, hasBeams = false;
  std::vector<const Option *> given;
  std::string_view command; // the option that chose what is done
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--" && !onlyPrompt) {
      onlyPrompt = true;
      continue;
    }
    if (onlyPrompt || argument.size() < 2 || argument[0] != '-') {
      if (isEncoder(package)) {
        options.prompt = argument;
        options.texts.emplace_back(argument);
        continue;
      }
      if (options.prompt)
        return invalidInput("two prompts: '" + *options.prompt + "' and '" + std::string(argument) +
                            "' (quote a prompt with spaces)");
      options.prompt = argument;
      continue;
    }
    size_t equals = argument.substr(0, 2) == "--" ? argument.find('=') : argument.npos;
    std::string_view name = argument.substr(0, equals);
    if (name == "-h")
      name = "--help";
    const Option *option = nullptr;
    for (const Option &candidate : optionTable)
      if (name == candidate.name)
        option = &candidate;
    if (!option)
      return invalidInput("unknown option '" + std::string(name) + "' (--help lists what this model can do)");
    if (!isAvailable(*option, package))
      return invalidInput(std::string(name) + ": " + whyMissing(*option, package));
    int arguments = !option->arguments ? 0 : strchr(option->arguments, ' ') ? 2 : 1;
    char *inlineValue = equals == argument.npos ? nullptr : argv[i] + equals + 1;
    if (inlineValue ? arguments != 1 : i + arguments >= argc)
      return invalidInput(std::string(name) + ": expected " + (arguments ? option->arguments : "no value"));
    Command chosen = options.command;
    HEDDLE_RETURN_IF_ERROR(option->set(options, inlineValue ? &inlineValue : argv + i + 1));
    given.push_back(option);
    if (chosen == Command::Help)
      options.command = chosen; // whatever else is asked for
    else if (options.command != chosen && options.command != Command::Help && chosen != Command::Generate)
      return invalidInput(std::string(command) + " and " + option->name + ": one of them is expected");
    if (options.command != chosen)
      command = option->name;
    hasTemperature |= name == "--temp";
    hasBeams |= name == "--beam";
    i += inlineValue ? 0 : arguments;
  }
  // Whoever asks for a temperature, or for each token as it is picked, asks for no search.
  const package::Generation *generation = package.metadata().generation();
  bool mayWrite = options.command == Command::Transcribe || (options.command == Command::Generate && !options.logprobs);
  if (generation && generates(package) && mayWrite && !hasBeams && !hasTemperature)
    options.beams = generation->num_beams();
  if (options.beams > 1 && !hasTemperature)
    options.sampler.temperature = 0; // the model's default is for sampling
  return options.command == Command::Help ? Status() : checkCombination(options, package, given, command);
}

namespace {

std::string optionLines(const Package &package) {
  std::string text = "\nOptions:\n";
  for (const Option &option : optionTable)
    if (option.help && isAvailable(option, package)) {
      std::string left =
          std::string("  ") + option.name + (option.arguments ? std::string(" ") + option.arguments : "");
      left.resize(std::max<size_t>(left.size() + 1, 30), ' ');
      text += left + option.help + "\n";
    }
  return text;
}

void addTensorLines(const std::string &title,
                    const flatbuffers::Vector<flatbuffers::Offset<package::GraphTensor>> &tensors, std::string &text) {
  text += "\n" + title + ":\n";
  for (const package::GraphTensor *tensor : tensors)
    text += "  " + tensor->name()->str() + ": " + dataTypeName(tensor->type()) + " " + declaredShape(*tensor) +
            (tensor->optional() ? ", optional\n" : "\n");
}

const char exitCodes[] = "\nExit codes: 0 done, 1 a failure of the program or the machine, 2 a mistake in the input.\n";

std::string graphHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  std::string text = name + ": " + modelName(metadata) +
                     ", compiled by Heddle. It runs a graph: named tensors in, named tensors out.\n\n  " + name +
                     " --io in.safetensors out.safetensors\n" + optionLines(package);
  for (const package::Graph *graph : *metadata.graphs()) {
    std::string of = metadata.graphs()->size() > 1 ? " of " + graph->name()->str() : "";
    addTensorLines("Inputs" + of, *graph->inputs(), text);
    addTensorLines("Outputs" + of, *graph->outputs(), text);
  }
  return text + exitCodes;
}

// What an encoder that reads texts is mostly called for.
std::string textExamples(const std::string &name, const Package &package) {
  std::string text;
  for (const char *command : {"--embed", "--classify", "--classify-tokens"})
    for (const Option &option : optionTable)
      if (option.name == std::string_view(command) && isAvailable(option, package))
        text += "  " + name + " " + command + " \"A text\" \"Another\"\n";
  return text;
}

std::string encoderHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  std::string inputs;
  for (const char *input : encoderInputs(*metadata.encoder()))
    inputs += (inputs.empty() ? "" : ", ") + std::string(input);
  const package::ImageInput *image = metadata.encoder()->image();
  std::string what = image ? format("images of %u by %u pixels", image->size(), image->size())
                           : format("sequences of up to %u tokens", metadata.context());
  return name + ": " + modelName(metadata) + ", compiled by Heddle. It encodes " + what +
         ": named tensors in, named tensors out.\n\n  " + name + " --io in.safetensors out.safetensors\n" +
         textExamples(name, package) + optionLines(package) + "\nTensors of --io: " + inputs + "; " +
         outputNames(*metadata.encoder(), ", ") + "\n" + exitCodes;
}

std::string soundHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  const package::AudioInput &audio = *metadata.encoder()->audio();
  return name + ": " + modelName(metadata) + ", compiled by Heddle. It writes what is said in sound of " +
         format("%u Hz, window after window of %g seconds, each in up to %u tokens.\n\n  ", audio.sampling_rate(),
                double(audio.window_samples()) / audio.sampling_rate(), metadata.context()) +
         name + " --audio speech.wav\n" + optionLines(package) + "\nWithout options: " + samplingDefaults(metadata) +
         "\n\nTensors of --io: input_features, decoder_input_ids; " +
         "logits, last_hidden_state, encoder_last_hidden_state; with -n ids, generated_logits\n" + exitCodes;
}

} // namespace

std::string helpText(const std::string &name, const Package &package) {
  if (isGraph(package))
    return graphHelp(name, package);
  if (isEncoder(package))
    return encoderHelp(name, package);
  const package::Package &metadata = package.metadata();
  if (hears(package))
    return soundHelp(name, package);
  bool hasTokenizer = metadata.tokenizer() && metadata.tokenizer()->model() != package::TokenizerModel::None;
  std::string text = name + ": " + modelName(metadata) + ", compiled by Heddle. It ";
  if (isEncoderDecoder(package))
    text += "answers a text of up to " + std::to_string(metadata.encoder()->context()) + " tokens with one of up to " +
            std::to_string(metadata.context()) + ".\n\n";
  else
    text += "continues a prompt of up to " + std::to_string(metadata.context()) + " tokens.\n\n";
  if (hasTokenizer && isEncoderDecoder(package))
    text += "  " + name + " \"The house is wonderful.\"\n  " + name + " --beam 4 --num-return-sequences 2 < text.txt\n";
  else if (hasTokenizer)
    text += "  " + name + " \"The capital of France is\"\n  echo \"Once upon a time\" | " + name +
            " -n 100 --temp 0.8 --seed 7\n";
  text += "  " + name + " --prompt-ids 1,2,3 -n 24 --temp 0 --ignore-eos --print-ids\n" + optionLines(package);
  text += "\nWithout options: " + samplingDefaults(metadata) + "\n";
  text += isEncoderDecoder(package)
              ? "\nTensors of --io: input_ids, attention_mask, decoder_input_ids; logits, last_hidden_state, "
                "encoder_last_hidden_state; with -n ids, generated_logits\n"
              : "\nTensors of --io: input_ids, attention_mask, position_ids; logits, last_hidden_state; with -n ids, "
                "generated_logits\n";
  return text + exitCodes;
}

} // namespace heddle
