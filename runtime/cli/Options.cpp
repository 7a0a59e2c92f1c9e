// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/Options.h"

#include "bytes/Utf8.h"

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

Status aggregationInto(std::string_view text, Aggregation &out) {
  constexpr std::pair<const char *, Aggregation> names[] = {{"none", Aggregation::None},
                                                            {"simple", Aggregation::Simple},
                                                            {"first", Aggregation::First},
                                                            {"average", Aggregation::Average},
                                                            {"max", Aggregation::Max}};
  for (auto [name, kind] : names)
    if (text == name) {
      out = kind;
      return Status();
    }
  return invalidInput("--aggregate: '" + std::string(text.substr(0, 80)) +
                      "' is none of none, simple, first, average and max");
}

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
                               "this model does not classify pairs of texts",
                               "this model gives a text no score alone",
                               "this model does not classify tokens",
                               "this model fills no masks",
                               "this model finds no answers in a context",
                               "this model does nothing with texts",
                               "this model's files do not say how files of images are read (preprocessor_config.json)",
                               "this model does not classify images",
                               "this model embeds neither images nor texts",
                               "this model does not compare images with texts",
                               "this model sees no images beside a prompt",
                               "this model neither classifies images nor compares them with texts",
                               "this model is no graph",
                               "this model was compiled for the CPU",
                               "this model was compiled for one target",
                               "this model was compiled without adapters",
                               "of this model's attention no map is made",
                               "this model takes no token ids"};

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
     SET(o.earlyStopping = EarlyStopping::Yes)},
    {"--logprobs", "N", "print each token as a JSON line with the N most probable ones", NeedsSteps, Lines,
     TAKE(integerInto("--logprobs", v[0], 1, 1000, o.logprobs))},
    {"--prompt-ids", "IDS", "a prompt as token ids: 1,2,3", NeedsIds, (Prompted & ~Talk) | Attention,
     TAKE(o.promptIds.emplace(), idList("--prompt-ids", v[0], *o.promptIds))},
    {"--prompt-ids", "IDS", "with --attention-map: a text as token ids: 1,2,3", NeedsEncodedIds, Attention,
     TAKE(o.promptIds.emplace(), idList("--prompt-ids", v[0], *o.promptIds))},
    {"--prompt-ids", "IDS", "with --embed and --attention-map: a text as token ids: 1,2,3", NeedsEmbedding,
     Attention | Embedding, TAKE(o.promptIds.emplace(), idList("--prompt-ids", v[0], *o.promptIds))},
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
    {"--embed", nullptr,
     "embeddings of the images and texts that are given: a JSON array on a line for each; what are no options are "
     "texts, "
     "or, of a model without texts, PNG and JPEG files, and so are lines of standard input",
     NeedsVectors, Anything, SET(o.command = Command::Embed)},
    {"--npy", "FILE", "with --embed: write them as an array (texts, width) of NumPy", NeedsEmbedding, Embedding,
     TAKE(*v[0] ? (o.npyFile = v[0], Status()) : invalidInput("--npy: a file is expected"))},
    {"--npy", "FILE", "with --embed: write them as an array (rows, width) of NumPy", NeedsVectors, Embedding,
     TAKE(*v[0] ? (o.npyFile = v[0], Status()) : invalidInput("--npy: a file is expected"))},
    {"--similarity", nullptr,
     "how well each of the texts that are given, or of the lines of standard input, says what is on each image, best "
     "first",
     NeedsComparison, Anything, SET(o.command = Command::Similarity)},
    {"--image", "FILE", "with --similarity and --embed: a PNG or JPEG file; may be repeated", NeedsComparison,
     Comparison | Embedding,
     TAKE(*v[0] ? (o.images.emplace_back(v[0]), Status()) : invalidInput("--image: a file is expected"))},
    {"--image", "FILE",
     "a PNG or JPEG file that the prompt asks about, where it names one, else before it; may be repeated", NeedsSight,
     Prompted, TAKE(*v[0] ? (o.images.emplace_back(v[0]), Status()) : invalidInput("--image: a file is expected"))},
    {"--classify", nullptr, "labels of the texts that are given, or of the lines of standard input, best first",
     NeedsLabels, Anything, SET(o.command = Command::Classify)},
    {"--classify", nullptr,
     "labels of the PNG and JPEG files that are given, or named in lines of standard input, best first",
     NeedsImageLabels, Anything, SET(o.command = Command::Classify)},
    {"--pairs", nullptr, "with --classify: two texts are classified together; in a line a tab is between them",
     NeedsPairs, Labels, SET(o.pairs = true)},
    {"--rerank", nullptr, "the first text is a query: those behind it, or the lines of standard input, the best first",
     NeedsRanking, Anything, SET(o.command = Command::Rerank)},
    {"--token-classify", nullptr,
     "what is labelled in the texts that are given, or in the lines of standard input, and at which characters",
     NeedsTokenLabels, Anything, SET(o.command = Command::ClassifyTokens)},
    {"--aggregate", "HOW",
     "none: a label for each token; simple: neighbours of a label are one; first, average, max: before that a word "
     "takes its first token's label, that of its tokens' average, or of its surest token (default: first)",
     NeedsTokenLabels, TokenLabels, TAKE(aggregationInto(v[0], o.aggregation))},
    {"--fill-mask", nullptr,
     "the most probable tokens for each mask in the texts that are given, or in the lines of standard input", NeedsMask,
     Anything, SET(o.command = Command::FillMask)},
    {"--answer", nullptr,
     "where in a context the answer to a question stands: --question and --context, or lines of standard input with a "
     "tab between both",
     NeedsAnswers, Anything, SET(o.command = Command::AnswerQuestion)},
    {"--attention-map", "FILE",
     "a page of what each token attends to, in every layer and head: of the prompt, and with -n of the answer; "
     "FILE.safetensors: the numbers",
     NeedsAttention, Anything,
     TAKE(o.command = Command::AttentionMap, o.attentionFile = v[0],
          *v[0] ? Status() : invalidInput("--attention-map: a file is expected"))},
    {"--question", "TEXT", "with --answer: the question", NeedsAnswers, Answers, SET(o.question = v[0])},
    {"--context", "TEXT", "with --answer: where the answer is looked for (default: standard input)", NeedsAnswers,
     Answers, SET(o.context = v[0])},
    {"--top-k", "K", "with --classify: the K best labels (default: all)", NeedsLabels, Labels,
     TAKE(integerInto("--top-k", v[0], 1, INT32_MAX, o.best))},
    {"--top-k", "K", "with --classify: the K best labels (default: all)", NeedsImageLabels, Labels,
     TAKE(integerInto("--top-k", v[0], 1, INT32_MAX, o.best))},
    {"--top-k", "K", "with --similarity: the K best texts of an image (default: all)", NeedsComparison, Comparison,
     TAKE(integerInto("--top-k", v[0], 1, INT32_MAX, o.best))},
    {"--top-k", "K", "with --fill-mask: how many tokens for a mask (5)", NeedsMask, Masks,
     TAKE(integerInto("--top-k", v[0], 1, INT32_MAX, o.best))},
    {"--adapter", "NAME", "which of the adapters that --info lists is used; none: the model alone (default)",
     NeedsAdapters, Generated | Steps | Speed | Perplexity,
     TAKE(*v[0] ? (o.adapterName = v[0], Status()) : invalidInput("--adapter: a name is expected"))},
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
     "the same bits for every batch, chunk, cache state and thread count: so without it, but for latent attention, "
     "on OpenCL products and, on CUDA, products of bf16 weights and of codes, those that Halide has and, on sm_90a, "
     "attention of prompts",
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
     "with --bench: time, bytes and operations of each kind of kernel, beside the machine's limits", Nothing, Anything,
     SET(o.command = Command::Bench, o.profile = true)},
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
    {"--json", nullptr, "one JSON object; of texts one on a line for each", NeedsTextTask, Speed | OfTexts | Answers,
     SET(o.json = true)},
    {"--json", nullptr, "one JSON object; of images one on a line for each", NeedsImageTask,
     Speed | Labels | Comparison, SET(o.json = true)},
    {"--info", nullptr, "what this model was compiled from and for", Nothing, Anything, SET(o.command = Command::Info)},
    {"--check", nullptr, "hash all weights and the code", Nothing, Anything, SET(o.command = Command::Check)},
    {"--licenses", nullptr, "licences of the model and of the code in this file", Nothing, Anything,
     SET(o.command = Command::Licenses)},
    {"--version", nullptr, "version of the runtime", Nothing, Anything, SET(o.command = Command::Version)},
    {"--help", nullptr, "this text", Nothing, Anything, SET(o.command = Command::Help)},
};

} // namespace

