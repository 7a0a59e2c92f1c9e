/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Runs models that `heddle compile` made. A model is a function `const heddle_model *heddle_model_<name>(void)` that the compiled
 * object defines, or a shared object; it is opened as a heddle_package (metadata and weights, mapped read-only). What it computes:
 *
 *   a decoder     heddle_session: a KV cache of sequences, activations, worker threads
 *   a graph, an encoder    heddle_function: named tensors in, named tensors out
 *
 * Every call that can fail returns a heddle_status; heddle_error_message gives the line that belongs to the failure. Results come
 * through out_ parameters, last in the list, and are written only on success. Nothing but the allocator is global: objects are
 * independent, and one object is used by one thread at a time, but for what says otherwise; a package may be shared. All text is
 * UTF-8. A null pointer where none is allowed is HEDDLE_INVALID_INPUT; of nothing (no bytes of text, no ids, no capacity) it is
 * allowed. Functions without a status then return null or 0.
 *
 * Structs begin with their size, so that later versions can append fields: zero is the default of every field, fields that a caller
 * does not know are zero, and a field that this library does not know is HEDDLE_INVALID_INPUT unless it is zero. What a call writes
 * at most `capacity` elements of is always counted in full: with capacity 0 it only counts.
 */
#ifndef HEDDLE_HEDDLE_H
#define HEDDLE_HEDDLE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0
/* Of this interface: a program that was built with another one is not to be run with this library. */
#define HEDDLE_ABI_VERSION 1

HEDDLE_API const char *heddle_version_string(void); /* "0.1.0", of the library that runs */
HEDDLE_API uint32_t heddle_abi_version(void);       /* HEDDLE_ABI_VERSION, of the library that runs */

typedef enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_FAILURE =
      1, /* ours or the machine's: missing instructions or devices, a newer file, threads that cannot be started */
  HEDDLE_INVALID_INPUT = 2, /* the caller's: ids out of range, an unknown option */
  HEDDLE_OUT_OF_MEMORY = 3,
  HEDDLE_CANCELLED = 4,    /* heddle_session_cancel, or a progress callback that said so */
  HEDDLE_CONTEXT_FULL = 5, /* the sequence would be longer than the context, or the cache's budget of tokens is spent */
  HEDDLE_NOT_FINITE = 6,   /* the model's results are NaN or infinite */
  HEDDLE_DAMAGED_FILE = 7  /* a hash, a size or an offset of a compiled file is wrong */
} heddle_status;

typedef struct heddle_model heddle_model;             /* what generated code describes itself with */
typedef struct heddle_package heddle_package;         /* an opened model */
typedef struct heddle_session heddle_session;         /* a decoder's state over running sequences */
typedef struct heddle_function heddle_function;       /* a function over named tensors */
typedef struct heddle_sampler heddle_sampler;         /* picks tokens from logits */
typedef struct heddle_text_stream heddle_text_stream; /* tokens to text */
typedef struct heddle_thread_pool heddle_thread_pool; /* threads that sessions and functions share */

/* The message of this thread's last failed call: one line without newline, at most 1,023 bytes of whole characters, valid until the
 * thread's next call. Never null. */
HEDDLE_API const char *heddle_error_message(void);

/* --- Memory and threads ---------------------------------------------------------------------------------------------------- */

/* Where the library's objects and texts come from; null members: malloc and free. `allocate` gives memory at a multiple of `alignment`,
 * a power of two, or null. Weights, activations, KV caches and tensors are mappings of pages and do not come from here, nor does what
 * the C library and PCRE2 take for themselves. */
typedef struct heddle_allocator {
  size_t size; /* sizeof(heddle_allocator) */
  void *(*allocate)(void *user, size_t size, size_t alignment);
  void (*release)(void *user, void *memory);
  void *user;
} heddle_allocator;

/* Of the whole process. Errors: HEDDLE_INVALID_INPUT while there is any object. */
HEDDLE_API heddle_status heddle_set_allocator(const heddle_allocator *allocator);

/* `threads` threads, the caller of a step among them, but at most one for each CPU of the affinity mask, since more would wait for each
 * other; 0: physical cores within the affinity mask and the cgroup's quota. Sessions and
 * functions that share a pool may be used by different threads at the same time: their steps take turns. Destroyed after them. */
