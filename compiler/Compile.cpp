// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Compile.h"

#include "bytes/WholeFile.h"
#include "compiler/CacheKey.h"
#include "compiler/ResumedModule.h"
#include "compiler/SourceFiles.h"
#include "compiler/WriteBinary.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/package/SharedWeights.h"
#include "compiler/package/Sidecar.h"
#include "compiler/raise/Passes.h"
#include "compiler/schedule/ScheduleFile.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/schedule/TunedSchedules.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"
#include "frontends/mlir/MlirStatus.h"
#include "frontends/mlir/ReadGraph.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

namespace {

// One compilation.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options) : options(options), progress(options.quiet) {}
  Status run();

  CompileNotes notes;
  Status said; // by MLIR's diagnostics: the first error

private:
  Status checkOptions();
  Status checkOutputs();
  MLIRContext &createContext();
  Finding findingOf(Finding::Severity severity, Diagnostic &diagnostic, std::string text) const;
  bool isNews(Diagnostic &diagnostic);
  void takeRemark(Diagnostic &diagnostic);
  Status import();
  Status raise();
  Status fitTargets();
  Status schedule();
  Status readResumed();
  Status refuseResumed(const std::string &why) const {
    return invalidInput(options.resume + ": --resume: " + why).inFile(options.resume);
  }
  Status takeResumed(Stage stage);
  Status checkPassFlags();
  Status runPasses(Stage stage, function_ref<void(OpPassManager &)> add);
  Status runStage(Stage stage, function_ref<void(OpPassManager &)> add);
  Status finishStage(Stage stage);
  LogicalResult tellObserver(Stage stage);
  void noteNotApplied();
  void warn(const std::string &file, const std::string &text); // of what is imported
  Status keepGraphsOnHost();
  Status dump(Stage stage);
  std::string printed(Stage stage);
  std::vector<SharedFile> sources() const;

  const CompileOptions &options;
  StageProgress progress;
  std::vector<Target> targets;         // in the order of parseTargets
  Target target;                       // of the module at hand; up to the schedule stage the first
  std::vector<PipelineOptions> fitted; // the options as they fit each target
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  std::optional<ScopedDiagnosticHandler> diagnostics;
  Program program;
  ArrayAttr schedules;           // of options.schedules
  std::vector<Variant> variants; // what the schedule stage made
  ModelFiles resumedFiles;
  OwningOpRef<ModuleOp> resumed; // of options.resume
  Stage resumedStage = Stage::Import;
  std::set<std::string> told; // what passes have said
  bool observes = false;      // the observer has been told of a stage
  std::string runningPass;    // empty between passes
  std::vector<std::string> passes;
  std::vector<Remark> remarks;
};

} // namespace

Status Compilation::checkOptions() {
  std::string error;
  FailureOr<std::vector<Target>> parsed = parseTargets(options.target, error);
  if (failed(parsed))
    return invalidInput(error);
  targets = std::move(*parsed);
  target = targets.front();
  bool isText = options.stopAfter != Stage::Package || options.emit == Emit::Mlir || options.emit == Emit::Llvm ||
                options.emit == Emit::Assembly;
  bool toTerminal = options.output.empty() || options.output == "-";
  // Of the name of an output its key depends where that names a symbol, or the library itself.
  bool isNamed = options.emit == Emit::Executable || (!options.name.empty() && options.emit != Emit::Library);
  if (options.printCacheKey && options.output.empty() && !isText && !isNamed)
    return invalidInput("--print-cache-key: what is made depends on the output's name: use -o FILE");
  if (options.output.empty() && options.stopAfter == Stage::Package && !options.printCacheKey)
    return invalidInput("no output given: use -o FILE");
  bool saysEmit = llvm::any_of(options.outputFlags, [](StringRef flag) { return flag.starts_with("--emit="); });
  if (options.stopAfter != Stage::Package && saysEmit && options.emit != Emit::Mlir)
    return invalidInput("--emit: --stop-after=" + stageName(options.stopAfter).str() +
                        " prints the module: expected --emit=mlir or none");
  if (toTerminal && !isText && !options.printCacheKey)
    return invalidInput("-o - is for text: a program needs the name of a file");
  if (targets.size() > 1 && (isText || options.observer))
    return invalidInput("--target=" + options.target + ": " + (isText ? "text" : "what is verified") +
                        " is of one target: several are of programs, libraries, objects and packages");
  if (targets.size() > 1 && !options.schedules.empty())
    return invalidInput("--schedules=" + options.schedules + ": measured on one CPU, but --target names several");
  if (!options.report.empty() && isText)
    return invalidInput("--report describes a whole compilation: it goes with no --stop-after and no text output");
  if (!options.depfile.empty() && toTerminal)
    return invalidInput("--depfile says what a file depends on: it needs -o FILE");
  if (options.sidecar && isText)
    return invalidInput("--sidecar is of programs, libraries, objects and packages: text has no weights");
  if (!options.name.empty() && isText)
    return invalidInput("--name is of programs, libraries, objects and packages: text has no symbol");
  for (const std::string &path : {toTerminal ? "" : options.output, options.report, options.depfile})
    if (!path.empty() && !OutputFile::isPossible(path, error))
      return invalidInput(error).inFile(path);
  return Status();
}

