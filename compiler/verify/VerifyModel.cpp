// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/VerifyModel.h"

#include "compiler/verify/ModelValues.h"
#include "compiler/verify/NumericCheck.h"
#include "compiler/verify/RunBinary.h"
#include "frontends/ModelConfig.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <random>

using namespace mlir;
using namespace heddle;

// What a stage may move: nothing but rounding, unless the options let the cache or the products be narrower.
static double limitOf(const VerifyOptions &options) {
  if (options.limit)
    return options.limit;
  const CompileOptions &compile = options.compile;
  if (compile.activations == "int8")
    return quantizedNmseLimit;
  bool isExact = compile.precision == Precision::Precise && (compile.kv == "auto" || compile.kv == "f32");
  return isExact ? 1e-10 : 5e-5;
}

namespace {

// Evaluates every module that a compilation shows.
class StageCheck : public CompileObserver {
public:
  StageCheck(const VerifyOptions &options, std::vector<int64_t> ids) : options(options), ids(std::move(ids)) {}

  void willRun(PassManager &pm, Stage) override {
    if (options.eachPass)
      addNumericCheck(pm, check, [this](StringRef pass) { print("  " + pass.str()); });
  }
  LogicalResult didRun(ModuleOp module, Stage stage, const Checkpoint &files) override;
  const Tensor &reference() const { return *std::get<TensorRef>(check->expectation().front()); }

private:
  void print(const std::string &what);

  const VerifyOptions &options;
  std::vector<int64_t> ids;
  std::shared_ptr<NumericCheck> check;
  bool saidEnd = false;
};

} // namespace

static void printLine(StringRef what, const std::string &said) {
  llvm::outs() << llvm::formatv("{0,-40} {1}\n", what, said);
  llvm::outs().flush();
}

void StageCheck::print(const std::string &what) {
  if (check->lastError())
    return printLine(what, llvm::formatv("NMSE {0:e2}", *check->lastError()).str());
  if (!saidEnd)
    printLine(what, ("on buffers from here: the binary is run instead (" + check->endReason() + ")").str());
  saidEnd = true;
}

LogicalResult StageCheck::didRun(ModuleOp module, Stage stage, const Checkpoint &files) {
  if (!check) {
    NumericCheckOptions numeric;
    numeric.limit = limitOf(options);
    numeric.stopsAtUnknownOps = true;
    // Shared without ownership: the compilation holds the files for as long as it runs.
    numeric.interpreter.weight = weightsOf(std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &files));
    numeric.interpreter.context = std::max<int64_t>(ids.size(), numeric.interpreter.context);
    numeric.inputs = modelInputs(ids);
    check = std::make_shared<NumericCheck>(std::move(numeric));
    if (failed(check->check(module, stageName(stage))))
      return failure();
    if (check->expectation().empty())
      return module.emitError("the imported module cannot be evaluated: ") << check->endReason();
    return printLine(stageName(stage), llvm::formatv("reference, {0} tokens", ids.size()).str()), success();
  }
  if (failed(check->check(module, ("stage '" + stageName(stage) + "'").str())))
    return failure();
  return print(stageName(stage).str()), success();
}

// Any ids will do, but the same for one seed on every machine.
static std::vector<int64_t> randomIds(int64_t count, int64_t vocabSize, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> ids(count);
  for (int64_t &id : ids)
    id = random() % vocabSize;
  return ids;
}

static CompileStatus checkIds(const VerifyOptions &options, std::vector<int64_t> &ids, std::string &error) {
  Expected<Model> model = readModel(options.compile.model);
  if (!model) {
    error = model.takeError().message;
    return CompileStatus::InvalidInput;
  }
  int64_t vocabSize = model->config.vocabSize;
  ids = options.ids.empty() ? randomIds(options.tokens, vocabSize, options.seed) : options.ids;
  for (int64_t id : ids)
    if (id < 0 || id >= vocabSize) {
      error = llvm::formatv("--ids: {0} is no token of a vocabulary of {1}", id, vocabSize).str();
      return CompileStatus::InvalidInput;
    }
  if (int64_t(ids.size()) > model->config.contextLength) {
    error = llvm::formatv("{0} tokens are more than the model's {1} positions", ids.size(), model->config.contextLength).str();
    return CompileStatus::InvalidInput;
  }
  return CompileStatus::Done;
}

CompileStatus heddle::verifyModel(const VerifyOptions &options, std::string &error) {
  std::vector<int64_t> ids;
  if (CompileStatus status = checkIds(options, ids, error); status != CompileStatus::Done)
    return status;
  llvm::SmallString<128> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("heddle-verify", folder)) {
    error = "cannot make a temporary folder: " + code.message();
    return CompileStatus::Failure;
  }
  llvm::scope_exit cleanUp([&] { llvm::sys::fs::remove_directories(folder); });
  StageCheck check(options, ids);
  CompileOptions compile = options.compile;
  compile.observer = &check;
  compile.emit = Emit::Executable;
  compile.output = (folder + "/model").str();
  if (CompileStatus status = compileModel(compile, error); status != CompileStatus::Done)
    return status;
  // The compilation's types went with its context; a binary writes f32.
  MLIRContext context;
  Tensor logits, reference = check.reference();
  reference.elementType = Float32Type::get(&context);
  if (!runOnIds(compile.output, folder.str().str(), ids, reference, logits, error))
    return CompileStatus::Failure;
  Difference difference = compare(logits, reference);
  // Rounding adds up over the layers, in another order than the interpreter's.
  double limit = std::max(limitOf(options), options.limit ? 0 : 1e-8);
  if (difference.nmse > limit) {
    error = llvm::formatv("the binary moved a result that the passes did not: logits differ: NMSE {0:e3} (limit {1:e3}), element {2} "
                          "by {3:e3}", difference.nmse, limit, difference.worst, difference.maxAbs).str();
    return CompileStatus::Failure;
  }
  printLine("binary", llvm::formatv("NMSE {0:e2}", difference.nmse).str());
  return CompileStatus::Done;
}