HEDDLE_API heddle_status heddle_thread_pool_create(int32_t threads, heddle_thread_pool **out_pool);
HEDDLE_API void heddle_thread_pool_destroy(heddle_thread_pool *pool); /* null is allowed */

/* --- Packages -------------------------------------------------------------------------------------------------------------- */

typedef enum heddle_log_level { HEDDLE_LOG_INFO = 0, HEDDLE_LOG_WARNING = 1 } heddle_log_level;

/* A line without newline that is no failure. Called by the thread that made the call. */
typedef void (*heddle_log_callback)(void *user, heddle_log_level level, const char *message);

typedef struct heddle_open_options {
  size_t size; /* sizeof(heddle_open_options) */
  int32_t
      read_into_memory; /* nonzero: metadata and weights are copied and not mapped: who truncates the file later does not end the process.
                                A shared object's code is mapped by the loader in any case. */
  int32_t reserved;        /* 0 */
  heddle_log_callback log; /* of the package, its sessions and functions; null: nothing is said */
  void *log_user;
  const char *
      cpu; /* of a model that was compiled for several targets: the one whose code runs; null: the best of this machine */
} heddle_open_options;

/* Opens the model that generated code describes. Its metadata and weights are read from the file that holds the code (or from the
 * file with ".weights" after its name), its hashes and the machine's instruction sets are checked. `options` may be null.
 * Errors: HEDDLE_DAMAGED_FILE; HEDDLE_FAILURE for a newer file and a machine that lacks instructions; HEDDLE_INVALID_INPUT for a `cpu` that
 * the model was not compiled for; HEDDLE_OUT_OF_MEMORY. */
HEDDLE_API heddle_status heddle_package_open(const heddle_model *model, const heddle_open_options *options,
                                             heddle_package **out_package);

/* Opens a shared object that `heddle compile --emit=package` or `--emit=lib` wrote. */
HEDDLE_API heddle_status heddle_package_open_file(const char *path, const heddle_open_options *options,
                                                  heddle_package **out_package);

/* Reads all weights and the file's code and compares their hashes. What another linker made of a model's object has no hash of its
 * code. Errors: HEDDLE_DAMAGED_FILE. */
HEDDLE_API heddle_status heddle_package_check(const heddle_package *package);
HEDDLE_API void heddle_package_close(heddle_package *package); /* after all that was made of it; null is allowed */

typedef enum heddle_task {
  HEDDLE_TASK_GENERATE = 0, /* a decoder: heddle_session */
  HEDDLE_TASK_ENCODE = 1,   /* an encoder: heddle_function */
  HEDDLE_TASK_SEQ2SEQ = 3,  /* an encoder-decoder: heddle_session, whose prompts are sources */
  HEDDLE_TASK_GRAPH = 4     /* a graph: heddle_function */
} heddle_task;

HEDDLE_API heddle_task heddle_package_task(const heddle_package *package);
HEDDLE_API const char *heddle_package_name(const heddle_package *package);
HEDDLE_API int64_t heddle_package_vocab_size(const heddle_package *package);  /* 0 of a graph */
HEDDLE_API int64_t heddle_package_hidden_size(const heddle_package *package); /* 0 of a graph */
HEDDLE_API int64_t heddle_package_context(const heddle_package *package); /* longest sequence in tokens; 0 of a graph */

/* What the command line's --info prints, lines of "key value"; without a NUL. */
HEDDLE_API heddle_status heddle_package_info(const heddle_package *package, char *text, size_t capacity,
                                             size_t *out_size);

/* --- Text ------------------------------------------------------------------------------------------------------------------ */

/* Ids of `size` bytes of text, as a prompt: special tokens are parsed and BOS is added if the model says so, unless
 * `plain` is nonzero.
 * Errors: HEDDLE_INVALID_INPUT for invalid UTF-8 and for a model without a tokenizer; HEDDLE_OUT_OF_MEMORY, also of the calls below. */
HEDDLE_API heddle_status heddle_package_encode(const heddle_package *package, const char *text, size_t size, int plain,
                                               int32_t *ids, size_t capacity, size_t *out_count);

