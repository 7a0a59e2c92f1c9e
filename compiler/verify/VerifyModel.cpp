// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/VerifyModel.h"

#include "compiler/Program.h"
#include "compiler/interpreter/TensorBytes.h"
#include "compiler/package/Metadata.h"
#include "compiler/raise/ForwardConfig.h"
#include "compiler/verify/EmbedCheck.h"
#include "compiler/verify/EncodeCheck.h"
#include "compiler/verify/GenerationCheck.h"
#include "compiler/verify/GraphValues.h"
#include "compiler/verify/KernelReplay.h"
#include "compiler/verify/ModelInputs.h"
#include "compiler/verify/ModelValues.h"
#include "compiler/verify/NumericCheck.h"
#include "compiler/verify/QuietModel.h"
#include "compiler/verify/VerifyPlan.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"
#include "frontends/import/ImportModel.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace heddle;

// Rounding of right passes moves models of 2 to 30 layers by up to 4e-13 (of binaries 1e-12); an epsilon of 1e-5 that should be 1e-6
// moves activations of variance 1 by 2e-11.
static constexpr double exactLimit = 1e-11, exactBinaryLimit = 1e-9;
// Small models are shallow: their binaries' kernels move them by up to 4e-12, on 600 tokens.
static constexpr double smallBinaryLimit = 3e-11;

// What a stage may move: nothing but rounding, unless the options let the cache or the products be narrower.
static double limitOf(const VerifyOptions &options) {
  if (options.limit)
    return options.limit;
  const CompileOptions &compile = options.compile;
  if (compile.activations == "int8" || compile.kv == "q8_0")
    return quantizedNmseLimit;
  bool isExact = compile.precision == Precision::Precise && (compile.kv == "auto" || compile.kv == "f32");
  return isExact ? exactLimit : 5e-5;
}

namespace {

// Evaluates every module that a compilation shows, then the binary, on the same values.
class StageCheck : public CompileObserver {
public:
  // The plan is of a model that generates. A quiet one is run on what went through the passes alone.
  StageCheck(const VerifyOptions &options, const VerifyPlan &plan, const std::string &folder, bool isQuiet = false)
      : options(options), plan(plan), folder(folder), ids(plan.ids), isQuiet(isQuiet) {}

  void willRun(PassManager &pm, Stage) override {
    if (!options.eachPass)
      return;
    addNumericCheck(pm, check, [this](StringRef pass) { print("  " + pass.str()); });
    for (const GraphBeside &graph : graphsBeside)
      addNumericCheck(pm, graph.check);
  }
  LogicalResult didRun(ModuleOp module, Stage stage, const Checkpoint &files) override;
  LogicalResult didGenerate(ModuleOp module, const GeneratedCode &code, const PackageInfo &info,
                            const Checkpoint &files) override;
  void willEnd() override { longModule = nullptr, interpreter = {}; }
  // Whether the inputs that the options name are those of the model.
  bool hasInputs() const { return inputsFit; }
  bool checkBinary(const std::string &binary, const std::string &folder, std::string &error);
  // Runs the kernels of the binary that `compile` made one by one. `whole` says what is wrong with it, if anything is.
  Status checkKernels(const CompileOptions &compile, Status whole);

private:
  LogicalResult begin(ModuleOp module, Stage stage, const Checkpoint &files);
  // The graph entry that the options name, or the first.
  func::FuncOp graphOf(ModuleOp module) const;
  LogicalResult chooseInputs(ModuleOp module, NumericCheckOptions &numeric);
  LogicalResult chooseSequence(ModuleOp module);
  // The same of a model that encodes, and of one that generates.
  LogicalResult chooseTokens(ModuleOp module, NumericCheckOptions &numeric);
  // A sequence that is long for the model, which the binary alone is compared with.
  void chooseLong(ModuleOp module);
  // Logits of it, or an encoder's hidden states. It takes longer than any pass does and waits until these have been found right.
  LogicalResult evaluateLong(const InterpreterOptions &interpreter);
  // Whether the options choose the sequence, or an image does.
  bool isChosen() const;
  // The same of one whose length changes what the model rotates by.
  LogicalResult evaluateBeyond(MLIRContext *context, const InterpreterOptions &interpreter);
  bool checkEncodings(const std::string &binary, const std::string &folder, std::string &error);
  bool checkEmbedding(const std::string &binary, const std::string &folder, std::string &error);
  FailureOr<Tensor> logitsOf(func::FuncOp entry, const InterpreterOptions &interpreter, ArrayRef<int64_t> sequence);
  // Results of a graph on inputs that are large enough for several threads, where it takes any.
  void evaluateLarge(func::FuncOp graph, const InterpreterOptions &interpreter);
  // Begins the checks of the graphs beside a model that generates or encodes: dense layers behind pooling, what sees images.
  LogicalResult beginGraphsBeside(ModuleOp module, Stage stage, const InterpreterOptions &interpreter);
  // Whether the binary gives `wanted` for `given`; `what` is said of it.
  bool compareBinary(const std::string &binary, const std::string &folder, ArrayRef<NamedTensor> given,
                     ArrayRef<NamedTensor> wanted, const std::string &what, ArrayRef<StringRef> flags,
                     std::string &error);
  double binaryLimit(const Tensor &reference) const;
  KernelReplayOptions replayOptions() const;
  void print(const std::string &what);

