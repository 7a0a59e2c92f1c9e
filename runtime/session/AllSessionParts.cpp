// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For whoever opens any package: libraries and tests.
#include "runtime/session/SessionParts.h"

const heddle_session_parts_table heddle_session_parts = {&heddle_part_devices, &heddle_part_encoder,
                                                         &heddle_part_given};
