// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which kernel of a binary is wrong: each is run in the binary, with its weights, on what the interpreter gives it.
#ifndef HEDDLE_COMPILER_VERIFY_KERNELREPLAY_H
#define HEDDLE_COMPILER_VERIFY_KERNELREPLAY_H

#include "compiler/Compile.h"
#include "compiler/verify/KernelRecorder.h"
#include "compiler/verify/ModelInputs.h"

namespace heddle {

struct KernelReplayOptions {
  std::string folder;                // for what is exchanged with the binary
  std::vector<int64_t> ids, longIds; // longIds: a sequence that runs over pages, chunks and splits, empty: none
  EncodeInputs given;                // of a model that encodes
  double leastLimit = 0;             // NMSE that any kernel may have
};

class KernelReplay : public CompileObserver {
public:
  explicit KernelReplay(KernelReplayOptions options) : options(std::move(options)) {}

  // Writes down what the kernels of the code must do. Does nothing for a graph, which has no steps.
  mlir::LogicalResult didGenerate(mlir::ModuleOp module, const GeneratedCode &code, const PackageInfo &info,
                                  const Checkpoint &files) override;

  using Print = std::function<void(const std::string &what, const std::string &said)>;
  // Whether every kernel of `binary`, linked of that code, gives what it must. Else `verdict` names the first that does not, or that
  // the process did not survive, in one line. If all are right, it says which is the farthest from it. `print` is told of each kernel and of its largest NMSE.
  bool run(const std::string &binary, const Print &print, std::string &verdict) const;

private:
  struct Case {
    std::string what;
    int64_t threads;
    std::vector<ReplayedKernel> kernels;
    std::string input; // path
  };
  struct Farthest {
    const ReplayedKernel *kernel = nullptr;
    double nmse = 0, limit = 1;
  };
  mlir::LogicalResult add(KernelRecorder &recorder, std::string what, int64_t threads, const StepSource &steps);
  bool runCase(const Case &replayed, const std::string &binary, const Print &print, Farthest &farthest,
               std::string &verdict) const;

  KernelReplayOptions options;
  mlir::MLIRContext context; // of the results' types: the compilation's own ends with it
  std::vector<Case> cases;
};

// Runs the kernels of the binary that `compile` made, as `recorded` has them, or, if null, as the same compilation once more gives
// them. `whole` says what is wrong with all of it, if anything is; the kernel that is at fault comes in front. A kernel
// for a device is not run by itself. `recorded` is there where every kernel is to be listed.
Status verifyKernels(CompileOptions compile, KernelReplayOptions options, std::unique_ptr<KernelReplay> recorded,
                     Status whole);

} // namespace heddle

#endif