  struct GraphBeside {
    std::string name;
    std::shared_ptr<NumericCheck> check;
    std::vector<NamedTensor> inputs, outputs;
  };

  const VerifyOptions &options;
  const VerifyPlan &plan;
  const std::string &folder;
  std::vector<int64_t> ids, longIds, beyondIds;
  bool isQuiet, isSmall = false;
  MLIRContext context;                      // of the types below: a compilation's own ends with it
  std::vector<NamedTensor> inputs, outputs; // of the binary; outputs as the reference has them
  OwningOpRef<ModuleOp>
      longModule; // as it was imported, of the compilation's context; null: nothing longer is evaluated
  std::vector<NamedTensor> largeInputs, largeOutputs;
  Tensor longLogits, beyondLogits; // of an encoder, its last hidden state
  InterpreterOptions interpreter;  // with the weights of the compilation's files
  std::shared_ptr<NumericCheck> check;
  std::vector<GraphBeside> graphsBeside;
  bool hasTokenizer = false;
  std::unique_ptr<KernelReplay> replay; // null: not asked for
  bool saidEnd = false, inputsFit = true;
  bool generates = true; // or may turn out to, in the raise stage; or encodes: it is given ids
  bool encodes = false;
  bool remainsGraph = false; // raise made no generating program of it
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
  tensor.elementType = typeIn(context, tensor.elementType);
}

func::FuncOp StageCheck::graphOf(ModuleOp module) const {
  return options.entry.empty() ? graphEntries(module).front() : module.lookupSymbol<func::FuncOp>(options.entry);
}

// The ids of a decoder that is a graph: only its type says how large the vocabulary is.
LogicalResult StageCheck::chooseSequence(ModuleOp module) {
  func::FuncOp ragged = raggedEntry(module), graph = ragged ? ragged : graphOf(module);
  std::string wrong;
  if (options.inputs.empty()) {
    wrong = idsOf(options, fewTokens, cast<RankedTensorType>(graph.getResultTypes()[0]).getShape().back(), ids);
  } else if (Expected<std::vector<NamedTensor>> given = graphInputs(graph, options.inputs, options.seed); !given) {
    wrong = "--inputs: " + given.message();
  } else {
    auto input = llvm::find_if(*given, [](const NamedTensor &tensor) { return tensor.name == "input_ids"; });
    ids = input->values.integers;
    if (input->values.shape[0] != 1)
      wrong = "--inputs: input_ids holds more than one sequence, expected one";
  }
  inputsFit = wrong.empty();
  return inputsFit ? success() : LogicalResult(graph.emitError(wrong));
}

static bool isFinite(const Tensor &tensor) {
  return llvm::all_of(tensor.reals, [](double value) { return std::isfinite(value); });
}

LogicalResult StageCheck::chooseTokens(ModuleOp module, NumericCheckOptions &numeric) {
  // A graph has no plan, also where it is a decoder's by the stage that is the first to be evaluated.
  if (ids.empty() && failed(chooseSequence(module)))
    return failure();
  encodes = isEncoder(module);
  numeric.inputs = modelInputs(ids, plan.given);
  numeric.steps = modelSteps(ids, plan.given);
  if (raggedEntry(module) && plan.given.image.size) {
    inputs.push_back({"pixel_values", imagePixels(plan.given.image, module.getContext())});
    return success();
  }
  if (raggedEntry(module)) {
    Tensor sequence = Tensor::zeros(IntegerType::get(module.getContext(), 64), {1, int64_t(ids.size())});
    sequence.integers = ids;
    inputs.push_back({"input_ids", sequence});
    if (encodes) {
      // Those that the interpreter takes, whatever the family counts from.
      std::iota(sequence.integers.begin(), sequence.integers.end(), 0);
      inputs.push_back({"position_ids", sequence});
      sequence.integers = tokenTypesOf(ids.size(), plan.given.tokenTypes);
      if (plan.given.tokenTypes)
        inputs.push_back({"token_type_ids", sequence});
      sequence.integers = globalsOf(ids.size());
      if (plan.given.hasGlobals)
        inputs.push_back({"global_attention_mask", sequence});
    }
    return success();
  }
  func::FuncOp graph = graphOf(module);
  FailureOr<SmallVector<RuntimeValue>> values = numeric.inputs(graph);
  if (failed(values))
    return failure();
  for (auto [i, value] : llvm::enumerate(*values)) {
    auto name = graph.getArgAttrOfType<StringAttr>(i, "heddle.name");
    inputs.push_back({name ? name.getValue().str() : "input_ids", *std::get<TensorRef>(value)});
  }
  return success();
}

// A model that generates or encodes is given ids in the form that its entry takes; a graph gets its own inputs.
LogicalResult StageCheck::chooseInputs(ModuleOp module, NumericCheckOptions &numeric) {
  if (isEncoderDecoder(module)) {
    inputsFit = false;
    return module.emitError("an encoder-decoder is not verified yet: one entry is evaluated, and it has two");
  }
  if (!raggedEntry(module))
    generates = options.compile.task != Task::Graph && noDecoderSignature(graphOf(module)).empty();
  if (generates)
    return chooseTokens(module, numeric);
  func::FuncOp graph = graphOf(module);
  numeric.entry = graph.getSymName().str();
  Expected<std::vector<NamedTensor>> given = graphInputs(graph, options.inputs, options.seed);
  inputsFit = bool(given);
  if (!given)
    return graph.emitError("--inputs: ") << given.message();
  inputs = std::move(*given);
  SmallVector<RuntimeValue> values;
  for (const NamedTensor &input : inputs)
    values.push_back(makeValue(input.values));
  numeric.inputs = [values](func::FuncOp) { return FailureOr<SmallVector<RuntimeValue>>(values); };
  return success();
}

FailureOr<Tensor> StageCheck::logitsOf(func::FuncOp entry, const InterpreterOptions &interpreter,
                                       ArrayRef<int64_t> sequence) {
  FailureOr<SmallVector<RuntimeValue>> arguments = modelInputs(sequence.vec(), plan.given)(entry);
  if (failed(arguments))
    return failure();
  FailureOr<SmallVector<RuntimeValue>> results = Interpreter(interpreter).call(entry, *arguments);
  if (failed(results))
    return failure();
  Tensor logits = *std::get<TensorRef>(results->front());
  logits.elementType = Float32Type::get(&context);
  return logits;
}

bool StageCheck::isChosen() const {
  return plan.given.image.size || !options.ids.empty() || options.tokens || !options.inputs.empty();
}

void StageCheck::chooseLong(ModuleOp module) {
  constexpr int64_t safeTokens = 100; // that every model has positions for
  func::FuncOp entry = raggedEntry(module) ? raggedEntry(module) : graphOf(module);
  longIds = ids;
  if (!isChosen() && isSmall) {
    int64_t most =
        plan.longestSequence == VerifyPlan::unknown ? safeTokens : std::min(plan.longestSequence, manyTokens);
    int64_t vocabSize = encodes ? plan.vocabSize : cast<RankedTensorType>(entry.getResultTypes()[0]).getShape().back();
    longIds = randomIds(most, vocabSize, options.seed);
  }
  if (longIds != ids) // else the passes' reference will do
    longModule = module.clone();
}

LogicalResult StageCheck::evaluateLong(const InterpreterOptions &interpreter) {
  func::FuncOp entry = raggedEntry(*longModule) ? raggedEntry(*longModule) : graphOf(*longModule);
  FailureOr<Tensor> logits = logitsOf(entry, interpreter, longIds);
  if (failed(logits))
    return failure();
  longLogits = std::move(*logits);
  return isChosen() || !plan.beyondTokens ? success() : evaluateBeyond(longModule->getContext(), interpreter);
}

LogicalResult StageCheck::evaluateBeyond(MLIRContext *context, const InterpreterOptions &interpreter) {
  OwningOpRef<ModuleOp> module = importModel(*context, plan.beyond, /*bottlenecks=*/nullptr);
  if (!module)
    return failure();
  beyondIds = randomIds(plan.beyondTokens, plan.beyond.config.vocabSize, options.seed);
  FailureOr<Tensor> logits = logitsOf(module->lookupSymbol<func::FuncOp>("forward"), interpreter, beyondIds);
  if (failed(logits))
    return failure();
  beyondLogits = std::move(*logits);
  return success();
}

void StageCheck::evaluateLarge(func::FuncOp graph, const InterpreterOptions &interpreter) {
  int64_t open = 0;
  for (Type type : graph.getArgumentTypes())
    open = std::max<int64_t>(open, cast<RankedTensorType>(type).getNumDynamicDims());
  if (!open || isQuiet || !isSmall || !options.inputs.empty())
    return;
  Expected<std::vector<NamedTensor>> given = graphInputs(graph, "", options.seed, open > 1 ? 17 : 100);
  // A table of positions may be shorter.
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &) { return success(); });
  SmallVector<RuntimeValue> values;
  for (const NamedTensor &input : *given)
    values.push_back(makeValue(input.values));
  FailureOr<SmallVector<RuntimeValue>> results = Interpreter(interpreter).call(graph, values);
  if (failed(results))
    return;
  largeInputs = std::move(*given);
  largeOutputs = graphOutputs(
      graph, llvm::map_to_vector(*results, [](const RuntimeValue &value) { return *std::get<TensorRef>(value); }));
  for (std::vector<NamedTensor> *tensors : {&largeInputs, &largeOutputs})
    for (NamedTensor &tensor : *tensors)
      moveToContext(tensor.values, context);
}

