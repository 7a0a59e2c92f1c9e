// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Compile.h"

#include "compiler/Program.h"
#include "compiler/SourceFiles.h"
#include "compiler/codegen/KernelTarget.h"
#include "compiler/package/OutputFile.h"
#include "compiler/report/Report.h"
#include "compiler/schedule/ScheduleTable.h"
#include "frontends/ModelConfig.h"
#include "runtime/model/PackageHeader.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <link.h>
#include <map>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace heddle;

namespace {

// Says on a terminal which stage runs; silent in a pipe.
class Progress {
public:
  explicit Progress(bool quiet) : visible(!quiet && isatty(STDERR_FILENO)), start(std::chrono::steady_clock::now()) {}
  ~Progress() {
    if (visible)
      llvm::errs() << "\r\033[K";
  }
  void stage(StringRef what) {
    if (!visible)
      return;
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    llvm::errs() << "\r\033[K" << llvm::format("%5.1f s  ", seconds) << what;
  }

private:
  bool visible;
  std::chrono::steady_clock::time_point start;
};

// One compilation.
class Compilation {
public:
  Compilation(const CompileOptions &options, std::string &error)
      : options(options), error(error), progress(options.quiet) {}
  CompileStatus run();

private:
  CompileStatus fail(CompileStatus status, std::string message) {
    error = std::move(message);
    return status;
  }
  CompileStatus checkOptions();
  CompileStatus checkOutputs();
  void createContext();
  void takeRemark(Diagnostic &diagnostic);
  CompileStatus import();
  CompileStatus raise();
  std::string blockedRaise() const;
  LogicalResult runPasses(Stage stage, function_ref<void(OpPassManager &)> add);
  LogicalResult runStage(Stage stage, function_ref<void(OpPassManager &)> add);
  LogicalResult finishStage(Stage stage);
  LogicalResult dump(Stage stage);
  CompileStatus writeText(const std::string &text);
  CompileStatus writeBinary();
  std::vector<std::string> modelFiles() const;
  LogicalResult prepare(const std::string &path, const std::string &text, OutputFile &outFile);
  LogicalResult keep(OutputFile &file);
  PackageInfo packageInfo() const;
  std::string printed();

  const CompileOptions &options;
  std::string &error;
  Progress progress;
  Target target;
  std::unique_ptr<Program> reader, program; // reader: of files that turned out to hold another program
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  std::optional<ScopedDiagnosticHandler> diagnostics;
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> passes;
  std::vector<Remark> remarks;
};

} // namespace

CompileStatus Compilation::checkOptions() {
  FailureOr<Target> parsed = parseTarget(options.target, error);
  if (failed(parsed))
    return CompileStatus::InvalidInput;
  target = *parsed;
  auto refuse = [&](const char *message) { return fail(CompileStatus::InvalidInput, message); };
  bool isText = options.stopAfter != Stage::Package || options.emit == Emit::Mlir || options.emit == Emit::Llvm ||
                options.emit == Emit::Assembly;
  bool toTerminal = options.output.empty() || options.output == "-";
  if (options.output.empty() && options.stopAfter == Stage::Package)
    return refuse("no output given: use -o FILE");
  if (toTerminal && !isText)
    return refuse("-o - is for text: a program needs the name of a file");
  if (!options.report.empty() && isText)
    return refuse("--report describes a whole compilation: it goes with no --stop-after and no text output");
  if (!options.depfile.empty() && toTerminal)
    return refuse("--depfile says what a file depends on: it needs -o FILE");
  if (options.sidecar && isText)
    return refuse("--sidecar is of programs, libraries, objects and packages: text has no weights");
  if (!options.name.empty() && isText)
    return refuse("--name is of programs, libraries, objects and packages: text has no symbol");
  for (const std::string &path : {toTerminal ? "" : options.output, options.report, options.depfile})
    if (!path.empty() && !OutputFile::isPossible(path, error))
      return CompileStatus::InvalidInput;
  return CompileStatus::Done;
}

