// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/WriteBinary.h"

#include "compiler/SourceFiles.h"
#include "compiler/codegen/kernel/StepRows.h"
#include "compiler/codegen/machine/LoadedCode.h"
#include "compiler/codegen/machine/ResidentMemory.h"
#include "compiler/package/Package.h"
#include "compiler/package/SharedWeights.h"
#include "compiler/package/Sidecar.h"
#include "dialect/Entries.h"
#include "frontends/peft/Bottleneck.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>

using namespace mlir;
using namespace heddle;

Status heddle::prepareText(const std::string &path, const std::string &text, OutputFile &outFile) {
  if (path.empty())
    return Status();
  std::string error;
  if (!OutputFile::create(path, outFile, error))
    return Status::failure(error).inFile(path);
  bool isWhole = outFile.write(0, text) && outFile.finish(false);
  return isWhole ? Status() : Status::failure(outFile.error()).inFile(path);
}

Status heddle::keepText(OutputFile &file) {
  return !file.isOpen() || file.keep(false) ? Status() : Status::failure(file.error());
}

Status heddle::writeText(const CompileOptions &options, const std::vector<SharedFile> &sources,
                         const std::string &text) {
  if (options.output.empty() || options.output == "-") {
    llvm::outs() << text;
    return Status();
  }
  OutputFile file, depfile;
  HEDDLE_RETURN_IF_ERROR(prepareText(options.output, text, file));
  HEDDLE_RETURN_IF_ERROR(prepareText(options.depfile, makeRule(options, sources), depfile));
  HEDDLE_RETURN_IF_ERROR(keepText(file));
  return keepText(depfile);
}

// A C identifier from the output's name.
static std::string symbolName(const CompileOptions &options) {
  std::string name = options.name.empty() ? llvm::sys::path::stem(options.output).str() : options.name;
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name.empty() || llvm::isDigit(name[0]) ? "m" + name : name;
}

// "; 14 weights became q4_0, relative RMS error 0.082, largest 0.101 (model.layers.0.mlp.down_proj.weight)"
static std::string summarizeConversion(WeightTables tables) {
  ConversionLoss all;
  const PackedWeight *worst = nullptr;
  int64_t count = 0;
  DenseSet<uint64_t> seen; // places, which variants share
  for (const std::vector<PackedWeight> &table : tables)
    for (const PackedWeight &weight : table) {
      if (!weight.loss.from || !seen.insert(weight.offset).second)
        continue;
      ++count;
      all.add(weight.loss);
      if (!worst || weight.loss.relative() > worst->loss.relative())
        worst = &weight;
    }
  if (!worst)
    return "";
  return llvm::formatv("; {0} weight{1} became {2}, relative RMS error {3:f4}, largest {4:f4} ({5})", count,
                       count == 1 ? "" : "s", worst->format, all.relative(), worst->loss.relative(), worst->name)
      .str();
}

// "; 14 weights quantised by gptq became q4_0 and f16, relative RMS error 1.1e-04, largest 2.0e-04 (model.layers.0.mlp.down_proj.weight)"
static std::string summarizeRestored(const Model &model) {
  if (model.restored.empty())
    return "";
  llvm::SetVector<StringRef> types;
  const RestoredWeight *worst = &model.restored.front();
  RestoredWeight all;
  for (const RestoredWeight &weight : model.restored) {
    types.insert(tensorTypeInfo(weight.type).name);
    all.differences += weight.differences;
    all.squares += weight.squares;
    if (weight.relative() > worst->relative())
      worst = &weight;
  }
  std::string text =
      llvm::formatv("; {0} weight{1} quantised by {2} became {3}", model.restored.size(),
                    model.restored.size() == 1 ? "" : "s", model.quantMethod, llvm::join(types, " and "));
  if (worst->differences == 0)
    return text + ", nothing was rounded";
  return text + llvm::formatv(", relative RMS error {0:e1}, largest {1:e1} ({2})", all.relative(), worst->relative(),
                              worst->name)
                    .str();
}

// "; 14 weights changed by adapters, 7 of them bf16 now" and "; 1 weight replaced by adapters"
static std::string summarizeMerge(const AdapterMerge &merged, bool isConverted) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto count = [&](int64_t number, StringRef what) {
    if (number)
      out << "; " << number << " weight" << (number == 1 ? "" : "s") << " " << what << " by adapters";
  };
  count(merged.changed, "changed");
  if (!merged.widened.empty() && !isConverted) // what --weights makes of them is said elsewhere
    out << ", " << merged.widened.size() << " of them of 16 bits now";
  count(merged.replaced, "replaced");
  if (size_t places = merged.bottlenecks ? merged.bottlenecks->places.size() : 0)
    out << "; " << places << " bottleneck" << (places == 1 ? "" : "s") << " added by an adapter";
  return text;
}

