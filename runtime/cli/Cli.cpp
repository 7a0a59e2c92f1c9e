// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a command line, and refuses what has no effect.
#include "runtime/cli/Options.h"

namespace heddle {
namespace {

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
    return Labels;
  case Command::Similarity:
    return Comparison;
  case Command::Rerank:
    return Ranking;
  case Command::ClassifyTokens:
    return TokenLabels;
  case Command::FillMask:
    return Masks;
  case Command::AnswerQuestion:
    return Answers;
  case Command::AttentionMap:
    return Attention;
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
  if (uses == Labels)
    return "--classify";
  if (uses == Comparison)
    return "--similarity";
  if (uses == (Comparison | Embedding))
    return "--similarity and --embed";
  if (uses == TokenLabels)
    return "--token-classify";
  if (uses == Answers)
    return "--answer";
  if (uses == Masks)
    return "--fill-mask";
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
  return options.prompt && !(use & (Prompted | Embedding | Comparison | OfTexts | Attention))
             ? invalidInput("'" + *options.prompt + "': " + doing + " takes no prompt")
             : Status();
}

Status checkCombination(const CliOptions &options, const Package &package, const std::vector<const Option *> &given,
                        std::string_view command) {
  int64_t vocabSize = package.metadata().vocab_size();
  bool takesTexts = useOf(options) & (Embedding | Comparison | OfTexts | Attention);
  if (options.prompt && !generates(package) && !takesTexts)
    return invalidInput("'" + *options.prompt + "': this model " +
                        (!isEncoder(package) || seesFiles(package) ? taskOf(package) : "encodes") +
                        " and takes no prompt (--io IN OUT runs it)");
  if (options.prompt && hears(package))
    return invalidInput("'" + *options.prompt + "': " + whatIsMissing(NeedsIds) + " (--audio FILE)");
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

// The number of the adapter that the command line names.
Status findAdapter(const Package &package, CliOptions &options) {
  if (options.adapterName.empty() || options.adapterName == "none")
    return Status();
  std::string known;
  const auto &adapters = *package.metadata().adapters();
  for (unsigned i = 0; i < adapters.size(); ++i) {
    if (adapters[i]->string_view() == options.adapterName)
      options.adapter = int32_t(i) + 1;
    known += adapters[i]->str() + ", ";
  }
  return options.adapter ? Status()
                         : invalidInput("--adapter: '" + options.adapterName + "' is none of " + known + "none");
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
    options.earlyStopping = generation->never_stops_early() ? EarlyStopping::Never
                            : generation->early_stopping()  ? EarlyStopping::Yes
                                                            : EarlyStopping::No;
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
      if (takesArguments(package)) {
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
    const Option *option = findOption(name, package);
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
  HEDDLE_RETURN_IF_ERROR(findAdapter(package, options));
  return options.command == Command::Help ? Status() : checkCombination(options, package, given, command);
}

} // namespace heddle
