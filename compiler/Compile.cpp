// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Compile.h"

#include "compiler/codegen/Codegen.h"
#include "compiler/package/OutputFile.h"
#include "compiler/package/Package.h"
#include "compiler/report/Report.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/tokenizer/TokenizerReader.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <link.h>
#include <sys/mman.h>
#include <set>
#include <unistd.h>

using namespace mlir;
using namespace heddle;

// Rows of a step: prompts are read in chunks of this size.
static constexpr int64_t chunkRows = 512;

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
  Compilation(const CompileOptions &options, std::string &error) : options(options), error(error), progress(options.quiet) {}
  CompileStatus run();

private:
  CompileStatus fail(CompileStatus status, std::string message) {
    error = std::move(message);
    return status;
  }
  CompileStatus readInputs();
  std::string refusedByDevice() const;
  void takeRemark(Diagnostic &diagnostic);
  void choosePrecision();
  LogicalResult runStage(Stage stage, function_ref<void(OpPassManager &)> add);
  LogicalResult finishStage(Stage stage);
  LogicalResult dump(Stage stage);
  CompileStatus writeText(const std::string &text);
  CompileStatus writeBinary();
  CompileStatus writeDepfile();
  CompileStatus writeReport(const PackageInfo &info, const GeneratedCode &code);
  CompileStatus writeFile(const std::string &path, const std::string &text);
  std::string printed();

  const CompileOptions &options;
  std::string &error;
  Progress progress;
  std::optional<Model> model;
  std::string tokenizer;
  Target target;
  PipelineOptions pipeline;
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> passes;
  std::vector<Remark> remarks;
};

} // namespace

// What devices cannot compute of what the model or the flags ask for; empty if they can.
std::string Compilation::refusedByDevice() const {
  if (model->config.moe.numExperts > 0)
    return "mixtures of experts (" + model->config.architecture + ")";
  return options.activations == "int8" ? "--activations=int8" : "";
}

CompileStatus Compilation::readInputs() {
  progress.stage("reading " + options.model);
  FailureOr<Target> parsed = parseTarget(options.target, error);
  if (failed(parsed))
    return CompileStatus::InvalidInput;
  target = *parsed;
  if (options.output.empty() && options.stopAfter == Stage::Package)
    return fail(CompileStatus::InvalidInput, "no output given: use -o FILE");
  if (!options.output.empty() && options.output != "-" && !OutputFile::isPossible(options.output, error))
    return CompileStatus::InvalidInput;
  bool endsInText = options.stopAfter != Stage::Package || options.emit == Emit::Mlir || options.emit == Emit::Llvm || options.emit == Emit::Assembly;
  if (!options.report.empty() && endsInText)
    return fail(CompileStatus::InvalidInput, "--report describes a whole compilation: it goes with no --stop-after and no text output");
  if (!options.report.empty() && !OutputFile::isPossible(options.report, error))
    return CompileStatus::InvalidInput;
  Expected<Model> read = readModel(options.model);
  if (!read)
    return fail(CompileStatus::InvalidInput, read.takeError().message);
  model = std::move(*read);
  Expected<std::string> table = readTokenizer(options.model);
  if (!table)
    return fail(CompileStatus::InvalidInput, table.takeError().message);
  tokenizer = std::move(*table);
  if (target.isDevice() && !refusedByDevice().empty())
    return fail(CompileStatus::InvalidInput, options.model + ": target " + target.name + " has no kernels for " + refusedByDevice());
  if (options.context > model->config.contextLength)
    return fail(CompileStatus::InvalidInput, "--context=" + std::to_string(options.context) + " is more than the model's " +
                                                 std::to_string(model->config.contextLength) + " positions");
  return CompileStatus::Done;
}

