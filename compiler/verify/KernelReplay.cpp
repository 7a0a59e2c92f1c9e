// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The binary runs in a process of its own and writes down each kernel's results as soon as it has ended: where the answer ends
// early, the process died in the kernel behind the last. No error is handed on: every kernel gets the interpreter's inputs.

#include "compiler/verify/KernelReplay.h"

#include "compiler/interpreter/TensorBytes.h"
#include "compiler/package/Metadata.h"
#include "compiler/package/OutputFile.h"
#include "compiler/verify/Compare.h"
#include "compiler/verify/ModelInputs.h"
#include "compiler/verify/ModelValues.h"
#include "compiler/verify/RunBinary.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace heddle;

// More than one core of the smallest machine has: work is divided, and keys are split.
static constexpr int64_t severalThreads = 3;

LogicalResult KernelReplay::add(KernelRecorder &recorder, std::string what, int64_t threads, const StepSource &steps) {
  FailureOr<Recording> recording = recorder.record(steps, threads);
  if (failed(recording))
    return failure();
  std::string path = options.folder + "/replay-" + std::to_string(cases.size());
  OutputFile file;
  std::string error;
  if (!OutputFile::create(path, file, error) || !file.write(0, recording->file) || !file.keep(false))
    return emitError(UnknownLoc::get(&context)) << (error.empty() ? file.error() : error);
  cases.push_back({std::move(what), threads, std::move(recording->kernels), std::move(path)});
  return success();
}

LogicalResult KernelReplay::didGenerate(ModuleOp module, const GeneratedCode &code, const PackageInfo &info,
                                        const Checkpoint &files) {
  if (!code.entries.hasStep && !code.entries.hasEncode)
    return success();
  InterpreterOptions interpreter;
  // Shared without ownership: the compilation holds the files for as long as it runs.
  interpreter.weight = keepingValues(weightsOf(std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &files)));
  interpreter.context =
      std::max<int64_t>({int64_t(options.ids.size()), int64_t(options.longIds.size()), interpreter.context});
  KernelRecorder recorder(module, code, info.maxRows, interpreter, context, options.leastLimit);
  int64_t few = options.ids.size();
  if (failed(add(recorder, llvm::formatv("{0} tokens", few).str(), 1,
                 modelChunks(options.ids, info.maxRows, options.given))))
    return failure();
  if (few > 1 && few <= info.maxRows &&
      failed(add(recorder, "two sequences", severalThreads, modelSteps(options.ids, options.given))))
    return failure();
  int64_t many = options.longIds.size();
  if (many > few && failed(add(recorder, llvm::formatv("{0} tokens", many).str(), severalThreads,
                               modelChunks(options.longIds, info.maxRows, options.given))))
    return failure();
  return success();
}

static std::string describe(const ReplayedKernel &kernel, const std::string &compiled) {
  return "kernel " + kernel.name + " (compiled as " + compiled + ")";
}

// Where it is in a tensor of rows, and what it is.
static std::string describeElement(const Tensor &actual, const Tensor &expected, int64_t element) {
  auto show = [&](const Tensor &tensor) {
    Scalar value = tensor.get(element);
    return tensor.isFloat() ? llvm::formatv("{0:e3}", value.real).str() : std::to_string(value.integer);
  };
  return llvm::formatv("row {0}, column {1} is {2}, expected {3}", element / expected.lastDim(),
                       element % expected.lastDim(), show(actual), show(expected))
      .str();
}

// Compares the results of one kernel, which lie at the front of `bytes`, and takes them away.
static bool compareKernel(const ReplayedKernel &kernel, StringRef &bytes, const ReplayedResult *&worstResult,
                          double &nmse, std::string &verdict) {
  nmse = 0;
  worstResult = nullptr;
  for (const ReplayedResult &result : kernel.results) {
    Type type = result.expected.elementType;
    Tensor actual = tensorFromBytes(type, result.expected.shape, bytes.bytes_begin());
    bytes = bytes.drop_front(actual.size() * storedBytes(type));
    for (unsigned element : result.open.set_bits())
      actual.set(element, result.expected.get(element));
    Difference difference = compare(actual, result.expected);
    if (difference.nmse > result.limit) {
      verdict = llvm::formatv("{0} is wrong in the binary, {1}: NMSE {2:e3} (limit {3:e3}), {4}",
                              describe(kernel, kernel.allCompiled), result.name, difference.nmse, result.limit,
                              describeElement(actual, result.expected, difference.worst))
                    .str();
      return false;
    }
    if (!worstResult || difference.nmse > nmse)
      worstResult = &result;
    nmse = std::max(nmse, difference.nmse);
  }
  return true;
}