LogicalResult StageCheck::beginGraphsBeside(ModuleOp module, Stage stage, const InterpreterOptions &interpreter) {
  for (func::FuncOp graph : graphEntries(module)) {
    GraphBeside &added = graphsBeside.emplace_back();
    added.name = graph.getSymName().str();
    Expected<std::vector<NamedTensor>> given = graphInputs(graph, /*path=*/"", options.seed);
    added.inputs = std::move(*given); // random ones fit
    SmallVector<RuntimeValue> values;
    for (const NamedTensor &input : added.inputs)
      values.push_back(makeValue(input.values));
    NumericCheckOptions numeric;
    numeric.entry = added.name;
    numeric.stopsAtUnknownOps = true;
    numeric.interpreter = interpreter;
    numeric.limit = limitOf(options);
    numeric.inputs = [values](func::FuncOp) { return FailureOr<SmallVector<RuntimeValue>>(values); };
    added.check = std::make_shared<NumericCheck>(std::move(numeric));
    if (failed(added.check->check(module, stageName(stage))))
      return failure();
    SmallVector<Tensor> results;
    for (const RuntimeValue &value : added.check->expectation())
      results.push_back(*std::get<TensorRef>(value));
    added.outputs = graphOutputs(graph, results);
    for (std::vector<NamedTensor> *tensors : {&added.inputs, &added.outputs})
      for (NamedTensor &tensor : *tensors)
        moveToContext(tensor.values, context);
  }
  return success();
}

