// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/NumericCheck.h"
#include "compiler/verify/ModelValues.h"
#include "dialect/Locations.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

//===- inputs -------------------------------------------------------------===//

namespace {
// splitmix64, Steele et al. 2014 (doi:10.1145/2660193.2660195).
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return ((next() >> 11) + 0.5) * 0x1p-53; } // in (0, 1)
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform()); }
};
} // namespace

Tensor heddle::randomTensor(Type elementType, ArrayRef<int64_t> shape, uint64_t seed, int64_t maxIndex) {
  Random random{seed};
  Tensor tensor = Tensor::zeros(elementType, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    Scalar value;
    if (tensor.isFloat())
      value.real = random.normal();
    else
      value.integer = random.next() % maxIndex;
    tensor.set(i, value);
  }
  return tensor;
}

NumericCheck::NumericCheck(NumericCheckOptions given) : options(std::move(given)) {
  if (!options.interpreter.weight)
    options.interpreter.weight = keepingValues(randomWeights(options.seed));
}

FailureOr<SmallVector<RuntimeValue>> NumericCheck::inputsFor(func::FuncOp entry) {
  if (options.inputs)
    return options.inputs(entry);
  SmallVector<RuntimeValue> inputs;
  for (auto [i, type] : llvm::enumerate(entry.getArgumentTypes())) {
    if (auto cacheType = llvm::dyn_cast<KvCacheType>(type)) {
      auto cache = std::make_shared<KvCache>(cacheType);
      cache->beginStep(SmallVector<int64_t>(options.dynamicSize, 0));
      inputs.push_back(std::move(cache));
      continue;
    }
    SmallVector<int64_t> shape;
    if (auto tensorType = llvm::dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensorType.getShape())
        shape.push_back(ShapedType::isDynamic(size) ? options.dynamicSize : size);
    else if (!type.isIntOrIndexOrFloat())
      return entry.emitError("argument ")
             << i << " of '" << entry.getName() << "' is " << type << ", for which there are no "
             << "random inputs";
    inputs.push_back(
        makeValue(randomTensor(getElementTypeOrSelf(type), shape, Random{options.seed + i}.next(), options.maxIndex)));
  }
  return inputs;
}

//===- evaluation and comparison ------------------------------------------===//

static func::FuncOp findEntry(ModuleOp module, StringRef name) {
  for (auto function : module.getOps<func::FuncOp>())
    if (name.empty() ? function.isPublic() && !function.isExternal() : function.getName() == name)
      return function;
  return {};
}

// The op that gave the first value nobody had before.
static std::string firstIn(const ValueTrace &now, const ValueTrace &before) {
  std::string text;
  if (Operation *op = now.firstNewOp(before))
    llvm::raw_string_ostream(text) << "; first in '" << op->getName() << "' at " << locationText(op->getLoc());
  return text;
}

// Results as tensors, whether the module is on buffers or not.
FailureOr<SmallVector<RuntimeValue>> NumericCheck::call(InterpreterOptions traced, func::FuncOp entry,
                                                        ArrayRef<RuntimeValue> inputs) {
  Interpreter interpreter(std::move(traced));
  FailureOr<SmallVector<RuntimeValue>> results = interpreter.call(entry, inputs);
  metUnknownOp |= interpreter.metUnknownOp();
  if (succeeded(results))
    for (RuntimeValue &result : *results)
      if (auto *buffer = std::get_if<Buffer>(&result))
        result = makeValue(buffer->load());
  return results;
}

// What the interpreter says goes to `message`: whether it is one, the caller decides.
FailureOr<SmallVector<RuntimeValue>> NumericCheck::evaluate(func::FuncOp entry, std::string &message) {
  ScopedDiagnosticHandler handler(entry.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    llvm::raw_string_ostream os(message);
    os << (message.empty() ? "" : "; ") << diagnostic.str() << " at " << locationText(diagnostic.getLocation());
    return success();
  });
  FailureOr<SmallVector<RuntimeValue>> inputs = inputsFor(entry);
  if (failed(inputs))
    return failure();
  now = ValueTrace();
  InterpreterOptions traced = options.interpreter;
  traced.observe = [this](Operation *op, ArrayRef<RuntimeValue> operands, ArrayRef<RuntimeValue> results) {
    now.record(op, operands, results);
  };
  return call(std::move(traced), entry, *inputs);
}

LogicalResult NumericCheck::compareResults(func::FuncOp entry, ArrayRef<RuntimeValue> results, StringRef stage) {
  if (results.size() < expected.size())
    return entry.emitError("after ") << stage << ", '" << entry.getName() << "' has " << results.size()
                                     << " results, expected " << expected.size();
  // A pass may add results behind those that were there: the step gives the last hidden state as well.
  for (auto [i, wanted] : llvm::enumerate(expected)) {
    const auto *a = std::get_if<TensorRef>(&results[i]), *e = std::get_if<TensorRef>(&wanted);
    if (!a || !e)
      continue; // caches are not results
    Tensor flat = **a;
    if (options.inputs && flat.size() == (*e)->size())
      flat.shape = (*e)->shape; // (1, sequence, …) may become (rows, …)
    Difference difference = compare(flat, **e);
    error = std::max(error.value_or(0), difference.nmse);
    if (difference.nmse > limitFor(**e))
      return differs(entry, stage, i, difference, limitFor(**e)) << firstIn(now, before);
  }
  if (failed(checkSteps(entry, stage)))
    return failure();
  before = std::move(now);
  return success();
}

