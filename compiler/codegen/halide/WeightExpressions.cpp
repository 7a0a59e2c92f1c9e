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

std::vector<std::pair<Halide::Type, int64_t>> heddle::packedViews(const PackedLayout &layout, int64_t k) {
  int64_t bytes = layout.panelBytes(k);
  if (layout.isQuantized())
    return {layout.wideScales ? std::pair(Halide::Type(Halide::Float(32)), bytes / 4)
                              : std::pair(Halide::Type(Halide::UInt(16)), bytes / 2),
            {Halide::UInt(8), bytes}};
  if (layout.numbers == PackedNumbers::F32)
    return {{Halide::Float(32), bytes / 4}};
  return {{Halide::UInt(16), bytes / 2}};
}

WeightExpressions::WeightExpressions(const PackedLayout &layout, int64_t n, int64_t k, const std::string &name)
    : layout(layout) {
  for (auto [type, elements] : packedViews(layout, k)) {
    Halide::ImageParam param(type, 2, name + "_view" + std::to_string(all.size()));
    param.dim(0).set_bounds(0, int(elements));
    param.dim(1).set_bounds(0, int(layout.numPanels(n))).set_stride(int(elements));
    all.push_back({param, type.bytes()});
  }
}

Expr WeightExpressions::scaleAt(Expr panel, Expr lane, Expr block, int64_t offset) const {
  const View &scales = all[0];
  Expr value = scales.param(block * int(layout.unitBytes() / scales.bytes) + int(offset / scales.bytes) + lane, panel);
  return layout.wideScales ? value : halfExpr(value);
}

WeightExpressions::Terms WeightExpressions::terms(Expr row, Expr block) const {
  Expr panel = row / lanes, lane = row % lanes;
  return {scaleAt(panel, lane, block, 0), layout.hasMin ? scaleAt(panel, lane, block, layout.minOffset()) : Expr()};
}

Expr WeightExpressions::at(Expr row, Expr column, const Terms &ofBlock) const {
  Expr panel = row / lanes, lane = row % lanes;
  if (layout.numbers == PackedNumbers::F32)
    return all[0].param(column * lanes + lane, panel);
  if (!layout.isQuantized()) {
    Expr bits = all[0].param(column / 2 * (2 * lanes) + 2 * lane + column % 2, panel);
    return layout.numbers == PackedNumbers::F16 ? halfExpr(bits) : bfloatExpr(bits);
  }
  // w = scale (code - zero) + min
  bool isNibble = layout.numbers == PackedNumbers::U4;
  int half = isNibble ? layout.block / 2 : layout.block;
  Expr block = column / int(layout.block), inBlock = column % int(layout.block);
  Expr byte = block * int(layout.unitBytes()) + int(layout.codeOffset()) + inBlock % half / 4 * (4 * lanes) + 4 * lane +
              inBlock % 4;
  Expr code = Halide::cast<int32_t>(all[1].param(byte, panel));
  if (isNibble)
    code = Halide::select(inBlock < half, code & 15, code >> 4);
  Expr weight = ofBlock.scale * Halide::cast<float>(code - int(layout.zero));
  return layout.hasMin ? weight + ofBlock.min : weight;
}
