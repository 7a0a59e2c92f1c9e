// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/tools/CompileArguments.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>

using namespace heddle;
using llvm::StringRef;

namespace {

// One option: what --help says of it and what its value does.
struct Flag {
  const char *name;
  const char *values; // as --help shows them, with the sign before them; "" for an option without a value
  const char *help;
  // Takes the value. What is wrong with it, or "". Null where parse() itself reads the option.
  std::string (*take)(CompileArguments &arguments, StringRef value);
  bool changesOutput = true; // the output, not what is said or written beside it
};

struct FlagGroup {
  const char *title;
  std::vector<Flag> flags;
};

} // namespace

static std::string quoted(StringRef value) {
  return ("'" + value + "'").str();
}

template <typename T>
static std::string choose(StringRef value, std::initializer_list<std::pair<const char *, T>> choices, T &out) {
  std::string known;
  for (auto &[name, choice] : choices) {
    if (value == name) {
      out = choice;
      return "";
    }
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return quoted(value) + " is none of " + known;
}

static std::string chooseWord(StringRef value, std::initializer_list<const char *> words, std::string &out) {
  if (!llvm::is_contained(words, value))
    return quoted(value) + " is none of " + llvm::join(words, ", ");
  out = value.str();
  return "";
}

static std::string takeName(StringRef value, std::string &out) {
  out = value.str();
  return value.empty() ? "a name is expected" : "";
}

static std::string takeSymbol(CompileArguments &arguments, StringRef value) {
  bool isWord = !value.empty() && llvm::all_of(value, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  arguments.options.name = value.str();
  return isWord ? "" : quoted(value) + " is no C identifier: letters, digits and _ are expected";
}

static std::string takeTask(CompileArguments &arguments, StringRef value) {
  if (value == "classify")
    return quoted(value) + ": classifiers are compiled by --task=auto, those of checkpoints by --task=encode as well; "
                           "auto, generate, encode, seq2seq and graph are possible";
  return choose<Task>(value,
                      {{"auto", Task::Auto},
                       {"generate", Task::Generate},
                       {"encode", Task::Encode},
                       {"seq2seq", Task::Seq2Seq},
                       {"graph", Task::Graph}},
                      arguments.options.task);
}

static std::string takeStage(CompileArguments &arguments, StringRef value) {
  std::optional<Stage> stage = parseStage(value);
  if (!stage || *stage > Stage::Schedule)
    return quoted(value) + " is none of import, raise, optimize, schedule" +
           (stage ? "; --emit=llvm and --emit=asm print the code" : "");
  arguments.options.stopAfter = *stage;
  return "";
}

// DIR or DIR:SCALE; a folder whose name ends like a scale is meant as it is.
static std::string readAdapter(StringRef value, AdapterUse &use) {
  use = AdapterUse{value.str()};
  auto [folder, scale] = value.rsplit(':');
  if (!scale.empty() && !llvm::sys::fs::is_directory(value)) {
    if (scale.getAsDouble(use.scale) || !std::isfinite(use.scale))
      return quoted(scale) + " is no number: expected DIR or DIR:SCALE";
    use.folder = folder.str();
  }
  return use.folder.empty() ? "the folder of an adapter is expected" : "";
}

static std::string takeMerged(CompileArguments &arguments, StringRef value) {
  return readAdapter(value, arguments.options.mergedAdapters.emplace_back());
}

// NAME=DIR or NAME=DIR:SCALE.
static std::string takeAdapter(CompileArguments &arguments, StringRef value) {
  constexpr size_t most = 64;
  StringRef name, folder;
  std::tie(name, folder) = value.split('=');
  std::vector<NamedAdapter> &adapters = arguments.options.adapters;
  bool isWord =
      !name.empty() && llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || StringRef("_-.").contains(c); });
  if (!isWord || name == "none")
    return quoted(name) + " is no name: letters, digits, '_', '-' and '.' are expected, but not 'none'";
  if (llvm::any_of(adapters, [&](const NamedAdapter &adapter) { return adapter.name == name; }))
    return quoted(name) + " is the name of two adapters";
  if (adapters.size() == most)
    return "at most " + std::to_string(most) + " are expected";
  adapters.push_back({name.str(), {}});
  return readAdapter(folder, adapters.back().use);
}

