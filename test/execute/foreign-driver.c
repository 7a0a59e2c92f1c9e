// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs one product on another processor: reads sizes and operands from standard input, writes `out` to standard output.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

void kernel(const void *act, const float *actScales, const int *actSums, const uint8_t *weights, const float *bias,
            float *out, int64_t rows, int64_t actStride, int64_t outStride, int64_t panelBegin, int64_t panelEnd,
            void *scratch);

// rows, n, panels, and the bytes of the five operands
static int64_t header[8];
static _Alignas(64) uint8_t operands[5][1 << 20];
static _Alignas(64) float out[1 << 18];

int main(void) {
  if (fread(header, sizeof header, 1, stdin) != 1)
    return 3;
  for (int i = 0; i < 5; ++i)
    if (header[3 + i] > (int64_t)sizeof operands[i] ||
        fread(operands[i], 1, header[3 + i], stdin) != (size_t)header[3 + i])
      return 4;
  int64_t rows = header[0], n = header[1], width = header[4] ? 1 : 4;
  kernel(operands[0], (float *)operands[1], (int *)operands[2], operands[3], (float *)operands[4], out, rows,
         header[3] / rows / width, n, 0, header[2], NULL);
  return fwrite(out, 4, rows * n, stdout) == (size_t)(rows * n) ? 0 : 5;
}