LogicalResult StageCheck::begin(ModuleOp module, Stage stage, const Checkpoint &files) {
  isSmall = bytesOf(files) <= smallModelBytes;
  if (!options.entry.empty() && (!graphOf(module) || !isGraphEntry(graphOf(module)))) {
    inputsFit = false;
    return module.emitError("--entry: the model has no entry '") << options.entry << "'";
  }
  NumericCheckOptions numeric;
  numeric.stopsAtUnknownOps = true;
  // Shared without ownership: the compilation holds the files for as long as it runs.
  interpreter.weight = keepingValues(weightsOf(std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &files)));
  numeric.interpreter = interpreter;
  if (failed(chooseInputs(module, numeric)))
    return failure();
  numeric.interpreter.context = std::max<int64_t>(ids.size(), numeric.interpreter.context);
  // A graph's types say what is rounded.
  numeric.limit = generates ? limitOf(options) : options.limit;
  if (generates && !isQuiet)
    chooseLong(module);
  if (!generates)
    evaluateLarge(graphOf(module), numeric.interpreter);
  if (raggedEntry(module) && failed(beginGraphsBeside(module, stage, numeric.interpreter)))
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
  // What is no number equals what is none: everything would pass.
  if (generates && !isFinite(results.front()))
    return module.emitError("the model's ") << (encodes ? "hidden states" : "logits")
                                            << " are not finite as it was imported: nothing can be compared with them";
  if (!generates)
    outputs = graphOutputs(graphOf(module), results);
  else if (!encodes)
    outputs.push_back({"logits", results.front()});
  else
    for (auto [output, result] : llvm::zip(outputsOf(raggedEntry(module)), results)) {
      outputs.push_back({output.name, result});
      if (output.isSqueezed)
        outputs.back().values.shape.pop_back();
    }
  for (NamedTensor &output : outputs) {
    moveToContext(output.values, context);
    // Whatever the module's type is, a model's binary writes f32.
    if (generates)
      output.values.elementType = Float32Type::get(&context);
  }
  if (generates && !isQuiet && longIds == ids)
    longLogits = outputs.front().values;
  std::string what =
      generates ? llvm::formatv("{0} tokens", ids.size()).str() : llvm::formatv("{0} inputs", inputs.size()).str();
  return printLine(stageName(stage), "reference, " + what), success();
}

