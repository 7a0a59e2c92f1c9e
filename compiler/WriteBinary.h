// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The end of a compilation: what was scheduled becomes code, and the files that the options name get their contents. All that can fail
// comes before the first of them has its name.
#ifndef HEDDLE_COMPILER_WRITEBINARY_H
#define HEDDLE_COMPILER_WRITEBINARY_H

#include "compiler/Program.h"
#include "compiler/StageProgress.h"
#include "compiler/package/OutputFile.h"
#include "compiler/report/Report.h"

namespace heddle {

// A program behind the schedule stage, for one target.
struct Variant {
  Target target;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> passes; // that made it, from the import on
  std::vector<Remark> remarks;     // what they said
};

// What there is to write once the schedule stage has run.
struct BinaryRequest {
  const CompileOptions &options;
  const Program &program;           // its module is in the variants
  llvm::ArrayRef<Variant> variants; // one, or CPUs in the order of parseTargets, whose weights lie in one section
  std::vector<SharedFile> sources;  // all that the output is made of
  StageProgress &progress;
};

// The output, its sidecar, report and make rule. `outSummary` is CompileNotes'; empty for text. Of a failure without words MLIR's
// diagnostics say what it is.
Status writeBinary(const BinaryRequest &request, std::string &outSummary);

// `text` as the output, or to the standard one, with the make rule of `sources`.
Status writeText(const CompileOptions &options, const std::vector<SharedFile> &sources, const std::string &text);

// Writes all of `text` to a file that has no name yet, which keepText gives it; nothing where `path` is empty.
Status prepareText(const std::string &path, const std::string &text, OutputFile &outFile);
Status keepText(OutputFile &file);

// What the package says beside `module`, which is the program's at any stage, and the config. `target`: any of the package's.
PackageInfo packageInfo(const CompileOptions &options, const Program &program, mlir::ModuleOp module,
                        const Target &target, std::string sourceSha256);

} // namespace heddle

#endif
