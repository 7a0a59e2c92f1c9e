// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RIFF: chunks of a name of four characters, a size in 32 bits, little-endian, and as many bytes, an odd number being filled up. The format
// stands before the samples; what else there is (titles, cues) is passed over.
#include "runtime/audio/WavFile.h"

#include "bytes/MappedFile.h"

#include <cmath>
#include <cstring>

namespace heddle {
namespace {

constexpr uint16_t integerTag = 1, floatTag = 3, extensibleTag = 0xfffe;
constexpr uint16_t mostChannels = 64;
constexpr uint32_t unknownSize = UINT32_MAX; // of what was written into a pipe: all that is left

uint64_t littleEndian(const uint8_t *bytes, int count) {
  uint64_t value = 0;
  for (int i = count; i-- > 0;)
    value = value << 8 | bytes[i];
  return value;
}

struct Format {
  uint16_t tag = 0, channels = 0, bits = 0;
  uint32_t rate = 0;
  uint64_t frameBytes() const { return uint64_t(channels) * bits / 8; }
};

class WavReader {
public:
  WavReader(const std::string &path, const uint8_t *bytes, uint64_t size) : path(path), bytes(bytes), size(size) {}

  Status read(Sound &sound) {
    if (size < 12 || memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WAVE", 4) != 0)
      return fail("is no WAV file: expected one that begins with RIFF and WAVE");
    Format format;
    for (uint64_t at = 12; size - at >= 8;) {
      const uint8_t *chunk = bytes + at;
      uint64_t length = littleEndian(chunk + 4, 4), left = size - at - 8;
      bool isData = memcmp(chunk, "data", 4) == 0;
      if (isData && length == unknownSize)
        length = left;
      if (length > left)
        return fail("a chunk of %llu bytes at byte %llu, %llu are left", length, at, left);
      if (memcmp(chunk, "fmt ", 4) == 0)
        HEDDLE_RETURN_IF_ERROR(readFormat(chunk + 8, length, format));
      if (isData)
        return format.channels ? readSamples(chunk + 8, length, format, sound)
                               : fail("its samples stand before their format");
      at += 8 + std::min(left, length + length % 2);
    }
    return fail("has no samples: expected a chunk 'data'");
  }

private:
  Status fail(const std::string &what) const { return invalidInput(path + ": " + what); }
  // With up to three numbers.
  Status fail(const char *text, uint64_t a, uint64_t b = 0, uint64_t c = 0) const {
    return fail(format(text, (unsigned long long)a, (unsigned long long)b, (unsigned long long)c));
  }

  Status readFormat(const uint8_t *chunk, uint64_t length, Format &out) const {
    if (length < 16)
      return fail("its format has %llu bytes, expected at least 16", length);
    out.tag = uint16_t(littleEndian(chunk, 2));
    if (out.tag == extensibleTag && length >= 40)
      out.tag = uint16_t(littleEndian(chunk + 24, 2)); // the format's identifier begins with it
    out.channels = uint16_t(littleEndian(chunk + 2, 2));
    out.rate = uint32_t(littleEndian(chunk + 4, 4));
    out.bits = uint16_t(littleEndian(chunk + 14, 2));
    if (out.channels == 0 || out.channels > mostChannels)
      return fail("has %llu channels, expected 1 to 64", out.channels);
    if (out.rate == 0)
      return fail("has 0 samples per second");
    bool isInteger = out.tag == integerTag && (out.bits == 8 || out.bits == 16 || out.bits == 24 || out.bits == 32);
    if (!isInteger && !(out.tag == floatTag && (out.bits == 32 || out.bits == 64)))
      return fail("has samples of format %llu in %llu bits, expected integers (1) of 8, 16, 24 or 32 bits or "
                  "floats (3) of 32 or 64",
                  out.tag, out.bits);
    return Status();
  }

  static double sample(const uint8_t *at, const Format &format) {
    uint64_t value = littleEndian(at, format.bits / 8);
    if (format.tag == floatTag && format.bits == 32) {
      auto narrow = uint32_t(value);
      float number;
      memcpy(&number, &narrow, sizeof number);
      return number;
    }
    if (format.tag == floatTag) {
      double number;
      memcpy(&number, &value, sizeof number);
      return number;
    }
    if (format.bits == 8) // the only one that is not signed
      return (double(value) - 128) / 128;
    int shift = 64 - format.bits;
    return double(int64_t(value << shift) >> shift) / double(uint64_t(1) << (format.bits - 1));
  }

  Status readSamples(const uint8_t *data, uint64_t length, const Format &format, Sound &sound) const {
    uint64_t count = length / format.frameBytes();
    if (count == 0)
      return fail("has no samples");
    sound.rate = format.rate;
    sound.samples.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (uint16_t channel = 0; channel < format.channels; ++channel)
        sum += sample(data + i * format.frameBytes() + uint64_t(channel) * (format.bits / 8), format);
      sound.samples[i] = float(sum / format.channels);
      if (!std::isfinite(sound.samples[i]))
        return fail("sample %llu is not finite", i);
    }
    return Status();
  }

  const std::string &path;
  const uint8_t *bytes;
  uint64_t size;
};

} // namespace

Status readWav(const std::string &path, const uint8_t *bytes, uint64_t size, Sound &outSound) {
  return WavReader(path, bytes, size).read(outSound);
}

Status readWavFile(const std::string &path, Sound &outSound) {
  MappedFile file;
  HEDDLE_RETURN_IF_ERROR(file.open(path));
  return readWav(path, file.data(), file.size(), outSound);
}

} // namespace heddle