// Rounding adds up over a binary's ops, in another order than the interpreter's; integers are exact.
double StageCheck::binaryLimit(const Tensor &reference) const {
  if (!reference.isFloat())
    return 0;
  if (options.limit)
    return options.limit;
  return std::max(ids.empty() ? nmseLimit(reference.elementType) : limitOf(options),
                  isSmall ? smallBinaryLimit : exactBinaryLimit);
}

bool StageCheck::compareBinary(const std::string &binary, const std::string &folder, ArrayRef<NamedTensor> given,
                               ArrayRef<NamedTensor> wanted, const std::string &what, ArrayRef<StringRef> flags,
                               std::string &error) {
  std::vector<NamedTensor> actual = wanted.vec();
  SmallVector<StringRef> all(flags);
  if (!options.entry.empty())
    all.append({"--entry", options.entry});
  if (!runBinary(binary, folder, given, actual, error, all))
    return false;
  double largest = 0;
  for (auto [output, reference] : llvm::zip_equal(actual, wanted)) {
    Difference difference = compare(output.values, reference.values);
    double limit = binaryLimit(reference.values);
    if (difference.nmse > limit) {
      error =
          llvm::formatv(
              "the binary moved a result that the passes did not: {0} differ: NMSE {1:e3} (limit {2:e3}), element {3} "
              "by {4:e3}",
              output.name, difference.nmse, limit, difference.worst, difference.maxAbs)
              .str();
      return false;
    }
    largest = std::max(largest, difference.nmse);
  }
  return printLine(what, llvm::formatv("NMSE {0:e2}", largest).str()), true;
}

bool StageCheck::checkBinary(const std::string &binary, const std::string &folder, std::string &error) {
  if (!compareBinary(binary, folder, inputs, outputs, "binary", {}, error))
    return false;
  if (!largeInputs.empty() &&
      !compareBinary(binary, folder, largeInputs, largeOutputs, "binary, larger inputs", {"--threads", "3"}, error))
    return false;
  if (encodes)
    for (const GraphBeside &graph : graphsBeside)
      if (!compareBinary(binary, folder, graph.inputs, graph.outputs, "binary, " + graph.name, {}, error))
        return false;
  if (remainsGraph)
    return true;
  if (encodes && !checkEmbedding(binary, folder, error))
    return false;
  if (isQuiet)
    return true;
  if (encodes)
    return checkEncodings(binary, folder, error);
  auto line = [](const std::string &what, const std::string &said) { printLine(what, said); };
  if (!GenerationCheck(longIds, longLogits, binaryLimit(longLogits), line).run(binary, folder, error))
    return false;
  return beyondIds.empty() || GenerationCheck(beyondIds, beyondLogits, binaryLimit(beyondLogits), line)
                                  .runBeyond(binary, folder, plan.isDynamic, error);
}

bool StageCheck::checkEmbedding(const std::string &binary, const std::string &folder, std::string &error) {
  if (!plan.pooling || !hasTokenizer) // without one --embed takes nothing
    return true;
  auto line = [](const std::string &what, const std::string &said) { printLine(what, said); };
  const Tensor &hidden = outputs.front().values;
  return EmbedCheck(ids, hidden.lastDim(), *plan.pooling, binaryLimit(hidden), line)
      .run(binary, folder, context, error);
}

bool StageCheck::checkEncodings(const std::string &binary, const std::string &folder, std::string &error) {
  auto line = [](const std::string &what, const std::string &said) { printLine(what, said); };
  return EncodeCheck(longIds, longLogits, plan.given, binaryLimit(longLogits), line).run(binary, folder, error);
}