PackageInfo heddle::packageInfo(const CompileOptions &options, const Program &program, ModuleOp module,
                                const Target &target, std::string sourceSha256) {
  PackageInfo info;
  // Nothing of the output depends on where or under which name it is written, unless --name says so.
  info.name = options.emit == Emit::Executable && options.name.empty() ? "main" : symbolName(options);
  info.sourceName = llvm::sys::path::filename(StringRef(options.model).rtrim('/')).str();
  info.sourceSha256 = std::move(sourceSha256);
  info.precision = options.precision == Precision::Fast ? "fast" : "precise";
  info.license = program.model.config.license;
  for (const NamedAdapter &adapter : options.adapters)
    info.adapters.push_back(adapter.name);
  if (llvm::any_of(program.adapters.virtualTokens, [](int64_t count) { return count > 0; }))
    info.virtualTokens.assign(program.adapters.virtualTokens.begin(), program.adapters.virtualTokens.end());
  bool hasRows = bool(raggedEntry(module));
  bool isOfFamily = hasRows || program.model.config.family;
  info.architecture = isOfFamily ? program.model.config.architecture : "graph";
  if (hasRows) {
    // Of the positions of a sequence, those of virtual tokens are not its own.
    info.context = contextOf(options, program.model.config) - program.adapters.mostVirtualTokens();
    info.maxRows = std::min(maxStepRows(target), info.context);
    // A step takes a prompt whole, whose image stands beside as many rows as others have.
    if (const ModelConfig *tower = program.model.config.tower.get(); tower && tower->seen.promptSeesAhead)
      info.maxRows = std::min(info.maxRows + tower->image.tokens(), info.context);
    if (isEncoder(module) || isEncoderDecoder(module)) {
      // An encoder sees all of a sequence at once.
      info.sourceContext = isEncoder(module) ? info.context : sourceContextOf(options, program.model.config);
      info.sourceRows = std::max(maxStepRows(target), info.sourceContext);
    }
    if (isEncoder(module))
      info.maxRows = info.sourceRows;
  }
  info.tokenizer = program.tokenizer;
  return info;
}

// "m: 105.4 MB, llama, context 8192; ./m 'Once upon a time' goes on with a text, ./m --help lists the rest"
static std::string summarize(const BinaryRequest &request, const PackageInfo &info, bool reusesSidecar) {
  const CompileOptions &options = request.options;
  uint64_t bytes = 0;
  if (llvm::sys::fs::file_size(options.output, bytes))
    bytes = 0;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << options.output << ": " << llvm::format("%.1f MB", bytes / 1e6) << ", " << info.architecture;
  if (info.context)
    out << ", context " << info.context;
  if (request.variants.size() > 1) {
    out << ", for ";
    llvm::interleave(request.variants, out, [&](const Variant &variant) { out << variant.target.name; }, ", ");
  }
  if (reusesSidecar)
    out << ", the weights in " << sidecarOf(options.output) << " reused";
  if (options.emit != Emit::Executable)
    return text;
  std::string run = StringRef(options.output).contains('/') ? options.output : "./" + options.output;
  bool generates = info.context && !isEncoder(*request.variants.front().module);
  if (request.program.model.config.audio.melBins)
    out << "; " << run << " --audio speech.wav writes what is said";
  else if (isEncoderDecoder(*request.variants.front().module))
    out << "; " << run << (info.tokenizer.empty() ? " --prompt-ids 1,2,3" : " 'A text'") << " answers a source";
  else if (!generates)
    out << "; " << run << " --io IN.safetensors OUT.safetensors computes";
  else if (info.tokenizer.empty())
    out << "; " << run << " --prompt-ids 1,2,3 goes on with token ids";
  else
    out << "; " << run << " 'Once upon a time' goes on with a text";
  out << ", " << run << " --help lists the rest";
  return text;
}

// Of several variants the report is of the one that a machine with all their features runs.
static size_t reportedVariant(ArrayRef<Variant> variants) {
  size_t best = 0;
  for (size_t i = 1; i < variants.size(); ++i)
    if (variants[i].target.cpu.features.size() > variants[best].target.cpu.features.size())
      best = i;
  return best;
}

static std::string reportOf(const BinaryRequest &request, const PackageInfo &info, ArrayRef<GeneratedCode> code,
                            WeightTables tables) {
  size_t reported = reportedVariant(request.variants);
  const Variant &variant = request.variants[reported];
  std::vector<ReportedVariant> variants;
  WeightShares shares = shareOf(tables);
  if (request.variants.size() > 1)
    for (auto [each, own] : llvm::zip_equal(request.variants, shares.own))
      variants.push_back({each.target, own});
  return buildReport(*variant.module, request.program.model, info, variant.target, code[reported], variant.passes,
                     variant.remarks, tables[reported], variants, shares.shared);
}

