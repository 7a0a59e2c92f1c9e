/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * PCRE2's matcher refers to its just-in-time compiler, a quarter of a megabyte, even where no pattern is ever compiled for it. These
 * definitions keep that member of the archive out of outputs; without a JIT-compiled pattern none of them is called with one. */
#include <stddef.h>
#include <stdint.h>

enum { badOption = -45 }; /* PCRE2_ERROR_JIT_BADOPTION */

int pcre2_jit_match_8(const void *code, const uint8_t *subject, size_t length, size_t start, uint32_t options,
                      void *data, void *context) {
  return badOption;
}
void _pcre2_jit_free_8(void *executable, void *memory) {}
void _pcre2_jit_free_rodata_8(void *current, void *allocator) {}
size_t _pcre2_jit_get_size_8(void *executable) {
  return 0;
}
const char *_pcre2_jit_get_target_8(void) {
  return "none";
}
/* Whether a compiled pattern fits the processor's state: none is compiled. */
int _pcre2_jit_check_exec_8(void *executable) {
  return 0;
}
