// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/WeightExpressions.h"

using namespace heddle;
using Halide::Expr;

static constexpr int lanes = PackedLayout::panelRows;

static Expr bits32(uint32_t value) {
  return Expr(value);
}

Expr heddle::halfExpr(Expr bits) {
  bits = Halide::cast<uint32_t>(bits);
  Expr sign = (bits & bits32(0x8000u)) << 16, exponent = (bits >> 10) & bits32(31u), mantissa = bits & bits32(0x3ffu);
  Expr normal = Halide::select(exponent == bits32(31u), bits32(255u), exponent + bits32(112u)) << 23 | mantissa << 13;
  // A subnormal f16 is a whole number of 2^-24, which is normal in f32.
  Expr subnormal = Halide::reinterpret<uint32_t>(Halide::cast<float>(Halide::cast<int32_t>(mantissa)) * 0x1p-24f);
  return Halide::reinterpret<float>(sign | Halide::select(exponent == bits32(0u), subnormal, normal));
}

Expr heddle::bfloatExpr(Expr bits) {
  return Halide::reinterpret<float>(Halide::cast<uint32_t>(bits) << 16);
}

// What is cut off is added back as less than, exactly, or more than half a unit of what stays.
static Expr roundedShift(Expr bits, int shift) {
  Expr odd = (bits >> shift) & bits32(1);
  return (bits + (Expr(uint32_t(1) << (shift - 1)) - bits32(1) + odd)) >> shift;
}

Expr heddle::bfloatBits(Expr value) {
  Expr bits = Halide::reinterpret<uint32_t>(value), isNan = (bits & bits32(0x7fffffffu)) > bits32(0x7f800000u);
  return Halide::cast<uint16_t>(Halide::select(isNan, bits >> 16 | bits32(64u), roundedShift(bits, 16)));
}

Expr heddle::halfBits(Expr value) {
  Expr bits = Halide::reinterpret<uint32_t>(value), sign = (bits >> 16) & bits32(0x8000u),
       magnitude = bits & bits32(0x7fffffffu);
  Expr normal = roundedShift(magnitude - bits32(112u << 23), 13);
  // Adding 1/2 leaves a multiple of 2^-24 in the lowest bits: f32 rounds for us.
  Expr subnormal = Halide::reinterpret<uint32_t>(Halide::reinterpret<float>(magnitude) + 0.5f) - bits32(0x3f000000u);
  Expr small = Halide::select(magnitude < bits32(113u << 23), subnormal, normal);
  Expr overflow = Halide::select(magnitude > bits32(0x7f800000u), bits32(0x7e00u), bits32(0x7c00u));
  return Halide::cast<uint16_t>(sign | Halide::select(magnitude >= bits32(0x477ff000u), overflow, small));
}

static std::vector<std::pair<Halide::Type, int64_t>> numberViews(const PackedLayout &layout, int64_t bytes) {
  if (layout.isQuantized())
    return {layout.scales == PackedScales::F32 ? std::pair(Halide::Type(Halide::Float(32)), bytes / 4)
                                               : std::pair(Halide::Type(Halide::UInt(16)), bytes / 2),
            {Halide::UInt(8), bytes}};
  if (layout.numbers == PackedNumbers::F32)
    return {{Halide::Float(32), bytes / 4}};
  return {{Halide::UInt(16), bytes / 2}};
}

std::vector<std::pair<Halide::Type, int64_t>> heddle::packedViews(const PackedLayout &layout, int64_t k, bool inWords) {
  int64_t bytes = layout.panelBytes(k);
  std::vector<std::pair<Halide::Type, int64_t>> views = numberViews(layout, bytes);
  if (inWords)
    views.emplace_back(Halide::UInt(32), bytes / 4);
  return views;
}

WeightExpressions::WeightExpressions(const PackedLayout &layout, int64_t n, int64_t k, const std::string &name,
                                     bool inWords)
    : layout(layout) {
  for (auto [type, elements] : packedViews(layout, k, inWords)) {
    Halide::ImageParam param(type, 2, name + "_view" + std::to_string(all.size()));
    param.dim(0).set_bounds(0, int(elements));
    param.dim(1).set_bounds(0, int(layout.numPanels(n))).set_stride(int(elements));
    all.push_back({param, type.bytes()});
  }
}

// A scale or min of the unit.
Expr WeightExpressions::scaleAt(Expr panel, Expr lane, Expr unit, int64_t offset) const {
  const View &scales = all[0];
  Expr value = scales.param(unit * int(layout.unitBytes() / scales.bytes) + int(offset / scales.bytes) + lane, panel);
  value = layout.scales == PackedScales::F32    ? value
          : layout.scales == PackedScales::BF16 ? bfloatExpr(value)
                                                : halfExpr(value);
  return layout.scaleShift ? value * layout.scaleFactor() : value;
}

