// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/Families.h"

namespace heddle {

const FamilyList &families() {
#define HEDDLE_FAMILY(name) &family::name,
  static const FamilyList list = {
#include "frontends/families/Families.def"
  };
#undef HEDDLE_FAMILY
  return list;
}

} // namespace heddle
