// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The families; Families.cpp says which architectures each of them builds.
#ifndef HEDDLE_FRONTENDS_FAMILIES_FAMILIES_H
#define HEDDLE_FRONTENDS_FAMILIES_FAMILIES_H

#include "frontends/families/ModelBuilder.h"

namespace heddle {

void buildDeepSeek(ModelBuilder &b);
void buildGemma(ModelBuilder &b);
void buildGpt2(ModelBuilder &b);
void buildLlama(ModelBuilder &b);
void buildPhi3(ModelBuilder &b);

} // namespace heddle

#endif