// No output may be a file that the model is read from, or another output: what is written would be lost, or what it was made of.
CompileStatus Compilation::checkOutputs() {
  std::map<llvm::sys::fs::UniqueID, std::string> taken;
  llvm::sys::fs::UniqueID id;
  for (const std::string &name : modelFiles())
    if (!llvm::sys::fs::getUniqueID(name, id))
      taken.emplace(id, "the model's file " + name);
  std::set<std::string> names;
  for (const std::string &path : {options.output, options.sidecar ? options.output + HEDDLE_SIDECAR_SUFFIX : "",
                                  options.report, options.depfile}) {
    if (path.empty() || path == "-")
      continue;
    SmallString<256> whole(path);
    llvm::sys::fs::make_absolute(whole);
    llvm::sys::path::remove_dots(whole, /*remove_dot_dot=*/true);
    if (!names.insert(whole.str().str()).second)
      return fail(CompileStatus::InvalidInput, path + ": two outputs have this name");
    if (auto found = taken.end(); !llvm::sys::fs::getUniqueID(path, id) && (found = taken.find(id)) != taken.end())
      return fail(CompileStatus::InvalidInput, path + ": the output would replace " + found->second);
  }
  return CompileStatus::Done;
}

void Compilation::createContext() {
  registerDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  // What passes report becomes part of the one line that the user sees.
  diagnostics.emplace(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && error.empty())
      llvm::raw_string_ostream(error) << diagnostic.getLocation() << ": " << diagnostic;
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      takeRemark(diagnostic);
    return success();
  });
}

void Compilation::takeRemark(Diagnostic &diagnostic) {
  Remark remark;
  llvm::raw_string_ostream(remark.location) << diagnostic.getLocation();
  remark.text = diagnostic.str();
  if (options.printRemarks)
    llvm::errs() << "remark: " << remark.location << ": " << remark.text << "\n";
  remarks.push_back(std::move(remark));
}

CompileStatus Compilation::import() {
  progress.stage("reading " + options.model);
  program = makeProgram(options, target);
  if (CompileStatus status = program->read(error); status != CompileStatus::Done)
    return status;
  createContext();
  progress.stage("import");
  if (CompileStatus status = program->import(*context, module, error); status != CompileStatus::Done)
    return status;
  if (CompileStatus status = checkOutputs(); status != CompileStatus::Done)
    return status;
  return succeeded(finishStage(Stage::Import)) ? CompileStatus::Done : CompileStatus::Failure;
}

