// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/Dim.h"

#include <algorithm>

using namespace heddle;

Dim::Dim(int64_t value) {
  if (value)
    terms[{}] = value;
}

Dim Dim::symbol(unsigned id) {
  Dim dim;
  dim.terms[{id}] = 1;
  return dim;
}

static int64_t wrap(uint64_t value) {
  return static_cast<int64_t>(value);
}

Dim Dim::operator+(const Dim &other) const {
  Dim sum = *this;
  for (const auto &[monomial, coefficient] : other.terms) {
    int64_t &place = sum.terms[monomial];
    place = wrap(uint64_t(place) + uint64_t(coefficient));
    if (place == 0)
      sum.terms.erase(monomial);
  }
  return sum;
}

Dim Dim::operator*(const Dim &other) const {
  Dim product;
  for (const auto &[left, a] : terms)
    for (const auto &[right, b] : other.terms) {
      Monomial both;
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
      int64_t &place = product.terms[both];
      place = wrap(uint64_t(place) + uint64_t(a) * uint64_t(b));
      if (place == 0)
        product.terms.erase(both);
    }
  return product;
}

bool Dim::isSimple() const {
  return terms.size() <= 16 &&
         std::all_of(terms.begin(), terms.end(), [](auto &term) { return term.first.size() <= 8; });
}

// Long division by leading terms; monomials are ordered by std::map, which need not be a monomial order: the division
// then stops without a result, never with a wrong one.
std::optional<Dim> Dim::dividedBy(const Dim &divisor) const {
  if (divisor.terms.empty())
    return std::nullopt;
  const auto &[leadMonomial, leadCoefficient] = *divisor.terms.rbegin();
  Dim rest = *this, quotient;
  for (int step = 0; !rest.terms.empty(); ++step) {
    const auto &[monomial, coefficient] = *rest.terms.rbegin();
    bool divides = std::includes(monomial.begin(), monomial.end(), leadMonomial.begin(), leadMonomial.end());
    if (!divides || leadCoefficient == 0 || (coefficient == INT64_MIN && leadCoefficient == -1) ||
        coefficient % leadCoefficient != 0 || step == 64)
      return std::nullopt;
    Dim part;
    Monomial factor;
    std::set_difference(monomial.begin(), monomial.end(), leadMonomial.begin(), leadMonomial.end(),
                        std::back_inserter(factor));
    part.terms[factor] = coefficient / leadCoefficient;
    quotient = quotient + part;
    rest = rest - part * divisor;
  }
  return quotient;
}