/* Text of `count` ids, special tokens left out; without a NUL. */
HEDDLE_API heddle_status heddle_package_decode(const heddle_package *package, const int32_t *ids, size_t count,
                                               char *text, size_t capacity, size_t *out_size);

/* The bytes that a token stands for, without regard to its neighbours; they need not be whole characters. Control tokens give
 * their name, ids behind the tokenizer's tokens (padding of the embedding) nothing. */
HEDDLE_API heddle_status heddle_package_token_bytes(const heddle_package *package, int32_t id, char *bytes,
                                                    size_t capacity, size_t *out_size);

typedef enum heddle_special_token {
  HEDDLE_TOKEN_BOS = 0,
  HEDDLE_TOKEN_EOS = 1,
  HEDDLE_TOKEN_UNKNOWN = 2,
  HEDDLE_TOKEN_PAD = 3
} heddle_special_token;

HEDDLE_API int32_t heddle_package_special_token(const heddle_package *package,
                                                heddle_special_token token); /* -1: none */
/* The tokens that end an answer, as heddle_session_generate knows them. */
HEDDLE_API heddle_status heddle_package_end_tokens(const heddle_package *package, int32_t *ids, size_t capacity,
                                                   size_t *out_count);

/* Ids of a conversation, rendered by the model's chat template. `json` is an object of the template's variables:
 * {"messages": [{"role": "user", "content": "…"}], "add_generation_prompt": true, "tools": …}. Special tokens that a message's content
 * spells stay text. Errors: HEDDLE_INVALID_INPUT for JSON that is not valid, has a key twice or no array "messages", a model without a template, and what the template
 * refuses (its own message). */
HEDDLE_API heddle_status heddle_package_encode_chat(const heddle_package *package, const char *json, size_t size,
                                                    int32_t *ids, size_t capacity, size_t *out_count);
/* The text of the same. */
HEDDLE_API heddle_status heddle_package_render_chat(const heddle_package *package, const char *json, size_t size,
                                                    char *text, size_t capacity, size_t *out_size);

/* Of a model with several adapters (heddle compile --adapter), of which each sequence has one or none: how many, and the name of number
 * `adapter`, from 1; null out of range. Virtual tokens, with which those of prompt and prefix tuning begin a sequence, are in no count. */
HEDDLE_API int32_t heddle_package_num_adapters(const heddle_package *package);
HEDDLE_API const char *heddle_package_adapter_name(const heddle_package *package, int32_t adapter);

typedef struct heddle_text_stream_options {
  size_t size;              /* sizeof(heddle_text_stream_options) */
  int32_t keep_special;     /* nonzero: special tokens give their text */
  int32_t num_stops;        /* strings of UTF-8, none empty, of which the first that appears ends the text */
  const char *const *stops; /* (num_stops) */
} heddle_text_stream_options;

/* Text of tokens as they come, in whole characters. `options` may be null. */
HEDDLE_API heddle_status heddle_text_stream_create(const heddle_package *package,
                                                   const heddle_text_stream_options *options,
                                                   heddle_text_stream **out_stream);
HEDDLE_API void heddle_text_stream_destroy(heddle_text_stream *stream); /* null is allowed */
/* The text that `id` completes and that belongs to no stop string; valid until the stream's next call. `out_stopped` gets nonzero
 * once a stop string was found; then nothing follows. After HEDDLE_OUT_OF_MEMORY the stream is as before.
 * Errors: HEDDLE_INVALID_INPUT for an id that is none of the model's, and once the stream is finished. */
HEDDLE_API heddle_status heddle_text_stream_append(heddle_text_stream *stream, int32_t id, const char **out_text,
                                                   size_t *out_size, int *out_stopped);
/* What was held back, at the end: the stream's last call. */
HEDDLE_API heddle_status heddle_text_stream_finish(heddle_text_stream *stream, const char **out_text, size_t *out_size);

/* --- Sampling -------------------------------------------------------------------------------------------------------------- */

