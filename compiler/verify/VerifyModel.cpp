// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/VerifyModel.h"

#include "compiler/Program.h"
#include "compiler/verify/GraphValues.h"
#include "compiler/verify/ModelValues.h"
#include "compiler/verify/NumericCheck.h"
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

// Evaluates every module that a compilation shows, then the binary, on the same values.
class StageCheck : public CompileObserver {
public:
  StageCheck(const VerifyOptions &options, std::vector<int64_t> ids) : options(options), ids(std::move(ids)) {}

  void willRun(PassManager &pm, Stage) override {
    if (options.eachPass)
      addNumericCheck(pm, check, [this](StringRef pass) { print("  " + pass.str()); });
  }
  LogicalResult didRun(ModuleOp module, Stage stage, const Checkpoint &files) override;
  // Whether the inputs that the options name are those of the graph.
  bool hasInputs() const { return inputsFit; }
  bool checkBinary(const std::string &binary, const std::string &folder, std::string &error);

private:
  LogicalResult begin(ModuleOp module, Stage stage, const Checkpoint &files);
  LogicalResult chooseInputs(ModuleOp module, NumericCheckOptions &numeric);
  double binaryLimit(const Tensor &reference) const;
  void print(const std::string &what);

  const VerifyOptions &options;
  std::vector<int64_t> ids;
  MLIRContext context;                       // of the types below: a compilation's own ends with it
  std::vector<NamedTensor> inputs, outputs;  // of the binary; outputs as the reference has them
  std::shared_ptr<NumericCheck> check;
  bool saidEnd = false, inputsFit = true;
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

static void moveToContext(Tensor &tensor, MLIRContext &context) {
  Type type = tensor.elementType;
  tensor.elementType = type.isF16()    ? Type(Float16Type::get(&context))
                       : type.isBF16() ? Type(BFloat16Type::get(&context))
                       : type.isF64()  ? Type(Float64Type::get(&context))
                       : type.isF32()  ? Type(Float32Type::get(&context))
                                       : Type(IntegerType::get(&context, integerWidth(type)));
}

// A model that generates is given ids in the form that its entry takes; a graph gets its own inputs.
LogicalResult StageCheck::chooseInputs(ModuleOp module, NumericCheckOptions &numeric) {
  if (!isGraph(module)) {
    numeric.inputs = modelInputs(ids);
    Tensor sequence = Tensor::zeros(IntegerType::get(module.getContext(), 64), {1, int64_t(ids.size())});
    sequence.integers = ids;
    inputs.push_back({"input_ids", std::move(sequence)});
    return success();
  }
  numeric.entry = "graph";
  auto graph = module.lookupSymbol<func::FuncOp>(numeric.entry);
  Expected<std::vector<NamedTensor>> given = graphInputs(graph, options.inputs, options.seed);
  inputsFit = bool(given);
  if (!given)
    return graph.emitError("--inputs: ") << given.takeError().message;
  inputs = std::move(*given);
  SmallVector<RuntimeValue> values;
  for (const NamedTensor &input : inputs)
    values.push_back(makeValue(input.values));
  numeric.inputs = [values](func::FuncOp) { return FailureOr<SmallVector<RuntimeValue>>(values); };
  return success();
}

LogicalResult StageCheck::begin(ModuleOp module, Stage stage, const Checkpoint &files) {
  NumericCheckOptions numeric;
  // A graph's types say what is rounded.
  numeric.limit = isGraph(module) ? options.limit : limitOf(options);
  numeric.stopsAtUnknownOps = true;
  // Shared without ownership: the compilation holds the files for as long as it runs.
  numeric.interpreter.weight = weightsOf(std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &files));
  numeric.interpreter.context = std::max<int64_t>(ids.size(), numeric.interpreter.context);
  if (failed(chooseInputs(module, numeric)))
    return failure();
  check = std::make_shared<NumericCheck>(std::move(numeric));
  if (failed(check->check(module, stageName(stage))))
    return failure();
  if (!check->endReason().empty())
    return module.emitError("the imported module cannot be evaluated: ") << check->endReason();
  for (NamedTensor &input : inputs)
    moveToContext(input.values, context);
  SmallVector<Tensor> results;
  for (const RuntimeValue &value : check->expectation())
    if (auto tensor = std::get_if<TensorRef>(&value))
      results.push_back(**tensor);
  if (isGraph(module))
    outputs = graphOutputs(module.lookupSymbol<func::FuncOp>("graph"), results);
  else
    outputs.push_back({"logits", results.front()});
  for (NamedTensor &output : outputs) {
    moveToContext(output.values, context);
    // Whatever the module's type is, a model's binary writes f32.
    if (!isGraph(module))
      output.values.elementType = Float32Type::get(&context);
  }
  std::string what = isGraph(module) ? llvm::formatv("{0} inputs", inputs.size()).str() : llvm::formatv("{0} tokens", ids.size()).str();
  return printLine(stageName(stage), "reference, " + what), success();
}

// Rounding adds up over a binary's ops, in another order than the interpreter's; integers are exact.
double StageCheck::binaryLimit(const Tensor &reference) const {
  if (!reference.isFloat())
    return 0;
  return options.limit ? options.limit : std::max(ids.empty() ? nmseLimit(reference.elementType) : limitOf(options), 1e-8);
}

bool StageCheck::checkBinary(const std::string &binary, const std::string &folder, std::string &error) {
  std::vector<NamedTensor> actual = outputs;
  if (!runBinary(binary, folder, inputs, actual, error))
    return false;
  double largest = 0;
  for (auto [output, reference] : llvm::zip_equal(actual, outputs)) {
    Difference difference = compare(output.values, reference.values);
    double limit = binaryLimit(reference.values);
    if (difference.nmse > limit) {
      error = llvm::formatv("the binary moved a result that the passes did not: {0} differ: NMSE {1:e3} (limit {2:e3}), element {3} "
                            "by {4:e3}", output.name, difference.nmse, limit, difference.worst, difference.maxAbs).str();
      return false;
    }
    largest = std::max(largest, difference.nmse);
  }
  printLine("binary", llvm::formatv("NMSE {0:e2}", largest).str());
  return true;
}

LogicalResult StageCheck::didRun(ModuleOp module, Stage stage, const Checkpoint &files) {
  if (!check)
    return begin(module, stage, files);
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
  if (!holdsGraph(options.compile))
    if (CompileStatus status = checkIds(options, ids, error); status != CompileStatus::Done)
      return status;
  llvm::SmallString<128> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("heddle-verify", folder)) {
    error = "cannot make a temporary folder: " + code.message();
    return CompileStatus::Failure;
  }
  auto cleanUp = llvm::make_scope_exit([&] { llvm::sys::fs::remove_directories(folder); });
  StageCheck check(options, ids);
  CompileOptions compile = options.compile;
  compile.observer = &check;
  compile.emit = Emit::Executable;
  compile.output = (folder + "/model").str();
  if (CompileStatus status = compileModel(compile, error); status != CompileStatus::Done)
    return check.hasInputs() ? status : CompileStatus::InvalidInput;
  return check.checkBinary(compile.output, folder.str().str(), error) ? CompileStatus::Done : CompileStatus::Failure;
}
