// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The log-mel spectrogram of sound, as models of speech read it (Radford et al. 2022, arXiv:2212.04356, section 2.2).
#ifndef HEDDLE_RUNTIME_AUDIO_LOGMEL_H
#define HEDDLE_RUNTIME_AUDIO_LOGMEL_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

struct LogMelOptions {
  int64_t bins = 80; // of the mel scale, from 0 to 8000 Hz
  int64_t samplingRate = 16000;
  int64_t fftSize = 400, hop = 160; // samples of a frame, and from one frame to the next
};

// With w(n) = (1 - cos(2 pi n / fftSize)) / 2, x padded with zeros and then mirrored at its ends, and frames around sample t hop:
//
//   power[t, k] = |sum over n of w(n) x[t hop - fftSize / 2 + n] exp(-2 pi i k n / fftSize)|^2
//   mel[m, t]   = log10(max(1e-10, sum over k of filter[m, k] power[t, k]))
//   out[m, t]   = (max(mel[m, t], max over all of mel - 8) + 4) / 4
//
// The filters are Slaney's triangles: even steps of a mel scale that is linear to 1000 Hz and logarithmic from there, with an area of 1 each.
class LogMel {
public:
  explicit LogMel(const LogMelOptions &options);
  // `samples`: the first (count) of `length`, the others are silent. `out`: (bins, length / hop).
  void compute(const float *samples, int64_t count, int64_t length, float *out) const;

private:
  struct Complex {
    double re, im;
  };
  // out[k] = sum over n of in[n stride] exp(-2 pi i k n / size), (size) each; `size` divides fftSize. `parts`: (fftSize) to work in.
  void transform(const Complex *in, int64_t stride, int64_t size, Complex *out, Complex *parts) const;
  void makeFilters();

  LogMelOptions options;
  std::vector<double> window;     // (fftSize)
  std::vector<Complex> roots;     // (fftSize): exp(-2 pi i k / fftSize)
  std::vector<int64_t> firstBins; // (bins): the first frequency that each filter takes
  std::vector<size_t> filterEnds; // (bins): where its factors end, in
  std::vector<double> factors;    // those of all filters, one after the other
};

} // namespace heddle

#endif
