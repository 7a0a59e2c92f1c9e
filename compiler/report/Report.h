// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle compile --report=FILE`: what was made of a model, as data and as a page. README.md lists the fields.
#ifndef HEDDLE_COMPILER_REPORT_REPORT_H
#define HEDDLE_COMPILER_REPORT_REPORT_H

#include "compiler/package/Metadata.h"

namespace heddle {

// What a pass said of a choice.
struct Remark {
  std::string location, text;
};

// One of the CPUs that a file has code for.
struct ReportedVariant {
  const Target &target;
  uint64_t ownWeights; // bytes that no other reads
};

// The report as one JSON object, the same for the same input. `module`, made of `model`, is as plan-memory left it, `code` made from it, `weights` packed for it.
// `variants`: of a file for several CPUs, of which `module` is for one, and `sharedWeights` bytes of weights are read by several.
std::string buildReport(mlir::ModuleOp module, const Model &model, const PackageInfo &info, const Target &target,
                        const GeneratedCode &code, llvm::ArrayRef<std::string> passes, llvm::ArrayRef<Remark> remarks,
                        llvm::ArrayRef<PackedWeight> weights, llvm::ArrayRef<ReportedVariant> variants,
                        uint64_t sharedWeights);

// A page without outside references that draws the report.
std::string reportPage(llvm::StringRef report);

} // namespace heddle

#endif