// NAME=SIZE
static std::string takeDim(CompileArguments &arguments, StringRef value) {
  auto [name, size] = value.rsplit('=');
  GivenSize given{name.str()};
  if (name.empty() || size.getAsInteger(10, given.size) || given.size < 1)
    return quoted(value) + " is no size: expected NAME=SIZE or INPUT:AXIS=SIZE, of at least 1";
  arguments.options.dims.push_back(std::move(given));
  return "";
}

static std::string takePlugin(CompileArguments &arguments, StringRef value) {
  llvm::Expected<mlir::PassPlugin> plugin = mlir::PassPlugin::load(value.str());
  if (!plugin)
    return llvm::toString(plugin.takeError());
  plugin->registerPassRegistryCallbacks();
  arguments.options.plugins.push_back(value.str());
  return "";
}

// Parsed here for its errors; the pipeline parses it again at its place.
static std::string takePass(CompileArguments &arguments, StringRef value) {
  auto [point, pipeline] = value.split(':');
  auto names = llvm::map_range(extensionPoints(), [](const ExtensionPoint &at) { return at.name; });
  if (!llvm::is_contained(names, point))
    return quoted(point) + " is none of " + llvm::join(names, ", ");
  static const bool registered = [] { return mlir::registerAllPasses(), registerPasses(), true; }();
  (void)registered;
  mlir::OpPassManager scratch(mlir::ModuleOp::getOperationName());
  std::string said;
  llvm::raw_string_ostream stream(said);
  if (pipeline.empty() || failed(mlir::parsePassPipeline(pipeline, scratch, stream)))
    return quoted(pipeline) + " is no pass pipeline: " + StringRef(said).trim().split('\n').first.str();
  arguments.options.pipeline.extensions.emplace_back(point.str(), pipeline.str());
  return "";
}

#define TAKE(EXPRESSION) [](CompileArguments &arguments, StringRef value) -> std::string { return (EXPRESSION); }
#define SET(EXPRESSION) [](CompileArguments &arguments, StringRef) -> std::string { return (EXPRESSION), ""; }