typedef struct heddle_sampler_options {
  size_t size;              /* sizeof(heddle_sampler_options) */
  float temperature;        /* 0 … 1000; 0: greedy */
  int32_t top_k;            /* from 0; 0: off */
  float top_p;              /* 0 … 1; 1: off; 0 is taken as 1 */
  float min_p;              /* 0 … 1; 0: off */
  float repetition_penalty; /* 0.001 … 1000; 1: off; 0 is taken as 1 */
  int32_t reserved;         /* 0 */
  uint64_t seed;
} heddle_sampler_options;

/* What the model's generation config asks for. `out_options->size` is set by the caller; `seed` gets 0. */
HEDDLE_API heddle_status heddle_package_sampler_defaults(const heddle_package *package,
                                                         heddle_sampler_options *out_options);

/* `options` may be null: greedy. Errors: HEDDLE_INVALID_INPUT for values out of their ranges or NaN; HEDDLE_OUT_OF_MEMORY. */
HEDDLE_API heddle_status heddle_sampler_create(const heddle_package *package, const heddle_sampler_options *options,
                                               heddle_sampler **out_sampler);
HEDDLE_API void heddle_sampler_destroy(heddle_sampler *sampler); /* null is allowed */
/* Tokens of the context, which the repetition penalty is about. */
HEDDLE_API heddle_status heddle_sampler_accept(heddle_sampler *sampler, const int32_t *ids, size_t count);
/* Picks one of (vocab_size) logits and accepts it. `mask` is null or has (vocab_size + 31) / 32 words: token i may be picked where bit
 * i % 32 of word i / 32 is set. Errors: HEDDLE_INVALID_INPUT for a mask that allows none; HEDDLE_NOT_FINITE for a
 * logit that is NaN or infinite, and where all that may be picked are -infinity, which rules a token out. Allocates nothing. */
HEDDLE_API heddle_status heddle_sampler_sample(heddle_sampler *sampler, const float *logits, const uint32_t *mask,
                                               int32_t *out_id);

/* --- Sessions -------------------------------------------------------------------------------------------------------------- */

typedef struct heddle_session_options {
  size_t size;           /* sizeof(heddle_session_options) */
  int32_t threads;       /* 0: physical cores within the affinity mask and the cgroup's quota; with `pool` it is 0 */
  int32_t max_sequences; /* sequences that live at the same time; 0: 1 */
  int64_t context;       /* tokens of the longest sequence; 0: the model's */
  int64_t
      cache_tokens; /* tokens of all sequences together that the cache holds, in pages of 64; 0: max_sequences × context */
  int32_t keep_hidden; /* nonzero: there are final hidden states beside logits */
  int32_t
      deterministic; /* nonzero: no bit depends on how a sequence is cut into steps: runtime/README.md says where one would */
  const char *
      device; /* of a model for a device: its number, or part of its name; null: the first GPU, else the first device */
  heddle_thread_pool *pool; /* null: threads of its own */
  int32_t adapter;          /* of sequences whose feeds name none: the number of an adapter, from 1; 0: none */
  int32_t reserved;         /* 0 */
} heddle_session_options;

/* `options` may be null. Of the later calls, heddle_session_step, _forward, _prefill and _decode allocate nothing. The first session of
 * a package opens its device and uploads the weights; later ones share both, whatever their options say.
 * Errors: HEDDLE_FAILURE for a machine without the device; HEDDLE_OUT_OF_MEMORY; HEDDLE_INVALID_INPUT for a device that is not there
 * and for a model that does not generate. */
HEDDLE_API heddle_status heddle_session_create(heddle_package *package, const heddle_session_options *options,
                                               heddle_session **out_session);
HEDDLE_API void heddle_session_destroy(heddle_session *session); /* null is allowed */

typedef enum heddle_rows {
  HEDDLE_ROWS_LAST = 0, /* of the feed's last token */
  HEDDLE_ROWS_NONE = 1, /* the tokens only go into the cache */
  HEDDLE_ROWS_ALL = 2   /* of every token; heddle_session_forward only */
} heddle_rows;

/* Some tokens of one sequence of a ragged batch. */
typedef struct heddle_feed {
  size_t size;              /* sizeof(heddle_feed), the same of all feeds of a call */
  int32_t sequence;         /* 0 … max_sequences - 1, each at most once in a step */
  int32_t count;            /* tokens, at least 1 */
  const int32_t *ids;       /* (count), each in [0, vocab_size), or one that heddle_session_give gave */
  const int32_t *positions; /* (count) position ids, or null: they continue the sequence */
  int32_t rows;             /* heddle_rows: which logits are computed */
  int32_t adapter; /* number of an adapter of the model, from 1; -1: none; 0: that of the sequence's tokens so far, of a
                      sequence without tokens the session's. All tokens of a sequence have one adapter, or none */
} heddle_feed;

