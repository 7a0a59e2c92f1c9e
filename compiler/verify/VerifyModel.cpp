// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/VerifyModel.h"

#include "compiler/Program.h"
#include "compiler/raise/ForwardConfig.h"
#include "compiler/verify/GenerationCheck.h"
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

// Rounding of right passes moves models of 2 to 30 layers by up to 4e-13 (of binaries 1e-12); an epsilon of 1e-5 that should be 1e-6
// moves activations of variance 1 by 2e-11.
static constexpr double exactLimit = 1e-11, exactBinaryLimit = 1e-9;

// What a stage may move: nothing but rounding, unless the options let the cache or the products be narrower.
static double limitOf(const VerifyOptions &options) {
  if (options.limit)
    return options.limit;
  const CompileOptions &compile = options.compile;
  if (compile.activations == "int8")
    return quantizedNmseLimit;
  bool isExact = compile.precision == Precision::Precise && (compile.kv == "auto" || compile.kv == "f32");
  return isExact ? exactLimit : 5e-5;
}

namespace {

// Evaluates every module that a compilation shows, then the binary, on the same values.
class StageCheck : public CompileObserver {
public:
  // Of a model that generates: the tokens, and how many it takes.
  StageCheck(const VerifyOptions &options, std::vector<int64_t> ids, int64_t contextLength)
      : options(options), ids(std::move(ids)), contextLength(contextLength) {}

  void willRun(PassManager &pm, Stage) override {
    if (options.eachPass)
      addNumericCheck(pm, check, [this](StringRef pass) { print("  " + pass.str()); });
  }
  LogicalResult didRun(ModuleOp module, Stage stage, const Checkpoint &files) override;
  // Whether the inputs that the options name are those of the model.
  bool hasInputs() const { return inputsFit; }
  bool checkBinary(const std::string &binary, const std::string &folder, std::string &error);

private:
  LogicalResult begin(ModuleOp module, Stage stage, const Checkpoint &files);
  LogicalResult chooseInputs(ModuleOp module, NumericCheckOptions &numeric);
  LogicalResult chooseSequence(ModuleOp module);
  // Logits of a sequence that is long for the model, which the binary alone is compared with.
  LogicalResult evaluateLong(ModuleOp module, const InterpreterOptions &interpreter, const Checkpoint &files);
  double binaryLimit(const Tensor &reference) const;
  void print(const std::string &what);

