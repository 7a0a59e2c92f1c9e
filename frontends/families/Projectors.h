// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What can stand in an mmproj, a GGUF file of what sees images.
#ifndef HEDDLE_FRONTENDS_FAMILIES_PROJECTORS_H
#define HEDDLE_FRONTENDS_FAMILIES_PROJECTORS_H

#include "frontends/mmproj/Projector.h"

namespace heddle {

ProjectorList projectors();

} // namespace heddle

#endif