static std::vector<FlagGroup> makeFlags() {
  std::vector<Flag> output = {
      {"-o", " FILE", "the output", nullptr},
      {"--emit", "=exe|lib|object|package|mlir|llvm|asm",
       "program, shared library with the runtime inside, object for libheddle.a, container for "
       "heddle_package_open_file, or text (default exe)",
       TAKE(choose<Emit>(value,
                         {{"exe", Emit::Executable},
                          {"lib", Emit::Library},
                          {"object", Emit::Object},
                          {"package", Emit::Package},
                          {"mlir", Emit::Mlir},
                          {"llvm", Emit::Llvm},
                          {"asm", Emit::Assembly}},
                         arguments.options.emit))},
      {"--task", "=auto|generate|encode|seq2seq|graph",
       "what the output is for: generate continues a prompt, encode gives vectors of texts, also of a decoder, graph "
       "maps named tensors to named tensors (default auto: a decoder beside files of sentence-transformers encodes; an "
       "ONNX file or an MLIR module generates if it is a causal decoder from input_ids to logits, else it is a graph; "
       "all others generate). The tokenizer and config.json beside such a file are read, and a cache is made for it",
       takeTask},
      {"--mmproj", "=FILE.gguf",
       "of a GGUF file: what sees images for it lies in this one (llama.cpp's mmproj files), and is compiled with it",
       TAKE(takeName(value, arguments.options.mmproj)), /*changesOutput=*/false},
      {"--text-only", "", "of a model that sees images beside its prompts: what reads texts alone",
       SET(arguments.options.textOnly = true)},
      {"--dim", "=NAME=SIZE",
       "of an ONNX file: the inputs' dimension NAME, or INPUT:AXIS, has this size in every run; repeatable. Loops are "
       "made for it, and what the graph decides by it is decided now",
       takeDim},
      {"--target", "=T[,T...]",
       "native, x86-64-v3, x86-64-v4, aarch64, an x86-64 CPU with AVX2 or a 64-bit ARM one by LLVM's name (haswell, "
       "icelake-server, znver5, sapphirerapids, neoverse-v1, apple-m2), opencl, cuda:sm_80, cuda:sm_90a (default "
       "native). Several CPUs of one architecture, separated by commas, make one file, which runs the code that needs "
       "most of what the machine has",
       TAKE(takeName(value, arguments.options.target)), /*changesOutput=*/false},
      {"--schedules", "=FILE",
       "schedules that 'heddle tune' measured on a CPU with the target's instructions: they come before the built-in "
       "ones",
       TAKE(takeName(value, arguments.options.schedules)), /*changesOutput=*/false},
      {"--name", "=ID", "symbol heddle_model_ID of libraries, objects and packages (default: from the output's name)",
       takeSymbol, /*changesOutput=*/false},
      {"--merge-adapter", "=DIR[:SCALE]",
       "merge the adapter (LoRA, IA3) that PyPI's peft saved in DIR into the weights, SCALE times (default 1), or add "
       "the bottleneck that AdapterHub's adapters saved to the layers; repeatable: several are added. What it changes "
       "of a quantised model is bf16 then, or what --weights says",
       takeMerged},
      {"--lora", "=DIR[:SCALE]", "the same as --merge-adapter", takeMerged},
      {"--adapter", "=NAME=DIR[:SCALE]",
       "keep the adapter apart: each sequence of a run has one of them or none (BIN --adapter NAME); repeatable. Of "
       "decoders, on CPUs",
       takeAdapter},
      {"--sidecar", "",
       "weights in a second file, OUT.weights; an object's lie beside the program it is linked into, as "
       "PROGRAM.weights. One that is there and would be packed the same again stays as it is",
       SET(arguments.options.sidecar = true)}};
  std::vector<Flag> precision = {
      {"--precision", "=fast|precise",
       "fast: a 16-bit cache where the weights are 16-bit or quantised, products of 16-bit numbers where the weights "
       "and the target have them; precise: f32 throughout (default fast)",
       TAKE(choose<Precision>(value, {{"fast", Precision::Fast}, {"precise", Precision::Precise}},
                              arguments.options.precision))},
      {"--precise", "", "the same as --precision=precise", SET(arguments.options.precision = Precision::Precise)},
      {"--weights", "=q8_0|q4_0|q4_k|bf16|f16",
       "quantise or narrow the matrices of products, experts, embeddings and the head, all to one type (as "
       "llama-quantize --pure does). Norms, biases and routers stay, and so does a matrix that is no larger already or "
       "whose rows are no multiple of the block (32, of q4_k 256), with a remark; quantised ones that are larger are "
       "quantised again. The summary and --report say what that changed (default: as the file has them)",
       TAKE(chooseWord(value, {"q8_0", "q4_0", "q4_k", "bf16", "f16"}, arguments.options.pipeline.weights))},
      {"--kv", "=auto|f32|bf16|f16|q8_0", "storage of the KV cache; q8_0: codes of 8 bits, half of what bf16 takes",
       TAKE(chooseWord(value, {"auto", "f32", "bf16", "f16", "q8_0"}, arguments.options.kv))},
      {"--activations", "=auto|f32|bf16|int8",
       "inputs of products with quantised weights (auto: by the number of rows, 16-bit integers for few and, where the "
       "CPU has it, bf16 for many; f32 with --precise and on devices)",
       TAKE(chooseWord(value, {"auto", "f32", "bf16", "int8"}, arguments.options.activations))},
      {"--context", "=N", "longest sequence in tokens (default: the model's, at most 8192)",
       TAKE(value.getAsInteger(10, arguments.options.context) || arguments.options.context < 1
                ? quoted(value) + " is no positive number"
                : "")}};
  std::vector<Flag> research = {
      {"--stop-after", "=STAGE", "print the module after import, raise, optimize or schedule", takeStage},
      {"--resume", "=FILE.mlir",
       "go on from a module of this model that --stop-after or --dump-stages wrote, changed or not, with the same "
       "options but those of passes before it (a graph's module can also be compiled alone, where its weights lie in "
       "files that it names)",
       TAKE(takeName(value, arguments.options.resume))},
      {"--dump-stages", "=DIR", "write the module after every stage",
       TAKE(takeName(value, arguments.options.dumpStages)), /*changesOutput=*/false},
      {"--print-remarks", "", "what passes say of the choices they made", SET(arguments.options.printRemarks = true),
       /*changesOutput=*/false},
      {"--load-pass-plugin", "=LIB", "load the MLIR passes of a shared library; repeatable", takePlugin,
       /*changesOutput=*/false},
      {"--add-pass", "=POINT:PIPELINE",
       "run passes, ours, MLIR's or a plugin's, at after-import, after-raise, after-optimize, before-bufferize or "
       "after-schedule; repeatable",
       takePass},
      {"--mla-absorb", "=auto|on|off",
       "up-projections of a low-rank latent: absorbed into queries and results where a step has few queries, always, "
       "or never (keys and values are rebuilt; other models than MLA cache them)",
       TAKE(choose<std::string>(value, {{"auto", "automatic"}, {"on", "absorbed"}, {"off", ""}},
                                arguments.options.pipeline.latentForm))}};
  std::vector<Flag> pipelines = {
      {"--report", "=FILE.html|FILE.json", "what was fused, scheduled and planned, as a page or as data",
       TAKE((arguments.options.report = value.str(), value.ends_with(".html") || value.ends_with(".json"))
                ? ""
                : quoted(value) + " ends in neither .html nor .json"),
       /*changesOutput=*/false},
      {"--depfile", "=FILE", "make rule: the output depends on every file of the model",
       TAKE(takeName(value, arguments.options.depfile)), /*changesOutput=*/false},
      {"--depfile-target", "=NAME", "what that rule makes (default: the output)",
       TAKE(takeName(value, arguments.options.depfileTarget)), /*changesOutput=*/false},
      {"--diagnostics", "=text|json",
       "errors, warnings, remarks and the line that says what was made as text, or each as a JSON object in a line "
       "with its code, file, byte, tensor or op, as far as they are known (default text)",
       TAKE(choose<bool>(value, {{"text", false}, {"json", true}}, arguments.options.jsonDiagnostics)),
       /*changesOutput=*/false},
      {"--quiet", "", "neither progress on a terminal nor warnings nor the line that says what was made",
       SET(arguments.options.quiet = true), /*changesOutput=*/false},
      {"--print-cache-key", "",
       "compile nothing; print a hash of all that the output depends on: the model's bytes, the flags, the target, the "
       "compiler and what it links with. Equal keys, equal outputs",
       SET(arguments.options.printCacheKey = true), /*changesOutput=*/false}};
  return {{"What to make", output},
          {"How exact, how large", precision},
          {"For researchers", research},
          {"For pipelines", pipelines}};
}

