// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A PNG file is a signature and chunks: a length, a name, as many bytes, and a checksum of name and bytes (RFC 2083). A JPEG file is segments behind
// markers until its pixels begin. Either holds EXIF as a TIFF file of its own, whose first directory has the orientation.
#include "runtime/image/Orientation.h"

#include <array>
#include <cstring>

namespace heddle {
namespace {

constexpr uint8_t pngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr char exifMark[] = {'E', 'x', 'i', 'f', 0, 0}; // before EXIF in a JPEG segment, and in some PNG chunks
constexpr int upright = 1, lastOrientation = 8;

uint64_t bigEndian(const uint8_t *bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i)
    value = value << 8 | bytes[i];
  return value;
}

// CRC-32 of ISO 3309, whose polynomial is 0xEDB88320 where the lowest bit comes first.
class Crc32 {
public:
  Crc32() {
    for (uint32_t byte = 0; byte < table.size(); ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit)
        value = value & 1 ? 0xEDB88320u ^ value >> 1 : value >> 1;
      table[byte] = value;
    }
  }
  uint32_t of(const uint8_t *bytes, uint64_t size) const {
    uint32_t value = ~0u;
    for (uint64_t i = 0; i < size; ++i)
      value = table[(value ^ bytes[i]) & 255] ^ value >> 8;
    return ~value;
  }

private:
  std::array<uint32_t, 256> table;
};

// The orientation in a TIFF file; upright where it has none, or is none.
int orientationInTiff(const uint8_t *bytes, uint64_t size) {
  if (size >= sizeof exifMark && memcmp(bytes, exifMark, sizeof exifMark) == 0)
    bytes += sizeof exifMark, size -= sizeof exifMark;
  if (size < 8 || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0))
    return upright;
  bool isBig = bytes[0] == 'M';
  auto number = [&](uint64_t at, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i)
      value = value << 8 | bytes[at + uint64_t(isBig ? i : count - 1 - i)];
    return value;
  };
  constexpr uint64_t orientationTag = 0x0112, entryBytes = 12;
  uint64_t directory = number(4, 4);
  if (number(2, 2) != 42 || directory > size - 2)
    return upright;
  uint64_t entries = number(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    uint64_t entry = directory + 2 + i * entryBytes;
    if (size < entryBytes || entry > size - entryBytes)
      return upright;
    if (number(entry, 2) != orientationTag)
      continue;
    uint64_t type = number(entry + 2, 2); // 1, 3 and 4 are integers of 8, 16 and 32 bits
    uint64_t value = type == 1   ? bytes[entry + 8]
                     : type == 3 ? number(entry + 8, 2)
                     : type == 4 ? number(entry + 8, 4)
                                 : 0;
    return value >= 1 && value <= lastOrientation ? int(value) : upright;
  }
  return upright;
}

Status orientationInPng(const std::string &path, const uint8_t *bytes, uint64_t size, int &outOrientation) {
  Crc32 crc;
  for (uint64_t at = sizeof pngSignature; at < size;) {
    uint64_t left = size - at;
    uint64_t length = left >= 12 ? bigEndian(bytes + at, 4) : left;
    if (length > left - std::min<uint64_t>(left, 12))
      return invalidInput(
          format("%s: the PNG file ends within its chunk at byte %llu", path.c_str(), (unsigned long long)at));
    const uint8_t *name = bytes + at + 4;
    if (crc.of(name, 4 + length) != bigEndian(name + 4 + length, 4))
      return invalidInput(format("%s: the PNG file is damaged: its chunk at byte %llu differs from its checksum",
                                 path.c_str(), (unsigned long long)at));
    if (memcmp(name, "eXIf", 4) == 0)
      outOrientation = orientationInTiff(name + 4, length);
    if (memcmp(name, "IEND", 4) == 0)
      return Status();
    at += 12 + length;
  }
  return invalidInput(path + ": the PNG file ends without its last chunk (IEND)");
}

int orientationInJpeg(const uint8_t *bytes, uint64_t size) {
  constexpr uint8_t start = 0xD8, scan = 0xDA, app1 = 0xE1;
  if (size < 4 || bytes[0] != 0xFF || bytes[1] != start)
    return upright;
  for (uint64_t at = 2; at + 4 <= size;) {
    if (bytes[at] != 0xFF)
      return upright;
    uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) { // markers may be filled up
      ++at;
      continue;
    }
    uint64_t length = bigEndian(bytes + at + 2, 2);
    if (marker == scan || length < 2 || length > size - at - 2)
      return upright;
    const uint8_t *segment = bytes + at + 4;
    if (marker == app1 && length >= 2 + sizeof exifMark && memcmp(segment, exifMark, sizeof exifMark) == 0)
      return orientationInTiff(segment, length - 2);
    at += 2 + length;
  }
  return upright;
}

} // namespace

Status readOrientation(const std::string &path, const uint8_t *bytes, uint64_t size, int &outOrientation) {
  outOrientation = upright;
  if (size >= sizeof pngSignature && memcmp(bytes, pngSignature, sizeof pngSignature) == 0)
    return orientationInPng(path, bytes, size, outOrientation);
  outOrientation = orientationInJpeg(bytes, size);
  return Status();
}

void makeUpright(int orientation, Image &image) {
  if (orientation == upright)
    return;
  // What of the file is mirrored, after its axes have changed places.
  bool swapsAxes = orientation >= 5;
  bool mirrorsX = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  bool mirrorsY = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image turned;
  turned.width = swapsAxes ? image.height : image.width;
  turned.height = swapsAxes ? image.width : image.height;
  turned.rgb.resize(image.rgb.size());
  uint8_t *out = turned.rgb.data();
  for (int64_t y = 0; y < turned.height; ++y)
    for (int64_t x = 0; x < turned.width; ++x, out += 3) {
      int64_t fromX = swapsAxes ? y : x, fromY = swapsAxes ? x : y;
      if (mirrorsX)
        fromX = image.width - 1 - fromX;
      if (mirrorsY)
        fromY = image.height - 1 - fromY;
      memcpy(out, image.rgb.data() + (fromY * image.width + fromX) * 3, 3);
    }
  image = std::move(turned);
}

} // namespace heddle