// No output may be a file that the model is read from, or another output: what is written would be lost, or what it was made of.
Status Compilation::checkOutputs() {
  std::map<llvm::sys::fs::UniqueID, std::string> taken;
  llvm::sys::fs::UniqueID id;
  for (const SharedFile &file : sources())
    if (!llvm::sys::fs::getUniqueID(file->path(), id))
      taken.emplace(id, "the model's file " + file->path());
  if (!options.schedules.empty() && !llvm::sys::fs::getUniqueID(options.schedules, id))
    taken.emplace(id, "the schedules " + options.schedules);
  std::set<std::string> names;
  for (const std::string &path :
       {options.output, options.sidecar ? sidecarOf(options.output) : "", options.report, options.depfile}) {
    if (path.empty() || path == "-")
      continue;
    std::string file;
    HEDDLE_RETURN_IF_ERROR(resolveOutput(path, file).inFile(path));
    SmallString<256> whole(file);
    (void)llvm::sys::fs::make_absolute(whole); // without a working folder the name as it stands
    (void)llvm::sys::path::remove_dots(whole, /*remove_dot_dot=*/true);
    if (!names.insert(whole.str().str()).second)
      return invalidInput(path + ": two outputs have this name").inFile(path);
    auto found = llvm::sys::fs::getUniqueID(path, id) ? taken.end() : taken.find(id);
    if (found != taken.end())
      return invalidInput(path + ": the output would replace " + found->second).inFile(path);
  }
  return Status();
}

MLIRContext &Compilation::createContext() {
  registerDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  // What passes report becomes part of the one line that the user sees.
  diagnostics.emplace(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && said.isOk())
      said = statusOf(diagnostic);
    if (diagnostic.getSeverity() == DiagnosticSeverity::Warning && isNews(diagnostic))
      notes.warnings.push_back(
          findingOf(Finding::Severity::Warning, diagnostic, options.model + ": " + diagnostic.str()));
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      takeRemark(diagnostic);
    return success();
  });
  progress.stage("import");
  return *context;
}

// What a pass, or the importer before them, says of the model. Its code is who says it.
Finding Compilation::findingOf(Finding::Severity severity, Diagnostic &diagnostic, std::string text) const {
  InputPlace place = placeOf(diagnostic.getLocation());
  if (place.file.empty())
    place.file = options.model;
  return {severity, runningPass.empty() ? "import" : runningPass, 0, std::move(text), std::move(place)};
}

// What passes say of one target after the other is said once.
bool Compilation::isNews(Diagnostic &diagnostic) {
  std::string said = runningPass + " " + locationText(diagnostic.getLocation()) + " " + diagnostic.str();
  return told.insert(said).second || targets.size() == 1;
}

void Compilation::takeRemark(Diagnostic &diagnostic) {
  Remark remark;
  remark.location = locationText(diagnostic.getLocation());
  remark.text = diagnostic.str();
  if (options.printRemarks && isNews(diagnostic))
    printFinding(findingOf(Finding::Severity::Remark, diagnostic, remark.location + ": " + remark.text),
                 options.jsonDiagnostics);
  remarks.push_back(std::move(remark));
}

