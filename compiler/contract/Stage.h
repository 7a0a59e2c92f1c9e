// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages of a compilation and the contracts between them: what may stand in a module at the end of a stage, and what a pass of a stage
// works on.
#ifndef HEDDLE_COMPILER_CONTRACT_STAGE_H
#define HEDDLE_COMPILER_CONTRACT_STAGE_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace heddle {

enum class Stage { Import, Raise, Optimize, Schedule, Codegen, Package };
llvm::StringRef stageName(Stage stage);
std::optional<Stage> parseStage(llvm::StringRef name);

// On a module in text: the stage that it is behind, after which a compilation can go on. Import where nothing says.
inline constexpr llvm::StringLiteral stageAttrName = "heddle.stage";
// What the attribute says; takes it away. A failure has emitted its diagnostic.
mlir::FailureOr<Stage> takeStageAttr(mlir::ModuleOp module);

// Why attention was not found around a softmax, on that op.
inline constexpr llvm::StringLiteral notFusedAttr = "heddle.not_fused";

// The contract at the end of a stage; the diagnostic names the first op that breaks it.
mlir::LogicalResult verifyStage(mlir::ModuleOp module, Stage stage);

// What pass `pass` on `root` works on: a module behind stage `after`, or what passes of the next stage have made of one, those that leave what
// this one reads among them. The diagnostic names the pass, the stage or the pass that is missing, and the first op that shows it.
mlir::LogicalResult verifyPassInput(mlir::Operation *root, Stage after, llvm::StringRef pass);

} // namespace heddle

#endif
