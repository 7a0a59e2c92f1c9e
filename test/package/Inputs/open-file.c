/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Opens the package that the command line names, checks its weights and lets it read a token. */
#include <heddle/heddle.h>

#include <stdio.h>

int main(int argc, char **argv) {
  heddle_package *package = NULL;
  heddle_session *session = NULL;
  const int32_t id = 1;
  int failed = heddle_package_open_file(argv[argc - 1], NULL, &package) != HEDDLE_OK ||
               heddle_package_check(package) != HEDDLE_OK ||
               heddle_session_create(package, NULL, &session) != HEDDLE_OK ||
               heddle_session_prefill(session, 0, &id, 1) != HEDDLE_OK;
  if (failed)
    printf("%s\n", heddle_error_message());
  else
    printf("%s, context %d, weights whole\n", heddle_package_name(package), (int)heddle_package_context(package));
  heddle_session_destroy(session);
  heddle_package_close(package);
  return failed;
}
