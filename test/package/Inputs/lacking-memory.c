/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * lacking-memory DECODER ENCODER: every call gives a status while the allocator gives nothing, from any block on. The decoder has a
 * tokenizer and a chat template. Each part says its name once it holds. */
#include <heddle/heddle.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS(type, ...) (&(type){sizeof(type), __VA_ARGS__})

static long blocksLeft; /* that the allocator still gives */

static void *take(void *user, size_t size, size_t alignment) {
  void *memory = NULL;
  if (blocksLeft <= 0 ||
      posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size ? size : 1) != 0)
    return NULL;
  --blocksLeft;
  return memory;
}

static void give(void *user, void *memory) {
  free(memory);
}

static void setAllocator(long blocks) {
  heddle_allocator allocator = {sizeof allocator, take, give, NULL};
  blocksLeft = blocks;
  if (heddle_set_allocator(&allocator) != HEDDLE_OK)
    abort();
}

static void beam(void *user, const int32_t *ids, size_t count, double score) {}
static int token(void *user, int32_t id, const char *text, size_t size) {
  return 0;
}
static void row(void *user, size_t feed, int32_t index, const float *logits, const float *hidden) {}

enum { allDone = 10, lacking = 11, otherwise = 12 }; /* how a child ends */

/* Ends the process where a call fails: as it may where memory lacks, and saying which call fails in another way. */
#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    heddle_status status = (call);                                                                                     \
    if (status == HEDDLE_OUT_OF_MEMORY && *heddle_error_message())                                                     \
      _exit(lacking);                                                                                                  \
    if (status != HEDDLE_OK) {                                                                                         \
      fprintf(stderr, "%s: status %d: %s\n", #call, status, heddle_error_message());                                   \
      _exit(otherwise);                                                                                                \
    }                                                                                                                  \
  } while (0)

static void useEverything(const char *decoderPath, const char *encoderPath) {
  const char *chat =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"the cat\"}], \"add_generation_prompt\": true}";
  const char *stops[] = {"zz"}, *text;
  const int64_t shape[] = {1, 3};
  const int32_t prompt[] = {'T', 'h', 'e'};
  int32_t ids[64], id;
  char buffer[512];
  size_t count;
  int stopped;
  heddle_package *decoder, *encoder;
  heddle_session *session;
  heddle_sampler *sampler;
  heddle_text_stream *stream;
  heddle_function *function;
  TRY(heddle_package_open_file(decoderPath, NULL, &decoder));
  TRY(heddle_package_encode(decoder, "the cat sat", 11, 0, ids, 64, &count));
  TRY(heddle_package_encode_chat(decoder, chat, strlen(chat), ids, 64, &count));
  TRY(heddle_package_render_chat(decoder, chat, strlen(chat), buffer, sizeof buffer, &count));
  TRY(heddle_package_decode(decoder, prompt, 3, buffer, sizeof buffer, &count));
  TRY(heddle_package_info(decoder, buffer, sizeof buffer, &count));
  TRY(heddle_session_create(decoder, OPTIONS(heddle_session_options, .max_sequences = 2), &session));
  TRY(heddle_session_prefill(session, 0, prompt, 3));
  TRY(heddle_sampler_create(
      decoder, OPTIONS(heddle_sampler_options, .temperature = 0.8f, .top_k = 5, .repetition_penalty = 1.1f), &sampler));
  TRY(heddle_sampler_sample(sampler, heddle_session_logits(session, 0), NULL, &id));
  TRY(heddle_session_generate(session, 0, prompt, 2,
                              OPTIONS(heddle_generate_options, .max_tokens = 4, .stops = stops, .num_stops = 1), token,
                              NULL, NULL));
  TRY(heddle_session_search_beams(session, prompt, 3, OPTIONS(heddle_beam_options, .beams = 2, .max_tokens = 3), beam,
                                  NULL));
  TRY(heddle_text_stream_create(decoder, NULL, &stream));
  TRY(heddle_text_stream_append(stream, 'a', &text, &count, &stopped));
  TRY(heddle_text_stream_finish(stream, &text, &count));
  TRY(heddle_package_open_file(encoderPath, NULL, &encoder));
  TRY(heddle_function_create(encoder, NULL, &function));
  TRY(heddle_function_call(function, OPTIONS(heddle_tensor, "input_ids", HEDDLE_I32, 2, shape, prompt), 1));
}

