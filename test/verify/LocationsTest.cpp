// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every op that a frontend makes says which part of a layer, tensor or node it comes from, and so does every op that passes make of it.

#include "dialect/Locations.h"
#include "compiler/Compile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

#include <filesystem>
#include <unistd.h>

using namespace heddle;

namespace {

// Looks at the module behind each stage.
class LocationCheck : public CompileObserver {
public:
  mlir::LogicalResult didRun(mlir::ModuleOp module, Stage stage, const Checkpoint &) override {
    module.walk([&](mlir::Operation *op) {
      // What a whole model is, and constants, which MLIR's folding makes one for all who read them, without a location; tensors among them
      // become globals.
      if (mlir::isa<mlir::ModuleOp, mlir::func::FuncOp, mlir::func::ReturnOp, mlir::memref::GlobalOp,
                    mlir::memref::GetGlobalOp>(op) ||
          op->hasTrait<mlir::OpTrait::ConstantLike>())
        return;
      // The body of a loop over tensors is as the loop: MLIR gives that of a named op no location.
      if (mlir::isa<mlir::linalg::LinalgDialect>(op->getParentOp()->getDialect()))
        return;
      ++ops;
      std::string place = locationText(op->getLoc());
      if (!place.empty() && place.find("an unknown place") == std::string::npos && !isOfWhole(op))
        return;
      if (++unknown <= 3)
        ADD_FAILURE() << stageName(stage).str() << ": '" << op->getName().getStringRef().str() << "' is from '" << place
                      << "'";
    });
    return mlir::success();
  }
  int64_t ops = 0, unknown = 0;

private:
  // The location of what holds the op says no more than that it is of this model.
  static bool isOfWhole(mlir::Operation *op) { return op->getLoc() == op->getParentOfType<mlir::ModuleOp>()->getLoc(); }
};

std::vector<std::string> models() {
  std::vector<std::string> found;
  for (const auto &entry : std::filesystem::directory_iterator(HEDDLE_MODELS)) {
    if (!entry.is_directory())
      continue;
    if (exists(entry.path() / "config.json") && exists(entry.path() / "model.safetensors"))
      found.push_back(entry.path());
    for (const auto &file : std::filesystem::directory_iterator(entry.path()))
      if (file.path().extension() == ".onnx" || file.path().filename() == "q4_k.gguf")
        found.push_back(file.path());
  }
  return found;
}

class Locations : public testing::TestWithParam<std::string> {};

TEST_P(Locations, areKnownBehindEachStage) {
  LocationCheck check;
  CompileOptions options;
  options.model = GetParam();
  options.target = "x86-64-v3";
  options.stopAfter = Stage::Schedule;
  options.quiet = true;
  options.observer = &check;
  options.output = testing::TempDir() + "heddle-locations." + std::to_string(getpid()) + ".mlir";
  Status status = compileModel(options);
  (void)llvm::sys::fs::remove(options.output);
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_GT(check.ops, 0);
  EXPECT_EQ(check.unknown, 0) << "of " << check.ops;
}

std::string nameOf(const testing::TestParamInfo<std::string> &model) {
  std::string name = std::filesystem::path(model.param).lexically_relative(HEDDLE_MODELS);
  for (char &c : name)
    c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Locations, testing::ValuesIn(models()), nameOf);

} // namespace
