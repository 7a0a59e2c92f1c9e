// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kept-logits PACKAGE: generates greedily, then asks for the logits of the last step, which are to be those that a step
// over the same tokens gives.
#include "heddle/heddle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int is, const char *what) {
  if (is)
    return;
  printf("%s (%s)\n", what, heddle_error_message());
  exit(1);
}

int main(int argc, char **argv) {
  heddle_package *package = NULL;
  heddle_session *session = NULL;
  heddle_session_options options = {.size = sizeof options, .max_sequences = 2, .deterministic = 1};
  expect(argc == 2 && heddle_package_open_file(argv[1], NULL, &package) == HEDDLE_OK, "the package opens");
  expect(heddle_session_create(package, &options, &session) == HEDDLE_OK, "the session is made");
  const int32_t prompt[] = {1, 2, 3};
  heddle_generate_options generate = {.size = sizeof generate, .max_tokens = 5, .ignore_eos = 1};
  expect(heddle_session_generate(session, 0, prompt, 3, &generate, NULL, NULL, NULL) == HEDDLE_OK, "it generates");
  const float *logits = heddle_session_logits(session, 0);
  expect(logits != NULL, "there are logits behind an answer");
  expect(logits == heddle_session_logits(session, 0), "they stay");

  size_t count = 0, vocab = heddle_package_vocab_size(package);
  int32_t ids[16];
  expect(heddle_session_history(session, 0, ids, 16, &count) == HEDDLE_OK && count == 7, "prompt and 4 tokens");
  float *kept = malloc(vocab * sizeof *kept);
  memcpy(kept, logits, vocab * sizeof *kept);
  heddle_feed feed = {.size = sizeof feed, .sequence = 1, .ids = ids, .count = (int32_t)count};
  expect(heddle_session_step(session, &feed, 1) == HEDDLE_OK, "a step over the same tokens");
  logits = heddle_session_logits(session, 0);
  expect(logits && memcmp(kept, logits, vocab * sizeof *kept) == 0, "the logits differ from those of a step");
  puts("the logits are those of a step");
  free(kept);
  heddle_session_destroy(session);
  heddle_package_close(package);
  return 0;
}
