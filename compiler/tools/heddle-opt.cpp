// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs passes on a module, as mlir-opt does. --heddle-check evaluates the module after every pass, --heddle-verify-stage checks the
// contract of a stage after the last one. --help shows what is ours; MLIR's hundreds of passes and options are in --help-all.

#include "compiler/Pipeline.h"
#include "compiler/tools/ToolDialects.h"
#include "compiler/verify/ModelInputs.h"
#include "compiler/verify/NumericCheck.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

#include <map>

using namespace mlir;

static llvm::cl::opt<bool> check("heddle-check",
                                 llvm::cl::desc("Fail after the first pass that changes what the module computes"));
static llvm::cl::opt<std::string>
    checkEntry("heddle-check-entry", llvm::cl::init(""),
               llvm::cl::desc("Function that --heddle-check evaluates (default: the first public one)"));
static llvm::cl::opt<bool> checkAll("heddle-check-all", llvm::cl::desc("--heddle-check of every public function"));
static llvm::cl::opt<double> checkLimit("heddle-check-limit", llvm::cl::init(0),
                                        llvm::cl::desc("Largest normalised error (default: by element type)"));
static llvm::cl::opt<uint64_t> checkSeed("heddle-check-seed", llvm::cl::init(1),
                                         llvm::cl::desc("Seed of --heddle-check's inputs"));

static llvm::cl::list<int64_t>
    checkIds("heddle-check-ids", llvm::cl::CommaSeparated,
             llvm::cl::desc("Token ids that --heddle-check evaluates a model with, as @forward and as @step"));

static llvm::cl::opt<std::string>
    verifiedStage("heddle-verify-stage", llvm::cl::init(""),
                  llvm::cl::desc("Fail unless the module keeps the contract of this stage"));

namespace {
struct VerifyStage : PassWrapper<VerifyStage, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyStage)
  explicit VerifyStage(heddle::Stage stage) : stage(stage) {}
  StringRef getName() const override { return "VerifyStage"; }
  void runOnOperation() override {
    if (failed(heddle::verifyStage(getOperation(), stage)))
      signalPassFailure();
  }
  heddle::Stage stage;
};
} // namespace

static LogicalResult addStageContract(PassManager &pm) {
  if (verifiedStage.empty())
    return success();
  std::optional<heddle::Stage> stage = heddle::parseStage(verifiedStage);
  if (!stage) {
    llvm::errs() << "heddle-opt: error: --heddle-verify-stage: there is no stage '" << verifiedStage << "'\n";
    return failure();
  }
  pm.addPass(std::make_unique<VerifyStage>(*stage));
  return success();
}

static LogicalResult setUpPasses(PassManager &pm, const MlirOptMainConfig &config) {
  if (check || checkAll) {
    heddle::NumericCheckOptions options;
    options.entry = checkEntry;
    options.limit = checkLimit;
    options.seed = checkSeed;
    if (!checkIds.empty()) {
      options.inputs = heddle::modelInputs(std::vector<int64_t>(checkIds.begin(), checkIds.end()));
      options.steps = heddle::modelSteps(std::vector<int64_t>(checkIds.begin(), checkIds.end()));
    }
    if (checkAll)
      heddle::addNumericChecks(pm, std::move(options));
    else
      heddle::addNumericCheck(pm, std::move(options));
  }
  return success(succeeded(config.setupPassPipeline(pm)) && succeeded(addStageContract(pm)));
}

// Options and passes of ours: only those are registered yet.
static int printOwnHelp() {
  llvm::outs() << "heddle-opt [options] FILE: runs passes on a module\n\nOptions:\n";
  std::map<StringRef, StringRef> options;
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.first.starts_with("heddle-"))
      options[entry.first] = entry.second->HelpStr;
  for (auto [name, help] : options)
    llvm::outs() << llvm::formatv("  --{0,-25} - {1}\n", name, help);
  heddle::registerPasses();
  printRegisteredPasses();
  llvm::outs() << "Pass Pipelines:\n";
  for (auto [name, help] : heddle::registeredPipelines())
    llvm::outs() << llvm::formatv("  --{0,-25} - {1}\n", name, help);
  llvm::outs() << "\nSeveral passes, with options: --pass-pipeline='builtin.module(NAME{OPTION=VALUE},…)'. --help-all "
                  "shows MLIR's passes "
                  "and options too.\n";
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (int i = 1; i < argc; ++i) {
    StringRef word = argv[i];
    if (word == "--help" || word == "-help" || word == "-h")
      return printOwnHelp();
    if (word == "--help-all")
      argv[i] = const_cast<char *>("--help");
  }
  DialectRegistry registry;
  heddle::registerToolDialects(registry);
  registerAllPasses();
  heddle::registerPasses();
  auto [inputName, outputName] =
      registerAndParseCLIOptions(argc, argv, "heddle-opt: runs passes on a module\n", registry);

  MlirOptMainConfig asGiven = MlirOptMainConfig::createFromCLOptions(), config = asGiven;
  config.setPassPipelineSetupFn([&](PassManager &pm) { return setUpPasses(pm, asGiven); });
  if (config.shouldShowDialects() || config.shouldListPasses() || config.shouldRunReproducer())
    return failed(MlirOptMain(argc, argv, inputName, outputName, registry));

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> input = openInputFile(inputName, &error);
  if (!input) {
    llvm::errs() << error << "\n";
    return 2;
  }
  std::unique_ptr<llvm::ToolOutputFile> output = openOutputFile(outputName, &error);
  if (!output) {
    llvm::errs() << error << "\n";
    return 2;
  }
  if (failed(MlirOptMain(output->os(), std::move(input), registry, config)))
    return 1;
  output->keep();
  return 0;
}
