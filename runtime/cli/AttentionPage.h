// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What heddle_attention_page.o is to the runtime: an object of its own, so that programs whose attention cannot be shown lack it.
#ifndef HEDDLE_RUNTIME_CLI_ATTENTIONPAGE_H
#define HEDDLE_RUNTIME_CLI_ATTENTIONPAGE_H

// The page of --attention-map, NUL-terminated; its data goes where it says so. Null where the object is not linked.
extern "C" __attribute__((weak)) const char *heddle_attention_page();

#endif