/* Of an encoder-decoder: the tokens of each feed become the source of its sequence, which loses its own tokens; the decoder attends to it. Ids are the
 * encoder's; `rows` is not read. Until it has a source, a sequence takes no tokens. Forks share it; heddle_session_generate and
 * heddle_session_search_beams encode the prompt that they are given.
 * Errors: HEDDLE_INVALID_INPUT for ids out of range, for sources longer than the encoder takes, and for a model that is no
 * encoder-decoder, or whose source is sound; HEDDLE_NOT_FINITE; HEDDLE_OUT_OF_MEMORY. After each of them the sequences that it was about may have no source. */
HEDDLE_API heddle_status heddle_session_encode(heddle_session *session, const heddle_feed *feeds, size_t num_feeds);

/* Of a model that reads more than ids: `rows` (count, hidden_size), as its function gives them for an image, are kept as long as the session.
 * *out_first is the id of the first one, which is vocab_size or more, and those behind it follow; feeds may name them like any other. Where the function
 * gives n times hidden_size numbers for a token (Qwen3-VL), a token has n rows, and feeds name the first of each.
 * Errors: HEDDLE_INVALID_INPUT for a model that reads ids alone, or for rows that are no whole tokens; HEDDLE_OUT_OF_MEMORY. */
HEDDLE_API heddle_status heddle_session_give(heddle_session *session, const float *rows, int64_t count,
                                             int32_t *out_first);

/* Appends tokens to sequences and computes the logits that the feeds ask for. Long feeds run in chunks.
 * Errors: HEDDLE_INVALID_INPUT for ids out of range; HEDDLE_CONTEXT_FULL; HEDDLE_NOT_FINITE for logits that are NaN or infinite;
 * HEDDLE_OUT_OF_MEMORY for the cache or kernels of a device; HEDDLE_CANCELLED. After each of them every sequence is as it was before the call, and goes on. */
HEDDLE_API heddle_status heddle_session_step(heddle_session *session, const heddle_feed *feeds, size_t num_feeds);

/* Token `token` of feed `feed` with its (vocab_size) logits and, with keep_hidden, (hidden_size) of its hidden state after the final
 * norm, else null; valid during the call. */
typedef void (*heddle_row_callback)(void *user, size_t feed, int32_t token, const float *logits,
                                    const float *hidden_state);

/* heddle_session_step whose rows are given to `callback` as they are computed, in order within a feed, and are not kept. */
HEDDLE_API heddle_status heddle_session_forward(heddle_session *session, const heddle_feed *feeds, size_t num_feeds,
                                                heddle_row_callback callback, void *user);

/* heddle_session_step for one sequence. */
HEDDLE_API heddle_status heddle_session_prefill(heddle_session *session, int32_t sequence, const int32_t *ids,
                                                size_t count);
HEDDLE_API heddle_status heddle_session_decode(heddle_session *session, int32_t sequence, int32_t id);

/* (vocab_size) logits of the last token of `feed`, an index into the last step's feeds; valid until the next step. Null for a feed
 * that the last step had not or wanted none of, and once a call that was to compute has failed, for whatever reason. Behind a greedy
 * heddle_session_generate a device is asked for them, and they are null where it fails. */
HEDDLE_API const float *heddle_session_logits(const heddle_session *session, size_t feed);
/* (hidden_size) of the same token after the final norm; null where the logits are, and without keep_hidden. */
HEDDLE_API const float *heddle_session_hidden_state(const heddle_session *session, size_t feed);

HEDDLE_API int64_t heddle_session_length(const heddle_session *session, int32_t sequence); /* tokens of it */
/* The ids of a sequence; for rows of heddle_session_give the token that stands for them in prompts. */
HEDDLE_API heddle_status heddle_session_history(const heddle_session *session, int32_t sequence, int32_t *ids,
                                                size_t capacity, size_t *out_count);
