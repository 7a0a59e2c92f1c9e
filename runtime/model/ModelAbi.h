// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What generated code and the runtime agree on. The compiler takes every offset from this header with offsetof, so the
// two cannot drift apart; a change of layout raises HEDDLE_MODEL_ABI_VERSION.
//
// A model that generates has a step, one that encodes an encode, an encoder-decoder both. Graphs are its entries over named tensors of any
// shape; a model may have them besides.
//
// A *step* runs the model once over `rows` tokens that belong to `num_sequences` sequences (a ragged batch): the rows of
// a sequence are adjacent and in order. Every worker thread calls the step function with the same heddle_step. An *encode* is
// a step over whole sequences, without a cache; what it does not name below is null or 0. That of an encoder-decoder appends keys and
// values of its sequences to the cache of sources, which the step reads.
#ifndef HEDDLE_RUNTIME_MODEL_MODELABI_H
#define HEDDLE_RUNTIME_MODEL_MODELABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_MODEL_ABI_VERSION 13u

// Tokens in a page of the KV cache.
#define HEDDLE_KV_PAGE_SIZE 64

// Counters by which the blocks of a kernel on a device find out which of them is the last.
#define HEDDLE_DEVICE_COUNTERS 4096

// One sequence of a step. Its tokens are cached at positions [0, past + num_rows) when the step ends.
typedef struct heddle_sequence {
  int32_t first_row;     // its first row in the step
  int32_t num_rows;      // its tokens in this step
  int32_t past;          // its tokens in the cache before this step
  int32_t sees_ahead;    // not 0: under a mask that says so of given rows, its rows see each other in both directions
  uint8_t *const *pages; // (ceil(context / 64)): page p holds tokens [64 p, 64 p + 64) of every layer. Inside a page, a
                         // layer's K lies at a fixed offset as (num_kv_heads, 64, head_dim), its V after it likewise;
                         // of latent attention (64, kv_lora_rank + qk_rope_head_dim).
} heddle_sequence;

// A kernel to run on a device. Arguments are values, or addresses of the device's memory.
typedef struct heddle_launch {
  const char *code;               // OpenCL C or PTX, NUL-terminated; loaded at first use, then known by its address
  const char *entry;              // name of the kernel in it, NUL-terminated
  uint32_t blocks[3], threads[3]; // of the grid; of a block
  uint32_t shared_bytes;          // of a block; OpenCL kernels take them as one parameter more, their last
  uint32_t num_arguments;
  void *const *arguments;       // (num_arguments): where each value lies
  const size_t *argument_sizes; // (num_arguments): bytes of each; 0: an address
} heddle_launch;

// What thread 0 counts of one kernel under --profile. Generated code adds to it; ticks are of the time stamp that user code may read.
typedef struct heddle_kernel_profile {
  uint64_t ticks;      // in the kernel; on a device until it has run
  uint64_t wait_ticks; // then, until the other threads have come
  uint64_t launches;
  uint64_t rows; // of all launches: rows of what the kernel writes
} heddle_kernel_profile;

// What a step enqueues kernels on. They run in that order. The session waits for them and reports the first that failed.
typedef struct heddle_device heddle_device;
struct heddle_device {
  void (*launch)(heddle_device *device, const heddle_launch *launch);
};

