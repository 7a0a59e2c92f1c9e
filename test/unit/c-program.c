/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A C program around a compiled model's object and libheddle.a: prints the ids that --print-ids prints for the same prompt. */
#include "runtime/include/heddle/heddle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const heddle_model *heddle_model_reference(void);

static void require(heddle_status status) {
  if (status != HEDDLE_OK) {
    fprintf(stderr, "%s\n", heddle_error_message());
    exit(1);
  }
}

static void expectError(heddle_status got, heddle_status wanted, const char *message) {
  if (got != wanted || strcmp(heddle_error_message(), message) != 0) {
    fprintf(stderr, "status %d '%s', expected %d '%s'\n", got, heddle_error_message(), wanted, message);
    exit(1);
  }
}

static int printId(void *user, int32_t id, const char *text, size_t size) {
  int *count = user;
  printf("%s%d", (*count)++ ? "," : "", id);
  return 0;
}

int main(void) {
  heddle_package *package;
  require(heddle_package_open(heddle_model_reference(), &package));
  require(heddle_package_check(package));
  heddle_session_options options = {.size = sizeof options, .threads = 2, .max_sequences = 2, .keep_hidden = 1};
  heddle_session *session;
  require(heddle_session_create(package, &options, &session));

  int32_t ids[16];
  size_t count;
  require(heddle_package_encode(package, "hello", 5, 0, ids, 16, &count));
  heddle_generate_options generate = {sizeof generate, 8, 1, 0, 0, 0, 0, 0, 0};
  int printed = 0;
  size_t made;
  require(heddle_session_generate(session, 0, ids, count, &generate, printId, &printed, &made));
  printf("\n");
  if (made != 8 || heddle_session_length(session, 0) != (int64_t)count + 7)
    return 1;

  require(heddle_session_prefill(session, 1, ids, count));
  int64_t best = 0;
  const float *logits = heddle_session_logits(session, 0);
  for (int64_t id = 1; id < heddle_package_vocab_size(package); ++id)
    if (logits[id] > logits[best])
      best = id;
  require(heddle_session_decode(session, 1, (int32_t)best));
  require(heddle_session_fork(session, 1, 0));
  if (heddle_session_length(session, 0) != (int64_t)count + 1 || !heddle_session_hidden_state(session, 0))
    return 1;
  require(heddle_session_reset(session, 0));
  expectError(heddle_session_decode(session, 0, 256), HEDDLE_INVALID_INPUT, "token id 256 at position 0 is not in [0, 256)");
  expectError(heddle_session_reset(session, 2), HEDDLE_INVALID_INPUT, "sequence 2 is not in [0, 2)");
  heddle_session_options unsized = {0};
  expectError(heddle_session_create(package, &unsized, &session), HEDDLE_INVALID_INPUT, "the size field of an options struct is not set");

  heddle_session_destroy(session);
  heddle_package_close(package);
  return 0;
}