#undef TAKE
#undef SET

static const std::vector<FlagGroup> &flagGroups() {
  static const std::vector<FlagGroup> groups = makeFlags();
  return groups;
}

// Appends an option and its description, in lines of at most 128 columns.
static void appendOption(const std::string &option, StringRef help, std::string &out) {
  constexpr size_t column = 32, width = 128;
  std::string line = "  " + option;
  if (line.size() + 2 > column) {
    out += line + "\n";
    line.clear();
  }
  line.resize(column, ' ');
  while (!help.empty()) {
    auto [word, rest] = help.split(' ');
    if (line.size() > column && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.assign(column, ' ');
    }
    line += (line.size() > column ? " " : "") + word.str();
    help = rest;
  }
  out += line + "\n";
}

std::string CompileArguments::usage() {
  std::string text = R"(heddle compile MODEL -o OUT [options]

MODEL is a GGUF file (any part of a split one), a Hugging Face folder, an ONNX file, or an MLIR module (FILE.mlir).
)";
  for (const FlagGroup &group : flagGroups()) {
    text += "\n" + std::string(group.title) + "\n";
    for (const Flag &flag : group.flags)
      appendOption(std::string(flag.name) + flag.values, flag.help, text);
  }
  auto names = llvm::map_range(passSwitches(), [](const PassSwitch &pass) { return pass.name; });
  text += "\nPasses that can be turned off, to measure or bisect them\n";
  appendOption("--PASS=on|off", "PASS is one of " + llvm::join(names, ", "), text);
  return text + R"(
