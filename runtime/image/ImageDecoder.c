// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// stb_image behind the runtime's interface: PNG and JPEG from memory. What a file asks for is bounded before its pixels are decoded.
#include "runtime/image/ImageDecoder.h"

#include <stdlib.h>
#include <string.h>

static void *boundedAlloc(size_t size) {
  return size <= HEDDLE_MOST_DECODER_BYTES ? malloc(size) : NULL;
}

static void *boundedRealloc(void *memory, size_t size) {
  return size <= HEDDLE_MOST_DECODER_BYTES ? realloc(memory, size) : NULL;
}

#define STBI_MALLOC(size) boundedAlloc(size)
#define STBI_REALLOC(memory, size) boundedRealloc(memory, size)
#define STBI_FREE(memory) free(memory)
#define STBI_ASSERT(condition) ((void)0)
#define STBI_NO_STDIO
#define STBI_NO_THREAD_LOCALS
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#include <stb/stb_image.h>
#pragma clang diagnostic pop

// A file in memory. Asking for more than it holds is remembered: stb_image goes on with zeros where a JPEG file ends too early.
typedef struct Source {
  const uint8_t *bytes;
  size_t size, at;
  int isShort;
} Source;

static int readBytes(void *user, char *out, int count) {
  Source *source = user;
  size_t left = source->size - source->at, taken = (size_t)count < left ? (size_t)count : left;
  source->isShort |= left == 0 && count > 0;
  memcpy(out, source->bytes + source->at, taken);
  source->at += taken;
  return (int)taken;
}

static void skipBytes(void *user, int count) {
  Source *source = user;
  if (count >= 0 && (size_t)count > source->size - source->at) {
    source->isShort = 1;
    source->at = source->size;
  } else if (count >= 0 || (size_t)-(int64_t)count <= source->at) {
    source->at += (size_t)count;
  }
}

static int isAtEnd(void *user) {
  const Source *source = user;
  return source->at == source->size;
}

static const stbi_io_callbacks callbacks = {readBytes, skipBytes, isAtEnd};

// Gray of 16 bits, of which numbers above 255 are white.
static uint8_t *decodeGray16(Source *source, int *width, int *height) {
  int channels;
  uint16_t *gray = stbi_load_16_from_callbacks(&callbacks, source, width, height, &channels, 1);
  if (!gray)
    return NULL;
  size_t count = (size_t)*width * (size_t)*height;
  uint8_t *rgb = boundedAlloc(count * 3);
  for (size_t i = 0; rgb && i < count; ++i)
    memset(rgb + 3 * i, gray[i] > 255 ? 255 : gray[i], 3);
  free(gray);
  return rgb;
}

// Whether a Huffman table of a JPEG has more than 256 codes: stb_image of Debian 12 writes behind its own tables then. Walks over what the
// decoder reads: bytes that are no marker one by one (those of a scan among them), segments by their length.
static int hasLargeTable(const uint8_t *bytes, size_t size) {
  if (!size || bytes[0] != 0xff)
    return 0;
  for (size_t at = 0; at + 4 <= size;) {
    uint8_t marker = bytes[at + 1];
    if (bytes[at] != 0xff || marker == 0xff) {
      ++at;
      continue;
    }
    if (marker <= 1 || (marker >= 0xd0 && marker <= 0xd9)) { // without a length
      at += 2;
      continue;
    }
    size_t end = at + 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]), table = at + 4;
    // A table may begin before the segment's end and go on behind it.
    while (marker == 0xc4 && table < end && table + 17 <= size) {
      size_t codes = 0;
      for (size_t i = 1; i <= 16; ++i)
        codes += bytes[table + i];
      if (codes > 256)
        return 1;
      table += 17 + codes;
    }
    at = end > table ? end : table;
  }
  return 0;
}

const char *heddle_decode_image(const uint8_t *bytes, size_t size, heddle_pixels *out_pixels) {
  int width = 0, height = 0, channels = 0;
  Source header = {bytes, size, 0, 0}, source = header, depth = header;
  if (hasLargeTable(bytes, size))
    return "a Huffman table has more than 256 codes";
  if (!stbi_info_from_callbacks(&callbacks, &header, &width, &height, &channels))
    return "neither PNG nor JPEG, or damaged at its beginning";
  if (width < 1 || height < 1 || height > HEDDLE_MOST_PIXELS / width)
    return "more than 134217728 pixels";
  uint8_t *rgb = channels == 1 && stbi_is_16_bit_from_callbacks(&callbacks, &depth)
                     ? decodeGray16(&source, &width, &height)
                     : stbi_load_from_callbacks(&callbacks, &source, &width, &height, &channels, 3);
  if (rgb && source.isShort) {
    free(rgb);
    return "it ends too early";
  }
  if (!rgb)
    return source.isShort ? "it ends too early" : stbi_failure_reason();
  out_pixels->width = width;
  out_pixels->height = height;
  out_pixels->rgb = rgb;
  return NULL;
}

void heddle_free_pixels(heddle_pixels *pixels) {
  free(pixels->rgb);
  pixels->rgb = NULL;
}
