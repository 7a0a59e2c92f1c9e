// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an entry of a model is evaluated on: tokens, their positions, images, and the steps that a sequence is computed in.
#ifndef HEDDLE_COMPILER_VERIFY_MODELINPUTS_H
#define HEDDLE_COMPILER_VERIFY_MODELINPUTS_H

#include "compiler/verify/NumericCheck.h"

#include "frontends/ModelConfig.h"

namespace heddle {

// token_type_ids of `length` tokens for an encoder of so many types: the second half is another text, where there is another type.
std::vector<int64_t> tokenTypesOf(int64_t length, int64_t types);

// global_attention_mask of `length` tokens: now and then one is, beginning with the first.
std::vector<int64_t> globalsOf(int64_t length);

// What an encoder is given besides ids.
struct EncodeInputs {
  int64_t tokenTypes = 2;
  bool hasGlobals = false; // some tokens are global
  ImageConfig image;       // of one that takes images: ids then tell nothing but how many tokens there are
};

// An image that is the same on every machine, as pixel_values (1, channels, size, size).
Tensor imagePixels(const ImageConfig &image, mlir::MLIRContext *context);

// Inputs of a model's entry for `ids` as the one sequence, whichever form the entry has: @forward(ids, positions) of (1,
// sequence), an encoder's with token types and perhaps patches or global tokens; @step(ids, positions, output rows, cache, destinations) of (rows), the step being the whole
// sequence; or @encode(ids, positions, output rows, sequences, token types, perhaps patches or global tokens, destinations).
std::function<mlir::FailureOr<llvm::SmallVector<RuntimeValue>>(mlir::func::FuncOp)>
modelInputs(const std::vector<int64_t> &ids, const EncodeInputs &given = {});

// The same tokens in three steps of a ragged batch, for @step: a sequence, and one that ends halfway. Tokens stand behind a past of
// their own, and a step ends with a single one. Step 0 begins with an empty cache. For @encode, in one step behind another sequence.
std::function<mlir::FailureOr<bool>(mlir::func::FuncOp, size_t step, StepInputs &)>
modelSteps(const std::vector<int64_t> &ids, const EncodeInputs &given = {});

// One sequence in steps of at most `rows` tokens, the last token in a step of its own; for @encode whole.
std::function<mlir::FailureOr<bool>(mlir::func::FuncOp, size_t step, StepInputs &)>
modelChunks(const std::vector<int64_t> &ids, int64_t rows, const EncodeInputs &given = {});

} // namespace heddle

#endif