// What DESIGN says of fast and precise, for the types that the file holds.
void Compilation::choosePrecision() {
  bool quantized = false, bf16 = false, f16 = false;
  for (auto &[name, tensor] : model->checkpoint.tensors) {
    if (tensor.shape.size() < 2)
      continue;
    quantized |= tensorTypeInfo(tensor.type).blockValues > 1;
    bf16 |= tensor.type == heddle::TensorType::BF16;
    f16 |= tensor.type == heddle::TensorType::F16;
  }
  pipeline = options.pipeline;
  bool fast = options.precision == Precision::Fast;
  pipeline.kvElementType = !fast ? "f32" : quantized || bf16 ? "bf16" : f16 ? "f16" : "f32";
  // Not int8 in fast: compiler/schedule/README.md has the figures.
  pipeline.activations = "f32";
  pipeline.bf16Products = fast && target.device == DeviceKind::Cuda;
  if (options.kv != "auto")
    pipeline.kvElementType = options.kv;
  if (options.activations != "auto")
    pipeline.activations = options.activations;
  pipeline.singleResult = target.isDevice();
}

void Compilation::takeRemark(Diagnostic &diagnostic) {
  Remark remark;
  llvm::raw_string_ostream(remark.location) << diagnostic.getLocation();
  remark.text = diagnostic.str();
  if (options.printRemarks)
    llvm::errs() << "remark: " << remark.location << ": " << remark.text << "\n";
  remarks.push_back(std::move(remark));
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

LogicalResult Compilation::runStage(Stage stage, function_ref<void(OpPassManager &)> add) {
  progress.stage(stageName(stage));
  PassManager pm(context.get());
  add(pm);
  for (Pass &pass : pm)
    passes.push_back(pass.getArgument().str());
  if (options.observer)
    options.observer->willRun(pm, stage);
  return success(succeeded(pm.run(*module)) && succeeded(finishStage(stage)));
}

LogicalResult Compilation::finishStage(Stage stage) {
  // Dumped before it is verified: a broken contract is easier to see than to read about.
  if (failed(dump(stage)) || failed(verifyStage(*module, stage)))
    return failure();
  return options.observer ? options.observer->didRun(*module, stage, *model) : success();
}

CompileStatus Compilation::writeText(const std::string &text) {
  if (options.output.empty() || options.output == "-") {
    llvm::outs() << text;
    return CompileStatus::Done;
  }
  return writeFile(options.output, text);
}

CompileStatus Compilation::writeFile(const std::string &path, const std::string &text) {
  OutputFile file;
  if (!OutputFile::create(path, file, error))
    return CompileStatus::Failure;
  if (!file.write(0, text) || !file.keep(false))
    return fail(CompileStatus::Failure, file.error());
  return CompileStatus::Done;
}

// Of the file, or of all files of a folder in order of name.
static std::string sourceHash(const Model &model) {
  llvm::SHA256 hash;
  for (const auto &file : model.checkpoint.files)
    hash.update(ArrayRef(file->data(), file->size()));
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

// A C identifier from the output's name.
static std::string symbolName(const CompileOptions &options) {
  std::string name = options.name.empty() ? llvm::sys::path::stem(options.output).str() : options.name;
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name.empty() || llvm::isDigit(name[0]) ? "m" + name : name;
}

// The files that a model is read from, sorted.
static std::vector<std::string> filesOf(const Model &model, const std::string &path) {
  std::set<std::string> files;
  for (const auto &file : model.checkpoint.files)
    files.insert(file->path());
  std::error_code code;
  if (llvm::sys::fs::is_directory(path))
    for (llvm::sys::fs::directory_iterator entry(path, code), end; entry != end && !code; entry.increment(code))
      if (llvm::is_contained({".json", ".safetensors", ".model", ".txt", ".jinja"}, llvm::sys::path::extension(entry->path())))
        files.insert(entry->path());
  return {files.begin(), files.end()};
}

// As make reads a name.
static std::string escapeForMake(StringRef name) {
  std::string escaped;
  for (char c : name) {
    if (c == ' ' || c == '#' || c == '\\')
      escaped += '\\';
    else if (c == '$')
      escaped += '$';
    escaped += c;
  }
  return escaped;
}

CompileStatus Compilation::writeDepfile() {
  if (options.depfile.empty())
    return CompileStatus::Done;
  std::string rule = escapeForMake(options.output) + ":";
  for (const std::string &name : filesOf(*model, options.model))
    rule += " \\\n  " + escapeForMake(name);
  return writeFile(options.depfile, rule + "\n");
}

CompileStatus Compilation::writeReport(const PackageInfo &info, const GeneratedCode &code) {
  if (options.report.empty())
    return CompileStatus::Done;
  std::string report = buildReport(*module, model->config.architecture, info, target, code, remarks);
  return writeFile(options.report, StringRef(options.report).ends_with(".json") ? report : reportPage(report));
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
  MachineCode kind = options.emit == Emit::Llvm ? MachineCode::LLVMIR
                     : options.emit == Emit::Assembly ? MachineCode::Assembly
                                                      : MachineCode::Object;
  FailureOr<GeneratedCode> code = generateCode(*module, target, kind);
  if (failed(code))
    return CompileStatus::Failure;
  if (kind != MachineCode::Object)
    return writeText(code->objects.front());
  progress.stage("packing weights");
  PackageInfo info;
  // Nothing of the output depends on where or under which name it is written, unless --name says so.
  info.name = options.emit == Emit::Executable && options.name.empty() ? "main" : symbolName(options);
  info.sourceName = llvm::sys::path::filename(StringRef(options.model).rtrim('/')).str();
  info.sourceSha256 = sourceHash(*model);
  info.precision = options.precision == Precision::Fast ? "fast" : "precise";
  info.passes = passes;
  info.context = options.context ? options.context : std::min<int64_t>(model->config.contextLength, 8192);
  info.maxRows = std::min(chunkRows, info.context);
  info.tokenizer = tokenizer;
  LinkKind link = options.emit == Emit::Object    ? LinkKind::Relocatable
                  : options.emit == Emit::Package ? LinkKind::Package
                  : options.emit == Emit::Library ? LinkKind::SharedLibrary
                                                  : LinkKind::Executable;
  PackageRequest request{*module, *model, target, *code, info, link, options.sidecar, options.output};
  if (failed(writePackage(request, error)))
    return CompileStatus::Failure;
  CompileStatus status = writeReport(info, *code);
  return status == CompileStatus::Done ? writeDepfile() : status;
}

CompileStatus Compilation::run() {
  if (CompileStatus status = readInputs(); status != CompileStatus::Done)
    return status;
  choosePrecision();
  registerDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  // What passes report becomes part of the one line that the user sees.
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && error.empty())
      llvm::raw_string_ostream(error) << diagnostic.getLocation() << ": " << diagnostic;
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      takeRemark(diagnostic);
    return success();
  });
  progress.stage("import");
  module = importModel(*context, *model);
  if (!module || failed(verify(*module)) || failed(finishStage(Stage::Import)))
    return CompileStatus::Failure;
  if (options.stopAfter > Stage::Raise &&
      failed(runStage(Stage::Optimize, [&](OpPassManager &pm) { addOptimizeStage(pm, pipeline); })))
    return CompileStatus::Failure;
  if (options.stopAfter > Stage::Optimize &&
      failed(runStage(Stage::Schedule, [&](OpPassManager &pm) { addScheduleStage(pm, pipeline); })))
    return CompileStatus::Failure;
  if (options.stopAfter < Stage::Codegen || options.emit == Emit::Mlir)
    return writeText(printed());
  return writeBinary();
}

CompileStatus heddle::compileModel(const CompileOptions &options, std::string &error) {
  CompileStatus status = Compilation(options, error).run();
  if (status != CompileStatus::Done && error.empty())
    error = "internal error: a stage failed without saying why";
  return status;
}
