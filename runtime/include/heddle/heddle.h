/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Runs models that `heddle compile` made. A model is a function `const heddle_model *heddle_model_<name>(void)` that the compiled
 * object defines; it is opened as a heddle_package (metadata and weights, mapped read-only), and each heddle_session over it holds a
 * KV cache, activations and worker threads.
 *
 * Every call that can fail returns a heddle_status; heddle_error_message gives the line that belongs to the failure. Results come
 * through out_ parameters, last in the list, and are written only on success. Nothing is global: objects are independent, and
 * one object is used by one thread at a time (a package may be shared). All text is UTF-8. A null pointer where none is allowed
 * is HEDDLE_INVALID_INPUT; of nothing (no bytes of text, no ids, no capacity) it is allowed. Functions without a status then
 * return null or 0.
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

typedef enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_FAILURE = 1,       /* ours or the machine's: damaged file, missing instructions, logits that are not finite */
  HEDDLE_INVALID_INPUT = 2, /* the caller's: ids out of range, prompt longer than the context, unknown option */
  HEDDLE_OUT_OF_MEMORY = 3
} heddle_status;

typedef struct heddle_model heddle_model;     /* what generated code describes itself with */
typedef struct heddle_package heddle_package; /* an opened model */
typedef struct heddle_session heddle_session; /* its state over running sequences */

/* The message of this thread's last failed call: one line without newline, at most 1,023 bytes of whole characters, valid until the
 * thread's next call. Never null. */
HEDDLE_API const char *heddle_error_message(void);

/* "0.1.0" */
HEDDLE_API const char *heddle_version_string(void);

/* Opens the model that generated code describes. Its metadata and weights are read from the file that holds the code (or from the
 * file with ".weights" after its name), its hashes and the machine's instruction sets are checked.
 * Errors: HEDDLE_FAILURE for a damaged or newer file, and for a machine that lacks instructions; HEDDLE_OUT_OF_MEMORY. */
HEDDLE_API heddle_status heddle_package_open(const heddle_model *model, heddle_package **out_package);

/* Opens a shared object that `heddle compile --emit=package` or `--emit=lib` wrote. */
HEDDLE_API heddle_status heddle_package_open_file(const char *path, heddle_package **out_package);

/* Reads all weights and the file's code and compares their hashes. What another linker made of a model's object has no hash of its
 * code. Errors: HEDDLE_FAILURE for what is damaged. */
HEDDLE_API heddle_status heddle_package_check(const heddle_package *package);
HEDDLE_API void heddle_package_close(heddle_package *package); /* after its sessions; null is allowed */

HEDDLE_API const char *heddle_package_name(const heddle_package *package);
HEDDLE_API int64_t heddle_package_vocab_size(const heddle_package *package);
HEDDLE_API int64_t heddle_package_hidden_size(const heddle_package *package);
HEDDLE_API int64_t heddle_package_context(const heddle_package *package); /* longest sequence in tokens */

/* Ids of `size` bytes of text, as a prompt: special tokens are parsed and BOS is added if the model says so, unless
 * `plain` is nonzero. Writes at most `capacity` ids and always the number there are.
 * Errors: HEDDLE_INVALID_INPUT for invalid UTF-8 and for a model without a tokenizer; HEDDLE_OUT_OF_MEMORY, also of heddle_package_decode. */
HEDDLE_API heddle_status heddle_package_encode(const heddle_package *package, const char *text, size_t size, int plain,
                                               int32_t *ids, size_t capacity, size_t *out_count);

/* Text of `count` ids, without a NUL. Writes at most `capacity` bytes and always the number there are. */
HEDDLE_API heddle_status heddle_package_decode(const heddle_package *package, const int32_t *ids, size_t count,
                                               char *text, size_t capacity, size_t *out_size);

typedef struct heddle_session_options {
  size_t size;           /* sizeof(heddle_session_options) */
  int32_t threads;       /* 0: physical cores within the affinity mask and the cgroup's quota */
  int32_t max_sequences; /* sequences that live at the same time; 0: 1 */
  int64_t context;       /* tokens of the longest sequence; 0: the model's */
  int32_t keep_hidden;   /* nonzero: heddle_session_hidden_state has the final hidden states */
  int32_t
      deterministic; /* nonzero: no bit depends on how a sequence is cut into steps; matters to latent attention only */
  const char *
      device; /* of a model for a device: its number, or part of its name; null: the first GPU, else the first device */
} heddle_session_options;

