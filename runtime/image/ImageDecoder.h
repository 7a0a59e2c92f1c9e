// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// stb_image behind two functions, in C.
#ifndef HEDDLE_RUNTIME_IMAGE_IMAGEDECODER_H
#define HEDDLE_RUNTIME_IMAGE_IMAGEDECODER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Pixels of the largest image, and bytes of the largest buffer that decoding takes.
#define HEDDLE_MOST_PIXELS ((int64_t)1 << 27)
#define HEDDLE_MOST_DECODER_BYTES ((size_t)1 << 30)

typedef struct heddle_pixels {
  int64_t width, height;
  uint8_t *rgb; // (height, width, 3), freed by heddle_free_pixels()
} heddle_pixels;

// Decodes a PNG or JPEG file of `size` bytes. As Pillow's convert("RGB"): alpha is dropped; of numbers of 16 bits the upper eight bits count, but of
// gray without alpha those up to 255, and white beyond. Returns null, or in a few words what is wrong with the file.
const char *heddle_decode_image(const uint8_t *bytes, size_t size, heddle_pixels *out_pixels);
void heddle_free_pixels(heddle_pixels *pixels);

#ifdef __cplusplus
}
#endif

#endif
