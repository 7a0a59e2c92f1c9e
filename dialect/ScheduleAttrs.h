// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes of schedules, apart from the dialect: only `assign-schedules` and codegen know them.
#ifndef HEDDLE_DIALECT_SCHEDULEATTRS_H
#define HEDDLE_DIALECT_SCHEDULEATTRS_H

#include "dialect/HeddleDialect.h"

#include "dialect/ScheduleEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/ScheduleAttrs.h.inc"

#endif
