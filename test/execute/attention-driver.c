// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs one attention step under an emulator. Standard input holds eight int64 (query floats, output floats,
// sequences, pages of all sequences, page bytes, key offset, value offset, floats of an output row), then per sequence
// four int64 (first row, rows, past, pages), the queries and the pages; standard output gets the output floats.
#include "runtime/model/ModelAbi.h"

#include <stdio.h>
#include <stdlib.h>

void attention(const float *q, float *out, const heddle_sequence *sequences, int64_t num_sequences, int64_t k_offset,
               int64_t v_offset, int64_t q_stride, int64_t out_stride, const float *sinks, int32_t thread,
               int32_t num_threads);

static void *read_array(size_t bytes) {
  void *data = calloc(1, bytes + 1);
  if (!data || fread(data, 1, bytes, stdin) != bytes)
    exit(2);
  return data;
}

int main(void) {
  int64_t *header = read_array(8 * sizeof(int64_t));
  int64_t *parts = read_array(header[2] * 4 * sizeof(int64_t));
  float *q = read_array(header[0] * sizeof(float));
  uint8_t *pages = read_array(header[3] * header[4]);
  uint8_t **tables = calloc(header[3], sizeof *tables);
  heddle_sequence *sequences = calloc(header[2], sizeof *sequences);
  float *out = calloc(header[1], sizeof *out);
  if (!tables || !sequences || !out)
    return 2;
  for (int64_t page = 0; page < header[3]; ++page)
    tables[page] = pages + page * header[4];
  for (int64_t i = 0, page = 0; i < header[2]; page += parts[4 * i + 3], ++i) {
    heddle_sequence sequence = {parts[4 * i], parts[4 * i + 1], parts[4 * i + 2], 0, tables + page};
    sequences[i] = sequence;
  }
  int64_t rows = header[1] / header[7];
  for (int32_t thread = 0; thread < 2; ++thread)
    attention(q, out, sequences, header[2], header[5], header[6], header[0] / rows, header[7], NULL, thread, 2);
  return fwrite(out, sizeof *out, header[1], stdout) == (size_t)header[1] ? 0 : 2;
}