std::string Compilation::printed() {
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

LogicalResult Compilation::dump(Stage stage) {
  if (options.dumpStages.empty())
    return success();
  if (std::error_code code = llvm::sys::fs::create_directories(options.dumpStages)) {
    error = options.dumpStages + ": " + code.message();
    return failure();
  }
  std::string path = options.dumpStages + "/" + std::to_string(int(stage)) + "-" + stageName(stage).str() + ".mlir";
  OutputFile file;
  if (!OutputFile::create(path, file, error))
    return failure();
  if (!file.write(0, printed()) || !file.keep(false)) {
    error = file.error();
    return failure();
  }
  return success();
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

LogicalResult Compilation::runPasses(Stage stage, function_ref<void(OpPassManager &)> add) {
  progress.stage(stageName(stage));
  PassManager pm(context.get());
  add(pm);
  appendPassNames(pm, passes);
  if (options.observer)
    options.observer->willRun(pm, stage);
  return pm.run(*module);
}

LogicalResult Compilation::runStage(Stage stage, function_ref<void(OpPassManager &)> add) {
  return success(succeeded(runPasses(stage, add)) && succeeded(finishStage(stage)));
}

// The op that stood in the way of attention, or else what no decoder was formed for.
std::string Compilation::blockedRaise() const {
  for (StringRef kind : {"not fused: ", "no generate: "})
    for (const Remark &remark : remarks)
      if (StringRef text = remark.text; text.consume_front(kind))
        return text.str();
  return "";
}

CompileStatus Compilation::raise() {
  if (failed(runPasses(Stage::Raise, [&](OpPassManager &pm) { addExtensions(pm, options.pipeline, "after-import"); })))
    return CompileStatus::Failure;
  if (!program->isRaised())
    return CompileStatus::Done;
  auto run = [&](bool asDecoder) {
    return runStage(Stage::Raise, [&](OpPassManager &pm) { program->addRaiseStage(pm, asDecoder); });
  };
  if (program->mayGenerate(*module)) {
    OwningOpRef<ModuleOp> imported = module->clone();
    size_t passesBefore = passes.size();
    if (failed(run(/*asDecoder=*/true)))
      return CompileStatus::Failure;
    if (options.stopAfter == Stage::Raise)
      return CompileStatus::Done;
    std::unique_ptr<Program> found = program->takeRaised(*module, blockedRaise(), error);
    if (!error.empty())
      return CompileStatus::InvalidInput;
    if (found) {
      reader = std::exchange(program, std::move(found));
      return CompileStatus::Done;
    }
    passes.resize(passesBefore);
    module = std::move(imported);
  }
  return succeeded(run(/*asDecoder=*/false)) ? CompileStatus::Done : CompileStatus::Failure;
}

LogicalResult Compilation::finishStage(Stage stage) {
  // Dumped before it is verified: a broken contract is easier to see than to read about.
  if (failed(dump(stage)) || failed(verifyStage(*module, stage)))
    return failure();
  return options.observer ? options.observer->didRun(*module, stage, program->checkpoint()) : success();
}

CompileStatus Compilation::writeText(const std::string &text) {
  if (options.output.empty() || options.output == "-") {
    llvm::outs() << text;
    return CompileStatus::Done;
  }
  OutputFile file, depfile;
  bool isDone = succeeded(prepare(options.output, text, file)) &&
                succeeded(prepare(options.depfile, makeRule(options.output, modelFiles()), depfile)) &&
                succeeded(keep(file)) && succeeded(keep(depfile));
  return isDone ? CompileStatus::Done : CompileStatus::Failure;
}

// Writes `text` to a file that has no name yet; nothing where `path` is empty.
LogicalResult Compilation::prepare(const std::string &path, const std::string &text, OutputFile &outFile) {
  if (path.empty())
    return success();
  if (!OutputFile::create(path, outFile, error))
    return failure();
  bool isWritten = outFile.write(0, text);
  error = outFile.error();
  return success(isWritten);
}

LogicalResult Compilation::keep(OutputFile &file) {
  bool isKept = !file.isOpen() || file.keep(false);
  error = file.error();
  return success(isKept);
}

// A C identifier from the output's name.
static std::string symbolName(const CompileOptions &options) {
  std::string name = options.name.empty() ? llvm::sys::path::stem(options.output).str() : options.name;
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name.empty() || llvm::isDigit(name[0]) ? "m" + name : name;
}

// The files that the model is read from, sorted.
std::vector<std::string> Compilation::modelFiles() const {
  // An ONNX file that generates has its config and tokenizer beside it.
  return sourceFiles(options.model, program->checkpoint(), /*hasCompanions=*/reader != nullptr);
}

// Code of the shared LLVM, MLIR and Halide that earlier stages ran is mapped from their files and comes back when it is needed:
// resident memory is then that of the largest stage, not of all.
static void releaseLibraryCode() {
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) &segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W))
            continue;
          uintptr_t page = getpagesize(), begin = (info->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
          uintptr_t end = (info->dlpi_addr + segment.p_vaddr + segment.p_memsz) / page * page;
          if (begin < end)
            madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
        }
        return 0;
      },
      nullptr);
}

