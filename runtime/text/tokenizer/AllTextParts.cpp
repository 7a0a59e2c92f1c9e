// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For whoever opens any tokenizer: libraries, the compiler, tests.
#include "runtime/text/tokenizer/TextParts.h"

const heddle_text_parts_table heddle_text_parts = {&heddle_part_regex, &heddle_part_unicode};
