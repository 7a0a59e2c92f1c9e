// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All ops, by group.
#ifndef HEDDLE_OPS
#define HEDDLE_OPS

include "dialect/ModelOps.td"
include "dialect/CacheOps.td"
include "dialect/KernelOps.td"
include "dialect/AttentionKernelOps.td"
include "dialect/StateOps.td"
include "dialect/GpuOps.td"
include "dialect/ScheduleAttrs.td"

#endif
