// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention.html as a string.
#ifndef HEDDLE_RUNTIME_CLI_ATTENTIONPAGE_H
#define HEDDLE_RUNTIME_CLI_ATTENTIONPAGE_H

// The page of --attention-map, NUL-terminated; its data goes where it says so.
extern "C" const char *heddle_attention_page();

#endif
