// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/GpuTarget.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

using namespace heddle;

static const GpuTarget targets[] = {
    {"cuda:sm_80", "sm_80", "+ptx70", 8, 0, false},
    {"cuda:sm_90a", "sm_90a", "+ptx80", 9, 0, true},
};

bool heddle::isGpuTargetName(llvm::StringRef name) {
  return name.starts_with("cuda:");
}

mlir::FailureOr<GpuTarget> heddle::parseGpuTarget(llvm::StringRef name, std::string &error) {
  std::string known;
  for (const GpuTarget &target : targets) {
    if (name == target.name)
      return target;
    known += (known.empty() ? "" : ", ") + target.name;
  }
  error = "unknown target '" + name.str() + "'; known: " + known;
  return mlir::failure();
}

std::unique_ptr<llvm::TargetMachine> GpuTarget::createMachine() const {
  static bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, chip, ptx, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
}
