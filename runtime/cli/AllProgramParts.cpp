// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For whoever runs the command line of any package: heddle_runtime_main() of libraries, and tests.
#include "runtime/cli/ProgramParts.h"

const heddle_program_parts_table heddle_program_parts = {
    {&heddle_part_speech, &heddle_part_generating, &heddle_part_chat, &heddle_part_images, &heddle_part_texts,
     &heddle_part_encoding, &heddle_part_graphs, &heddle_part_attention},
    &heddle_part_sight};