Status Compilation::import() {
  progress.stage("reading " + options.model);
  HEDDLE_RETURN_IF_ERROR(importProgram(options, target, [&]() -> MLIRContext & { return createContext(); }, program));
  HEDDLE_RETURN_IF_ERROR(fitTargets());
  HEDDLE_RETURN_IF_ERROR(readResumed());
  HEDDLE_RETURN_IF_ERROR(checkPassFlags());
  if (!options.schedules.empty())
    HEDDLE_RETURN_IF_ERROR(
        readScheduleFile(options.schedules, targetAttr(context.get(), target), context.get(), schedules));
  HEDDLE_RETURN_IF_ERROR(checkOutputs());
  if (program.stage > Stage::Import)
    return Status();
  HEDDLE_RETURN_IF_ERROR(finishStage(Stage::Import));
  return runPasses(Stage::Import, [&](OpPassManager &pm) { addExtensions(pm, options.pipeline, "after-import"); });
}

// All that the output is made of.
std::vector<SharedFile> Compilation::sources() const {
  std::vector<SharedFile> files = program.files.opened();
  llvm::append_range(files, program.mmproj.opened());
  for (const std::vector<ModelFiles> *adapters : {&program.merged.files, &program.adapters.files})
    for (const ModelFiles &adapter : *adapters)
      llvm::append_range(files, adapter.opened());
  llvm::append_range(files, resumedFiles.opened());
  return files;
}

