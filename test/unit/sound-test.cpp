// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// WAV files, spectrograms beside the reference's feature extractor, and when a time may stand among tokens.
#include "bytes/Safetensors.h"
#include "runtime/audio/LogMel.h"
#include "runtime/audio/WavFile.h"
#include "runtime/session/Sampler.h"
#include "runtime/session/TimestampRules.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace heddle;

namespace {

std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += char(value >> (8 * i) & 255);
  return text;
}

std::string chunk(const std::string &name, const std::string &bytes) {
  return name + number(bytes.size(), 4) + bytes + std::string(bytes.size() % 2, '\0');
}

std::string wave(int tag, int channels, int bits, const std::string &samples, uint32_t rate = 16000) {
  std::string format = number(tag, 2) + number(channels, 2) + number(rate, 4) + number(rate * channels * bits / 8, 4) +
                       number(channels * bits / 8, 2) + number(bits, 2);
  return "RIFF" + number(0, 4) + "WAVE" + chunk("LIST", "odd") + chunk("fmt ", format) + chunk("data", samples);
}

std::vector<float> read(const std::string &bytes) {
  Sound sound;
  Status status = readWav("f.wav", reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), sound);
  EXPECT_TRUE(status.isOk()) << status.message();
  return sound.samples;
}

std::string refusal(const std::string &bytes) {
  Sound sound;
  return readWav("f.wav", reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), sound).message();
}

template <typename T> std::string bytesOf(std::initializer_list<T> values) {
  std::string text;
  for (T value : values) {
    char bytes[sizeof value];
    memcpy(bytes, &value, sizeof value);
    text.append(bytes, sizeof value);
  }
  return text;
}

TEST(Wav, everySampleType) {
  using Floats = std::vector<float>;
  EXPECT_EQ(read(wave(1, 1, 16, bytesOf<int16_t>({-32768, 0, 16384}))), (Floats{-1, 0, 0.5}));
  EXPECT_EQ(read(wave(1, 1, 8, bytesOf<uint8_t>({0, 128, 192}))), (Floats{-1, 0, 0.5}));
  EXPECT_EQ(read(wave(1, 1, 24, number(0x800000, 3) + number(0x400000, 3))), (Floats{-1, 0.5}));
  EXPECT_EQ(read(wave(1, 1, 32, bytesOf<int32_t>({INT32_MIN, 1 << 30}))), (Floats{-1, 0.5}));
  EXPECT_EQ(read(wave(3, 1, 32, bytesOf<float>({-1.5f, 0.25f}))), (Floats{-1.5, 0.25}));
  EXPECT_EQ(read(wave(3, 1, 64, bytesOf<double>({-1.5, 0.25}))), (Floats{-1.5, 0.25}));
  // Channels are averaged; what is left of a frame is none.
  EXPECT_EQ(read(wave(1, 2, 16, bytesOf<int16_t>({16384, 0, -16384, -16384, 1}))), (Floats{0.25, -0.5}));
}

TEST(Wav, writtenIntoAPipe) {
  std::string bytes = wave(1, 1, 16, bytesOf<int16_t>({16384, -16384}));
  bytes.replace(bytes.size() - 8, 4, 4, '\xff');
  EXPECT_EQ(read(bytes), (std::vector<float>{0.5, -0.5}));
}

TEST(Wav, refused) {
  std::string good = wave(1, 1, 16, bytesOf<int16_t>({1, 2}));
  for (const auto &[bytes, expected] : {
           std::pair<std::string, const char *>{"", "f.wav: is no WAV file"},
           {"RIFF0000AVI ", "is no WAV file"},
           {good.substr(0, good.size() - 1), "a chunk of 4 bytes at byte 48, 3 are left"},
           {good.substr(0, 48), "has no samples: expected a chunk 'data'"},
           {"RIFF0000WAVE" + chunk("data", "ab"), "its samples stand before their format"},
           {"RIFF0000WAVE" + chunk("fmt ", "short"), "its format has 5 bytes, expected at least 16"},
           {wave(1, 1, 16, "a"), "has no samples"},
           {wave(1, 0, 16, "ab"), "has 0 channels, expected 1 to 64"},
           {wave(1, 1, 16, "ab", 0), "has 0 samples per second"},
           {wave(6, 1, 8, "ab"), "has samples of format 6 in 8 bits"},
           {wave(1, 1, 12, "ab"), "has samples of format 1 in 12 bits"},
           {wave(3, 1, 32, bytesOf<float>({1, NAN})), "sample 1 is not finite"},
       })
    EXPECT_NE(refusal(bytes).find(expected), std::string::npos) << refusal(bytes);
}