LogicalResult StageCheck::didRun(ModuleOp module, Stage stage, const Checkpoint &files) {
  remainsGraph = !raggedEntry(module);
  if (!check)
    return begin(module, stage, files);
  std::string where = ("stage '" + stageName(stage) + "'").str();
  if (failed(check->check(module, where)) ||
      llvm::any_of(graphsBeside, [&](const GraphBeside &graph) { return failed(graph.check->check(module, where)); }))
    return failure();
  return print(stageName(stage).str()), success();
}

// Products of a fast binary round to 16 bits or to codes where no type says so.
KernelReplayOptions StageCheck::replayOptions() const {
  const CompileOptions &compile = options.compile;
  bool isRounded = compile.precision == Precision::Fast || compile.activations == "bf16";
  MLIRContext types;
  double rounding = compile.activations == "int8" ? quantizedNmseLimit
                    : isRounded                   ? nmseLimit(BFloat16Type::get(&types))
                                                  : 0;
  return {folder, ids, longIds, plan.given, rounding};
}

LogicalResult StageCheck::didGenerate(ModuleOp module, const GeneratedCode &code, const PackageInfo &info,
                                      const Checkpoint &files) {
  hasTokenizer = !info.tokenizer.empty();
  if (longModule && failed(evaluateLong(interpreter)))
    return failure();
  if (!options.eachKernel)
    return success();
  replay = std::make_unique<KernelReplay>(replayOptions());
  return replay->didGenerate(module, code, info, files);
}

Status StageCheck::checkKernels(const CompileOptions &compile, Status whole) {
  if (remainsGraph && !whole.isOk())
    return whole;
  if (remainsGraph)
    return Status(StatusCode::Unsupported, "--each-kernel: kernels of a graph are not run one by one yet");
  return verifyKernels(compile, replayOptions(), std::move(replay), std::move(whole));
}

// One compilation, and its binary, under the eyes of `check`.
static Status verifyOnce(CompileOptions compile, StageCheck &check, bool eachKernel, const std::string &folder) {
  compile.observer = &check;
  compile.emit = Emit::Executable;
  compile.output = folder + "/model";
  if (Status status = compileModel(compile); !status.isOk())
    return check.hasInputs() ? std::move(status) : std::move(status).as(StatusCode::InvalidInput);
  std::string wrong;
  Status whole = check.checkBinary(compile.output, folder, wrong) ? Status() : Status::failure(wrong);
  return whole.isOk() && !eachKernel ? Status() : check.checkKernels(compile, std::move(whole));
}

// The model again, its numbers so small that what is added to them shows.
static Status verifyQuiet(const VerifyOptions &options, const VerifyPlan &plan, const std::string &folder) {
  Expected<std::string> model = writeQuietModel(options.compile.model, folder + "/quiet");
  if (!model)
    return Status(model.status()).as(StatusCode::Failure);
  if (model->empty())
    return Status();
  VerifyOptions quiet = options;
  quiet.compile.model = *model;
  VerifyPlan few;
  few.ids = plan.ids;
  few.vocabSize = plan.vocabSize;
  few.given = plan.given;
  few.pooling = plan.pooling;
  llvm::outs() << "again, its matrices scaled by 1/64:\n";
  StageCheck check(quiet, few, folder, /*isQuiet=*/true);
  Status status = verifyOnce(quiet.compile, check, options.eachKernel, folder);
  // An option may fit the model but not this one: --task=generate, where a small number hides no key.
  if (status.isUsersFault()) {
    llvm::outs() << "not compared: " << status.message() << "\n";
    return Status();
  }
  return status.isOk() ? Status() : Status(status).saying("with matrices scaled by 1/64: " + status.message());
}

Status heddle::verifyModel(const VerifyOptions &options) {
  VerifyPlan plan;
  VerifyOptions chosen = options;
  if (!holdsGraph(options.compile))
    HEDDLE_RETURN_IF_ERROR(planVerification(options, chosen.compile, plan));
  llvm::SmallString<128> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("heddle-verify", folder))
    return Status::failure("cannot make a temporary folder: " + code.message());
  llvm::scope_exit cleanUp([&] { (void)llvm::sys::fs::remove_directories(folder); });
  std::string path = folder.str().str();
  StageCheck check(chosen, plan, path);
  HEDDLE_RETURN_IF_ERROR(verifyOnce(chosen.compile, check, options.eachKernel, path));
  // A resumed module names the bytes of the model's own files.
  return options.compile.resume.empty() ? verifyQuiet(options, plan, path) : Status();
}
