/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * c-abi DECODER ENCODER GRAPH BROKEN: uses everything that heddle.h exports, on shared objects. The decoder has 256 tokens, the bytes, a
 * context of 128 and a chat template; the graph is test/graph/entries.mlir. Each part says its name once it holds. */
#include <heddle/heddle.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { vocabSize = 256, context = 128 };

#define EXPECT(...) ((__VA_ARGS__) ? (void)0 : fail(__LINE__, #__VA_ARGS__))
#define OK(call) EXPECT((call) == HEDDLE_OK)
#define FAILS(call, status, part) EXPECT((call) == (status) && strstr(heddle_error_message(), part))

static void fail(int line, const char *what) {
  fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, heddle_error_message());
  exit(1);
}

/* --- memory: every block that the library takes comes from here and goes back ---------------------------------------------- */

static pthread_mutex_t countLock = PTHREAD_MUTEX_INITIALIZER;
static long blocks, blocksInAll;

static void *take(void *user, size_t size, size_t alignment) {
  void *memory = NULL;
  if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size ? size : 1) != 0)
    return NULL;
  pthread_mutex_lock(&countLock);
  ++*(long *)user, ++blocksInAll;
  pthread_mutex_unlock(&countLock);
  return memory;
}

static void give(void *user, void *memory) {
  pthread_mutex_lock(&countLock);
  --*(long *)user;
  pthread_mutex_unlock(&countLock);
  free(memory);
}

static void takeOverMemory(void) {
  heddle_allocator half = {.size = sizeof half, .allocate = take};
  FAILS(heddle_set_allocator(&half), HEDDLE_INVALID_INPUT, "both functions");
  heddle_allocator allocator = {sizeof allocator, take, give, &blocks};
  OK(heddle_set_allocator(&allocator));
}

/* --- packages -------------------------------------------------------------------------------------------------------------- */

static void keepLine(void *user, heddle_log_level level, const char *message) {
  if (level == HEDDLE_LOG_WARNING)
    snprintf(user, 256, "%s", message);
}

static void checkPackage(heddle_package *decoder, const char *path) {
  char version[32], text[65536], said[256] = "";
  size_t size;
  snprintf(version, sizeof version, "%d.%d.%d", HEDDLE_VERSION_MAJOR, HEDDLE_VERSION_MINOR, HEDDLE_VERSION_PATCH);
  EXPECT(strcmp(version, heddle_version_string()) == 0 && heddle_abi_version() == HEDDLE_ABI_VERSION);
  EXPECT(heddle_package_task(decoder) == HEDDLE_TASK_GENERATE && heddle_package_vocab_size(decoder) == vocabSize &&
         heddle_package_context(decoder) == context && heddle_package_hidden_size(decoder) == 64);
  OK(heddle_package_info(decoder, text, sizeof text, &size));
  EXPECT(size > 0 && size < sizeof text);
  OK(heddle_package_check(decoder));
  EXPECT(heddle_package_num_adapters(decoder) == 0 && !heddle_package_adapter_name(decoder, 1));

  heddle_open_options options = {.size = sizeof options, .read_into_memory = 1, .log = keepLine, .log_user = said};
  heddle_package *copy;
  OK(heddle_package_open_file(path, &options, &copy));
  OK(heddle_package_check(copy));
  heddle_session_options many = {.size = sizeof many, .threads = (int32_t)sysconf(_SC_NPROCESSORS_ONLN) + 1};
  heddle_session *session;
  OK(heddle_session_create(copy, &many, &session));
  EXPECT(strstr(said, "threads run: this process has"));
  heddle_session_destroy(session);
  heddle_package_close(copy);
  heddle_allocator late = {.size = sizeof late};
  FAILS(heddle_set_allocator(&late), HEDDLE_INVALID_INPUT, "while there are objects");
  puts("package");
}

/* --- text ------------------------------------------------------------------------------------------------------------------ */

