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

// The report as one JSON object, the same for the same input. `module` is as plan-memory left it, `code` made from it, `weights` packed for it.
std::string buildReport(mlir::ModuleOp module, const PackageInfo &info, const Target &target, const GeneratedCode &code,
                        llvm::ArrayRef<Remark> remarks, llvm::ArrayRef<PackedWeight> weights);

// A page without outside references that draws the report.
std::string reportPage(llvm::StringRef report);

} // namespace heddle

#endif