static LinkKind linkKindOf(Emit emit) {
  return emit == Emit::Object    ? LinkKind::Relocatable
         : emit == Emit::Package ? LinkKind::Package
         : emit == Emit::Library ? LinkKind::SharedLibrary
                                 : LinkKind::Executable;
}

// The code of every variant. What is text is of one.
static LogicalResult generateVariants(const BinaryRequest &request, MachineCode kind, std::vector<GeneratedCode> &out) {
  for (const Variant &variant : request.variants) {
    request.progress.stage("codegen" + (request.variants.size() > 1 ? " for " + variant.target.name : ""));
    FailureOr<GeneratedCode> code = generateCode(*variant.module, variant.target, kind);
    if (failed(code))
      return failure();
    out.push_back(std::move(*code));
  }
  return success();
}

Status heddle::writeBinary(const BinaryRequest &request, std::string &outSummary) {
  const CompileOptions &options = request.options;
  const Program &program = request.program;
  ModuleOp first = *request.variants.front().module;
  releaseUnusedMemory();
  MachineCode kind = options.emit == Emit::Llvm       ? MachineCode::LLVMIR
                     : options.emit == Emit::Assembly ? MachineCode::Assembly
                                                      : MachineCode::Object;
  // Text says nothing of the files' bytes.
  std::optional<SourceHash> hash;
  if (kind == MachineCode::Object)
    hash.emplace(request.sources);
  std::vector<GeneratedCode> code;
  if (failed(generateVariants(request, kind, code)))
    return diagnosed(StatusCode::Failure);
  if (kind != MachineCode::Object)
    return writeText(options, request.sources, llvm::join(code.front().objects, ""));
  // Known once the weights are packed, but for those who ask before.
  bool isAskedNow = options.observer || options.sidecar;
  PackageInfo info =
      packageInfo(options, program, first, request.variants.front().target, isAskedNow ? hash->get() : "");
  if (options.observer && failed(options.observer->didGenerate(first, code.front(), info, program.model.checkpoint)))
    return diagnosed(StatusCode::Failure);
  request.progress.stage("packing weights");
  FailureOr<std::vector<GraphSignature>> graphs = graphSignatures(first);
  if (failed(graphs))
    return diagnosed(StatusCode::Failure);
  auto metadata = [&](WeightTables tables) {
    std::vector<PackageVariant> variants;
    for (auto [variant, generated, table] : llvm::zip_equal(request.variants, code, tables))
      variants.push_back(
          {*variant.module, variant.target, generated.kernels, table, variant.passes, generated.launches});
    return buildMetadata(variants, program.model.config, *graphs, info);
  };
  // All that can fail, but for renaming, comes before the first file has its name.
  OutputFile report, depfile;
  HEDDLE_RETURN_IF_ERROR(prepareText(options.depfile, makeRule(options, request.sources), depfile));
  Status reported;
  std::string converted;
  auto packed = [&](WeightTables tables) {
    info.sourceSha256 = hash->get();
    converted = summarizeConversion(tables);
    std::string text;
    if (!options.report.empty())
      text = reportOf(request, info, code, tables);
    reported =
        prepareText(options.report, StringRef(options.report).ends_with(".html") ? reportPage(text) : text, report);
    return success(reported.isOk());
  };
  std::vector<ScheduledModel> scheduled;
  for (auto [variant, generated] : llvm::zip_equal(request.variants, code))
    scheduled.push_back({*variant.module, variant.target, generated});
  PackageRequest output{scheduled,       program.model.checkpoint, info.name, metadata, linkKindOf(options.emit),
                        options.sidecar, options.output,           packed};
  output.progress = [&](uint64_t done, uint64_t all) {
    hash->follow(done, all);
    request.progress.stage(llvm::formatv("packing weights, {0} of {1} MB", done / 1000000, all / 1000000).str());
  };
  std::string error;
  if (options.sidecar) {
    FailureOr<std::vector<std::string>> loaded = loadedCode(error);
    if (failed(loaded))
      return Status::failure(error);
    output.packedFrom = "model " + info.sourceSha256 + "\n";
    for (const AdapterUse &use : options.mergedAdapters)
      output.packedFrom += llvm::formatv("adapter, scale {0:R}\n", use.scale).str();
    for (const NamedAdapter &adapter : options.adapters)
      output.packedFrom += llvm::formatv("adapter beside, scale {0:R}\n", adapter.use.scale).str();
    output.packedFrom += llvm::join(*loaded, "\n");
  }
  bool reusesSidecar = false;
  if (failed(writePackage(output, reusesSidecar, error)))
    return reported.isOk() ? Status::failure(error).inFile(options.output) : reported;
  HEDDLE_RETURN_IF_ERROR(keepText(report));
  HEDDLE_RETURN_IF_ERROR(keepText(depfile));
  outSummary = summarize(request, info, reusesSidecar) + summarizeRestored(program.model) +
               summarizeMerge(program.merged, !options.pipeline.weights.empty()) + converted;
  return Status();
}