double NumericCheck::limitFor(const Tensor &expected) const {
  return options.limit && expected.isFloat() ? options.limit : nmseLimit(expected.elementType);
}

InFlightDiagnostic NumericCheck::differs(func::FuncOp entry, StringRef stage, unsigned result,
                                         const Difference &difference, double limit) {
  InFlightDiagnostic diagnostic = entry.emitError("after ")
                                  << stage << ", result " << result << " of '" << entry.getName() << "' ";
  if (!difference.sameShape)
    return std::move(diagnostic << "has another shape");
  return std::move(diagnostic << llvm::formatv("differs: NMSE {0:e3} (limit {1:e3}), element {2} by {3:e3}",
                                               difference.nmse, limit, difference.worst, difference.maxAbs)
                                     .str());
}

// Rows `rows` of a tensor of `count` rows, whatever dimensions these are.
static Tensor takeRows(const Tensor &whole, ArrayRef<int64_t> rows, int64_t count) {
  int64_t width = whole.size() / count;
  Tensor result = Tensor::zeros(whole.elementType, {int64_t(rows.size()), width});
  for (auto [i, row] : llvm::enumerate(rows))
    for (int64_t column = 0; column < width; ++column)
      result.set(i * width + column, whole.get(row * width + column));
  return result;
}

LogicalResult NumericCheck::checkSteps(func::FuncOp entry, StringRef stage) {
  StepInputs inputs;
  for (size_t step = 0; options.steps; ++step) {
    FailureOr<bool> isThere = options.steps(entry, step, inputs);
    if (failed(isThere) || !*isThere)
      return isThere;
    FailureOr<SmallVector<RuntimeValue>> results = call(options.interpreter, entry, inputs.arguments);
    if (failed(results))
      return failure();
    for (auto [i, wanted] : llvm::enumerate(expected)) {
      const auto *a = std::get_if<TensorRef>(&(*results)[i]), *e = std::get_if<TensorRef>(&wanted);
      int64_t rows = inputs.rows.size(), width = a ? (*a)->size() / rows : 0;
      if (!a || !e || !width || (*a)->dim(0) != rows)
        continue; // a pooler's output has a row of each sequence, not of each token
      SmallVector<int64_t> compared, whole;
      for (auto [at, row] : llvm::enumerate(inputs.rows))
        if (row >= 0)
          compared.push_back(at), whole.push_back(row);
      Difference difference = compare(takeRows(**a, compared, rows), takeRows(**e, whole, (*e)->size() / width));
      error = std::max(error.value_or(0), difference.nmse);
      if (difference.nmse > limitFor(**e))
        return differs(entry, stage, i, difference, limitFor(**e))
               << " of step " << step << ", behind cached tokens and beside another sequence";
    }
  }
  return success();
}

// All that decides what a module computes, in an order of its own: names, attributes and types are unique in a context, values are
// numbered as they are met. Locations are not among it.
static std::vector<uintptr_t> contentOf(ModuleOp module) {
  std::vector<uintptr_t> words;
  DenseMap<Value, uintptr_t> numbers;
  DenseMap<Block *, uintptr_t> blocks;
  auto add = [&](const void *unique) { words.push_back(reinterpret_cast<uintptr_t>(unique)); };
  auto addValue = [&](Value value) {
    words.push_back(numbers.try_emplace(value, numbers.size()).first->second);
    add(value.getType().getAsOpaquePointer());
  };
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    add(op->getName().getAsOpaquePointer());
    add(op->getAttrDictionary().getAsOpaquePointer());
    llvm::append_values(words, op->getNumOperands(), op->getNumResults(), op->getNumSuccessors(), op->getNumRegions());
    llvm::for_each(op->getOperands(), addValue);
    llvm::for_each(op->getResults(), addValue);
    for (Block *successor : op->getSuccessors())
      words.push_back(blocks.try_emplace(successor, blocks.size()).first->second);
    for (Region &region : op->getRegions()) {
      words.push_back(region.getBlocks().size());
      for (Block &block : region) {
        llvm::append_values(words, blocks.try_emplace(&block, blocks.size()).first->second, block.getNumArguments(),
                            block.getOperations().size());
        llvm::for_each(block.getArguments(), addValue);
      }
    }
  });
  return words;
}

