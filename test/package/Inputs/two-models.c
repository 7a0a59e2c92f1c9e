/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Opens two models, checks their weights and continues the same prompt with both. */
#include <heddle/heddle.h>

#include <stdio.h>

const heddle_model *heddle_model_first(void);
const heddle_model *heddle_model_second(void);

static int keep_id(void *kept, int32_t id, const char *text, size_t size) {
  (void)text, (void)size;
  if (id >= 0)
    *(int32_t *)kept = id;
  return 0;
}

/* The id after 1, 2, 3, or -1. */
static int32_t try_model(const heddle_model *model) {
  heddle_package *package = NULL;
  heddle_session *session = NULL;
  heddle_generate_options options = {.size = sizeof options, .max_tokens = 1, .ignore_eos = 1};
  const int32_t ids[] = {1, 2, 3};
  int32_t id = -1;
  if (heddle_package_open(model, NULL, &package) != HEDDLE_OK || heddle_package_check(package) != HEDDLE_OK) {
    printf("%s\n", heddle_error_message());
    return -1;
  }
  printf("%s, context %d, weights whole\n", heddle_package_name(package), (int)heddle_package_context(package));
  if (heddle_session_create(package, NULL, &session) != HEDDLE_OK ||
      heddle_session_generate(session, 0, ids, 3, &options, keep_id, &id, NULL) != HEDDLE_OK)
    printf("%s\n", heddle_error_message());
  heddle_session_destroy(session);
  heddle_package_close(package);
  return id;
}

int main(void) {
  int32_t first = try_model(heddle_model_first()), second = try_model(heddle_model_second());
  puts(first >= 0 && first == second ? "same first id" : "different first ids");
  return first < 0 || first != second;
}