static void checkText(heddle_package *decoder) {
  int32_t ids[64];
  char text[64];
  size_t count, size;
  OK(heddle_package_encode(decoder, "abc", 3, 1, ids, 64, &count));
  EXPECT(count == 3 && ids[0] == 'a' && ids[2] == 'c');
  OK(heddle_package_decode(decoder, ids, count, text, sizeof text, &size));
  EXPECT(size == 3 && memcmp(text, "abc", 3) == 0);
  OK(heddle_package_token_bytes(decoder, 0xe2, text, sizeof text, &size));
  EXPECT(size == 1 && (unsigned char)text[0] == 0xe2);
  FAILS(heddle_package_token_bytes(decoder, vocabSize, text, 1, &size), HEDDLE_INVALID_INPUT, "not in [0, 256)");
  OK(heddle_package_end_tokens(decoder, ids, 64, &count));
  EXPECT(count == 1 && ids[0] == 2);
  EXPECT(heddle_package_special_token(decoder, HEDDLE_TOKEN_UNKNOWN) == -1);

  const char *chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"add_generation_prompt\": true}";
  OK(heddle_package_render_chat(decoder, chat, strlen(chat), text, sizeof text, &size));
  EXPECT(size == 17 && memcmp(text, "[user]hi\n[answer]", size) == 0);
  OK(heddle_package_encode_chat(decoder, chat, strlen(chat), ids, 64, &count));
  EXPECT(count == 17 && ids[1] == 'u' && ids[16] == ']');
  const char *wrong[][2] = {{"[", "expected"},
                            {"{}", "expected a JSON object with an array \"messages\""},
                            {"[]", "expected a JSON object with an array \"messages\""},
                            {"{\"messages\": \"hi\"}", "expected a JSON object with an array \"messages\""},
                            {"{\"messages\": [], \"messages\": []}", "duplicate key 'messages'"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    FAILS(heddle_package_encode_chat(decoder, wrong[i][0], strlen(wrong[i][0]), ids, 64, &count), HEDDLE_INVALID_INPUT,
          wrong[i][1]);
    FAILS(heddle_package_render_chat(decoder, wrong[i][0], strlen(wrong[i][0]), text, sizeof text, &size),
          HEDDLE_INVALID_INPUT, wrong[i][1]);
  }

  const char *stops[] = {"END", "xyz"};
  heddle_text_stream_options options = {.size = sizeof options, .num_stops = 2, .stops = stops};
  heddle_text_stream *stream;
  OK(heddle_text_stream_create(decoder, &options, &stream));
  const char *piece, *typed = "a\xc3\xa9"
                              "EN\xc3\xa9"
                              "ENDmore";
  char all[64] = "";
  int stopped = 0;
  for (const char *at = typed; *at && !stopped; ++at) {
    OK(heddle_text_stream_append(stream, (unsigned char)*at, &piece, &size, &stopped));
    EXPECT(size != 1 || (unsigned char)*piece < 0x80); /* never half a character */
    strncat(all, piece, size);
  }
  EXPECT(stopped && strcmp(all, "a\xc3\xa9"
                                "EN\xc3\xa9") == 0);
  FAILS(heddle_text_stream_append(stream, -5, &piece, &size, &stopped), HEDDLE_INVALID_INPUT, "token id -5");
  FAILS(heddle_text_stream_append(stream, vocabSize, &piece, &size, &stopped), HEDDLE_INVALID_INPUT, "token id 256");
  OK(heddle_text_stream_finish(stream, &piece, &size));
  EXPECT(size == 0);
  FAILS(heddle_text_stream_append(stream, 'a', &piece, &size, &stopped), HEDDLE_INVALID_INPUT, "has been finished");
  FAILS(heddle_text_stream_finish(stream, &piece, &size), HEDDLE_INVALID_INPUT, "has been finished");
  heddle_text_stream_destroy(stream);
  const char *empty[] = {""};
  options.num_stops = 1, options.stops = empty;
  FAILS(heddle_text_stream_create(decoder, &options, &stream), HEDDLE_INVALID_INPUT, "empty");
  empty[0] = "a\xff";
  FAILS(heddle_text_stream_create(decoder, &options, &stream), HEDDLE_INVALID_INPUT, "stop string 0 is not UTF-8");
  puts("text");
}

/* --- sessions -------------------------------------------------------------------------------------------------------------- */

static int32_t best(const float *logits) {
  int32_t id = 0;
  for (int32_t i = 1; i < vocabSize; ++i)
    if (logits[i] > logits[id])
      id = i;
  return id;
}

static float farthest(const float *a, const float *b, size_t count) {
  float worst = 0;
  for (size_t i = 0; i < count; ++i)
    worst = fmaxf(worst, fabsf(a[i] - b[i]));
  return worst;
}

typedef struct {
  float logits[8][vocabSize], hidden[8][64];
  int rows;
} Rows;

static void keepRow(void *user, size_t feed, int32_t token, const float *logits, const float *hidden) {
  Rows *rows = user;
  if (feed != 0)
    return;
  memcpy(rows->logits[token], logits, sizeof rows->logits[token]);
  memcpy(rows->hidden[token], hidden, sizeof rows->hidden[token]);
  ++rows->rows;
}

static const int32_t prompt[] = {'T', 'h', 'e', ' ', 'e', 'n', 'd'};
enum { promptSize = sizeof prompt / sizeof *prompt };

static void checkRows(heddle_session *session) {
  static Rows rows, others;
  heddle_feed feeds[] = {
      {.size = sizeof *feeds, .sequence = 0, .count = promptSize, .ids = prompt, .rows = HEDDLE_ROWS_ALL},
      {.size = sizeof *feeds, .sequence = 1, .count = 3, .ids = prompt, .rows = HEDDLE_ROWS_NONE}};
  FAILS(heddle_session_step(session, feeds, 2), HEDDLE_INVALID_INPUT, "all its tokens");
  OK(heddle_session_forward(session, feeds, 2, keepRow, &rows));
  EXPECT(rows.rows == promptSize && heddle_session_length(session, 0) == promptSize &&
         heddle_session_length(session, 1) == 3 && !heddle_session_logits(session, 0));
  /* The rest of the second sequence gives the rows that the first had there. */
  heddle_feed rest = {.size = sizeof rest, .sequence = 1, .count = promptSize - 3, .ids = prompt + 3};
  OK(heddle_session_step(session, &rest, 1));
  EXPECT(farthest(heddle_session_logits(session, 0), rows.logits[promptSize - 1], vocabSize) < 1e-4f);
  EXPECT(farthest(heddle_session_hidden_state(session, 0), rows.hidden[promptSize - 1], 64) < 1e-4f);

  int32_t history[promptSize];
  size_t count;
  OK(heddle_session_history(session, 1, history, promptSize, &count));
  EXPECT(count == promptSize && memcmp(history, prompt, sizeof prompt) == 0);
  OK(heddle_session_truncate(session, 1, 4));
  OK(heddle_session_fork(session, 1, 0));
  EXPECT(heddle_session_length(session, 0) == 4);
  heddle_feed again = {
      .size = sizeof again, .sequence = 0, .count = promptSize - 4, .ids = prompt + 4, .rows = HEDDLE_ROWS_ALL};
  OK(heddle_session_forward(session, &again, 1, keepRow, &others));
  EXPECT(others.rows == promptSize - 4 &&
         farthest(others.logits[0], rows.logits[4], (size_t)(promptSize - 4) * vocabSize) < 1e-4f);
  /* A feed that wants nothing has no answer, one beside it has. */
  heddle_feed pair[] = {{.size = sizeof *pair, .sequence = 0, .count = 1, .ids = prompt, .rows = HEDDLE_ROWS_NONE},
                        {.size = sizeof *pair, .sequence = 1, .count = 1, .ids = prompt + 4}};
  OK(heddle_session_step(session, pair, 2));
  EXPECT(!heddle_session_logits(session, 0) && !heddle_session_hidden_state(session, 0) &&
         farthest(heddle_session_logits(session, 1), rows.logits[4], vocabSize) < 1e-4f);
  OK(heddle_session_reset(session, 0));
  OK(heddle_session_reset(session, 1));
  puts("rows");
}

typedef struct {
  heddle_session *session;
  int32_t ids[context];
  char text[1024];
  int count, cancelAt, stopAt;
} Answer;

static int keepToken(void *user, int32_t id, const char *text, size_t size) {
  Answer *answer = user;
  strncat(answer->text, text, size);
  if (id >= 0)
    answer->ids[answer->count++] = id;
  if (answer->cancelAt && answer->count == answer->cancelAt)
    heddle_session_cancel(answer->session);
  return answer->stopAt && answer->count == answer->stopAt;
}

static void onlyDigits(void *user, const int32_t *ids, size_t count, uint32_t *mask) {
  EXPECT(ids[0] == prompt[0] && count >= promptSize);
  ++*(int *)user;
  memset(mask, 0, vocabSize / 8);
  for (int digit = '0'; digit <= '9'; ++digit)
    mask[digit / 32] |= 1u << digit % 32;
}

static void noToken(void *user, const int32_t *ids, size_t count, uint32_t *mask) {
  memset(mask, 0, vocabSize / 8);
}

static int cancelAtOnce(void *user, int64_t done, int64_t total) {
  return ++*(int *)user, done <= total;
}

static void keepBeam(void *user, const int32_t *ids, size_t count, double score) {
  Answer *answer = user;
  EXPECT(isfinite(score) && score < 0);
  memcpy(answer->ids, ids, count * sizeof *ids);
  answer->count = (int)count;
}

/* A call that fails leaves no results of the one before it, and no cancel to the one behind it. */
#define FAILS_AFTER_A_STEP(call, status, part)                                                                         \
  do {                                                                                                                 \
    OK(heddle_session_reset(session, 1));                                                                              \
    OK(heddle_session_decode(session, 1, 'T'));                                                                        \
    EXPECT(heddle_session_logits(session, 0) && heddle_session_hidden_state(session, 0));                              \
    heddle_session_cancel(session);                                                                                    \
    FAILS(call, status, part);                                                                                         \
    EXPECT(!heddle_session_logits(session, 0) && !heddle_session_hidden_state(session, 0));                            \
    OK(heddle_session_decode(session, 1, 'h'));                                                                        \
    EXPECT(heddle_session_length(session, 0) == 0 && heddle_session_length(session, 1) == 2);                          \
  } while (0)

static void checkFailures(heddle_session *session) {
  heddle_feed good = {.size = sizeof good, .sequence = 0, .count = 3, .ids = prompt}, feed = good;
  feed.adapter = 3;
  FAILS_AFTER_A_STEP(heddle_session_step(session, &feed, 1), HEDDLE_INVALID_INPUT, "adapter is 3");
  feed = good, feed.rows = 9;
  FAILS_AFTER_A_STEP(heddle_session_step(session, &feed, 1), HEDDLE_INVALID_INPUT, "rows is 9");
  feed = good, feed.size = 0;
  FAILS_AFTER_A_STEP(heddle_session_step(session, &feed, 1), HEDDLE_INVALID_INPUT, "size field");
  heddle_feed pair[] = {good, good};
  pair[1].size = 24, pair[1].sequence = 1;
  FAILS_AFTER_A_STEP(heddle_session_step(session, pair, 2), HEDDLE_INVALID_INPUT, "size is 24");
  struct {
    heddle_feed feed;
    char later;
  } newer = {good, 1};
  newer.feed.size = sizeof newer;
  FAILS_AFTER_A_STEP(heddle_session_step(session, &newer.feed, 1), HEDDLE_INVALID_INPUT, "of a later version");
  FAILS_AFTER_A_STEP(heddle_session_step(session, NULL, 1), HEDDLE_INVALID_INPUT, "null pointer");
  FAILS_AFTER_A_STEP(heddle_session_forward(session, &good, 1, NULL, NULL), HEDDLE_INVALID_INPUT, "callback is a null");
  FAILS_AFTER_A_STEP(heddle_session_prefill(session, 0, NULL, 3), HEDDLE_INVALID_INPUT, "null pointer");
  FAILS_AFTER_A_STEP(heddle_session_prefill(session, 0, prompt, (size_t)1 << 33), HEDDLE_INVALID_INPUT, "at most 2^31");
  FAILS_AFTER_A_STEP(heddle_session_prefill(session, 7, prompt, 1), HEDDLE_INVALID_INPUT, "sequence 7");
  FAILS_AFTER_A_STEP(heddle_session_decode(session, 0, -1), HEDDLE_INVALID_INPUT, "token id -1");
  FAILS_AFTER_A_STEP(heddle_session_decode(session, 0, 'T'), HEDDLE_CANCELLED, "cancelled");
  heddle_generate_options generate = {.size = sizeof generate, .max_tokens = -1};
  FAILS_AFTER_A_STEP(heddle_session_generate(session, 0, prompt, 3, &generate, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
                     "max_tokens is -1");
  FAILS_AFTER_A_STEP(heddle_session_generate(session, 0, NULL, 3, NULL, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
                     "null pointer");
  FAILS_AFTER_A_STEP(heddle_session_generate(session, 0, prompt, 0, NULL, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
                     "no tokens");
  heddle_beam_options beams = {.size = sizeof beams, .max_tokens = 3};
  FAILS_AFTER_A_STEP(heddle_session_search_beams(session, prompt, 3, &beams, keepBeam, NULL), HEDDLE_INVALID_INPUT,
                     "beams is 0");
  OK(heddle_session_reset(session, 0));
  OK(heddle_session_reset(session, 1));
  puts("failures");
}

static void checkGenerate(heddle_session *session) {
  Answer greedy = {.session = session}, stopped = greedy, cancelled = greedy, masked = greedy, beamed = greedy;
  heddle_generate_options options = {.size = sizeof options, .max_tokens = 12, .ignore_eos = 1};
  heddle_generate_result result = {.size = sizeof result};
  OK(heddle_session_generate(session, 0, prompt, promptSize, &options, keepToken, &greedy, &result));
  EXPECT(greedy.count == 12 && result.num_tokens == 12 && result.reason == HEDDLE_END_MAX_TOKENS);

  OK(heddle_session_reset(session, 0));
  stopped.stopAt = 5;
  OK(heddle_session_generate(session, 0, prompt, promptSize, &options, keepToken, &stopped, &result));
  EXPECT(result.num_tokens == 5 && result.reason == HEDDLE_END_CALLBACK);

  /* A cancelled answer keeps its tokens, and the session goes on. */
  OK(heddle_session_reset(session, 0));
  cancelled.cancelAt = 4;
  result.num_tokens = 77;
  FAILS(heddle_session_generate(session, 0, prompt, promptSize, &options, keepToken, &cancelled, &result),
        HEDDLE_CANCELLED, "cancelled");
  EXPECT(cancelled.count == 4 && heddle_session_length(session, 0) == promptSize + 3 && result.num_tokens == 77);
  EXPECT(memcmp(cancelled.ids, greedy.ids, 4 * sizeof(int32_t)) == 0);
  OK(heddle_session_decode(session, 0, greedy.ids[3]));
  EXPECT(best(heddle_session_logits(session, 0)) == greedy.ids[4]);

  int calls = 0;
  OK(heddle_session_set_progress(session, cancelAtOnce, &calls));
  OK(heddle_session_reset(session, 0));
  FAILS(heddle_session_prefill(session, 0, prompt, promptSize), HEDDLE_CANCELLED, "interrupted");
  EXPECT(calls == 1 && heddle_session_length(session, 0) == 0);
  OK(heddle_session_set_progress(session, NULL, NULL));

  /* A mask that forces the digits of a number, and one that forces nothing at all. */
  calls = 0;
  options.mask = onlyDigits, options.mask_user = &calls, options.max_tokens = 6;
  heddle_sampler_options sampling = {.size = sizeof sampling, .temperature = 1, .top_p = 0.9f, .seed = 7};
  for (int sampled = 0; sampled < 2; ++sampled) {
    OK(heddle_session_reset(session, 0));
    masked.count = 0, masked.text[0] = '\0';
    options.sampler = sampled ? &sampling : NULL;
    OK(heddle_session_generate(session, 0, prompt, promptSize, &options, keepToken, &masked, NULL));
    EXPECT(calls == 6 * (sampled + 1) && strlen(masked.text) == 6 && strspn(masked.text, "0123456789") == 6);
  }
  OK(heddle_session_reset(session, 0));
  options.mask = noToken;
  FAILS(heddle_session_generate(session, 0, prompt, promptSize, &options, NULL, NULL, NULL), HEDDLE_INVALID_INPUT,
        "allows no token");
  options.mask = NULL, options.sampler = NULL;

  /* A stop string made of what the digits were: two of them end the answer before they are shown. */
  char stop[3] = {masked.text[1], masked.text[2], '\0'};
  const char *stops[] = {stop};
  Answer ended = {.session = session};
  options.mask = onlyDigits, options.sampler = &sampling, options.stops = stops, options.num_stops = 1;
  OK(heddle_session_reset(session, 0));
  OK(heddle_session_generate(session, 0, prompt, promptSize, &options, keepToken, &ended, &result));
  EXPECT(result.reason == HEDDLE_END_STOP_STRING && result.num_tokens <= 3 && !strstr(ended.text, stop));

  heddle_beam_options beams = {.size = sizeof beams, .beams = 1, .max_tokens = 6, .ignore_eos = 1};
  OK(heddle_session_search_beams(session, prompt, promptSize, &beams, keepBeam, &beamed));
  EXPECT(beamed.count == 6 && memcmp(beamed.ids, greedy.ids, 6 * sizeof(int32_t)) == 0);
  beams.beams = 9;
  FAILS(heddle_session_search_beams(session, prompt, promptSize, &beams, keepBeam, &beamed), HEDDLE_INVALID_INPUT,
        "sequences");
  puts("generate");
}

static void checkSampler(heddle_package *decoder, heddle_session *session) {
  heddle_sampler_options options = {.size = sizeof options};
  OK(heddle_package_sampler_defaults(decoder, &options));
  EXPECT(options.temperature == 0 && options.repetition_penalty == 1);
  heddle_sampler *sampler;
  options.repetition_penalty = 1000;
  OK(heddle_sampler_create(decoder, &options, &sampler));
  OK(heddle_session_prefill(session, 0, prompt, promptSize));
  const float *logits = heddle_session_logits(session, 0);
  uint32_t mask[vocabSize / 32];
  int32_t id, again;
  OK(heddle_sampler_sample(sampler, logits, NULL, &id));
  EXPECT(id == best(logits));
  memset(mask, 0xff, sizeof mask);
  mask[id / 32] &= ~(1u << id % 32);
  OK(heddle_sampler_sample(sampler, logits, mask, &again));
  EXPECT(again != id);
  memset(mask, 0, sizeof mask);
  FAILS(heddle_sampler_sample(sampler, logits, mask, &again), HEDDLE_INVALID_INPUT, "allows no token");
  float odd[vocabSize];
  const float values[] = {NAN, INFINITY};
  for (int i = 0; i < 2; ++i) {
    memcpy(odd, logits, sizeof odd);
    odd[9] = values[i];
    FAILS(heddle_sampler_sample(sampler, odd, NULL, &again), HEDDLE_NOT_FINITE, "the logit of token 9 is");
  }
  for (int i = 0; i < vocabSize; ++i)
    odd[i] = i == 9 ? 1 : -INFINITY;
  OK(heddle_sampler_sample(sampler, odd, NULL, &again));
  EXPECT(again == 9);
  odd[9] = -INFINITY;
  FAILS(heddle_sampler_sample(sampler, odd, NULL, &again), HEDDLE_NOT_FINITE, "are -infinity");
  const int32_t outside = vocabSize;
  FAILS(heddle_sampler_accept(sampler, &outside, 1), HEDDLE_INVALID_INPUT, "token id 256");
  OK(heddle_sampler_accept(sampler, prompt, promptSize));
  heddle_sampler_destroy(sampler);
  OK(heddle_session_reset(session, 0));
  puts("sampler");
}

/* A weight of this decoder is NaN. */
static void checkNotFinite(const char *path) {
  heddle_package *broken;
  heddle_session *session;
  OK(heddle_package_open_file(path, NULL, &broken));
  EXPECT(heddle_package_num_adapters(broken) == 2);
  EXPECT(strcmp(heddle_package_adapter_name(broken, 1), "legal") == 0);
  EXPECT(strcmp(heddle_package_adapter_name(broken, 2), "code") == 0);
  EXPECT(!heddle_package_adapter_name(broken, 0) && !heddle_package_adapter_name(broken, 3));
  OK(heddle_session_create(broken, NULL, &session));
  FAILS(heddle_session_prefill(session, 0, prompt, promptSize), HEDDLE_NOT_FINITE, "step 1: the logits after token");
  EXPECT(!heddle_session_logits(session, 0) && heddle_session_length(session, 0) == 0);
  FAILS(heddle_session_generate(session, 0, prompt, promptSize, NULL, NULL, NULL, NULL), HEDDLE_NOT_FINITE, "step 2");
  heddle_session_destroy(session);
  heddle_package_close(broken);
  puts("not finite");
}

/* A cache of 64 tokens for two sequences of 128: the second one finds no page until the first is forgotten. */
static void checkBudget(heddle_package *decoder) {
  heddle_session_options options = {.size = sizeof options, .threads = 1, .max_sequences = 2, .cache_tokens = 64};
  heddle_session *session;
  OK(heddle_session_create(decoder, &options, &session));
  OK(heddle_session_prefill(session, 0, prompt, promptSize));
  FAILS(heddle_session_prefill(session, 1, prompt, promptSize), HEDDLE_CONTEXT_FULL, "cache of 64 tokens is full");
  OK(heddle_session_decode(session, 0, 'x'));
  OK(heddle_session_reset(session, 0));
  OK(heddle_session_prefill(session, 1, prompt, promptSize));
  int32_t tooMany[context + 1] = {0};
  FAILS(heddle_session_prefill(session, 0, tooMany, context + 1), HEDDLE_CONTEXT_FULL, "the context 128");
  heddle_session_destroy(session);
  puts("budget");
}

/* Two threads, each with a session of one package and of one pool: both get what one alone gets. */
typedef struct {
  heddle_package *package;
  heddle_thread_pool *pool;
  Answer answer;
} Worker;

static void *work(void *argument) {
  Worker *worker = argument;
  heddle_session_options options = {.size = sizeof options, .pool = worker->pool};
  OK(heddle_session_create(worker->package, &options, &worker->answer.session));
  heddle_generate_options generate = {.size = sizeof generate, .max_tokens = 40, .ignore_eos = 1};
  OK(heddle_session_generate(worker->answer.session, 0, prompt, promptSize, &generate, keepToken, &worker->answer,
                             NULL));
  heddle_session_destroy(worker->answer.session);
  return NULL;
}

static void checkThreads(heddle_package *decoder) {
  heddle_thread_pool *pool;
  OK(heddle_thread_pool_create(2, &pool));
  Worker workers[3] = {{decoder, pool, {0}}, {decoder, pool, {0}}, {decoder, NULL, {0}}};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    EXPECT(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  for (int i = 0; i < 3; ++i)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 3; ++i)
    EXPECT(workers[i].answer.count == 40 &&
           memcmp(workers[i].answer.ids, workers[0].answer.ids, 40 * sizeof(int32_t)) == 0);
  heddle_session_options both = {.size = sizeof both, .threads = 2, .pool = pool};
  heddle_session *session;
  FAILS(heddle_session_create(decoder, &both, &session), HEDDLE_INVALID_INPUT, "there is a pool");
  heddle_thread_pool_destroy(pool);
  puts("threads");
}

/* --- functions ------------------------------------------------------------------------------------------------------------- */

static void checkEncoder(heddle_package *encoder) {
  EXPECT(heddle_package_task(encoder) == HEDDLE_TASK_ENCODE && heddle_package_num_functions(encoder) == 1 &&
         strcmp(heddle_package_function_name(encoder, 0), "encode") == 0 && !heddle_package_function_name(encoder, 1));
  heddle_function *function;
  OK(heddle_function_create(encoder, NULL, &function));
  heddle_tensor_info info = {.size = sizeof info};
  OK(heddle_function_output(function, 0, &info));
  EXPECT(strcmp(info.name, "last_hidden_state") == 0 && info.type == HEDDLE_F32 && info.rank == 3 &&
         info.shape[0] == -1 && strcmp(info.dimensions[1], "sequence") == 0);
  FAILS(heddle_function_input(function, 99, &info), HEDDLE_INVALID_INPUT, "index is 99");
  /* A row with padding gives what it gives by itself. */
  const int32_t ids[2][4] = {{5, 6, 7, 8}, {9, 10, 0, 0}}, mask[2][4] = {{1, 1, 1, 1}, {1, 1, 0, 0}};
  const int64_t shape[] = {2, 4}, alone[] = {1, 2};
  heddle_tensor inputs[] = {{sizeof *inputs, "attention_mask", HEDDLE_I32, 2, shape, mask},
                            {sizeof *inputs, "input_ids", HEDDLE_I32, 2, shape, ids}};
  OK(heddle_function_call(function, inputs, 2));
  const heddle_tensor *hidden = heddle_function_result(function, 0);
  EXPECT(hidden && hidden->rank == 3 && hidden->shape[0] == 2 && hidden->shape[1] == 4);
  int64_t size = hidden->shape[2];
  float *second = malloc(2 * size * sizeof(float));
  memcpy(second, (const float *)hidden->data + 4 * size, 2 * size * sizeof(float));
  heddle_tensor one = {sizeof one, "input_ids", HEDDLE_I32, 2, alone, ids[1]};
  OK(heddle_function_call(function, &one, 1));
  EXPECT(farthest(second, heddle_function_result(function, 0)->data, 2 * size) < 1e-5f);
  free(second);
  inputs[0].name = "input_ids";
  FAILS(heddle_function_call(function, inputs, 2), HEDDLE_INVALID_INPUT, "given twice");
  EXPECT(!heddle_function_result(function, 0));
  inputs[0].name = "mask";
  FAILS(heddle_function_call(function, inputs, 2), HEDDLE_INVALID_INPUT, "'mask' is no input");
  heddle_function_destroy(function);
  puts("encoder");
}

static void checkGraph(heddle_package *graph) {
  EXPECT(heddle_package_task(graph) == HEDDLE_TASK_GRAPH && heddle_package_num_functions(graph) == 2);
  heddle_thread_pool *pool;
  OK(heddle_thread_pool_create(2, &pool));
  heddle_function_options options = {.size = sizeof options, .name = "decode", .pool = pool};
  heddle_function *decode, *first;
  OK(heddle_function_create(graph, &options, &decode));
  OK(heddle_function_create(graph, NULL, &first));
  EXPECT(heddle_function_num_inputs(decode) == 2 && heddle_function_num_outputs(decode) == 1);
  /* The memory of the first is what the second reads: tensors go on as they are. */
  float x[3 * 16], q[2 * 16];
  for (int i = 0; i < 48; ++i)
    x[i] = (float)(i % 7) / 8;
  memcpy(q, x, sizeof q);
  const int64_t three[] = {3, 16}, two[] = {2, 16};
  heddle_tensor input = {sizeof input, "x", HEDDLE_F32, 2, three, x};
  OK(heddle_function_call(first, &input, 1));
  const heddle_tensor *memory = heddle_function_result(first, 0);
  heddle_tensor inputs[] = {*memory, {sizeof *inputs, "q", HEDDLE_F32, 2, two, q}};
  OK(heddle_function_call(decode, inputs, 2));
  const heddle_tensor *y = heddle_function_result(decode, 0);
  EXPECT(y && y->rank == 2 && y->shape[0] == 2 && y->shape[1] == 16 && isfinite(*(const float *)y->data) &&
         !heddle_function_result(decode, 1));
  inputs[1].type = HEDDLE_F64;
  FAILS(heddle_function_call(decode, inputs, 2), HEDDLE_INVALID_INPUT, "is F64, expected F32");
  options.name = "main";
  heddle_function *none;
  FAILS(heddle_function_create(graph, &options, &none), HEDDLE_INVALID_INPUT,
        "'main' is no function of this model (encoder, decode)");
  heddle_session *session;
  FAILS(heddle_session_create(graph, NULL, &session), HEDDLE_INVALID_INPUT, "a graph has no sessions");
  heddle_function_destroy(decode);
  heddle_function_destroy(first);
  heddle_thread_pool_destroy(pool);
  puts("graph");
}

int main(int argc, char **argv) {
  heddle_package *decoder, *encoder, *graph;
  EXPECT(argc == 5);
  takeOverMemory();
  OK(heddle_package_open_file(argv[1], NULL, &decoder));
  OK(heddle_package_open_file(argv[2], NULL, &encoder));
  OK(heddle_package_open_file(argv[3], NULL, &graph));
  FAILS(heddle_function_create(decoder, NULL, &(heddle_function *){NULL}), HEDDLE_INVALID_INPUT, "has no functions");
  checkPackage(decoder, argv[1]);
  checkText(decoder);
  heddle_session_options options = {.size = sizeof options, .threads = 2, .max_sequences = 2, .keep_hidden = 1};
  heddle_session *session;
  OK(heddle_session_create(decoder, &options, &session));
  checkRows(session);
  checkFailures(session);
  checkGenerate(session);
  checkSampler(decoder, session);
  heddle_session_destroy(session);
  checkNotFinite(argv[4]);
  checkBudget(decoder);
  checkThreads(decoder);
  checkEncoder(encoder);
  checkGraph(graph);
  heddle_package_close(graph);
  heddle_package_close(encoder);
  heddle_package_close(decoder);
  EXPECT(blocks == 0 && blocksInAll > 100);
  puts("memory");
  return 0;
}