/* `options` may be null. Of the later calls, heddle_session_step, _prefill and _decode allocate and lock nothing;
 * heddle_session_generate allocates before its first token. The first session of a package opens its device and uploads the
 * weights; later ones share both, whatever their options say.
 * Errors: HEDDLE_FAILURE for a machine without the device; HEDDLE_OUT_OF_MEMORY; HEDDLE_INVALID_INPUT for a device that is not there. */
HEDDLE_API heddle_status heddle_session_create(heddle_package *package, const heddle_session_options *options,
                                               heddle_session **out_session);
HEDDLE_API void heddle_session_destroy(heddle_session *session); /* null is allowed */

/* Some tokens of one sequence of a ragged batch. */
typedef struct heddle_feed {
  int32_t sequence;         /* 0 … max_sequences - 1, each at most once in a step */
  int32_t count;            /* tokens, at least 1 */
  const int32_t *ids;       /* (count), each in [0, vocab_size) */
  const int32_t *positions; /* (count) position ids, or null: they continue the sequence */
} heddle_feed;

/* Appends tokens to sequences and computes the logits of each feed's last token. Long feeds run in chunks.
 * Errors: HEDDLE_INVALID_INPUT for ids out of range and sequences longer than the context; HEDDLE_FAILURE for logits that are NaN or
 * infinite; HEDDLE_OUT_OF_MEMORY for the cache. After each of them every sequence is as it was before the call, and goes on. */
HEDDLE_API heddle_status heddle_session_step(heddle_session *session, const heddle_feed *feeds, size_t num_feeds);

/* heddle_session_step for one sequence. */
HEDDLE_API heddle_status heddle_session_prefill(heddle_session *session, int32_t sequence, const int32_t *ids,
                                                size_t count);
HEDDLE_API heddle_status heddle_session_decode(heddle_session *session, int32_t sequence, int32_t id);

/* (vocab_size) logits of the last token of `feed`, an index into the last step's feeds; valid until the next step. Null for a feed
 * that the last step had not, and where that step failed. */
HEDDLE_API const float *heddle_session_logits(const heddle_session *session, size_t feed);
/* (hidden_size) of the same token after the final norm; null where the logits are, and without keep_hidden. */
HEDDLE_API const float *heddle_session_hidden_state(const heddle_session *session, size_t feed);

HEDDLE_API int64_t heddle_session_length(const heddle_session *session, int32_t sequence); /* tokens in the cache */
HEDDLE_API heddle_status heddle_session_reset(heddle_session *session, int32_t sequence);  /* forgets a sequence */
/* Makes `target` a copy of `source`; cached pages are shared until one of them writes. */
HEDDLE_API heddle_status heddle_session_fork(heddle_session *session, int32_t source, int32_t target);

typedef struct heddle_generate_options {
  size_t size;              /* sizeof(heddle_generate_options) */
  int32_t max_tokens;       /* new tokens, from 0; 0: up to the context */
  int32_t ignore_eos;       /* nonzero: end tokens do not end */
  float temperature;        /* 0 … 1000; 0: greedy */
  int32_t top_k;            /* from 0; 0: off */
  float top_p;              /* 0 … 1; 1: off; 0 is taken as 1 */
  float min_p;              /* 0 … 1; 0: off */
  float repetition_penalty; /* 0.001 … 1000; 1: off; 0 is taken as 1 */
  uint64_t seed;
} heddle_generate_options;

/* Called with each new token and the whole UTF-8 characters that it completes (`size` may be 0); nonzero ends the generation. */
typedef int (*heddle_token_callback)(void *user, int32_t id, const char *text, size_t size);

/* Appends `count` ids (at least 1) to `sequence`, then generates. `options` and `callback` may be null. `out_count` gets the number of
 * new tokens; the last one is not in the sequence yet.
 * Errors: HEDDLE_INVALID_INPUT for options out of their ranges or NaN, and those of heddle_session_step: where a token's step fails,
 * the ones before it stay in the sequence. */
HEDDLE_API heddle_status heddle_session_generate(heddle_session *session, int32_t sequence, const int32_t *ids,
                                                 size_t count, const heddle_generate_options *options,
                                                 heddle_token_callback callback, void *user, size_t *out_count);

/* The main function of a compiled model: command line in, exit code out. */
HEDDLE_API int heddle_runtime_main(const heddle_model *model, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