// Sound as long as it is, and the first of it in a window of a second, where silence follows.
TEST(LogMel, asTheReference) {
  Sound sound;
  ASSERT_TRUE(readWavFile(HEDDLE_TEST_DIR "/models/whisper/speech/speech.wav", sound).isOk());
  SafetensorsFile goldens;
  ASSERT_TRUE(goldens.open(HEDDLE_TEST_DIR "/models/whisper/speech/features.safetensors").isOk());
  LogMelOptions options;
  options.bins = 16;
  LogMel spectrogram(options);
  struct Case {
    const char *name;
    int64_t count, length;
  };
  for (const Case &of :
       {Case{"long", int64_t(sound.samples.size()), int64_t(sound.samples.size())}, Case{"short", 11000, 16000}}) {
    const StoredTensor &golden = *goldens.find(of.name);
    ASSERT_EQ(golden.shape, (std::vector<int64_t>{16, of.length / 160})) << of.name;
    std::vector<float> got(size_t(16 * (of.length / 160))), want(got);
    spectrogram.compute(sound.samples.data(), of.count, of.length, got.data());
    memcpy(want.data(), golden.data, got.size() * sizeof(float));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 2e-5) << of.name << ", number " << i;
  }
}

TEST(LogMel, silence) {
  std::vector<float> out(size_t(80) * 10);
  LogMel(LogMelOptions()).compute(nullptr, 0, 1600, out.data());
  for (float number : out)
    EXPECT_EQ(number, -1.5f); // (log10(1e-10) + 4) / 4
}

constexpr int64_t vocabSize = 40;
constexpr int32_t end = 20, without = 29, first = 30;

// The tokens that may follow `ids`, where `likely` is the most probable one by far.
std::vector<int32_t> allowed(const std::vector<int32_t> &ids, int32_t likely, int32_t mostInitial = -1) {
  std::vector<uint32_t> mask(maskWords(vocabSize), ~uint32_t(0));
  std::vector<float> logits(vocabSize);
  logits[size_t(likely)] = 50;
  TimestampRules{first, end, mostInitial, without}.allow(ids.data(), ids.size(), logits.data(), vocabSize, mask.data());
  std::vector<int32_t> found;
  for (int32_t id = 0; id < vocabSize; ++id)
    if (mask[size_t(id) / 32] >> (id % 32) & 1)
      found.push_back(id);
  return found;
}

std::vector<int32_t> range(int32_t begin, int32_t stop) {
  std::vector<int32_t> ids;
  for (int32_t id = begin; id < stop; ++id)
    ids.push_back(id);
  return ids;
}

TEST(TimestampRules, beginWithATime) {
  EXPECT_EQ(allowed({}, 5), range(30, 40));
  EXPECT_EQ(allowed({}, 5, /*mostInitial=*/3), range(30, 34));
}

TEST(TimestampRules, standInPairs) {
  EXPECT_EQ(allowed({30}, 5), range(0, 29)); // text, as two times would be a pair
  EXPECT_EQ(allowed({33, 5, 36, 36}, 5), range(0, 29));
  std::vector<int32_t> endOrTime = range(20, 29);
  for (int32_t id : range(36, 40))
    endOrTime.push_back(id);
  EXPECT_EQ(allowed({33, 5, 36}, 20), endOrTime);
}

TEST(TimestampRules, doNotGoBack) {
  EXPECT_EQ(allowed({33, 5}, 38), range(34, 40));
  EXPECT_EQ(allowed({33, 5, 36}, 38), range(36, 40));
}

// No time is as probable as the best text, all together are.
TEST(TimestampRules, areProbableTogether) {
  std::vector<float> logits(vocabSize);
  logits[5] = 1.5f;
  auto isText = [&](std::vector<int32_t> ids) {
    std::vector<uint32_t> mask(maskWords(vocabSize), ~uint32_t(0));
    TimestampRules{first, end, -1, without}.allow(ids.data(), ids.size(), logits.data(), vocabSize, mask.data());
    return (mask[0] >> 5 & 1) == 1;
  };
  EXPECT_FALSE(isText({30, 6})); // log 9 = 2.2
  EXPECT_TRUE(isText({36, 6}));  // log 3 = 1.1
}

} // namespace