static size_t bytesOfResults(const ReplayedKernel &kernel) {
  size_t bytes = sizeof(int64_t); // its number
  for (const ReplayedResult &result : kernel.results)
    bytes += result.expected.size() * storedBytes(result.expected.elementType);
  return bytes;
}

bool KernelReplay::runCase(const Case &replayed, const std::string &binary, const Print &print, Farthest &farthest,
                           std::string &verdict) const {
  std::string output = replayed.input + ".out", threads = std::to_string(replayed.threads), said;
  int code = execute(binary, {"--replay", replayed.input, output, "--threads", threads}, options.folder, said);
  auto file = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  StringRef bytes = file ? (*file)->getBuffer() : StringRef();
  llvm::MapVector<StringRef, double> largest; // by name of the kernel, over the steps
  for (const ReplayedKernel &kernel : replayed.kernels) {
    if (bytes.size() < bytesOfResults(kernel)) {
      verdict = describe(kernel, kernel.compiled) +
                (code ? " did not end in the binary: " + said : " is not run by the binary");
      return false;
    }
    bytes = bytes.drop_front(sizeof(int64_t));
    const ReplayedResult *worst = nullptr;
    double nmse = 0;
    if (!compareKernel(kernel, bytes, worst, nmse, verdict)) {
      verdict += "; on " + replayed.what;
      return false;
    }
    if (worst && worst->limit && nmse / worst->limit >= farthest.nmse / farthest.limit)
      farthest = {&kernel, nmse, worst->limit};
    double &known = largest[kernel.name];
    known = std::max(known, nmse);
  }
  if (code) {
    verdict = "the binary ended behind its kernels: " + said;
    return false;
  }
  if (print) {
    print("each kernel, " + replayed.what, std::to_string(replayed.kernels.size()) + " launches");
    for (auto &[name, nmse] : largest)
      print("  " + name.str(), llvm::formatv("NMSE {0:e2}", nmse).str());
  }
  return true;
}

bool KernelReplay::run(const std::string &binary, const Print &print, std::string &verdict) const {
  Farthest farthest;
  for (const Case &replayed : cases)
    if (!runCase(replayed, binary, print, farthest, verdict))
      return false;
  if (farthest.kernel)
    verdict =
        llvm::formatv("each kernel by itself is within its limit, the farthest from it {0}: NMSE {1:e3} (limit {2:e3})",
                      describe(*farthest.kernel, farthest.kernel->allCompiled), farthest.nmse, farthest.limit)
            .str();
  return true;
}

static void printLine(const std::string &what, const std::string &said) {
  llvm::outs() << llvm::formatv("{0,-40} {1}\n", what, said);
  llvm::outs().flush();
}

Status heddle::verifyKernels(CompileOptions compile, KernelReplayOptions options,
                             std::unique_ptr<KernelReplay> recorded, Status whole) {
  bool isRight = whole.isOk();
  std::string wrong;
  FailureOr<Target> target = parseTarget(compile.target, wrong);
  if (failed(target) || target->isDevice()) {
    return isRight ? invalidInput("--each-kernel: kernels of a device cannot be run one by one") : whole;
  }
  KernelReplay::Print print = recorded ? printLine : KernelReplay::Print();
  if (!recorded) {
    recorded = std::make_unique<KernelReplay>(std::move(options));
    compile.observer = recorded.get();
    // If the binary cannot be made and recorded again, what is known of it stands.
    if (!compileModel(compile).isOk())
      return whole;
  }
  std::string verdict;
  bool areRight = recorded->run(compile.output, print, verdict);
  if (isRight && areRight)
    return Status();
  return Status::failure(isRight    ? verdict
                         : areRight ? whole.message() + "; " + verdict
                                    : verdict + "; " + whole.message());
}
