// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The 64 bytes before a package's FlatBuffers metadata, and the 128 before the weights of a sidecar file.
#ifndef HEDDLE_RUNTIME_MODEL_PACKAGEHEADER_H
#define HEDDLE_RUNTIME_MODEL_PACKAGEHEADER_H

#include <stdint.h>

#define HEDDLE_PACKAGE_SECTION ".heddle.package"
#define HEDDLE_WEIGHTS_SECTION ".heddle.weights"
#define HEDDLE_CODE_SECTION ".heddle.code" // 32 bytes: ElfSections::hashCode() of a file that the compiler linked
#define HEDDLE_PACKAGE_MAGIC "HEDDLEPK"    // 8 bytes, no NUL

// The version of packages and of weights files. Readers take every minor version of their major one, and no other major: minor counts what
// they may pass over (a field at the end of a table of the schema), major what they would misread. runtime/README.md has the rule.
#define HEDDLE_PACKAGE_MAJOR 2u
#define HEDDLE_PACKAGE_MINOR 7u

// The longest context that a program has: positions are 32 bits wide, and its page tables keep within memory.
#define HEDDLE_MAX_CONTEXT (1u << 26)

// The most tokens that the bad words of a model have together: each step of an answer looks at all of them.
#define HEDDLE_MAX_BAD_WORD_TOKENS (1u << 20)

typedef struct heddle_package_header {
  char magic[8];
  uint32_t major; // another one is refused
  uint32_t minor;
  uint64_t metadata_size; // bytes of FlatBuffers after this header
  uint64_t weights_size;  // bytes of .heddle.weights; 0 there means a sidecar file
  uint8_t sha256[32];     // of the metadata
} heddle_package_header;

// The 128 bytes before the weights in a sidecar file, `<file of the code>.weights`, little-endian.
#define HEDDLE_SIDECAR_SUFFIX ".weights"
#define HEDDLE_SIDECAR_MAGIC "HEDDLEWT" // 8 bytes, no NUL

typedef struct heddle_sidecar_header {
  char magic[8];
  uint32_t major; // of the package format
  uint32_t minor;
  uint64_t weights_offset;    // in the file, a multiple of 64
  uint64_t weights_size;      // bytes from there to the end of the file
  uint8_t weights_sha256[32]; // WeightsHash of the weights: a package of the same ones may read the file
  uint8_t recipe_sha256[32];  // of all that they were packed from: the compiler keeps a file that it would write again
  uint8_t reserved[32];       // zero
} heddle_sidecar_header;

#endif
