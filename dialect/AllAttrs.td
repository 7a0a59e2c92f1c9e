// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All attributes of the dialect, which are parsed and printed by one function.
include "dialect/HeddleAttrs.td"
include "dialect/ScheduleAttrs.td"
