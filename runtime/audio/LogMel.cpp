// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums are of 64 bits: a spectrogram holds what is 1e-8 times as loud as its loudest part. Frames are transformed by twos, one as the real part
// and one as the imaginary part of the same numbers: what belongs to each is told by symmetry.
#include "runtime/audio/LogMel.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double highest = 8000; // Hz
constexpr double linearEnd = 1000, melOfEnd = 15;

double logStep() {
  return std::log(6.4) / 27; // of a mel above linearEnd
}

double melOf(double hertz) {
  return hertz < linearEnd ? melOfEnd * hertz / linearEnd : melOfEnd + std::log(hertz / linearEnd) / logStep();
}

double hertzOf(double mel) {
  return mel < melOfEnd ? linearEnd * mel / melOfEnd : linearEnd * std::exp(logStep() * (mel - melOfEnd));
}

} // namespace

LogMel::LogMel(const LogMelOptions &options) : options(options) {
  for (int64_t n = 0; n < options.fftSize; ++n) {
    double angle = 2 * pi * double(n) / double(options.fftSize);
    window.push_back((1 - std::cos(angle)) / 2);
    roots.push_back({std::cos(angle), -std::sin(angle)});
  }
  makeFilters();
}

void LogMel::makeFilters() {
  int64_t frequencies = options.fftSize / 2 + 1;
  double top = melOf(highest);
  auto edge = [&](int64_t index) { return hertzOf(top * double(index) / double(options.bins + 1)); };
  int64_t nyquist = options.samplingRate / 2; // a whole number of Hz, as in the reference
  double step = double(nyquist) / double(frequencies - 1);
  for (int64_t bin = 0; bin < options.bins; ++bin) {
    double left = edge(bin), middle = edge(bin + 1), right = edge(bin + 2);
    firstBins.push_back(frequencies);
    for (int64_t k = 0; k < frequencies; ++k) {
      double hertz = step * double(k);
      double height = std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      if (height <= 0)
        continue;
      firstBins.back() = std::min(firstBins.back(), k);
      factors.push_back(height * 2 / (right - left));
    }
    filterEnds.push_back(factors.size());
  }
}

// The parts of every p-th number, p being the smallest factor of the size, give the whole (Cooley and Tukey 1965).
void LogMel::transform(const Complex *in, int64_t stride, int64_t size, Complex *out, Complex *parts) const {
  if (size == 1) {
    out[0] = in[0];
    return;
  }
  int64_t factor = 2;
  while (size % factor)
    ++factor;
  int64_t part = size / factor, step = options.fftSize / size;
  for (int64_t r = 0; r < factor; ++r)
    transform(in + r * stride, stride * factor, part, out + r * part, parts);
  for (int64_t k = 0; k < part; ++k) {
    for (int64_t r = 0; r < factor; ++r) {
      Complex value = out[r * part + k], root = roots[size_t(r * k * step)];
      parts[r] = {value.re * root.re - value.im * root.im, value.re * root.im + value.im * root.re};
    }
    for (int64_t q = 0; q < factor; ++q) {
      Complex sum = parts[0];
      for (int64_t r = 1; r < factor; ++r) {
        Complex root = roots[size_t(r * q % factor * part * step)];
        sum.re += parts[r].re * root.re - parts[r].im * root.im;
        sum.im += parts[r].re * root.im + parts[r].im * root.re;
      }
      out[q * part + k] = sum;
    }
  }
}

void LogMel::compute(const float *samples, int64_t count, int64_t length, float *out) const {
  int64_t size = options.fftSize, frequencies = size / 2 + 1, frames = length / options.hop, last = length - 1;
  std::vector<Complex> frame(static_cast<size_t>(size)), spectrum(frame), parts(frame);
  std::vector<double> power(static_cast<size_t>(2 * frequencies));
  auto sampleAt = [&](int64_t index) -> double {
    index = index < 0 ? -index : index > last ? 2 * last - index : index;
    return index >= 0 && index < count ? samples[index] : 0;
  };
  float loudest = -INFINITY;
  for (int64_t t = 0; t < frames; t += 2) {
    for (int64_t n = 0; n < size; ++n) {
      int64_t index = t * options.hop - size / 2 + n;
      frame[size_t(n)] = {window[size_t(n)] * sampleAt(index), window[size_t(n)] * sampleAt(index + options.hop)};
    }
    transform(frame.data(), 1, size, spectrum.data(), parts.data());
    for (int64_t k = 0; k < frequencies; ++k) {
      Complex a = spectrum[size_t(k)], b = spectrum[size_t(k ? size - k : 0)];
      double re = a.re + b.re, im = a.im - b.im, otherRe = a.im + b.im, otherIm = b.re - a.re;
      power[size_t(k)] = (re * re + im * im) / 4;
      power[size_t(frequencies + k)] = (otherRe * otherRe + otherIm * otherIm) / 4;
    }
    for (int64_t half = 0; half < std::min<int64_t>(2, frames - t); ++half)
      for (int64_t bin = 0; bin < options.bins; ++bin) {
        double sum = 0;
        const double *at = &power[size_t(half * frequencies)] + firstBins[size_t(bin)];
        for (size_t i = bin ? filterEnds[size_t(bin) - 1] : 0; i < filterEnds[size_t(bin)]; ++i)
          sum += factors[i] * *at++;
        float level = float(std::log10(std::max(sum, 1e-10)));
        out[bin * frames + t + half] = level;
        loudest = std::max(loudest, level);
      }
  }
  for (int64_t i = 0; i < options.bins * frames; ++i)
    out[i] = (std::max(out[i], loudest - 8) + 4) / 4;
}

} // namespace heddle
