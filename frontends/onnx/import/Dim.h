// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A dimension, or an element of a shape computation: a polynomial with integer coefficients in symbols, each of which
// stands for a size that is known only at run time. Two dimensions are provably equal if their polynomials are the
// same.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_DIM_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_DIM_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace heddle {

class Dim {
public:
  using Monomial = std::vector<unsigned>; // symbols, sorted, with repetition; empty for the constant term

  Dim(int64_t value = 0);
  static Dim symbol(unsigned id);

  bool isStatic() const { return terms.empty() || (terms.size() == 1 && terms.begin()->first.empty()); }
  // Of a static one.
  int64_t value() const { return terms.empty() ? 0 : terms.begin()->second; }
  bool is(int64_t number) const { return isStatic() && value() == number; }

  Dim operator+(const Dim &other) const;
  Dim operator-(const Dim &other) const { return *this + other * Dim(-1); }
  // Coefficients wrap as int64 does.
  Dim operator*(const Dim &other) const;
  bool operator==(const Dim &other) const { return terms == other.terms; }
  bool operator!=(const Dim &other) const { return !(*this == other); }
  bool operator<(const Dim &other) const { return terms < other.terms; }

  // The quotient if the division leaves no remainder whatever the symbols stand for.
  std::optional<Dim> dividedBy(const Dim &divisor) const;
  // Small enough to be worth more than a new symbol.
  bool isSimple() const;

  const std::map<Monomial, int64_t> &polynomial() const { return terms; }

private:
  std::map<Monomial, int64_t> terms; // no zero coefficients
};

} // namespace heddle

#endif