static void lackFromEveryBlock(const char *decoder, const char *encoder) {
  for (long blocks = 0;; ++blocks) {
    pid_t child = fork();
    if (child == 0) {
      setAllocator(blocks);
      useEverything(decoder, encoder);
      _exit(allDone);
    }
    int end = 0;
    if (child < 0 || waitpid(child, &end, 0) != child)
      abort();
    if (WIFEXITED(end) && WEXITSTATUS(end) == allDone && blocks > 100)
      break;
    if (!WIFEXITED(end) || WEXITSTATUS(end) != lacking) {
      fprintf(stderr, "with %ld blocks: %s %d\n", blocks, WIFEXITED(end) ? "exit code" : "signal",
              WIFEXITED(end) ? WEXITSTATUS(end) : WTERMSIG(end));
      exit(1);
    }
  }
  puts("every block");
}

static void refuses(int line, heddle_status given, heddle_status status, const char *part) {
  if (given == status && strstr(heddle_error_message(), part))
    return;
  fprintf(stderr, "line %d: status %d: %s\n", line, given, heddle_error_message());
  exit(1);
}
#define REFUSES(call, status, part) refuses(__LINE__, call, status, part)

/* A caller's mistake keeps its words while there is no memory at all. */
static void lackForMessages(const char *path) {
  const int32_t prompt[200] = {'T', 'h', 'e'};
  size_t count;
  int32_t ids[8];
  heddle_package *decoder;
  heddle_session *session;
  heddle_sampler *sampler;
  heddle_thread_pool *pool;
  setAllocator(1L << 40);
  TRY(heddle_package_open_file(path, NULL, &decoder));
  TRY(heddle_session_create(decoder, OPTIONS(heddle_session_options, .max_sequences = 2, .cache_tokens = 64),
                            &session));
  TRY(heddle_sampler_create(decoder, NULL, &sampler));
  TRY(heddle_thread_pool_create(1, &pool));
  blocksLeft = 0;
  for (int round = 0; round < 1000; ++round) { /* no message stays behind */
    heddle_feed feed = {sizeof feed, 0, 3, prompt, NULL, 0, 7};
    REFUSES(heddle_session_prefill(session, 5, prompt, 3), HEDDLE_INVALID_INPUT, "sequence 5 is not in [0, 2)");
    REFUSES(heddle_session_step(session, &feed, 1), HEDDLE_INVALID_INPUT, "feed 0: adapter is 7, the model has none");
    REFUSES(heddle_session_forward(session, &feed, 1, NULL, NULL), HEDDLE_INVALID_INPUT, "callback is a null pointer");
    feed.adapter = 0, feed.count = 200;
    REFUSES(heddle_session_forward(session, &feed, 1, row, NULL), HEDDLE_CONTEXT_FULL, "the prompt has 200 tokens");
    REFUSES(heddle_session_prefill(session, 0, NULL, 3), HEDDLE_INVALID_INPUT, "the 3 ids are a null pointer");
    REFUSES(heddle_session_prefill(session, 0, prompt, 100), HEDDLE_CONTEXT_FULL, "the cache of 64 tokens is full");
    REFUSES(heddle_session_generate(session, 0, prompt, 3, OPTIONS(heddle_generate_options, .max_tokens = -1), token,
                                    NULL, NULL),
            HEDDLE_INVALID_INPUT, "max_tokens is -1, expected a number from 0");
    REFUSES(heddle_session_search_beams(session, prompt, 3, OPTIONS(heddle_beam_options, .beams = 9), beam, NULL),
            HEDDLE_INVALID_INPUT, "beams is 9, the session has 2 sequences");
    REFUSES(heddle_package_encode(decoder, "a", 1, 0, ids, 8, NULL), HEDDLE_INVALID_INPUT,
            "out_count is a null pointer");
    REFUSES(heddle_package_token_bytes(decoder, -4, NULL, 0, &count), HEDDLE_INVALID_INPUT, "token id -4 is not in");
    REFUSES(heddle_sampler_accept(sampler, &(int32_t){-4}, 1), HEDDLE_INVALID_INPUT, "token id -4 at position 0");
    REFUSES(heddle_session_create(decoder, OPTIONS(heddle_session_options, .threads = 2, .pool = pool), &session),
            HEDDLE_OUT_OF_MEMORY, "out of memory");
    REFUSES(heddle_thread_pool_create(4096, &pool), HEDDLE_OUT_OF_MEMORY, "out of memory");
  }
  heddle_thread_pool_destroy(pool);
  heddle_sampler_destroy(sampler);
  heddle_session_destroy(session);
  heddle_package_close(decoder);
  puts("messages");
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  lackFromEveryBlock(argv[1], argv[2]);
  lackForMessages(argv[1]);
  return 0;
}