WeightExpressions::Terms WeightExpressions::terms(Expr row, Expr block) const {
  Expr panel = row / lanes, lane = row % lanes;
  Expr unit = block / int(layout.blocksPerUnit()), number = block % int(layout.blocksPerUnit());
  Terms terms{scaleAt(panel, lane, unit, 0), layout.hasMin ? scaleAt(panel, lane, unit, layout.minOffset()) : Expr()};
  if (!layout.isNested())
    return terms;
  auto nested = [&](int64_t offset) {
    return all[1].param(unit * int(layout.unitBytes()) + int(offset) + number * int(lanes) + lane, panel);
  };
  auto asFloat = [](Expr integer) { return Halide::cast<float>(integer); };
  Expr ofScale = nested(layout.nestedScaleOffset());
  if (layout.hasNibbleScales)
    return {terms.scale * asFloat(ofScale & Halide::cast<uint8_t>(15)),
            terms.min * asFloat(ofScale >> Halide::cast<uint8_t>(4))};
  terms.scale *= asFloat(Halide::cast<int8_t>(ofScale));
  if (layout.hasMin)
    terms.min *= asFloat(Halide::cast<int8_t>(nested(layout.nestedMinOffset())));
  return terms;
}

WeightExpressions::CodePlace WeightExpressions::placeOf(Expr column, int unit) const {
  auto in = [&](int64_t bytes) { return int(bytes / unit); };
  int perUnit = int(layout.unitValues()), perGroup = int(layout.blocksPerGroup()),
      perShare = int(layout.quadsPerShare());
  Expr number = column % perUnit / int(layout.block), quad = column % int(layout.block) / 4,
       inGroup = number % perGroup;
  Expr group = column / perUnit * in(layout.unitBytes()) + in(layout.headerBytes()) +
               number / perGroup * in(layout.groupBytes());
  CodePlace place;
  place.low = group + inGroup * in(layout.lowBytes()) + quad % perShare * in(int64_t{4} * lanes);
  place.lowShift = quad / perShare * int(layout.lowBits());
  if (layout.highBits) {
    place.high = group + in(perGroup * layout.lowBytes());
    place.highShift = (inGroup * int(layout.block / 4) + quad) * int(layout.highBits);
  }
  return place;
}

// w = scale (code - zero) + min, of unsigned integers whose lowest bytes hold the code's bits.
Expr WeightExpressions::decoded(Expr low, Expr high, const CodePlace &place, const Terms &ofBlock) const {
  auto bits = [](Expr from, Expr shift, int64_t count) {
    return Halide::cast<int32_t>(from >> Halide::cast<uint32_t>(shift) & bits32((1u << count) - 1));
  };
  int lowBits = int(layout.lowBits());
  Expr code = bits(low, place.lowShift, lowBits);
  if (layout.highBits)
    code = code | bits(high, place.highShift, layout.highBits) << lowBits;
  Expr centred = code - int(layout.zero);
  if (layout.book != CodeBook::None) {
    std::vector<Expr> entries(entriesOf(layout.book), entriesOf(layout.book) + (1 << layout.codeBits()));
    centred = Halide::mux(code, entries);
  }
  Expr weight = ofBlock.scale * Halide::cast<float>(centred);
  return layout.hasMin ? weight + ofBlock.min : weight;
}

Expr WeightExpressions::at(Expr row, Expr column, const Terms &ofBlock) const {
  Expr panel = row / lanes, lane = row % lanes;
  if (layout.numbers == PackedNumbers::F32)
    return all[0].param(column * lanes + lane, panel);
  if (!layout.isQuantized()) {
    Expr bits = all[0].param(column / 2 * (2 * lanes) + 2 * lane + column % 2, panel);
    return layout.numbers == PackedNumbers::F16 ? halfExpr(bits) : bfloatExpr(bits);
  }
  CodePlace place = placeOf(column, 1);
  Expr byte = 4 * lane + column % 4;
  auto load = [&](Expr line) { return Halide::cast<uint32_t>(all[1].param(line + byte, panel)); };
  return decoded(load(place.low), layout.highBits ? load(place.high) : Expr(), place, ofBlock);
}

WeightExpressions::Words WeightExpressions::words(Expr row, Expr column) const {
  Expr panel = row / lanes, lane = row % lanes;
  auto load = [&](Expr line) { return all.back().param(line + lane, panel); };
  if (!layout.isQuantized())
    return {load(column / 2 * lanes), Expr()};
  CodePlace place = placeOf(column, 4);
  return {load(place.low), layout.highBits ? load(place.high) : Expr()};
}

Expr WeightExpressions::at(Expr row, Expr column, const Words &ofColumn, const Terms &ofBlock) const {
  if (layout.numbers == PackedNumbers::F32)
    return at(row, column, ofBlock);
  auto cut = [](Expr word, Expr first) { return word >> Halide::cast<uint32_t>(first); };
  if (!layout.isQuantized()) {
    Expr bits = cut(ofColumn.low, column % 2 * 16) & bits32(0xffffu);
    return layout.numbers == PackedNumbers::F16 ? halfExpr(bits) : bfloatExpr(bits);
  }
  Expr first = column % 4 * 8;
  return decoded(cut(ofColumn.low, first), layout.highBits ? cut(ofColumn.high, first) : Expr(), placeOf(column, 4),
                 ofBlock);
}
