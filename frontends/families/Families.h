// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The families that there are: the rows that Families.def lists.
#ifndef HEDDLE_FRONTENDS_FAMILIES_FAMILIES_H
#define HEDDLE_FRONTENDS_FAMILIES_FAMILIES_H

#include "frontends/Family.h"

namespace heddle {

namespace family {
#define HEDDLE_FAMILY(name) extern const Family name;
#include "frontends/families/Families.def"
#undef HEDDLE_FAMILY
} // namespace family

// In the order of the list.
const FamilyList &families();

} // namespace heddle

#endif