Examples:
  heddle compile model.gguf -o model && ./model "The capital of France is"
  heddle compile model.onnx -o model --precise --report=model.html
  heddle compile model.gguf -o model --target=x86-64-v3,znver5,sapphirerapids
  heddle compile model.gguf -o model --merge-adapter=adapter --merge-adapter=style:0.5
  heddle compile model.gguf -o model --adapter=legal=DIR --adapter=code=DIR && ./model --adapter legal "A text"

Environment: what was made of kernels is kept for later compilations in kernels/ of $HEDDLE_CACHE_DIR, else of $XDG_CACHE_HOME/heddle,
else of ~/.cache/heddle, 256 MiB of it; HEDDLE_NO_CACHE=1: nowhere. Outputs have the same bytes with it and without.

Exit code: 0 done, 1 our or the machine's failure, 2 the input or the command line is at fault.
)";
}

static const Flag *findFlag(StringRef key) {
  for (const FlagGroup &group : flagGroups())
    for (const Flag &flag : group.flags)
      if (key == flag.name && flag.take)
        return &flag;
  return nullptr;
}

static const PassSwitch *findPassSwitch(StringRef key) {
  for (const PassSwitch &pass : passSwitches())
    if (StringRef name = key; name.consume_front("--") && name == pass.name)
      return &pass;
  return nullptr;
}

static bool wantsValue(StringRef key) {
  const Flag *flag = findFlag(key);
  return flag ? *flag->values != '\0' : findPassSwitch(key) != nullptr;
}

bool CompileArguments::parseFlag(StringRef key, StringRef value, bool hasValue) {
  const Flag *flag = findFlag(key);
  const PassSwitch *pass = findPassSwitch(key);
  if (!flag && !pass) {
    error = ("unknown option '" + key + "'; 'heddle compile --help' lists them").str();
    return false;
  }
  if (flag && wantsValue(key) != hasValue) {
    error = (key + (hasValue ? " takes no value" : " needs a value: " + key + flag->values)).str();
    return false;
  }
  std::string reason = flag ? flag->take(*this, value)
                            : choose<bool>(value, {{"on", true}, {"off", false}}, options.pipeline.*pass->enabled);
  if (!reason.empty())
    error = (key + ": " + reason).str();
  else if (!flag || flag->changesOutput)
    options.outputFlags.push_back((key + "=" + value).str());
  return reason.empty();
}

bool CompileArguments::parse(int argc, char **argv) {
  // Known before the first error, wherever it stands.
  for (int i = 0; i < argc; ++i)
    options.jsonDiagnostics |=
        StringRef(argv[i]) == "--diagnostics=json" ||
        (StringRef(argv[i]) == "--diagnostics" && i + 1 < argc && StringRef(argv[i + 1]) == "json");
  for (int i = 0; i < argc; ++i) {
    StringRef word = argv[i];
    if (word == "--help" || word == "-h")
      return help = true;
    if (word == "-o" || word == "--output") {
      if (++i == argc) {
        error = "-o needs the name of a file";
        return false;
      }
      options.output = argv[i];
    } else if (word.size() > 1 && word.starts_with("-")) {
      auto [key, value] = word.split('=');
      bool hasValue = word.contains('=');
      if (!hasValue && wantsValue(key) && i + 1 < argc && !StringRef(argv[i + 1]).starts_with("-")) {
        value = argv[++i];
        hasValue = true;
      }
      if (!parseFlag(key, value, hasValue))
        return false;
    } else if (options.model.empty()) {
      options.model = word.str();
    } else {
      error = "one model expected, got '" + options.model + "' and '" + word.str() + "'";
      return false;
    }
  }
  if (options.model.empty())
    error = "no model given; 'heddle compile --help' shows how";
  return error.empty();
}