// As `stage` leaves it; text says which, so that it can be resumed.
std::string Compilation::printed(Stage stage) {
  Operation *module = *program.module;
  module->setAttr(stageAttrName, StringAttr::get(context.get(), stageName(stage)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  module->removeAttr(stageAttrName);
  return text;
}

Status Compilation::readResumed() {
  if (options.resume.empty())
    return Status();
  resumedFiles = ModelFiles(options.resume);
  Expected<OwningOpRef<ModuleOp>> read = readMlirModule(*context, resumedFiles);
  if (!read)
    return read.status();
  resumed = std::move(*read);
  FailureOr<Stage> stage = takeStageAttr(*resumed);
  if (failed(stage))
    return diagnosed(StatusCode::InvalidInput);
  resumedStage = *stage;
  if (resumedStage <= program.stage && program.stage > Stage::Import)
    return invalidInput(options.model + ": --resume: the model itself is a module behind stage " +
                        stageName(program.stage).str())
        .inFile(options.model);
  if (resumedStage > options.stopAfter)
    return refuseResumed("the module is behind stage " + stageName(resumedStage).str() +
                         ", which --stop-after=" + stageName(options.stopAfter).str() + " does not reach");
  return succeeded(verifyStage(*resumed, resumedStage)) ? Status() : diagnosed(StatusCode::InvalidInput);
}

// A flag of passes that do not run says so: those of stages that the module is behind, or that are not reached.
Status Compilation::checkPassFlags() {
  Stage behind = resumed ? resumedStage : program.stage;
  std::vector<std::string> flags = options.outputFlags;
  if (!options.schedules.empty())
    flags.emplace_back("--schedules");
  for (StringRef flag : flags) {
    auto [key, value] = flag.split('=');
    std::optional<Stage> stage;
    bool isLate = false; // its passes run on the module that the stage leaves
    for (const PassSwitch &pass : passSwitches())
      if (key.starts_with("--") && key.drop_front(2) == pass.name)
        stage = pass.stage;
    for (const ExtensionPoint &point : extensionPoints())
      if (key == "--add-pass" && value.split(':').first == point.name) {
        stage = point.stage;
        isLate = point.stage == Stage::Import;
      }
    if (key == "--mla-absorb")
      stage = Stage::Optimize;
    if (key == "--schedules")
      stage = Stage::Schedule;
    // With --resume it goes on saying what the model's matrices are, as precision depends on it.
    if (key == "--weights" && !resumed)
      stage = Stage::Raise;
    if (!stage)
      continue;
    std::string what = (key == "--add-pass" ? key + "=" + value.split(':').first : key).str() + " belongs to stage " +
                       stageName(*stage).str();
    if (behind > *stage || (behind == *stage && !isLate))
      return invalidInput(what + ", and " + (resumed ? options.resume : options.model) + " is behind stage " +
                          stageName(behind).str());
    if (*stage > options.stopAfter)
      return invalidInput(what + ", which --stop-after=" + stageName(options.stopAfter).str() + " does not reach");
  }
  return Status();
}

// The model's own way up to `stage` has found its config and decided what options leave to it; from here the module is the resumed one.
Status Compilation::takeResumed(Stage stage) {
  if (!resumed || resumedStage != stage)
    return Status();
  if (std::string why = whyOfAnotherModel(*resumed, *program.module, program.model.checkpoint, stage, target.name);
      !why.empty())
    return refuseResumed(why);
  program.module = resumed->clone();
  return Status();
}

Status Compilation::dump(Stage stage) {
  if (options.dumpStages.empty())
    return Status();
  if (std::error_code code = llvm::sys::fs::create_directories(options.dumpStages))
    return Status::failure(options.dumpStages + ": " + code.message()).inFile(options.dumpStages);
  std::string ofTarget = targets.size() > 1 && stage == Stage::Schedule ? "-" + target.name : "";
  std::string path =
      options.dumpStages + "/" + std::to_string(int(stage)) + "-" + stageName(stage).str() + ofTarget + ".mlir";
  OutputFile file;
  HEDDLE_RETURN_IF_ERROR(prepareText(path, printed(stage), file));
  return keepText(file);
}

// Names as heddle-opt takes them, those of nested passes too, without options.
static void appendPassNames(OpPassManager &pm, std::vector<std::string> &names) {
  std::string text, name;
  llvm::raw_string_ostream stream(text);
  pm.printAsTextualPipeline(stream);
  int depth = 0; // of options
  for (char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth > 0 || c == '}')
      continue;
    bool endsName = c == ',' || c == ')';
    if (endsName && !name.empty())
      names.push_back(name);
    if (endsName || c == '(')
      name.clear();
    else
      name += c;
  }
}

namespace {
// Remembers the pass that runs, the one that failed, and the library that it is from.
class PassWatch : public PassInstrumentation {
public:
  PassWatch(std::string &running, std::string &name, std::string &library)
      : running(running), name(name), library(library) {}
  // Those that only run others have no argument.
  void runBeforePass(Pass *pass, Operation *) override { running = pass->getArgument().str(); }
  void runAfterPass(Pass *, Operation *) override { running.clear(); }
  // Innermost first: then come those that only run others.
  void runAfterPassFailed(Pass *pass, Operation *) override {
    running.clear();
    if (!name.empty())
      return;
    name = (pass->getArgument().empty() ? pass->getName() : pass->getArgument()).str();
    // The table of a class's virtual functions lies where the class is defined.
    Dl_info info;
    if (dladdr(*reinterpret_cast<void *const *>(pass), &info) && info.dli_fname)
      library = info.dli_fname;
  }

private:
  std::string &running, &name, &library;
};
} // namespace

Status Compilation::runPasses(Stage stage, function_ref<void(OpPassManager &)> add) {
  progress.stage(stageName(stage));
  PassManager pm(context.get());
  add(pm);
  if (pm.empty())
    return Status();
  appendPassNames(pm, passes);
  std::string failedPass, library;
  pm.addInstrumentation(std::make_unique<PassWatch>(runningPass, failedPass, library));
  if (observes)
    options.observer->willRun(pm, stage);
  if (succeeded(pm.run(*program.module)))
    return Status();
  auto isIt = [&](const std::string &plugin) { return llvm::sys::fs::equivalent(plugin, library); };
  auto plugin = llvm::find_if(options.plugins, isIt);
  if (plugin != options.plugins.end())
    return Status(said)
        .as(StatusCode::Failure)
        .saying("pass '" + failedPass + "' of plugin " + *plugin + " failed" +
                (said.isOk() ? "" : ": " + said.message()));
  return said.isOk() ? Status::failure("internal error: pass '" + failedPass + "' failed without saying why")
                     : diagnosed(StatusCode::Failure);
}

Status Compilation::runStage(Stage stage, function_ref<void(OpPassManager &)> add) {
  HEDDLE_RETURN_IF_ERROR(runPasses(stage, add));
  return finishStage(stage);
}

// What stood in the way of attention, or else why no decoder was found.
static std::string blockedRaise(ModuleOp module) {
  std::string notFused, noDecoder;
  module.walk([&](Operation *op) {
    if (auto reason = op->getAttrOfType<StringAttr>(notFusedAttr); reason && notFused.empty())
      notFused = reason.str();
    if (auto reason = op->getAttrOfType<StringAttr>(noDecoderAttr))
      noDecoder = reason.str();
  });
  if (notFused.empty() && noDecoder.empty())
    return "it has " + std::to_string(graphEntries(module).size()) + " entries, expected one";
  return notFused.empty() ? noDecoder : notFused;
}

// What the options leave to the target, for each; nothing else of a program depends on it before the schedule stage.
Status Compilation::fitTargets() {
  fitted.clear();
  for (const Target &each : llvm::reverse(targets)) { // ends as it was fitted for the first
    HEDDLE_RETURN_IF_ERROR(fitOptions(options, each, program));
    fitted.insert(fitted.begin(), program.pipeline);
  }
  // Panels of a gate and an up projection lie in turn where their product joins them: one copy of the weights is for all processors.
  program.pipeline.gatesInProducts =
      llvm::all_of(fitted, [](const PipelineOptions &pipeline) { return pipeline.gatesInProducts; });
  for (PipelineOptions &pipeline : fitted)
    pipeline.gatesInProducts = program.pipeline.gatesInProducts;
  return Status();
}

Status Compilation::raise() {
  if (program.consistsOfModelOps) {
    // There is nothing to raise; what others do here is checked all the same.
    return runStage(Stage::Raise, [&](OpPassManager &pm) { addRaisedPasses(pm, program.pipeline); });
  }
  auto run = [&](bool asDecoder) {
    PipelineOptions pipeline = asDecoder ? program.pipeline : program.pipeline.ofGraph();
    return runStage(Stage::Raise, [&](OpPassManager &pm) { addRaiseStage(pm, pipeline); });
  };
  // The passes that bind a decoder's inputs run first; what they made of a graph that turns out to be none is dropped.
  if (program.mayGenerate) {
    OwningOpRef<ModuleOp> imported = program.firstStep ? std::move(program.module) : program.module->clone();
    if (program.firstStep)
      program.module = std::move(program.firstStep);
    size_t passesBefore = passes.size();
    HEDDLE_RETURN_IF_ERROR(run(/*asDecoder=*/true));
    if (options.stopAfter == Stage::Raise && (raggedEntry(*program.module) || options.task == Task::Generate))
      return Status();
    bool generates = false;
    HEDDLE_RETURN_IF_ERROR(adoptDecoder(options, target, blockedRaise(*program.module), program, generates));
    if (generates)
      return fitTargets();
    passes.resize(passesBefore);
    program.module = std::move(imported);
  }
  return run(/*asDecoder=*/false);
}

// Not told of a stage that had nothing to do, nor of numbers that matrices have before they take another type: values are compared with those of
// the first module that the observer is told of.
LogicalResult Compilation::tellObserver(Stage stage) {
  bool converts = !options.pipeline.weights.empty();
  bool isIdle = stage == Stage::Raise && program.consistsOfModelOps && !converts;
  if (!options.observer || isIdle || (stage < Stage::Raise && converts))
    return success();
  observes = true;
  return options.observer->didRun(*program.module, stage, program.model.checkpoint);
}

Status Compilation::finishStage(Stage stage) {
  // Dumped before it is verified: a broken contract is easier to see than to read about.
  HEDDLE_RETURN_IF_ERROR(takeResumed(stage));
  HEDDLE_RETURN_IF_ERROR(dump(stage));
  bool isRight = succeeded(verifyStage(*program.module, stage)) && succeeded(tellObserver(stage));
  return isRight ? Status() : diagnosed(StatusCode::Failure);
}

// A program that generates otherwise than the model's files ask for says so when it is made.
void Compilation::noteNotApplied() {
  if (const ModelConfig &config = program.model.config; !config.notApplied.empty())
    warn(config.samplingFile, "the program generates without " + llvm::join(config.notApplied, ", "));
}

void Compilation::warn(const std::string &file, const std::string &text) {
  InputPlace place;
  place.file = file;
  notes.warnings.push_back({Finding::Severity::Warning, "import", 0, file + ": " + text, place});
}

// That it does not run where it was asked for is said where the program is made and in its report.
Status Compilation::keepGraphsOnHost() {
  std::string text = placeGraphs(*program.module, target);
  if (text.empty())
    return Status();
  warn(options.model, text);
  remarks.push_back({options.model, text});
  targets = {target};
  return fitTargets();
}

// Once for each target, of the same module: up to here they have all in common.
Status Compilation::schedule() {
  OwningOpRef<ModuleOp> optimized;
  if (targets.size() > 1)
    optimized = program.module->clone();
  std::vector<std::string> passesBefore = passes;
  std::vector<Remark> remarksBefore = remarks;
  for (auto [i, each] : llvm::enumerate(targets)) {
    target = each;
    if (i > 0)
      program.module = optimized->clone();
    passes = passesBefore;
    remarks = remarksBefore;
    (*program.module)->setAttr(targetAttrName, targetAttr(context.get(), target));
    if (target.isDevice() && !graphEntries(*program.module).empty())
      (*program.module)->setAttr(graphTargetAttrName, targetAttr(context.get(), graphTargetOf(target)));
    if (schedules)
      (*program.module)->setAttr(schedulesAttrName, schedules);
    const PipelineOptions &pipeline = fitted[i];
    HEDDLE_RETURN_IF_ERROR(runStage(Stage::Schedule, [&](OpPassManager &pm) { addScheduleStage(pm, pipeline); }));
    if (targets.size() > 1)
      variants.push_back({target, std::move(program.module), passes, remarks});
  }
  return Status();
}

Status Compilation::run() {
  HEDDLE_RETURN_IF_ERROR(checkOptions());
  HEDDLE_RETURN_IF_ERROR(import());
  auto isDue = [&](Stage stage) { return program.stage < stage && options.stopAfter >= stage; };
  if (isDue(Stage::Raise))
    HEDDLE_RETURN_IF_ERROR(raise());
  HEDDLE_RETURN_IF_ERROR(keepGraphsOnHost());
  if (options.printCacheKey) {
    std::string error;
    FailureOr<std::string> key =
        cacheKey(options, targets,
                 packageInfo(options, program, *program.module, targets.front(), SourceHash(sources()).get()), error);
    notes.cacheKey = succeeded(key) ? *key : "";
    return succeeded(key) ? Status() : Status::failure(error);
  }
  noteNotApplied();
  // Once more: a decoder that was found in a graph has read the files beside it.
  HEDDLE_RETURN_IF_ERROR(checkOutputs());
  if (isDue(Stage::Optimize))
    HEDDLE_RETURN_IF_ERROR(
        runStage(Stage::Optimize, [&](OpPassManager &pm) { addOptimizeStage(pm, program.pipeline); }));
  if (isDue(Stage::Schedule))
    HEDDLE_RETURN_IF_ERROR(schedule());
  else if (targets.size() > 1)
    return invalidInput(options.model + ": the module was scheduled for one target, which " + options.target +
                        " is not");
  if (options.isObserved)
    return Status();
  if (options.stopAfter < Stage::Codegen || options.emit == Emit::Mlir)
    return writeText(options, sources(), printed(std::min(options.stopAfter, Stage::Schedule)));
  if (variants.empty())
    variants.push_back({target, std::move(program.module), passes, remarks});
  else
    shareWeights(llvm::to_vector(llvm::map_range(variants, [](Variant &variant) { return *variant.module; })));
  return writeBinary({options, program, variants, sources(), progress}, notes.summary);
}

std::string heddle::folderOf(StringRef path) {
  StringRef folder = llvm::sys::path::parent_path(path);
  return folder.empty() ? "." : folder.str();
}

Status heddle::compileModel(const CompileOptions &options, CompileNotes *notes) {
  Compilation compilation(options);
  Status status = compilation.run();
  if (options.observer)
    options.observer->willEnd();
  if (status.isOk() && notes)
    *notes = std::move(compilation.notes);
  if (status.isOk() || !status.message().empty())
    return status;
  return compilation.said.isOk() ? Status::failure("internal error: a stage failed without saying why")
                                 : std::move(compilation.said).as(status.code());
}
