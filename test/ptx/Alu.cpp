// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions whose result depends on their sources alone. Registers are 64 bits, of which a type reads the lowest.
#include "test/ptx/Program.h"
#include "test/ptx/Warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace heddle::ptx {
namespace {

struct Entry {
  Compute compute;
  size_t numSources;
};
using Table = std::unordered_map<std::string, Entry>;

template <typename T> T as(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T> uint64_t bitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T, typename Wide> void addIntegers(Table &table, const std::string &type) {
  using U = std::make_unsigned_t<T>;
  constexpr int width = 8 * sizeof(T);
  auto add = [&](const char *name, size_t sources, Compute compute) { table[name + type] = {compute, sources}; };
  add("add.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(U(as<U>(a) + as<U>(b))); });
  add("sub.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(U(as<U>(a) - as<U>(b))); });
  add("mul.lo.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(U(uint64_t(as<U>(a)) * as<U>(b))); });
  add("mul.hi.", 2,
      [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(T(Wide(as<T>(a)) * Wide(as<T>(b)) >> width)); });
  add("mad.lo.", 3,
      [](uint64_t a, uint64_t b, uint64_t c) { return bitsOf(U(uint64_t(as<U>(a)) * as<U>(b) + as<U>(c))); });
  // By 0, the result is all ones.
  add("div.", 2, [](uint64_t a, uint64_t b, uint64_t) {
    return as<T>(b) ? bitsOf(T(Wide(as<T>(a)) / Wide(as<T>(b)))) : bitsOf(U(-1));
  });
  add("rem.", 2,
      [](uint64_t a, uint64_t b, uint64_t) { return as<T>(b) ? bitsOf(T(Wide(as<T>(a)) % Wide(as<T>(b)))) : a; });
  add("neg.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(U(-as<U>(a))); });
  add("abs.", 1, [](uint64_t a, uint64_t, uint64_t) { return as<T>(a) < T(0) ? bitsOf(U(-as<U>(a))) : a; });
  add("min.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(std::min(as<T>(a), as<T>(b))); });
  add("max.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(std::max(as<T>(a), as<T>(b))); });
  add("shr.", 2, [](uint64_t a, uint64_t b, uint64_t) {
    return bitsOf(T(Wide(as<T>(a)) >> std::min<uint32_t>(as<uint32_t>(b), width)));
  });
  if constexpr (sizeof(Wide) <= 8) {
    add("mul.wide.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(Wide(Wide(as<T>(a)) * Wide(as<T>(b)))); });
    add("mad.wide.", 3,
        [](uint64_t a, uint64_t b, uint64_t c) { return bitsOf(Wide(Wide(as<T>(a)) * Wide(as<T>(b)) + as<Wide>(c))); });
  }
}

template <typename U> void addBits(Table &table, const std::string &type) {
  constexpr uint32_t width = 8 * sizeof(U);
  auto add = [&](const char *name, size_t sources, Compute compute) { table[name + type] = {compute, sources}; };
  add("and.", 2, [](uint64_t a, uint64_t b, uint64_t) { return a & b; });
  add("or.", 2, [](uint64_t a, uint64_t b, uint64_t) { return a | b; });
  add("xor.", 2, [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; });
  add("not.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(U(~a)); });
  add("shl.", 2, [](uint64_t a, uint64_t b, uint64_t) {
    return as<uint32_t>(b) < width ? bitsOf(U(as<U>(a) << as<uint32_t>(b))) : 0;
  });
  add("shr.", 2, [](uint64_t a, uint64_t b, uint64_t) {
    return as<uint32_t>(b) < width ? bitsOf(U(as<U>(a) >> as<uint32_t>(b))) : 0;
  });
}

// What moves or chooses bits of any type.
void addMoves(Table &table, const std::string &type) {
  table["mov." + type] = {[](uint64_t a, uint64_t, uint64_t) { return a; }, 1};
  table["selp." + type] = {[](uint64_t a, uint64_t b, uint64_t c) { return c & 1 ? a : b; }, 3};
}

template <typename T, bool (*holds)(T, T)>
void addComparison(Table &table, const std::string &name, const std::string &type) {
  using C = uint64_t (*)(uint64_t, uint64_t, uint64_t);
  C plain = [](uint64_t a, uint64_t b, uint64_t) -> uint64_t { return holds(as<T>(a), as<T>(b)); };
  C conjunction = [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t { return holds(as<T>(a), as<T>(b)) && (c & 1); };
  C disjunction = [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t { return holds(as<T>(a), as<T>(b)) || (c & 1); };
  table["setp." + name + "." + type] = {plain, 2};
  table["setp." + name + ".and." + type] = {conjunction, 3};
  table["setp." + name + ".or." + type] = {disjunction, 3};
}

template <typename T> bool equal(T a, T b) {
  return a == b;
}
template <typename T> bool notEqual(T a, T b) {
  return a < b || a > b;
}
template <typename T> bool less(T a, T b) {
  return a < b;
}
template <typename T> bool lessOrEqual(T a, T b) {
  return a <= b;
}
template <typename T> bool greater(T a, T b) {
  return a > b;
}
template <typename T> bool greaterOrEqual(T a, T b) {
  return a >= b;
}
// True as well where one is not a number.
template <typename T> bool equalOrNan(T a, T b) {
  return !(a < b || a > b);
}
template <typename T> bool notEqualOrNan(T a, T b) {
  return !(a == b);
}
template <typename T> bool lessOrNan(T a, T b) {
  return !(a >= b);
}
template <typename T> bool lessOrEqualOrNan(T a, T b) {
  return !(a > b);
}
template <typename T> bool greaterOrNan(T a, T b) {
  return !(a <= b);
}
template <typename T> bool greaterOrEqualOrNan(T a, T b) {
  return !(a < b);
}
template <typename T> bool areNumbers(T a, T b) {
  return a == a && b == b;
}
template <typename T> bool isOneNan(T a, T b) {
  return !areNumbers(a, b);
}

template <typename T> void addComparisons(Table &table, const std::string &type) {
  addComparison<T, equal<T>>(table, "eq", type);
  addComparison<T, notEqual<T>>(table, "ne", type);
  addComparison<T, less<T>>(table, "lt", type);
  addComparison<T, lessOrEqual<T>>(table, "le", type);
  addComparison<T, greater<T>>(table, "gt", type);
  addComparison<T, greaterOrEqual<T>>(table, "ge", type);
}

template <typename T> T smaller(T a, T b) {
  return a != a ? b : b != b ? a : std::min(a, b);
}
template <typename T> T larger(T a, T b) {
  return a != a ? b : b != b ? a : std::max(a, b);
}

template <typename T> void addFloats(Table &table, const std::string &type) {
  auto add = [&](const char *name, size_t sources, Compute compute) { table[name + type] = {compute, sources}; };
  add("add.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(as<T>(a) + as<T>(b)); });
  add("sub.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(as<T>(a) - as<T>(b)); });
  add("mul.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(as<T>(a) * as<T>(b)); });
  add("div.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(as<T>(a) / as<T>(b)); });
  add("fma.", 3, [](uint64_t a, uint64_t b, uint64_t c) { return bitsOf(std::fma(as<T>(a), as<T>(b), as<T>(c))); });
  add("neg.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(-as<T>(a)); });
  add("abs.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(std::fabs(as<T>(a))); });
  // The sign is that of the first source.
  add("copysign.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(std::copysign(as<T>(b), as<T>(a))); });
  add("min.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(smaller(as<T>(a), as<T>(b))); });
  add("max.", 2, [](uint64_t a, uint64_t b, uint64_t) { return bitsOf(larger(as<T>(a), as<T>(b))); });
  add("rcp.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(T(1) / as<T>(a)); });
  add("sqrt.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(std::sqrt(as<T>(a))); });
  add("rsqrt.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(T(1 / std::sqrt(double(as<T>(a))))); });
  add("ex2.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(T(std::exp2(double(as<T>(a))))); });
  add("lg2.", 1, [](uint64_t a, uint64_t, uint64_t) { return bitsOf(T(std::log2(double(as<T>(a))))); });
  addComparisons<T>(table, type);
  addComparison<T, equalOrNan<T>>(table, "equ", type);
  addComparison<T, notEqualOrNan<T>>(table, "neu", type);
  addComparison<T, lessOrNan<T>>(table, "ltu", type);
  addComparison<T, lessOrEqualOrNan<T>>(table, "leu", type);
  addComparison<T, greaterOrNan<T>>(table, "gtu", type);
  addComparison<T, greaterOrEqualOrNan<T>>(table, "geu", type);
  addComparison<T, areNumbers<T>>(table, "num", type);
  addComparison<T, isOneNan<T>>(table, "nan", type);
}

// Of both bf16 of a register, each rounded once: f64 holds what 8 bits give, and a float whose last bit is odd where it is not exact rounds to bf16
// as the exact sum does.
uint64_t fmaOfPairs(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t result = 0;
  for (int half = 0; half < 2; ++half) {
    auto number = [&](uint64_t bits) { return double(as<float>(uint32_t(bits) >> 16 * half << 16)); };
    double exact = std::fma(number(a), number(b), number(c));
    float near = float(exact);
    if (double(near) != exact && !(bitsOf(near) & 1))
      near = std::nextafter(near, exact > double(near) ? INFINITY : -INFINITY);
    result |= uint64_t(toBf16(near)) << 16 * half;
  }
  return result;
}

// Bits [position, position + length) of a, and for signed types the last of them above.
template <typename T> uint64_t extractBits(uint64_t a, uint64_t b, uint64_t c) {
  using U = std::make_unsigned_t<T>;
  uint32_t position = b & 255, length = c & 255, width = 8 * sizeof(T);
  if (length == 0 || position >= width)
    return std::is_signed_v<T> && position >= width && as<T>(a) < T(0) ? bitsOf(U(-1)) : 0;
  length = std::min(length, width - position);
  return bitsOf(T(T(U(as<U>(a) << (width - position - length))) >> (width - length)));
}

Table makeTable() {
  Table table;
  addIntegers<int16_t, int32_t>(table, "s16");
  addIntegers<uint16_t, uint32_t>(table, "u16");
  addIntegers<int32_t, int64_t>(table, "s32");
  addIntegers<uint32_t, uint64_t>(table, "u32");
  addIntegers<int64_t, __int128>(table, "s64");
  addIntegers<uint64_t, unsigned __int128>(table, "u64");
  addBits<uint16_t>(table, "b16");
  addBits<uint32_t>(table, "b32");
  addBits<uint64_t>(table, "b64");
  table["not.pred"] = {[](uint64_t a, uint64_t, uint64_t) { return (a & 1) ^ 1; }, 1};
  for (const char *name : {"and", "or", "xor"})
    table[name + std::string(".pred")] = table[name + std::string(".b32")];
  for (const char *type : {"pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"})
    addMoves(table, type);
  addComparisons<int16_t>(table, "s16");
  addComparisons<int32_t>(table, "s32");
  addComparisons<int64_t>(table, "s64");
  for (const char *type : {"u16", "b16"})
    addComparisons<uint16_t>(table, type);
  for (const char *type : {"u32", "b32"})
    addComparisons<uint32_t>(table, type);
  for (const char *type : {"u64", "b64"})
    addComparisons<uint64_t>(table, type);
  addFloats<float>(table, "f32");
  addFloats<double>(table, "f64");
  table["fma.bf16x2"] = {fmaOfPairs, 3};
  table["bfe.u32"] = {extractBits<uint32_t>, 3};
  table["bfe.s32"] = {extractBits<int32_t>, 3};
  table["bfe.u64"] = {extractBits<uint64_t>, 3};
  table["bfe.s64"] = {extractBits<int64_t>, 3};
  return table;
}

} // namespace

Compute findCompute(const std::string &name, size_t &numSources) {
  static const Table table = makeTable();
  auto found = table.find(name);
  if (found == table.end())
    return nullptr;
  numSources = found->second.numSources;
  return found->second.compute;
}

} // namespace heddle::ptx
