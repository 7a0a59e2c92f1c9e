// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/RopeTables.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

// NTK-aware scaling: theta' = theta (factor length / original - (factor - 1))^(d / (d - 2)); in f32, as transformers computes it.
void computeDynamicFrequencies(const package::RopeTable &rope, int64_t length, std::vector<float> &frequencies) {
  float dim = float(rope.rotary_dim()), factor = rope.factor();
  float growth = factor * float(length) / float(rope.original_context()) - (factor - 1);
  float theta = float(rope.theta()) * std::pow(growth, dim / (dim - 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = 1 / std::pow(theta, float(2 * i) / dim);
}

} // namespace

Status RopeTables::create(const package::Package &package, int64_t context) {
  const auto *sources = package.rope();
  if (!sources)
    return Status();
  contextLength = context;
  for (const package::RopeTable *source : *sources)
    if (source->axes())
      mostPlaces = 2 * context;
  HEDDLE_RETURN_IF_ERROR(places.reserve(mostPlaces, "places of images"));
  context += mostPlaces;
  uint64_t size = 0;
  for (const package::RopeTable *source : *sources)
    size += 2 * context * (source->rotary_dim() * sizeof(float) + sizeof(int64_t)) + 256;
  HEDDLE_RETURN_IF_ERROR(memory.reserve(size, "rotary tables"));
  uint8_t *at = memory.data();
  auto carve = [&](uint64_t bytes) {
    uint8_t *begin = at;
    at += (bytes + 63) / 64 * 64;
    return begin;
  };
  for (const package::RopeTable *source : *sources) {
    Table table = {};
    table.source = source;
    for (int variant = 0; variant < (source->scaling() == package::RopeScaling::Longrope ? 2 : 1); ++variant) {
      table.rows[variant] = reinterpret_cast<float *>(carve(context * source->rotary_dim() * sizeof(float)));
      table.filled[variant] = reinterpret_cast<int64_t *>(carve(context * sizeof(int64_t)));
    }
    if (source->scaling() != package::RopeScaling::None)
      originalContext = source->original_context();
    hasLongrope |= source->scaling() == package::RopeScaling::Longrope;
    hasDynamic |= source->scaling() == package::RopeScaling::Dynamic;
    if (source->scaling() == package::RopeScaling::Dynamic)
      table.dynamicFrequency.resize(source->rotary_dim() / 2);
    all.push_back(std::move(table));
    current.push_back(all.back().rows[0]);
  }
  return Status();
}

RopeTables::Mode RopeTables::modeOf(int64_t length) const {
  Mode mode;
  if (originalContext && length > originalContext) {
    mode.isLong = hasLongrope;
    mode.dynamicLength = hasDynamic ? length : 0;
  }
  return mode;
}

void RopeTables::fillRow(Table &table, const Mode &mode, int64_t position) {
  const package::RopeTable &source = *table.source;
  bool isDynamic = source.scaling() == package::RopeScaling::Dynamic && mode.dynamicLength;
  bool isLong = source.scaling() == package::RopeScaling::Longrope && mode.isLong;
  int64_t mark = 1 + (isDynamic ? mode.dynamicLength : 0);
  if (table.filled[isLong][position] == mark)
    return;
  const float *frequencies = isLong ? source.long_inverse_frequency()->data() : source.inverse_frequency()->data();
  if (isDynamic) {
    if (table.dynamicLength != mode.dynamicLength)
      computeDynamicFrequencies(source, mode.dynamicLength, table.dynamicFrequency);
    table.dynamicLength = mode.dynamicLength;
    frequencies = table.dynamicFrequency.data();
  }
  double factor = isLong ? source.long_attention_factor() : source.attention_factor();
  if (source.floor()) {
    int64_t steps = (position + 1) / source.floor();
    factor *= 1 + source.growth() * std::log1p(double(steps));
  }
  int64_t half = source.rotary_dim() / 2;
  const Place *place = placeOf(position);
  const auto *axes = place ? source.axes() : nullptr;
  float *row = table.rows[isLong] + position * 2 * half;
  for (int64_t i = 0; i < half; ++i) {
    // The reference multiplies in f32: at long distances this rounding is visible in the result.
    float angle = float(!place ? position : place->positions[axes ? axes->Get(unsigned(i)) : 0]) * frequencies[i];
    row[i] = float(std::cos(double(angle)) * factor);
    row[half + i] = float(std::sin(double(angle)) * factor);
  }
  table.filled[isLong][position] = mark;
}

int32_t RopeTables::numberOf(const Place &place) {
  auto isSame = [&](const Place &other) {
    return other.first == place.first && other.next == place.next && other.positions == place.positions;
  };
  if (lastPlace + 1 < numPlaces && isSame(places[size_t(lastPlace) + 1]))
    ++lastPlace;
  else
    lastPlace = std::find_if(places.begin(), places.begin() + numPlaces, isSame) - places.begin();
  if (lastPlace == mostPlaces)
    return -1;
  if (lastPlace == numPlaces)
    places[size_t(numPlaces++)] = place;
  return int32_t(contextLength + lastPlace);
}

void RopeTables::select(const Mode &mode) {
  currentMode = mode;
  for (size_t i = 0; i < all.size(); ++i)
    current[i] = all[i].rows[all[i].source->scaling() == package::RopeScaling::Longrope && mode.isLong];
}

void RopeTables::prepare(const Mode &mode, const int32_t *positions, int64_t count) {
  select(mode);
  for (Table &table : all)
    for (int64_t row = 0; row < count; ++row)
      fillRow(table, mode, positions[row]);
}

void RopeTables::prepareRange(const Mode &mode, int64_t begin, int64_t end) {
  select(mode);
  for (Table &table : all)
    for (int64_t position = begin; position < end; ++position)
      fillRow(table, mode, position);
}

} // namespace heddle
