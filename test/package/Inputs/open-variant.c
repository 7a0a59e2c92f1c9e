/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * PROGRAM FILE [CPU]: opens the package in FILE, or the model that is linked in where that is "-", asks for the code for CPU, prints what
 * --info says of targets, and lets it read a token. */
#include <heddle/heddle.h>

#include <stdio.h>
#include <string.h>

#ifdef MODEL
const heddle_model *MODEL(void);
#endif

static heddle_status open(const char *path, const heddle_open_options *options, heddle_package **package) {
#ifdef MODEL
  if (strcmp(path, "-") == 0)
    return heddle_package_open(MODEL(), options, package);
#endif
  return heddle_package_open_file(path, options, package);
}

int main(int argc, char **argv) {
  heddle_package *package = NULL;
  heddle_session *session = NULL;
  const int32_t id = 1;
  static char info[1 << 16];
  size_t size = 0;
  heddle_open_options options = {sizeof options};
  options.cpu = argc > 2 ? argv[2] : NULL;
  heddle_status status = open(argv[1], &options, &package);
  if (status != HEDDLE_OK || heddle_package_check(package) != HEDDLE_OK ||
      heddle_session_create(package, NULL, &session) != HEDDLE_OK ||
      heddle_session_prefill(session, 0, &id, 1) != HEDDLE_OK ||
      heddle_package_info(package, info, sizeof info - 1, &size) != HEDDLE_OK) {
    printf("status %d: %s\n", (int)status, heddle_error_message());
    return 1;
  }
  for (char *line = strtok(info, "\n"); line; line = strtok(NULL, "\n"))
    if (strncmp(line, "target ", 7) == 0 || strncmp(line, "variant ", 8) == 0)
      printf("%s\n", line);
  heddle_session_destroy(session);
  heddle_package_close(package);
  return 0;
}
