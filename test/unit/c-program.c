/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A C program around a compiled model's object and libheddle.a: prints the ids that --print-ids prints for the same prompt, and
 * meets the errors of the header. As `c-program memory` it opens the package, encodes, decodes, makes sessions and generates within
 * ever less memory. */
#include "runtime/include/heddle/heddle.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

static void expect(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "%s\n", what);
    exit(1);
  }
}

static int printId(void *user, int32_t id, const char *text, size_t size) {
  int *count = user;
  if (id >= 0)
    printf("%s%d", (*count)++ ? "," : "", id);
  return 0;
}

static void refuseOption(heddle_session *session, heddle_sampler_options sampler, const char *message) {
  const int32_t ids[] = {1, 104};
  sampler.size = sizeof sampler;
  heddle_generate_options options = {.size = sizeof options, .sampler = &sampler};
  heddle_generate_result result = {.size = sizeof result, .num_tokens = 77};
  expectError(heddle_session_generate(session, 0, ids, 2, &options, NULL, NULL, &result), HEDDLE_INVALID_INPUT,
              message);
  expect(result.num_tokens == 77 && heddle_session_length(session, 0) == 0, "a refused call changes something");
}

static void refuseOptions(heddle_session *session) {
  const int32_t ids[] = {1, 104};
  heddle_generate_options options = {.size = sizeof options, .max_tokens = -1};
  expectError(heddle_session_generate(session, 0, ids, 2, &options, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
              "max_tokens is -1, expected a number from 0");
  refuseOption(session, (heddle_sampler_options){.temperature = NAN},
               "temperature is nan, expected a number in [0, 1000]");
  refuseOption(session, (heddle_sampler_options){.temperature = -1},
               "temperature is -1, expected a number in [0, 1000]");
  refuseOption(session, (heddle_sampler_options){.top_k = -5}, "top_k is -5, expected a number from 0");
  refuseOption(session, (heddle_sampler_options){.top_p = NAN}, "top_p is nan, expected a number in [0, 1]");
  refuseOption(session, (heddle_sampler_options){.min_p = 1.5f}, "min_p is 1.5, expected a number in [0, 1]");
  refuseOption(session, (heddle_sampler_options){.repetition_penalty = -2},
               "repetition_penalty is -2, expected a number in [0.001, 1000]");
  /* A later version's struct: zeros behind what is known are its defaults, anything else is not understood. */
  struct {
    heddle_generate_options known;
    int64_t later;
  } longer = {.known = {.size = sizeof longer, .max_tokens = 1}, .later = 1};
  char message[128];
  snprintf(message, sizeof message,
           "heddle_generate_options: byte %zu is set, this library knows %zu: the caller is of a later version",
           sizeof longer.known, sizeof longer.known);
  expectError(heddle_session_generate(session, 0, ids, 2, &longer.known, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
              message);
  longer.later = 0;
  require(heddle_session_generate(session, 0, ids, 2, &longer.known, NULL, NULL, NULL));
  require(heddle_session_reset(session, 0));
}

static void refuseIds(heddle_package *package, heddle_session *session) {
  const int32_t ids[] = {1, 104};
  size_t made;
  char text[8];
  expectError(heddle_session_generate(session, 0, NULL, 3, NULL, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
              "the 3 ids are a null pointer");
  expectError(heddle_session_generate(session, 0, ids, 0, NULL, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
              "the prompt has no tokens");
  expectError(heddle_session_prefill(session, 0, NULL, 3), HEDDLE_INVALID_INPUT, "the 3 ids are a null pointer");
  expectError(heddle_package_decode(package, NULL, 3, text, 8, &made), HEDDLE_INVALID_INPUT,
              "the 3 ids are a null pointer");
  heddle_feed feed = {.size = sizeof feed, .count = 1};
  expectError(heddle_session_step(session, &feed, 1), HEDDLE_INVALID_INPUT, "the ids of sequence 0 are a null pointer");
  expectError(heddle_session_step(session, NULL, 1), HEDDLE_INVALID_INPUT, "the 1 feeds of a step are a null pointer");
  /* A failed step has no answers; one that succeeded has those of its feeds. */
  expect(!heddle_session_logits(session, 0) && !heddle_session_hidden_state(session, 0), "a failed step has an answer");
  require(heddle_session_prefill(session, 0, ids, 2));
  expect(heddle_session_logits(session, 0) && heddle_session_hidden_state(session, 0), "a step has no answer");
  expect(!heddle_session_logits(session, 1) && !heddle_session_hidden_state(session, SIZE_MAX),
         "a feed too many has an answer");
  require(heddle_session_reset(session, 0));
}

/* The message is cut between characters where it is longer than there is room for. */
static void openLongName(void) {
  char name[2001];
  heddle_package *package;
  for (int start = 0; start < 2; ++start) {
    memset(name, 'x', sizeof name);
    for (size_t i = (size_t)start; i + 1 < sizeof name; i += 2)
      memcpy(name + i, "\xc3\xa9", 2);
    name[2000] = '\0';
    expect(heddle_package_open_file(name, NULL, &package) != HEDDLE_OK, "a file of a long name was opened");
    expect(strlen(heddle_error_message()) == (start ? 1023u : 1022u), heddle_error_message());
  }
}

/* Null where the header forbids it is a status, never a crash, and null where there is nothing is allowed. */
static void refuseNull(heddle_package *package, heddle_session *session) {
  const int32_t ids[] = {1, 104};
  size_t count;
  char text[8];
  heddle_package *opened;
  heddle_session *made;
  expectError(heddle_package_open(NULL, NULL, &opened), HEDDLE_INVALID_INPUT, "model is a null pointer");
  expectError(heddle_package_open(heddle_model_reference(), NULL, NULL), HEDDLE_INVALID_INPUT,
              "out_package is a null pointer");
  expectError(heddle_package_open_file(NULL, NULL, &opened), HEDDLE_INVALID_INPUT, "path is a null pointer");
  expectError(heddle_package_open_file("x", NULL, NULL), HEDDLE_INVALID_INPUT, "out_package is a null pointer");
  expectError(heddle_package_check(NULL), HEDDLE_INVALID_INPUT, "package is a null pointer");
  expect(!heddle_package_name(NULL) && !heddle_package_vocab_size(NULL) && !heddle_package_hidden_size(NULL) &&
             !heddle_package_context(NULL),
         "no package has a name or a size");
  expectError(heddle_package_encode(NULL, "a", 1, 0, NULL, 0, &count), HEDDLE_INVALID_INPUT,
              "package is a null pointer");
  expectError(heddle_package_encode(package, NULL, 1, 0, NULL, 0, &count), HEDDLE_INVALID_INPUT,
              "text is a null pointer");
  expectError(heddle_package_encode(package, "a", 1, 0, NULL, 1, &count), HEDDLE_INVALID_INPUT,
              "ids is a null pointer");
  expectError(heddle_package_encode(package, "a", 1, 0, NULL, 0, NULL), HEDDLE_INVALID_INPUT,
              "out_count is a null pointer");
  expectError(heddle_package_decode(NULL, ids, 2, text, 8, &count), HEDDLE_INVALID_INPUT, "package is a null pointer");
  expectError(heddle_package_decode(package, ids, 2, NULL, 8, &count), HEDDLE_INVALID_INPUT, "text is a null pointer");
  expectError(heddle_package_decode(package, ids, 2, text, 8, NULL), HEDDLE_INVALID_INPUT,
              "out_size is a null pointer");
  expectError(heddle_session_create(NULL, NULL, &made), HEDDLE_INVALID_INPUT, "package is a null pointer");
  expectError(heddle_session_create(package, NULL, NULL), HEDDLE_INVALID_INPUT, "out_session is a null pointer");
  heddle_feed feed = {.size = sizeof feed, .count = 2, .ids = ids};
  expectError(heddle_session_step(NULL, &feed, 1), HEDDLE_INVALID_INPUT, "session is a null pointer");
  expectError(heddle_session_prefill(NULL, 0, ids, 2), HEDDLE_INVALID_INPUT, "session is a null pointer");
  expectError(heddle_session_decode(NULL, 0, 1), HEDDLE_INVALID_INPUT, "session is a null pointer");
  expect(!heddle_session_logits(NULL, 0) && !heddle_session_hidden_state(NULL, 0) && !heddle_session_length(NULL, 0),
         "no session has an answer");
  expectError(heddle_session_reset(NULL, 0), HEDDLE_INVALID_INPUT, "session is a null pointer");
  expectError(heddle_session_fork(NULL, 0, 1), HEDDLE_INVALID_INPUT, "session is a null pointer");
  expectError(heddle_session_give(NULL, NULL, 0, NULL), HEDDLE_INVALID_INPUT, "session is a null pointer");
  expectError(heddle_session_generate(NULL, 0, ids, 2, NULL, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
              "session is a null pointer");
  require(heddle_package_encode(package, NULL, 0, 1, NULL, 0, &count));
  expect(count == 0, "no text has no ids");
  require(heddle_package_decode(package, NULL, 0, NULL, 0, &count));
  expect(count == 0, "no ids have no text");
  require(heddle_package_encode(package, "hello", 5, 1, NULL, 0, &count));
  expect(count == 5, "the number of ids is given without room for them");
  heddle_package_close(NULL);
  heddle_session_destroy(NULL);
}

/* Calls that take memory. Each gives back all that it took. */
typedef heddle_status (*Attempt)(heddle_package *package);

static heddle_status openPackage(heddle_package *package) {
  heddle_package *opened = NULL;
  heddle_status status = heddle_package_open(heddle_model_reference(), NULL, &opened);
  heddle_package_close(opened);
  return status;
}

static heddle_status createSession(heddle_package *package) {
  heddle_session_options options = {.size = sizeof options, .threads = 1, .max_sequences = 65536, .keep_hidden = 1};
  heddle_session *session = NULL;
  heddle_status status = heddle_session_create(package, &options, &session);
  heddle_session_destroy(session);
  return status;
}

enum { longText = 1 << 17 };
static char hello[longText];
static int32_t helloIds[longText + 1];

static heddle_status encodeText(heddle_package *package) {
  size_t count = 0;
  heddle_status status = heddle_package_encode(package, hello, longText, 0, helloIds, longText + 1, &count);
  expect(count == (status == HEDDLE_OK ? longText + 1 : 0), "a text has the same ids in little memory, or none");
  return status;
}

static heddle_status decodeIds(heddle_package *package) {
  static char text[longText];
  size_t size = 0;
  heddle_status status = heddle_package_decode(package, helloIds, longText + 1, text, longText, &size);
  expect(status != HEDDLE_OK || (size == longText && memcmp(text, hello, longText) == 0), "ids have another text");
  return status;
}

/* In an address space of `room` times 64 KiB. */
static heddle_status attemptWithin(Attempt attempt, heddle_package *package, rlim_t room) {
  struct rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = room << 16;
  setrlimit(RLIMIT_AS, &limit);
  malloc_trim(0);
  heddle_status status = attempt(package);
  expect(status == HEDDLE_OK || status == HEDDLE_OUT_OF_MEMORY, heddle_error_message());
  return status;
}

/* In ever less memory, every large allocation of a call is the one that there is no room for, once: each call returns, and says so. */
static void askForMemory(Attempt attempt, heddle_package *package) {
  rlim_t enough = 1 << 18, little = 0; /* 16 GiB */
  require(attemptWithin(attempt, package, enough));
  while (enough - little > 1) {
    rlim_t middle = (enough + little) / 2;
    *(attemptWithin(attempt, package, middle) == HEDDLE_OK ? &enough : &little) = middle;
  }
  int refused = 0;
  for (rlim_t less = 1; less < 3200 && less < enough; less += less < 200 ? 1 : 4)
    refused += attemptWithin(attempt, package, enough - less) == HEDDLE_OUT_OF_MEMORY;
  expect(refused > 0, "a call needs no memory");
  require(attemptWithin(attempt, package, 1 << 18));
}

int main(int argc, char **argv) {
  heddle_package *package;
  require(heddle_package_open(heddle_model_reference(), NULL, &package));
  require(heddle_package_check(package));
  if (argc > 1 && strcmp(argv[1], "memory") == 0) {
    /* Every large block is a mapping of its own, so that what one call gave back is not what the next one lives on. */
    mallopt(M_MMAP_THRESHOLD, 1 << 14);
    memset(hello, 'h', longText);
    const Attempt attempts[] = {openPackage, createSession, encodeText, decodeIds};
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; ++i)
      askForMemory(attempts[i], package);
    puts("every call returned");
    return 0;
  }
  openLongName();
  heddle_session_options options = {.size = sizeof options, .threads = 2, .max_sequences = 2, .keep_hidden = 1};
  heddle_session *session;
  require(heddle_session_create(package, &options, &session));

  int32_t ids[16];
  size_t count;
  require(heddle_package_encode(package, "hello", 5, 0, ids, 16, &count));
  heddle_generate_options generate = {.size = sizeof generate, .max_tokens = 8, .ignore_eos = 1};
  int printed = 0;
  heddle_generate_result result = {.size = sizeof result};
  require(heddle_session_generate(session, 0, ids, count, &generate, printId, &printed, &result));
  printf("\n");
  expect(result.num_tokens == 8 && result.reason == HEDDLE_END_MAX_TOKENS &&
             heddle_session_length(session, 0) == (int64_t)count + 7,
         "eight tokens are expected");

  require(heddle_session_prefill(session, 1, ids, count));
  int64_t best = 0;
  const float *logits = heddle_session_logits(session, 0);
  for (int64_t id = 1; id < heddle_package_vocab_size(package); ++id)
    if (logits[id] > logits[best])
      best = id;
  require(heddle_session_decode(session, 1, (int32_t)best));
  require(heddle_session_fork(session, 1, 0));
  const float row[1] = {0};
  int32_t first = 0;
  expectError(heddle_session_give(session, row, 1, &first), HEDDLE_INVALID_INPUT,
              "this model is given no rows: it takes ids of its vocabulary");
  expect(heddle_session_length(session, 0) == (int64_t)count + 1 && heddle_session_hidden_state(session, 0),
         "a fork is a copy");
  require(heddle_session_reset(session, 0));
  refuseOptions(session);
  refuseIds(package, session);
  refuseNull(package, session);
  expectError(heddle_session_decode(session, 0, 256), HEDDLE_INVALID_INPUT,
              "token id 256 at position 0 is not in [0, 256)");
  expectError(heddle_session_reset(session, 2), HEDDLE_INVALID_INPUT, "sequence 2 is not in [0, 2)");
  heddle_session_options unsized = {0};
  expectError(heddle_session_create(package, &unsized, &session), HEDDLE_INVALID_INPUT,
              "the size field of heddle_session_options is not set");

  heddle_session_destroy(session);
  heddle_package_close(package);
  return 0;
}