namespace {

bool labelsImages(const Package &package) {
  const package::Package &metadata = package.metadata();
  return seesFiles(package) && (metadata.encoder() ? metadata.encoder()->task() == package::EncoderTask::Classify
                                                   : metadata.labels() && metadata.labels()->size());
}

bool comparesImages(const Package &package) {
  return isGraph(package) && seesFiles(package) && hasTokenizer(package);
}

} // namespace

bool takesArguments(const Package &package) {
  return isEncoder(package) || embedsTensors(package.metadata());
}

const Option *findOption(std::string_view name, const Package &package) {
  const Option *found = nullptr;
  for (const Option &candidate : optionTable)
    if (name == candidate.name && (!found || isAvailable(candidate, package)))
      found = &candidate;
  return found;
}

bool isAvailable(const Option &option, const Package &package) {
  const package::Tokenizer *tokenizer = package.metadata().tokenizer();
  bool readsPrompts = generates(package) && hasTokenizer(package);
  const package::Encoder *encoder = encodesTexts(package.metadata()) ? package.metadata().encoder() : nullptr;
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
    return readsPrompts && !isEncoderDecoder(package);
  case NeedsRows:
    return !isGraph(package);
  case NeedsTensors:
    return !generates(package);
  case NeedsTokenizer:
    return readsPrompts;
  case NeedsTemplate:
    return chats(package.metadata());
  case NeedsEmbedding:
    return encoder && encoder->embedding();
  case NeedsLabels:
    return encoder && encoder->task() == package::EncoderTask::Classify;
  case NeedsPairs:
    return encoder && encoder->task() == package::EncoderTask::Classify && tokenizer->pair();
  case NeedsRanking:
    return encoder && encoder->task() == package::EncoderTask::Classify && encoder->labels()->size() == 1 &&
           tokenizer->pair();
  case NeedsMask:
    return encoder && encoder->task() == package::EncoderTask::FillMask && tokenizer->mask() >= 0;
  case NeedsAnswers:
    return encoder && encoder->task() == package::EncoderTask::Answer && tokenizer->pair();
  case NeedsTextTask:
    return encoder && encoder->task() != package::EncoderTask::None;
  case NeedsTokenLabels:
    return encoder && encoder->task() == package::EncoderTask::ClassifyTokens;
  case NeedsFiles:
    return seesFiles(package);
  case NeedsSight:
    return seesFiles(package) && generates(package);
  case NeedsImageLabels:
    return labelsImages(package);
  case NeedsVectors:
    return (seesFiles(package) && !labelsImages(package) && !generates(package)) ||
           (isGraph(package) && hasTokenizer(package));
  case NeedsComparison:
    return comparesImages(package);
  case NeedsImageTask:
    return labelsImages(package) || comparesImages(package);
  case NeedsGraph:
    return isGraph(package);
  case NeedsDevice:
    return runsOnDevice(package.metadata());
  case NeedsVariants:
    return package.onDisk().numVariants() > 1;
  case NeedsAdapters:
    return package.metadata().adapters() && package.metadata().adapters()->size();
  case NeedsAttention:
    return showsAttention(package.metadata());
  case NeedsEncodedIds: // what embeds takes ids for that as well
    return showsAttention(package.metadata()) && isEncoder(package) && !(encoder && encoder->embedding());
  }
  return false;
}