  const VerifyOptions &options;
  std::vector<int64_t> ids, longIds;
  int64_t contextLength;
  MLIRContext context;                       // of the types below: a compilation's own ends with it
  std::vector<NamedTensor> inputs, outputs;  // of the binary; outputs as the reference has them
  Tensor longLogits;
  std::shared_ptr<NumericCheck> check;
  bool saidEnd = false, inputsFit = true;
  bool generates = true;  // or may turn out to, in the raise stage
  bool remainsGraph = false;  // raise made no generating program of it
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

// Any ids will do, but the same for one seed on every machine.
static std::vector<int64_t> randomIds(int64_t count, int64_t vocabSize, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> ids(count);
  for (int64_t &id : ids)
    id = random() % vocabSize;
  return ids;
}

// Tokens where nothing asks for more.
static constexpr int64_t fewTokens = 8;

// The sequence that the options ask for; what is wrong with it, empty if nothing is.
static std::string idsOf(const VerifyOptions &options, int64_t tokens, int64_t vocabSize, std::vector<int64_t> &ids) {
  ids = options.ids.empty() ? randomIds(options.tokens ? options.tokens : tokens, vocabSize, options.seed) : options.ids;
  for (int64_t id : ids)
    if (id < 0 || id >= vocabSize)
      return llvm::formatv("--ids: {0} is no token of a vocabulary of {1}", id, vocabSize).str();
  return "";
}

// The ids of a decoder that is a graph: only its type says how large the vocabulary is.
LogicalResult StageCheck::chooseSequence(ModuleOp module) {
  auto graph = module.lookupSymbol<func::FuncOp>("graph");
  std::string wrong;
  if (options.inputs.empty()) {
    wrong = idsOf(options, fewTokens, cast<RankedTensorType>(graph.getResultTypes()[0]).getShape().back(), ids);
  } else if (Expected<std::vector<NamedTensor>> given = graphInputs(graph, options.inputs, options.seed); !given) {
    wrong = "--inputs: " + given.takeError().message;
  } else {
    auto input = llvm::find_if(*given, [](const NamedTensor &tensor) { return tensor.name == "input_ids"; });
    ids = input->values.integers;
    if (input->values.shape[0] != 1)
      wrong = "--inputs: input_ids holds more than one sequence, expected one";
  }
  inputsFit = wrong.empty();
  return inputsFit ? success() : LogicalResult(graph.emitError(wrong));
}

// A model that generates is given ids in the form that its entry takes; a graph gets its own inputs.
LogicalResult StageCheck::chooseInputs(ModuleOp module, NumericCheckOptions &numeric) {
  if (isGraph(module))
    generates = options.compile.task != Task::Graph && noDecoderSignature(module.lookupSymbol<func::FuncOp>("graph")).empty();
  if (generates) {
    if (isGraph(module) && failed(chooseSequence(module)))
      return failure();
    numeric.inputs = modelInputs(ids);
    numeric.steps = modelSteps(ids);
    if (!isGraph(module)) {
      Tensor sequence = Tensor::zeros(IntegerType::get(module.getContext(), 64), {1, int64_t(ids.size())});
      sequence.integers = ids;
      inputs.push_back({"input_ids", std::move(sequence)});
      return success();
    }
    auto graph = module.lookupSymbol<func::FuncOp>("graph");
    FailureOr<SmallVector<RuntimeValue>> values = numeric.inputs(graph);
    if (failed(values))
      return failure();
    for (auto [i, value] : llvm::enumerate(*values)) {
      auto name = graph.getArgAttrOfType<StringAttr>(i, "heddle.name");
      inputs.push_back({name ? name.getValue().str() : "input_ids", *std::get<TensorRef>(value)});
    }
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

LogicalResult StageCheck::evaluateLong(ModuleOp module, const InterpreterOptions &interpreter, const Checkpoint &files) {
  // Pages, blocks and splits of 64 to 512 tokens: beyond all of them where that is a matter of seconds.
  constexpr uint64_t smallFiles = 8 << 20;
  constexpr int64_t longTokens = 600, safeTokens = 100;
  uint64_t bytes = 0;
  for (const auto &file : files.files)
    bytes += file->size();
  func::FuncOp entry = module.lookupSymbol<func::FuncOp>(isGraph(module) ? "graph" : "forward");
  longIds = ids;
  bool isChosen = !options.ids.empty() || options.tokens || !options.inputs.empty();
  if (!isChosen && bytes <= smallFiles) {
    int64_t most = contextLength == INT64_MAX ? safeTokens : std::min(contextLength, longTokens);
    longIds = randomIds(most, cast<RankedTensorType>(entry.getResultTypes()[0]).getShape().back(), options.seed);
  }
  if (longIds == ids)
    return success(); // the passes' reference will do
  FailureOr<SmallVector<RuntimeValue>> arguments = modelInputs(longIds)(entry);
  if (failed(arguments))
    return failure();
  FailureOr<SmallVector<RuntimeValue>> results = Interpreter(interpreter).call(entry, *arguments);
  if (failed(results))
    return failure();
  longLogits = *std::get<TensorRef>(results->front());
  longLogits.elementType = Float32Type::get(&context);
  return success();
}

LogicalResult StageCheck::begin(ModuleOp module, Stage stage, const Checkpoint &files) {
  NumericCheckOptions numeric;
  numeric.stopsAtUnknownOps = true;
  // Shared without ownership: the compilation holds the files for as long as it runs.
  numeric.interpreter.weight = weightsOf(std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &files));
  if (failed(chooseInputs(module, numeric)))
    return failure();
  numeric.interpreter.context = std::max<int64_t>(ids.size(), numeric.interpreter.context);
  // A graph's types say what is rounded.
  numeric.limit = generates ? limitOf(options) : options.limit;
  if (generates && failed(evaluateLong(module, numeric.interpreter, files)))
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
  if (!generates)
    outputs = graphOutputs(module.lookupSymbol<func::FuncOp>("graph"), results);
  else
    outputs.push_back({"logits", results.front()});
  for (NamedTensor &output : outputs) {
    moveToContext(output.values, context);
    // Whatever the module's type is, a model's binary writes f32.
    if (generates)
      output.values.elementType = Float32Type::get(&context);
  }
  if (generates && longIds == ids)
    longLogits = outputs.front().values;
  std::string what = generates ? llvm::formatv("{0} tokens", ids.size()).str() : llvm::formatv("{0} inputs", inputs.size()).str();
  return printLine(stageName(stage), "reference, " + what), success();
}

// Rounding adds up over a binary's ops, in another order than the interpreter's; integers are exact.
double StageCheck::binaryLimit(const Tensor &reference) const {
  if (!reference.isFloat())
    return 0;
  return options.limit ? options.limit : std::max(ids.empty() ? nmseLimit(reference.elementType) : limitOf(options), exactBinaryLimit);
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
  if (remainsGraph)
    return true;
  auto line = [](const std::string &what, const std::string &said) { printLine(what, said); };
  return GenerationCheck(longIds, longLogits, binaryLimit(longLogits), line).run(binary, folder, error);
}

LogicalResult StageCheck::didRun(ModuleOp module, Stage stage, const Checkpoint &files) {
  remainsGraph = isGraph(module);
  if (!check)
    return begin(module, stage, files);
  if (failed(check->check(module, ("stage '" + stageName(stage) + "'").str())))
    return failure();
  return print(stageName(stage).str()), success();
}

// Enough to fall out of the smallest sliding window, where that is not many.
static int64_t defaultTokens(const ModelConfig &config) {
  constexpr int64_t many = 128;
  int64_t tokens = fewTokens;
  for (int64_t window : config.layerWindow)
    if (window > 0 && window < many)
      tokens = std::max(tokens, window + 3);
  return std::min(tokens, config.contextLength);
}

static CompileStatus checkIds(const VerifyOptions &options, std::vector<int64_t> &ids, int64_t &contextLength, std::string &error) {
  Expected<Model> model = readModel(options.compile.model);
  if (!model) {
    error = model.takeError().message;
    return CompileStatus::InvalidInput;
  }
  error = idsOf(options, defaultTokens(model->config), model->config.vocabSize, ids);
  if (!error.empty())
    return CompileStatus::InvalidInput;
  contextLength = model->config.contextLength;
  if (int64_t(ids.size()) > contextLength) {
    error = llvm::formatv("{0} tokens are more than the model's {1} positions", ids.size(), contextLength).str();
    return CompileStatus::InvalidInput;
  }
  // Beyond that rotations depend on the length of the sequence, which the interpreter does not follow.
  for (const RopeConfig &rope : model->config.ropes)
    if (rope.scaling == RopeScalingKind::Longrope || rope.scaling == RopeScalingKind::Dynamic)
      contextLength = std::min(contextLength, rope.originalContext);
  return CompileStatus::Done;
}

CompileStatus heddle::verifyModel(const VerifyOptions &options, std::string &error) {
  std::vector<int64_t> ids;
  int64_t contextLength = INT64_MAX; // of a decoder that is a graph only the binary knows
  if (!holdsGraph(options.compile))
    if (CompileStatus status = checkIds(options, ids, contextLength, error); status != CompileStatus::Done)
      return status;
  llvm::SmallString<128> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("heddle-verify", folder)) {
    error = "cannot make a temporary folder: " + code.message();
    return CompileStatus::Failure;
  }
  auto cleanUp = llvm::make_scope_exit([&] { llvm::sys::fs::remove_directories(folder); });
  StageCheck check(options, ids, contextLength);
  CompileOptions compile = options.compile;
  compile.observer = &check;
  compile.emit = Emit::Executable;
  compile.output = (folder + "/model").str();
  if (CompileStatus status = compileModel(compile, error); status != CompileStatus::Done)
    return check.hasInputs() ? status : CompileStatus::InvalidInput;
  return check.checkBinary(compile.output, folder.str().str(), error) ? CompileStatus::Done : CompileStatus::Failure;
}
