// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_CONTRACT_STAGEPASS
#define HEDDLE_CONTRACT_STAGEPASS

include "mlir/Pass/PassBase.td"

// A pass that works on modules behind stage `after` (Stage::NAME); its class overrides runInStage().
class StagePass<string argument, string operation, string after>
  : PassBase<argument, "::heddle::StagePass<" # operation # ", ::heddle::Stage::" # after # ">">;

#endif
