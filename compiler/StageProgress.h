// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a terminal shows of a compilation that runs.
#ifndef HEDDLE_COMPILER_STAGEPROGRESS_H
#define HEDDLE_COMPILER_STAGEPROGRESS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <unistd.h>

namespace heddle {

// Says on a terminal which stage runs; silent in a pipe.
class StageProgress {
public:
  explicit StageProgress(bool quiet)
      : visible(!quiet && isatty(STDERR_FILENO)), start(std::chrono::steady_clock::now()) {}
  ~StageProgress() { clear(); }
  // Before other lines.
  void clear() {
    if (visible)
      llvm::errs() << "\r\033[K";
  }
  void stage(llvm::StringRef what) {
    if (!visible)
      return;
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    llvm::errs() << "\r\033[K" << llvm::format("%5.1f s  ", seconds) << what;
  }

private:
  bool visible;
  std::chrono::steady_clock::time_point start;
};

} // namespace heddle

#endif
