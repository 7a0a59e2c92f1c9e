// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler's object defines, for the hand-written model.
#include "test/unit/ReferenceModel.h"

static const heddle_model model = {
    HEDDLE_MODEL_ABI_VERSION,
    0,
    "reference",
    {
#include "reference-sha256.inc"
    },
    heddle::reference::step,
    nullptr,
};

extern "C" const heddle_model *heddle_model_reference(void) {
  return &model;
}
