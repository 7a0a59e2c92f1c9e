// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model is compiled up to the schedule stage, whose module says which kernels there are. Weights are not read: kernels of the same keys
// (TunedSchedules.h) are one, measured on numbers of its own.

#include "compiler/tune/TuneModel.h"

#include "bytes/WholeFile.h"
#include "compiler/StageProgress.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/package/Link.h"
#include "compiler/schedule/ScheduleFile.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/schedule/TunedSchedules.h"
#include "compiler/tune/TuneKernel.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <ctime>
#include <variant>

using namespace mlir;
using namespace heddle;

namespace {

// What is left of a kernel when the module it stands in is gone. Attributes as text, since they are their context's.
struct FoundKernel {
  std::variant<MatmulSpec, AttentionSpec> spec;
  std::string schedule;
};

// Collects the kernels of a scheduled module.
class KernelCollector : public CompileObserver {
public:
  LogicalResult didRun(ModuleOp module, Stage stage, const Checkpoint &) override;

  llvm::MapVector<std::string, FoundKernel, llvm::StringMap<unsigned>> kernels; // by their keys
  unsigned numExperts = 0;                                                      // products that are not measured

private:
  LogicalResult collect(Operation *op);
};

} // namespace

template <typename T> static std::string printed(T value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

// The product with the same matrix, without what is made of its sums.
static MatmulSpec sumsAlone(MatmulSpec spec) {
  spec.n = spec.weightRows();
  spec.hasBias = spec.accumulate = spec.isGated = spec.isOutRounded = false;
  spec.epilogue = MatmulEpilogue::None;
  spec.roundedAbove = 0;
  return spec;
}

LogicalResult KernelCollector::collect(Operation *op) {
  auto schedule = op->getAttrOfType<ScheduleAttr>(scheduleAttrName);
  DictionaryAttr keys = schedule ? scheduleKeys(op, schedule) : DictionaryAttr();
  if (!keys)
    return success();
  if (isa<ExpertMatmulOp>(op)) {
    ++numExperts;
    return success();
  }
  FoundKernel found{{}, printed(schedule)};
  if (auto matmul = dyn_cast<PackedMatmulOp>(op)) {
    FailureOr<MatmulSpec> spec = specOf(matmul);
    if (failed(spec))
      return failure();
    found.spec = sumsAlone(*spec);
  } else {
    AttentionSpec spec = specOf(cast<OnlineAttentionOp>(op));
    spec.window = 0;
    spec.softcap = 0;
    spec.hasSinks = false;
    spec.positions = {};
    found.spec = spec;
  }
  kernels.insert({printed(keys), std::move(found)});
  return success();
}

LogicalResult KernelCollector::didRun(ModuleOp module, Stage stage, const Checkpoint &) {
  if (stage != Stage::Schedule)
    return success();
  WalkResult walked =
      module.walk([&](Operation *op) { return failed(collect(op)) ? WalkResult::interrupt() : WalkResult::advance(); });
  return failure(walked.wasInterrupted());
}

// The processor's name for people; that of its architecture where the system does not say.
static std::string cpuName() {
  auto info = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo");
  for (StringRef rest = info ? (*info)->getBuffer() : ""; !rest.empty(); rest = rest.split('\n').second)
    if (auto [key, value] = rest.split('\n').first.split(':'); key.trim() == "model name")
      return value.trim().str();
  return llvm::sys::getHostCPUName().str();
}

static std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm date = {};
  gmtime_r(&now, &date);
  return llvm::formatv("{0}-{1,0+2}-{2,0+2}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday).str();
}

static std::string timeText(double seconds) {
  const char *unit = seconds < 1e-3 ? "us" : "ms";
  return llvm::formatv("{0:f1} {1}", seconds * (seconds < 1e-3 ? 1e6 : 1e3), unit).str();
}

// "measured 2026-11-23 with 2 threads: 1 row 12.1 us, default 12.3 us; 512 rows 3.1 ms, default 3.4 ms"
static std::string evidenceOf(const TunedKernel &tuned, int32_t threads) {
  std::string text =
      "measured " + today() + " with " + std::to_string(threads) + (threads == 1 ? " thread: " : " threads: ");
  StringRef separator = "";
  for (const TunedKernel::Times &times : tuned.times) {
    text += (separator + times.shape + " " + timeText(times.best) + ", default " + timeText(times.base)).str();
    separator = "; ";
  }
  return text;
}

// "packed_matmul format=q4_0 n=64 k=64 input=int16"
static std::string describe(DictionaryAttr keys) {
  auto kernel = keys.getAs<StringAttr>("kernel");
  std::string text = kernel.str();
  for (const ScheduleKey &key : scheduleKeysOf(kernel)) {
    Attribute value = keys.get(key.name);
    auto word = dyn_cast<StringAttr>(value);
    text += (" " + key.name + "=" + (word ? word.str() : std::to_string(cast<IntegerAttr>(value).getInt()))).str();
  }
  return text;
}

// "[1/5] packed_matmul …: 12 candidates; 1 row 12.3 us, best 12.1 us (1 %); …; kept the default"
static void report(const std::string &what, const TunedKernel &tuned) {
  llvm::errs() << what << ": " << tuned.candidates << " candidate" << (tuned.candidates == 1 ? "" : "s");
  for (const TunedKernel::Times &times : tuned.times)
    llvm::errs() << "; " << times.shape << " " << timeText(times.base) << ", best " << timeText(times.best)
                 << llvm::format(" (%+.0f %%)", 100 * (times.base / times.best - 1));
  llvm::errs() << (tuned.best ? "; taken\n" : "; the default stays\n");
}

static TuneSettings settingsOf(const TuneOptions &options) {
  TuneSettings settings;
  unsigned cores = llvm::heavyweight_hardware_concurrency().compute_thread_count();
  settings.threads = options.threads ? options.threads : int32_t(std::max(1u, cores));
  if (options.quick) {
    settings.rounds = 2;
    settings.secondsOfRound = 5e-4;
    settings.weightBytes = 1 << 20;
    settings.operations = 1e8;
    settings.decodeKeys = 256;
    settings.tokens = 64;
    settings.candidates = 1;
  }
  return settings;
}

Status heddle::tuneModel(const TuneOptions &options) {
  CompileOptions compile = options.compile;
  KernelCollector found;
  compile.observer = &found;
  compile.stopAfter = Stage::Schedule;
  compile.isObserved = true;
  HEDDLE_RETURN_IF_ERROR(compileModel(compile));

  std::string error, linker = findLinker();
  FailureOr<CpuTarget> target = parseCpuTarget("native", error);
  if (failed(target))
    return Status::failure(error);
  if (linker.empty())
    return Status::failure("ld.lld, which candidates are linked with, is not on the PATH");
  DialectRegistry registry;
  registerCodegenDialects(registry);
  registry.insert<HeddleDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  Builder b(&context);
  TuneSettings settings = settingsOf(options);
  SmallVector<Attribute> entries;
  size_t number = 0;
  StageProgress progress(compile.quiet);
  for (auto &[keyText, kernel] : found.kernels) {
    auto keys = cast<DictionaryAttr>(parseAttribute(keyText, &context));
    std::string what =
        "[" + std::to_string(++number) + "/" + std::to_string(found.kernels.size()) + "] " + describe(keys);
    progress.stage("measuring " + what);
    std::unique_ptr<KernelProbe> probe =
        std::visit([&](const auto &spec) { return probeOf(spec, *target, settings); }, kernel.spec);
    TunedKernel tuned;
    auto base = cast<ScheduleAttr>(parseAttribute(kernel.schedule, &context));
    HEDDLE_RETURN_IF_ERROR(tuneKernel(*probe, base, *target, settings, linker, tuned));
    progress.clear();
    if (!compile.quiet)
      report(what, tuned);
    if (!tuned.best)
      continue;
    ScheduleFields fields = ScheduleFields::of(tuned.best);
    fields.evidence = b.getStringAttr(evidenceOf(tuned, settings.threads));
    entries.push_back(
        b.getDictionaryAttr({b.getNamedAttr(matchKey, keys), b.getNamedAttr(scheduleKey, fields.get(&context))}));
  }
  if (found.numExperts && !compile.quiet)
    llvm::errs() << "products of experts are not measured: they have the built-in schedules\n";
  std::string text = printScheduleFile(cpuName(), targetAttr(&context, *target), b.getArrayAttr(entries));
  return writeWholeFile(compile.output, {text});
}
