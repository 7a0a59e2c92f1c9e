/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Generates eight tokens greedily and prints their ids as `--print-ids` does. */
#include <heddle/heddle.h>

#include <stdio.h>

const heddle_model *heddle_model_tiny(void);

static int print_id(void *count, int32_t id, const char *text, size_t size) {
  (void)text, (void)size;
  if (id >= 0)
    printf("%s%d", (*(int *)count)++ ? "," : "", id);
  return 0;
}

int main(void) {
  heddle_package *package = NULL;
  heddle_session *session = NULL;
  heddle_generate_options options = {.size = sizeof options, .max_tokens = 8, .ignore_eos = 1};
  const int32_t ids[] = {1, 2, 3};
  int count = 0;
  int failed = heddle_package_open(heddle_model_tiny(), NULL, &package) != HEDDLE_OK ||
               heddle_session_create(package, NULL, &session) != HEDDLE_OK ||
               heddle_session_generate(session, 0, ids, 3, &options, print_id, &count, NULL) != HEDDLE_OK;
  if (failed)
    fprintf(stderr, "%s\n", heddle_error_message());
  else
    puts("");
  heddle_session_destroy(session);
  heddle_package_close(package);
  return failed;
}