LogicalResult NumericCheck::check(ModuleOp module, StringRef stage) {
  std::optional<double> last = std::exchange(error, std::nullopt);
  if (!ended.empty())
    return success();
  std::vector<uintptr_t> given = contentOf(module);
  if (given == content)
    return error = last.value_or(0), success();
  content.clear();
  func::FuncOp entry = findEntry(module, options.entry);
  if (!entry && options.entry.empty())
    return module.emitError("after ") << stage << ", there is no public function to evaluate";
  if (!entry)
    return module.emitError("after ") << stage << ", there is no function '" << options.entry << "' to evaluate";
  std::string message;
  FailureOr<SmallVector<RuntimeValue>> results = evaluate(entry, message);
  if (failed(results)) {
    if (!options.stopsAtUnknownOps || !metUnknownOp)
      return entry.emitError("cannot be evaluated after ") << stage << ": " << message;
    ended = message;
    return entry.emitRemark("not evaluated after ") << stage << ": " << message, success();
  }
  bool isNewType = entryType && entryType != entry.getFunctionType() && !options.inputs;
  if (!entryType || isNewType) {
    if (isNewType)
      entry.emitRemark("the type of '") << entry.getName() << "' changed in " << stage
                                        << "; later results are compared with this one's";
    entryType = entry.getFunctionType();
    expected = std::move(*results);
    before = std::move(now);
    content = std::move(given);
    return success();
  }
  LogicalResult compared = compareResults(entry, *results, stage);
  if (succeeded(compared))
    content = std::move(given);
  return compared;
}

//===- after every pass ---------------------------------------------------===//

// The pass that runs a nested pipeline computes nothing itself.
static bool isAdaptor(Pass *pass) {
  return pass->getName().ends_with("OpToOpPassAdaptor");
}

static StringRef nameOf(Pass *pass) {
  return pass->getArgument().empty() ? pass->getName() : pass->getArgument();
}

static ModuleOp moduleOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  return module ? module : op->getParentOfType<ModuleOp>();
}

namespace {
struct CheckInstrumentation : PassInstrumentation {
  CheckInstrumentation(std::shared_ptr<NumericCheck> check, std::function<void(StringRef)> report)
      : check(std::move(check)), report(std::move(report)), hasBegun(!this->check->expectation().empty()) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    if (hasBegun || isAdaptor(pass))
      return;
    hasBegun = true;
    run(pass, op, "the input");
  }
  void runAfterPass(Pass *pass, Operation *op) override {
    if (!hasFailed && !isAdaptor(pass))
      run(pass, op, "pass '" + nameOf(pass).str() + "'");
    if (report && !hasFailed && !isAdaptor(pass))
      report(nameOf(pass));
  }

private:
  void run(Pass *pass, Operation *op, const std::string &stage) {
    ModuleOp module = moduleOf(op);
    hasFailed = module && failed(check->check(module, stage));
    if (hasFailed)
      signalPassFailure(pass);
  }

  std::shared_ptr<NumericCheck> check;
  std::function<void(StringRef)> report;
  bool hasBegun, hasFailed = false;
};

struct CheckFunctions : PassInstrumentation {
  explicit CheckFunctions(NumericCheckOptions options) : options(std::move(options)) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    if (hasBegun || isAdaptor(pass))
      return;
    hasBegun = true;
    for (auto function : moduleOf(op).getOps<func::FuncOp>()) {
      if (!function.isPublic() || function.isExternal())
        continue;
      options.entry = function.getName().str();
      checks.emplace_back(options.entry, std::make_unique<NumericCheck>(options));
    }
    run(pass, op, "the input", "");
  }
  void runAfterPass(Pass *pass, Operation *op) override {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!isAdaptor(pass))
      run(pass, op, "pass '" + nameOf(pass).str() + "'", function ? function.getName() : "");
  }

private:
  // `only` may be called by the others; a private function is judged by all.
  void run(Pass *pass, Operation *op, const std::string &stage, StringRef only) {
    bool isKnown = llvm::any_of(checks, [&](auto &check) { return check.first == only; });
    for (auto &[name, check] : checks)
      if ((!isKnown || name == only) && failed(check->check(moduleOf(op), stage)))
        signalPassFailure(pass);
  }

  NumericCheckOptions options;
  SmallVector<std::pair<std::string, std::unique_ptr<NumericCheck>>> checks;
  bool hasBegun = false;
};
} // namespace

void heddle::addNumericCheck(PassManager &pm, std::shared_ptr<NumericCheck> check,
                             std::function<void(StringRef)> report) {
  pm.getContext()->disableMultithreading();
  pm.addInstrumentation(std::make_unique<CheckInstrumentation>(std::move(check), std::move(report)));
}

void heddle::addNumericCheck(PassManager &pm, NumericCheckOptions options) {
  addNumericCheck(pm, std::make_shared<NumericCheck>(std::move(options)));
}

void heddle::addNumericChecks(PassManager &pm, NumericCheckOptions options) {
  pm.getContext()->disableMultithreading();
  pm.addInstrumentation(std::make_unique<CheckFunctions>(std::move(options)));
}