/* Forgets what follows the first `length` tokens; a longer one changes nothing. */
HEDDLE_API heddle_status heddle_session_truncate(heddle_session *session, int32_t sequence, int64_t length);
HEDDLE_API heddle_status heddle_session_reset(heddle_session *session, int32_t sequence); /* truncates to 0 */
/* Makes `target` a copy of `source`; cached pages are shared until one of them writes. */
HEDDLE_API heddle_status heddle_session_fork(heddle_session *session, int32_t source, int32_t target);

/* The call that runs, or else the next one that computes, ends with HEDDLE_CANCELLED before its next chunk of a prompt or its next
 * token, if it does not fail before. Any thread may call it, and a signal handler. */
HEDDLE_API void heddle_session_cancel(heddle_session *session);

/* Called after each chunk with the tokens of the call that are done; nonzero ends the call with HEDDLE_CANCELLED. Null: none. */
typedef int (*heddle_progress_callback)(void *user, int64_t done, int64_t total);
HEDDLE_API heddle_status heddle_session_set_progress(heddle_session *session, heddle_progress_callback callback,
                                                     void *user);

/* Called before each token is picked with the `count` ids of the sequence: sets the bits of `mask`, all set at first, as
 * heddle_sampler_sample reads them. */
typedef void (*heddle_mask_callback)(void *user, const int32_t *ids, size_t count, uint32_t *mask);

typedef struct heddle_generate_options {
  size_t size;              /* sizeof(heddle_generate_options) */
  int64_t max_tokens;       /* new tokens, from 0; 0: up to the context */
  int32_t ignore_eos;       /* nonzero: end tokens do not end */
  int32_t num_stops;        /* strings of UTF-8, none empty, of which the first that appears ends the answer */
  const char *const *stops; /* (num_stops) */
  const heddle_sampler_options *sampler; /* null: greedy */
  heddle_mask_callback mask;             /* null: every token may be picked */
  void *mask_user;
} heddle_generate_options;

typedef enum heddle_end_reason {
  HEDDLE_END_TOKEN = 0, /* an end token, which is the last one */
  HEDDLE_END_MAX_TOKENS = 1,
  HEDDLE_END_CONTEXT = 2, /* no room for another token */
  HEDDLE_END_STOP_STRING = 3,
  HEDDLE_END_CALLBACK = 4 /* the callback said so */
} heddle_end_reason;

typedef struct heddle_generate_result {
  size_t size;        /* sizeof(heddle_generate_result), set by the caller */
  int64_t num_tokens; /* new ones; the last one is not in the sequence yet */
  int32_t reason;     /* heddle_end_reason */
  int32_t reserved;
} heddle_generate_result;

/* Called with each new token and the whole characters that it completes, without those of a stop string (`size` may be 0); once more
 * with id -1 for text that was held back at the end. Nonzero ends the generation. */
typedef int (*heddle_token_callback)(void *user, int32_t id, const char *text, size_t size);

/* Appends `count` ids (at least 1) to `sequence`, then generates. `options`, `callback` and `out_result` may be null.
 * Errors: HEDDLE_INVALID_INPUT for options out of their ranges or NaN and a mask that allows no token, and those of
 * heddle_session_step: where a token's step fails or is cancelled, the ones before it stay in the sequence. */
HEDDLE_API heddle_status heddle_session_generate(heddle_session *session, int32_t sequence, const int32_t *ids,
                                                 size_t count, const heddle_generate_options *options,
                                                 heddle_token_callback callback, void *user,
                                                 heddle_generate_result *out_result);

typedef struct heddle_beam_options {
  size_t size;              /* sizeof(heddle_beam_options) */
  int32_t beams;            /* from 1; at most max_sequences */
  int32_t returned;         /* answers, at most `beams`; 0: 1 */
  int64_t max_tokens;       /* new tokens, from 1 */
  float length_penalty;     /* above 0 favours longer answers */
  float repetition_penalty; /* 0.001 … 1000; 1: off; 0 is taken as 1 */
  int32_t early_stopping;   /* nonzero: ends once `beams` answers have ended */
  int32_t ignore_eos;       /* nonzero: end tokens do not end */
} heddle_beam_options;