std::string taskOf(const Package &package) {
  if (hears(package))
    return "writes what is said (--audio)";
  if (isEncoderDecoder(package))
    return "answers a text with another";
  if (generates(package))
    return seesFiles(package) ? "continues a prompt with images (--image)" : "continues a prompt";
  const char *what = seesFiles(package) ? "images" : "texts";
  if (comparesImages(package))
    return "compares images with texts (--similarity)";
  for (auto [name, task] : {std::pair("--classify", "classifies %s (--classify)"),
                            {"--token-classify", "labels what is in %s (--token-classify)"},
                            {"--fill-mask", "fills masks (--fill-mask)"},
                            {"--answer", "finds answers (--answer)"},
                            {"--embed", "embeds %s (--embed)"}})
    if (isAvailable(*findOption(name, package), package))
      return format(task, what);
  return isGraph(package) ? "runs a graph (--io)" : "encodes (--io)";
}

const char *whatIsMissing(Needs needs) {
  return missing[needs];
}

namespace {

std::string whyNoAttention(const Package &package) {
  const char *why = isGraph(package) ? "it runs a graph, whose kernels tell of nothing"
                    : hears(package) ? "it hears sound and reads no text"
                    : takesPixels(package.metadata())
                        ? "it sees images and reads no text"
                        : "its code does not say where its queries lie, as that of global tokens and of "
                          "older compilers";
  return std::string(missing[NeedsAttention]) + ": " + why;
}

} // namespace

std::string whyMissing(const Option &option, const Package &package) {
  if (option.needs == NeedsAttention)
    return whyNoAttention(package);
  bool isOfTexts = option.needs >= NeedsEmbedding && option.needs <= NeedsTextTask;
  bool isOfImages = option.needs >= NeedsFiles && option.needs <= NeedsImageTask;
  if ((isOfTexts || isOfImages) && takesPixels(package.metadata()) && !seesFiles(package))
    return missing[NeedsFiles];
  if (isOfTexts && isEncoder(package) && !takesPixels(package.metadata()) && !hasTokenizer(package))
    return missing[NeedsTokenizer];
  if (option.needs >= NeedsSound && option.needs <= NeedsTimes)
    return missing[hears(package) ? option.needs : NeedsSound];
  if (option.needs == NeedsPrompts && generates(package) && !isEncoderDecoder(package))
    return missing[NeedsTokenizer];
  if (isOfTexts || isOfImages)
    return std::string(missing[option.needs]) + ": it " + taskOf(package);
  if (option.needs == NeedsDevice || option.needs == NeedsVariants || option.needs == NeedsAdapters ||
      generates(package))
    return missing[option.needs];
  if (isGraph(package))
    return missing[option.needs == NeedsRows ? NeedsRows : NeedsSteps];
  return "this model encodes and generates nothing";
}

std::string optionLines(const Package &package) {
  std::string text = "\nOptions:\n";
  for (const Option &option : optionTable)
    if (option.help && findOption(option.name, package) == &option && isAvailable(option, package)) {
      std::string left =
          std::string("  ") + option.name + (option.arguments ? std::string(" ") + option.arguments : "");
      left.resize(std::max<size_t>(left.size() + 1, 30), ' ');
      text += left + option.help + "\n";
    }
  return text;
}

} // namespace heddle
