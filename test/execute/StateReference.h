// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of two sequences, however they are cut into steps, and what linear attention makes of them by its formula in f64.
#ifndef HEDDLE_TEST_EXECUTE_STATEREFERENCE_H
#define HEDDLE_TEST_EXECUTE_STATEREFERENCE_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "test/execute/AttentionReference.h"

#include <cmath>
#include <limits>

namespace heddle::test {

// Rows of two sequences, one behind the other, as they are cut into steps: {rows of the first, rows of the second} each. The first crosses from one
// page to the next in the middle of a step, the second at the end of one.
using Cuts = std::vector<std::pair<int32_t, int32_t>>;
inline const Cuts whole = {{70, 66}}, cut = {{1, 63}, {62, 1}, {3, 1}, {4, 1}};
constexpr int64_t firstRows = 70, allRows = 136;

// Rows of `from`, `stride` floats apart, with room behind that is no number.
inline std::vector<float> gather(const std::vector<float> &from, int64_t width, const std::vector<int64_t> &rows,
                                 int64_t stride) {
  std::vector<float> out(rows.size() * stride, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.begin() + rows[i] * width, width, out.begin() + int64_t(i) * stride);
  return out;
}

inline void scatter(const std::vector<float> &from, int64_t width, const std::vector<int64_t> &rows, int64_t stride,
                    std::vector<float> &to) {
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.begin() + int64_t(i) * stride, width, to.begin() + rows[i] * width);
}

inline double errorOf(const std::vector<float> &actual, const std::vector<double> &expected) {
  double error = 0, power = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    power += expected[i] * expected[i];
  }
  return error / power;
}

// Queries, keys and values of all rows.
struct LinearAttentionRows {
  LinearAttentionSpec spec;
  int64_t keys, values;
  std::vector<float> query, key, value, decay, beta;

  explicit LinearAttentionRows(const LinearAttentionSpec &spec)
      : spec(spec), keys(spec.numKeyHeads * spec.keyDim), values(spec.numHeads * spec.valueDim),
        query(randomFloats(allRows * keys, 1.0f, 1)), key(randomFloats(allRows * keys, 1.0f, 2)),
        value(randomFloats(allRows * values, 1.0f, 3)), decay(randomFloats(allRows * spec.decayWidth(), 1.0f, 4)),
        beta(randomFloats(allRows * spec.numHeads, 1.0f, 5)) {
    for (float &number : decay)
      number = -std::abs(number);
    for (float &number : beta)
      number = std::abs(number);
    // Of length 1 with the delta rule, or the state would grow.
    for (size_t begin = 0; spec.hasBeta && begin < key.size(); begin += spec.keyDim) {
      double squares = 0;
      for (int64_t i = 0; i < spec.keyDim; ++i)
        squares += key[begin + i] * key[begin + i];
      for (int64_t i = 0; i < spec.keyDim; ++i)
        key[begin + i] /= float(std::sqrt(squares));
    }
  }

  std::vector<double> expected() const {
    std::vector<double> out(allRows * values);
    for (int64_t h = 0; h < spec.numHeads; ++h)
      for (int64_t j = 0; j < spec.valueDim; ++j) {
        std::vector<double> column(spec.keyDim);
        for (int64_t row = 0; row < allRows; ++row) {
          if (row == 0 || row == firstRows)
            column.assign(spec.keyDim, 0);
          const float *k = &key[row * keys + h * spec.numKeyHeads / spec.numHeads * spec.keyDim];
          const float *q = &query[row * keys + h * spec.numKeyHeads / spec.numHeads * spec.keyDim];
          double known = 0, sum = 0;
          for (int64_t i = 0; i < spec.keyDim; ++i) {
            int64_t place = spec.decaysByKey ? h * spec.keyDim + i : h;
            column[i] *= spec.hasDecay ? std::exp(double(decay[row * spec.decayWidth() + place])) : 1;
            known += column[i] * k[i];
          }
          double added = value[row * values + h * spec.valueDim + j];
          if (spec.hasBeta)
            added = beta[row * spec.numHeads + h] * (added - known);
          for (int64_t i = 0; i < spec.keyDim; ++i) {
            column[i] += added * k[i];
            sum += column[i] * q[i];
          }
          out[row * values + h * spec.valueDim + j] = spec.scale * sum;
        }
      }
    return out;
  }
};

} // namespace heddle::test

#endif