/* An answer, the best first: its new tokens and its score, the sum of log probabilities / length^length_penalty. */
typedef void (*heddle_beam_callback)(void *user, const int32_t *ids, size_t count, double score);

/* Beam search as Hugging Face transformers does it, in sequences [0, beams), which are reset before and after. Errors: as of
 * heddle_session_generate. */
HEDDLE_API heddle_status heddle_session_search_beams(heddle_session *session, const int32_t *ids, size_t count,
                                                     const heddle_beam_options *options, heddle_beam_callback callback,
                                                     void *user);

/* --- Functions over named tensors ------------------------------------------------------------------------------------------ */

typedef enum heddle_data_type {
  HEDDLE_F32 = 0,
  HEDDLE_F16 = 1,
  HEDDLE_BF16 = 2,
  HEDDLE_F64 = 3,
  HEDDLE_I8 = 4,
  HEDDLE_I16 = 5,
  HEDDLE_I32 = 6,
  HEDDLE_I64 = 7,
  HEDDLE_U8 = 8,
  HEDDLE_U16 = 9,
  HEDDLE_U32 = 10,
  HEDDLE_U64 = 11,
  HEDDLE_BOOL = 12
} heddle_data_type;

typedef struct heddle_tensor {
  size_t size; /* sizeof(heddle_tensor), the same of all tensors of a call */
  const char *name;
  int32_t type; /* heddle_data_type */
  int32_t rank;
  const int64_t *shape; /* (rank), outermost first */
  const void *data;     /* row-major */
} heddle_tensor;

/* What a function declares of a tensor. Strings and arrays live as long as the function. */
typedef struct heddle_tensor_info {
  size_t size; /* sizeof(heddle_tensor_info), set by the caller */
  const char *name;
  int32_t type; /* heddle_data_type */
  int32_t rank;
  const int64_t *shape;          /* (rank); -1 where the call decides */
  const char *const *dimensions; /* (rank): names, "" for none; dimensions of one name are equal in a call */
} heddle_tensor_info;

HEDDLE_API size_t heddle_package_num_functions(const heddle_package *package);
HEDDLE_API const char *heddle_package_function_name(const heddle_package *package,
                                                    size_t index); /* null: there is none */

typedef struct heddle_function_options {
  size_t size;              /* sizeof(heddle_function_options) */
  const char *name;         /* which one; null: the first */
  int32_t threads;          /* as in heddle_session_options */
  int32_t reserved;         /* 0 */
  heddle_thread_pool *pool; /* null: threads of its own */
} heddle_function_options;

/* `options` may be null. Errors: HEDDLE_INVALID_INPUT for a name that is none of the model's, and for a decoder. */
HEDDLE_API heddle_status heddle_function_create(heddle_package *package, const heddle_function_options *options,
                                                heddle_function **out_function);
HEDDLE_API void heddle_function_destroy(heddle_function *function); /* null is allowed */
HEDDLE_API size_t heddle_function_num_inputs(const heddle_function *function);
HEDDLE_API size_t heddle_function_num_outputs(const heddle_function *function);
/* `out_info->size` is set by the caller. Errors: HEDDLE_INVALID_INPUT for an index that there is not. */
HEDDLE_API heddle_status heddle_function_input(const heddle_function *function, size_t index,
                                               heddle_tensor_info *out_info);
HEDDLE_API heddle_status heddle_function_output(const heddle_function *function, size_t index,
                                                heddle_tensor_info *out_info);

/* Runs the function. Inputs stand in any order; of an encoder's all but input_ids may be missing.
 * Errors: HEDDLE_INVALID_INPUT for names, types and shapes other than the declared ones; HEDDLE_NOT_FINITE of an encoder;
 * HEDDLE_OUT_OF_MEMORY. */
HEDDLE_API heddle_status heddle_function_call(heddle_function *function, const heddle_tensor *inputs,
                                              size_t num_inputs);
/* Output `index` of the last call; valid until the next. Null before the first and where the last one failed. */
HEDDLE_API const heddle_tensor *heddle_function_result(const heddle_function *function, size_t index);

/* The main function of a compiled model: command line in, exit code out. */
HEDDLE_API int heddle_runtime_main(const heddle_model *model, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