CompileStatus Compilation::writeBinary() {
  releaseLibraryCode();
  progress.stage("codegen");
  MachineCode kind = options.emit == Emit::Llvm       ? MachineCode::LLVMIR
                     : options.emit == Emit::Assembly ? MachineCode::Assembly
                                                      : MachineCode::Object;
  FailureOr<GeneratedCode> code = program->generateCode(*module, kind);
  if (failed(code))
    return CompileStatus::Failure;
  if (kind != MachineCode::Object)
    return writeText(code->objects.front());
  PackageInfo info = packageInfo();
  if (options.observer && failed(options.observer->didGenerate(*module, *code, info, program->checkpoint())))
    return CompileStatus::Failure;
  progress.stage("packing weights");
  LinkKind link = options.emit == Emit::Object    ? LinkKind::Relocatable
                  : options.emit == Emit::Package ? LinkKind::Package
                  : options.emit == Emit::Library ? LinkKind::SharedLibrary
                                                  : LinkKind::Executable;
  auto metadata = [&](ArrayRef<PackedWeight> weights) { return program->buildMetadata(*module, info, *code, weights); };
  // All that can fail comes before the first file has its name.
  std::string described;
  if (!options.report.empty())
    described = buildReport(*module, info, target, *code, remarks);
  if (StringRef(options.report).ends_with(".html"))
    described = reportPage(described);
  OutputFile report, depfile;
  if (failed(prepare(options.report, described, report)) ||
      failed(prepare(options.depfile, makeRule(options.output, modelFiles()), depfile)))
    return CompileStatus::Failure;
  PackageRequest request{*module, program->checkpoint(), target,        *code, info.name, metadata,
                         link,    options.sidecar,       options.output};
  bool isDone = succeeded(writePackage(request, error)) && succeeded(keep(report)) && succeeded(keep(depfile));
  return isDone ? CompileStatus::Done : CompileStatus::Failure;
}

PackageInfo Compilation::packageInfo() const {
  PackageInfo info;
  // Nothing of the output depends on where or under which name it is written, unless --name says so.
  info.name = options.emit == Emit::Executable && options.name.empty() ? "main" : symbolName(options);
  info.sourceName = llvm::sys::path::filename(StringRef(options.model).rtrim('/')).str();
  info.sourceSha256 = sourceHash(modelFiles());
  info.precision = options.precision == Precision::Fast ? "fast" : "precise";
  info.passes = passes;
  program->describe(info);
  return info;
}

CompileStatus Compilation::run() {
  if (CompileStatus status = checkOptions(); status != CompileStatus::Done)
    return status;
  if (CompileStatus status = import(); status != CompileStatus::Done)
    return status;
  if (options.stopAfter > Stage::Import)
    if (CompileStatus status = raise(); status != CompileStatus::Done)
      return status;
  if (options.stopAfter > Stage::Raise &&
      failed(runStage(Stage::Optimize, [&](OpPassManager &pm) { program->addOptimizeStage(pm); })))
    return CompileStatus::Failure;
  if (options.stopAfter > Stage::Optimize)
    (*module)->setAttr(targetAttrName, targetAttr(context.get(), target));
  if (options.stopAfter > Stage::Optimize &&
      failed(runStage(Stage::Schedule, [&](OpPassManager &pm) { program->addScheduleStage(pm); })))
    return CompileStatus::Failure;
  if (options.stopAfter < Stage::Codegen || options.emit == Emit::Mlir)
    return writeText(printed());
  return writeBinary();
}

static bool isMlir(StringRef path) {
  return llvm::sys::path::extension(path) == ".mlir";
}

bool heddle::holdsGraph(const CompileOptions &options) {
  return isMlir(options.model) || isOnnx(options.model);
}

std::string heddle::folderOf(StringRef path) {
  StringRef folder = llvm::sys::path::parent_path(path);
  return folder.empty() ? "." : folder.str();
}

std::unique_ptr<Program> heddle::makeProgram(const CompileOptions &options, const Target &target) {
  if (isMlir(options.model))
    return makeMlirProgram(options, target);
  return isOnnx(options.model) ? makeOnnxProgram(options, target) : makeGeneratingProgram(options, target);
}

CompileStatus heddle::compileModel(const CompileOptions &options, std::string &error) {
  CompileStatus status = Compilation(options, error).run();
  if (status != CompileStatus::Done && error.empty())
    error = "internal error: a stage failed without saying why";
  return status;
}