// Everything a step reads and writes. Pointers are 64-byte aligned where they name an array of numbers. On a device, such
// pointers are its addresses, and the step function runs on one thread of the host; `sequences`, `rope_tables` and
// `kernel_profile` are of the host in any case.
typedef struct heddle_step {
  const uint8_t *weights; // base of the packed weights
  uint8_t *arena;         // activations: plan-memory's offsets count from here
  uint8_t *scratch;       // (num_threads, scratch_stride): what kernels on a thread may overwrite; 64-byte aligned
  int64_t scratch_stride; // a multiple of 64, at least the package's per_thread
  const float *const *rope_tables;  // [table]: (context, rotary_dim): cos of rotary_dim / 2 angles, then their sin
  const int32_t *ids;               // (rows): token ids
  const int32_t *positions;         // (rows): position ids, for position embeddings and rope tables
  const int32_t *row_sequence;      // (rows): index into sequences
  const int32_t *cache_positions;   // (rows): past + index of the row in its sequence
  const heddle_sequence *sequences; // (num_sequences); of an encode their rows alone
  // (num_sequences), of an encoder-decoder: the sequences as they lie in the cache of sources, which has pages of its own. Of a step, first_row
  // and num_rows are those of `sequences`, and past + num_rows is the length of what they attend to; an encode appends from 0 on.
  const heddle_sequence *sources;
  // (rows): of an encode token_type_ids; of a step of a model with adapters the number of each row's, from 1, 0: none
  const int32_t *token_types;
  const int32_t *globals; // (rows), of an encode with global tokens: global_attention_mask
  // (rows, patch width), of an encode of images: zeros where a row is no patch; of a step that is given embeddings (any number, hidden_size):
  // the rows that ids from vocab_size on name
  const float *patches;
  const int32_t *output_rows; // (num_outputs): rows whose logits are wanted; of an encode the first of each sequence
  float *logits;              // (num_outputs, vocab_size)
  float *last_hidden_state;   // (rows, hidden_size) after the final norm
  float *const *outputs; // of an encode, in the order of the metadata: (rows, width) or (num_sequences, width) each
  int64_t rows;          // 1 … max_rows
  int64_t num_sequences;
  int64_t num_outputs;                                 // 0 … rows
  int64_t max_rows;                                    // rows that the arena was planned for
  void (*barrier_wait)(void *barrier, int32_t thread); // returns once every thread of the step has called it
  void *barrier;
  heddle_kernel_profile *kernel_profile; // (num_kernels) under --profile, or null
  int64_t fixed_forms;    // not 0: what has bodies for few and for many tokens takes one of them for all, whose
                          // bits do not depend on how a sequence is cut into steps
  int64_t waits_for_each; // not 0: all threads wait behind every kernel, and one row is computed as many are
  // Of a device only; null and 0 on the CPU.
  heddle_device *device;
  uint8_t *cache; // page p of the KV cache begins p * page_stride bytes behind it
  const int32_t
      *page_table; // (num_sequences, pages_per_sequence): the cache's page that holds tokens [64 p, 64 p + 64)
  int64_t page_stride;
  int64_t num_pages;            // that the cache has
  int64_t pages_per_sequence;   // pages of the longest sequence of the step
  const int32_t *sequence_rows; // (num_sequences, 2): first row, number of rows; of an encode on the CPU as well
  const int32_t *sees_ahead;    // (num_sequences): of a step of a model that is given rows, what each sequence says
  // The same of the cache of sources, which an encode appends to.
  uint8_t *source_cache;
  const int32_t *source_page_table; // (num_sequences, pages_per_source)
  int64_t source_page_stride, num_source_pages, pages_per_source;
  const int32_t *source_lengths; // (num_sequences): tokens of what each sequence attends to
  uint32_t *counters;            // (HEDDLE_DEVICE_COUNTERS), of the session: each is 0 whenever no kernel runs
} heddle_step;

// Runs thread `thread` of `num_threads`. Results do not depend on num_threads, to the bit.
typedef void (*heddle_step_function)(const heddle_step *step, int32_t thread, int32_t num_threads);

// A tensor of a graph's call: row-major without gaps.
typedef struct heddle_graph_tensor {
  void *data;    // aligned to its elements; booleans are bytes, 0 or 1
  int64_t *dims; // (rank)
} heddle_graph_tensor;

// Part `part` of the `num_parts` of what `argument` describes. Results do not depend on num_parts, to the bit. A task calls nothing back.
typedef void (*heddle_graph_task)(const void *argument, int64_t part, int64_t num_parts);

// Parts that a task has for each thread, where there are several.
#define HEDDLE_PARTS_PER_THREAD 4

// One run of a graph. Order and types of tensors are those of the package's metadata.
typedef struct heddle_graph_call {
  const uint8_t *weights;            // base of the weights, 64-byte aligned
  const heddle_graph_tensor *inputs; // (num_inputs): read only
  heddle_graph_tensor *outputs;      // (num_outputs): the callee sets data, which comes from allocate, and fills dims
  void *(*allocate)(struct heddle_graph_call *call, int64_t size);   // 64-byte aligned; does not return without memory
  void (*release)(struct heddle_graph_call *call, void *memory);     // what the callee no longer needs
  void (*fail)(struct heddle_graph_call *call, const char *message); // does not return: the input is at fault
  // Runs task(argument, part, num_parts) for every part, on all threads, and returns when all have ended.
  void (*parallel)(struct heddle_graph_call *call, heddle_graph_task task, const void *argument);
  // Null but under --profile: called before (ended 0) and after (1) each task of kernel `kernel` of the package's table, or of a loop that is
  // no kernel's (-1). work: its multiply-adds; 0: not counted.
  void (*observe)(struct heddle_graph_call *call, int64_t kernel, double work, int64_t ended);
} heddle_graph_call;

typedef void (*heddle_graph_function)(heddle_graph_call *call);

// What the object `heddle compile` emits defines: const heddle_model *heddle_model_<name>(void).
// Everything else about the model (config, tokenizer, weights table, memory plan) is in the FlatBuffers package.
typedef struct heddle_model {
  uint32_t abi_version; // HEDDLE_MODEL_ABI_VERSION
  uint32_t num_graphs;
  const char *name;                    // NUL-terminated
  uint8_t package_sha256[32];          // of the package's metadata that this code was compiled with
  heddle_step_function step;           // null in a model that does not generate
  heddle_step_function encode;         // null in a model that does not encode
  const heddle_graph_function *graphs; // (num_graphs), in the order of the metadata
  // (variants of the metadata): the code for further CPUs, this one being for the least of them. It is read only where the metadata has
  // variants: older code ends before it.
  const struct heddle_model *const *variants;
} heddle_model;

#ifdef __cplusplus
}
#endif
#endif
