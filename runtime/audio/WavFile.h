// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sound of a WAV file: integers of 8, 16, 24 or 32 bits or floats of 32 or 64, of which any number of channels becomes one by their mean.
#ifndef HEDDLE_RUNTIME_AUDIO_WAVFILE_H
#define HEDDLE_RUNTIME_AUDIO_WAVFILE_H

#include "bytes/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct Sound {
  uint32_t rate = 0;          // samples per second
  std::vector<float> samples; // integers are scaled to [-1, 1)
};

// What is no such file is invalidInput, in one line that begins with the path.
Status readWavFile(const std::string &path, Sound &outSound);
// The same of a file's bytes.
Status readWav(const std::string &path, const uint8_t *bytes, uint64_t size, Sound &outSound);

} // namespace heddle

#endif
