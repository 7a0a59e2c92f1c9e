// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/tools/CompileArguments.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace heddle;
using llvm::StringRef;

const char *const CompileArguments::usage = R"(heddle compile MODEL -o OUT [options]

MODEL is a GGUF file (any part of a split one), a Hugging Face folder, an ONNX file, or an MLIR module (FILE.mlir).

What to make
  -o FILE                       the output
  --emit=exe|lib|object|package|mlir|llvm|asm
                                program, shared library with the runtime inside, object for libheddle.a, container for
                                heddle_package_open_file, or text (default exe)
  --task=auto|generate|graph    what the output is for: generate continues a prompt, graph maps named tensors to named tensors
                                (default auto: an ONNX file generates if it is a causal decoder from input_ids to logits,
                                else it is a graph, as MLIR modules are; all others generate). The tokenizer and
                                config.json beside an ONNX file are read, and a cache is made for it
  --target=T                    native, x86-64-v3, x86-64-v4, znver5, sapphirerapids, aarch64, opencl,
                                cuda:sm_80, cuda:sm_90a (default native)
  --name=ID                     symbol heddle_model_ID of libraries, objects and packages (default: from the output's name)
  --sidecar                     weights in a second file, OUT.weights
How exact, how large
  --precision=fast|precise      fast: 8-bit or 16-bit activations where the weights are stored so; precise: f32 throughout
  --precise                     the same as --precision=precise
  --kv=auto|f32|bf16|f16        storage of the KV cache
  --context=N                   longest sequence in tokens (default: the model's, at most 8192)
For researchers
  --stop-after=STAGE            print the module after import, raise, optimize or schedule
  --dump-stages=DIR             write the module after every stage
  --activations=auto|f32|bf16|int8
                                inputs of products with quantised weights
  --print-remarks               what passes say of the choices they made
  --load-pass-plugin=LIB        load the MLIR passes of a shared library; repeatable
  --add-pass=POINT:PIPELINE     run passes, ours, MLIR's or a plugin's, at after-import, after-optimize, before-bufferize or
                                after-schedule; repeatable
  --mla-absorb=auto|on|off      up-projections of a low-rank latent: absorbed into queries and results where a step has few
                                queries, always, or never (keys and values are rebuilt; other models than MLA cache them)
  --PASS=on|off                 passes that can be turned off to measure or bisect them: raise-linear, raise-norm, raise-glu,
                                raise-rope, raise-softmax, fuse-attention, form-forward (what is found in ONNX graphs),
                                flash-tile, split-kv, share-kv, fuse-projections, share-layers
For pipelines
  --report=FILE.html|FILE.json  what was fused, scheduled and planned, as a page or as data
  --depfile=FILE                make rule: the output depends on every file of the model
  --diagnostics=text|json       errors as one line of text, or as one JSON object in a line (default text)
  --quiet                       no progress on a terminal

Exit code: 0 done, 1 our or the machine's failure, 2 the input or the command line is at fault.
)";

bool CompileArguments::word(StringRef key, StringRef value, std::initializer_list<const char *> known, std::string &out) {
  std::string list;
  for (const char *name : known) {
    if (value == name) {
      out = value.str();
      return true;
    }
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  error = (key + ": '" + value + "' is none of " + list).str();
  return false;
}

// Parsed here for its errors; the pipeline parses it again at its place.
bool CompileArguments::addPass(StringRef value) {
  auto [point, pipeline] = value.split(':');
  if (!llvm::is_contained(extensionPoints(), point)) {
    error = ("--add-pass: '" + point + "' is none of " + llvm::join(extensionPoints(), ", ")).str();
    return false;
  }
  static const bool registered = [] { return mlir::registerAllPasses(), registerPasses(), true; }();
  (void)registered;
  mlir::OpPassManager scratch(mlir::ModuleOp::getOperationName());
  llvm::raw_string_ostream said(error);
  if (pipeline.empty() || failed(mlir::parsePassPipeline(pipeline, scratch, said))) {
    error = ("--add-pass: '" + pipeline + "' is no pass pipeline: " + StringRef(error).trim().split('\n').first).str();
    return false;
  }
  options.pipeline.extensions.emplace_back(point.str(), pipeline.str());
  return true;
}

bool CompileArguments::parseFlag(StringRef key, StringRef value, bool hasValue) {
  if (!hasValue) {
    if (key == "--sidecar")
      return options.sidecar = true;
    if (key == "--quiet")
      return options.quiet = true;
    if (key == "--print-remarks")
      return options.printRemarks = true;
    if (key == "--precise") {
      options.precision = Precision::Precise;
      return true;
    }
  }
  if (key == "--emit")
    return choose<Emit>(key, value,
                        {{"exe", Emit::Executable}, {"lib", Emit::Library}, {"object", Emit::Object}, {"package", Emit::Package},
                         {"mlir", Emit::Mlir}, {"llvm", Emit::Llvm}, {"asm", Emit::Assembly}},
                        options.emit);
  if (key == "--task") {
    if (llvm::is_contained({"encode", "classify", "seq2seq"}, value))
      error = ("--task=" + value + ": no model can be compiled for that yet; auto, generate and graph are possible").str();
    return error.empty() && choose<Task>(key, value, {{"auto", Task::Auto}, {"generate", Task::Generate}, {"graph", Task::Graph}}, options.task);
  }
  if (key == "--precision")
    return choose<Precision>(key, value, {{"fast", Precision::Fast}, {"precise", Precision::Precise}}, options.precision);
  if (key == "--target") {
    options.target = value.str();
    return true;
  }
  if (key == "--name") {
    options.name = value.str();
    bool isWord = !value.empty() && llvm::all_of(value, [](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!isWord)
      error = ("--name: '" + value + "' is no C identifier: letters, digits and _ are expected").str();
    return isWord;
  }
  if (key == "--depfile") {
    options.depfile = value.str();
    if (value.empty())
      error = "--depfile needs the name of a file";
    return error.empty();
  }
  if (key == "--report") {
    options.report = value.str();
    if (!value.ends_with(".html") && !value.ends_with(".json"))
      error = ("--report: '" + value + "' ends in neither .html nor .json").str();
    return error.empty();
  }
  if (key == "--diagnostics")
    return choose<bool>(key, value, {{"text", false}, {"json", true}}, jsonErrors);
  if (key == "--kv")
    return word(key, value, {"auto", "f32", "bf16", "f16"}, options.kv);
  if (key == "--activations")
    return word(key, value, {"auto", "f32", "bf16", "int8"}, options.activations);
  if (key == "--dump-stages") {
    options.dumpStages = value.str();
    return true;
  }
  if (key == "--stop-after") {
    std::optional<Stage> stage = parseStage(value);
    if (stage)
      options.stopAfter = *stage;
    else
      error = ("--stop-after: '" + value + "' is none of import, raise, optimize, schedule, codegen, package").str();
    return stage.has_value();
  }
  if (key == "--context") {
    if (value.getAsInteger(10, options.context) || options.context < 1)
      error = ("--context: '" + value + "' is no positive number").str();
    return error.empty();
  }
  if (key == "--load-pass-plugin") {
    llvm::Expected<mlir::PassPlugin> plugin = mlir::PassPlugin::load(value.str());
    if (!plugin)
      error = "--load-pass-plugin: " + llvm::toString(plugin.takeError());
    else
      plugin->registerPassRegistryCallbacks();
    return error.empty();
  }
  if (key == "--add-pass")
    return addPass(value);
  if (key == "--mla-absorb")
    return choose<std::string>(key, value, {{"auto", "automatic"}, {"on", "absorbed"}, {"off", ""}}, options.pipeline.latentForm);
  for (const PassSwitch &pass : passSwitches())
    if (StringRef name = key; name.consume_front("--") && name == pass.name)
      return choose<bool>(key, value, {{"on", true}, {"off", false}}, options.pipeline.*pass.enabled);
  error = ("unknown option '" + key + "'; 'heddle compile --help' lists them").str();
  return false;
}

bool CompileArguments::parse(int argc, char **argv) {
  // Known before the first error, wherever it stands.
  jsonErrors = std::any_of(argv, argv + argc, [](const char *word) { return StringRef(word) == "--diagnostics=json"; });
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
      if (!parseFlag(key, value, word.contains('=')))
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
