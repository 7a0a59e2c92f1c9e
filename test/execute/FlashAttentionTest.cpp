// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over tensors, compiled, beside the formula in double precision. Every operand ends where a page begins that nobody may
// touch, and lies between numbers that spoil what reads them.

#include "compiler/codegen/targets/cpu/FlashAttention.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/FlashCall.h"
#include "test/execute/KernelLibrary.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::test;

using Kernel = FlashCall::Function;

namespace {

const float canary = -12345.678f;
const float lowest = std::numeric_limits<float>::lowest();

// Memory whose last byte is followed by a page without access.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes) {
    size_t page = sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    length = whole + page;
    base = static_cast<uint8_t *>(mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void *>(base), MAP_FAILED);
    EXPECT_EQ(mprotect(base + whole, page, PROT_NONE), 0);
    first = base + whole - bytes;
  }
  ~GuardedMemory() { munmap(base, length); }
  GuardedMemory(const GuardedMemory &) = delete;
  uint8_t *data() const { return first; }

private:
  uint8_t *base, *first;
  size_t length;
};

enum class Layout {
  Whole,       // (batch, heads, rows, dim)
  HeadsInside, // (batch, rows, heads, dim), what a projection gives
  Apart,       // rows, heads and batches with gaps between them
};

// (batch, heads, rows, dim) somewhere in memory; what lies between the rows is `gap`.
class HeadTensor {
public:
  HeadTensor(KvType type, int64_t batch, int64_t heads, int64_t rows, int64_t dim, Layout layout, float gap)
      : type(type), batch(batch), heads(heads), rows(rows), dim(dim), strides(stridesOf(layout)),
        memory(size() * kvBytes(type)) {
    for (int64_t i = 0; i < size(); ++i)
      storeElement(type, gap, memory.data() + i * kvBytes(type));
  }
  uint8_t *at(int64_t b, int64_t h, int64_t r, int64_t d) const {
    return memory.data() + (b * strides.batch + h * strides.head + r * strides.row + d) * kvBytes(type);
  }
  template <typename Body> void forEach(Body body) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t d = 0; d < dim; ++d)
            body(b, h, r, d);
  }
  // Stores number(b, h, r, d) everywhere, and keeps it as it was rounded.
  template <typename Number> void set(Number number) {
    values.clear();
    forEach([&](int64_t b, int64_t h, int64_t r, int64_t d) {
      values.push_back(roundToKv(type, number(b, h, r, d)));
      storeElement(type, values.back(), at(b, h, r, d));
    });
  }
  void fill(float deviation, unsigned seed) {
    std::vector<float> numbers = randomFloats(batch * heads * rows * dim, deviation, seed);
    size_t next = 0;
    set([&](int64_t, int64_t, int64_t, int64_t) { return numbers[next++]; });
  }
  double value(int64_t b, int64_t h, int64_t r, int64_t d) const {
    return values[((b * heads + h) * rows + r) * dim + d];
  }
  uint8_t *data() const { return memory.data(); }
  const FlashCall::Strides &getStrides() const { return strides; }
  int64_t size() const {
    if (!batch || !heads || !rows)
      return 0;
    return (batch - 1) * strides.batch + (heads - 1) * strides.head + (rows - 1) * strides.row + dim;
  }

  const KvType type;
  const int64_t batch, heads, rows, dim;

private:
  FlashCall::Strides stridesOf(Layout layout) const {
    switch (layout) {
    case Layout::Whole:
      return {heads * rows * dim, rows * dim, dim};
    case Layout::HeadsInside:
      return {rows * heads * dim, dim, heads * dim};
    case Layout::Apart:
      return {heads * (rows * (dim + 3) + 7) + 11, rows * (dim + 3) + 7, dim + 3};
    }
    return {};
  }
  const FlashCall::Strides strides;
  GuardedMemory memory;
  std::vector<float> values;
};

struct Sizes {
  int64_t batch, queries, keys;
};

struct BiasShape {
  bool batch, heads, queries, keys; // whether it has the dimension, or is the same along it
};

// One call: operands, the expected result, what the kernel leaves.
class Problem {
public:
  Problem(const AttentionSpec &spec, Sizes sizes, Layout layout = Layout::Whole, BiasShape shape = {})
      : spec(spec), sizes(sizes),
        query(spec.rows, sizes.batch, spec.numHeads, sizes.queries, spec.headDim, layout, NAN),
        key(spec.kv, sizes.batch, spec.numKvHeads, sizes.keys, spec.headDim, layout, NAN),
        value(spec.kv, sizes.batch, spec.numKvHeads, sizes.keys, spec.valueDim(), layout, NAN),
        bias(KvType::F32, shape.batch ? sizes.batch : 1, shape.heads ? spec.numHeads : 1,
             shape.queries ? sizes.queries : 1, shape.keys ? sizes.keys : 1, Layout::Whole, NAN),
        layout(layout), sinks(randomFloats(spec.numHeads, 2, 71)) {
    query.fill(1, 3), key.fill(1, 5), value.fill(1, 7), bias.fill(2, 11);
  }

  // What the formula gives, (batch, heads, queries, value_dim).
  std::vector<double> expected() const {
    std::vector<double> out;
    for (int64_t b = 0; b < sizes.batch; ++b)
      for (int64_t h = 0; h < spec.numHeads; ++h)
        for (int64_t i = 0; i < sizes.queries; ++i)
          appendRow(b, h, i, out);
    return out;
  }

  std::vector<float> run(Kernel *kernel, int64_t threads) const {
    HeadTensor out(spec.rows, sizes.batch, spec.numHeads, sizes.queries, spec.valueDim(), layout, canary);
    FlashCall call = {};
    call.query = query.data(), call.key = key.data(), call.value = value.data(), call.out = out.data();
    call.batch = sizes.batch, call.queries = sizes.queries, call.keys = sizes.keys;
    call.queryStrides = query.getStrides(), call.keyStrides = key.getStrides();
    call.valueStrides = value.getStrides(), call.outStrides = out.getStrides();
    if (spec.hasBias) {
      FlashCall::Strides strides = bias.getStrides();
      call.bias = reinterpret_cast<float *>(bias.data());
      call.biasStrides = {bias.batch > 1 ? strides.batch : 0, bias.heads > 1 ? strides.head : 0,
                          bias.rows > 1 ? strides.row : 0};
      call.biasKey = bias.dim > 1;
    }
    call.sinks = spec.hasSinks ? sinks.data() : nullptr;
    for (int64_t thread = 0; thread < threads; ++thread)
      call.run(kernel, thread, threads);
    return take(out);
  }

  // bias[b, 0, i, j] = number(b, i, j)
  void setBias(llvm::function_ref<float(int64_t, int64_t, int64_t)> number) {
    bias.set([&](int64_t b, int64_t, int64_t i, int64_t j) { return number(b, i, j); });
  }

  const AttentionSpec spec;
  const Sizes sizes;
  HeadTensor query, key, value, bias;

private:
  double biasAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!spec.hasBias)
      return 0;
    return bias.value(bias.batch > 1 ? b : 0, bias.heads > 1 ? h : 0, bias.rows > 1 ? i : 0, bias.dim > 1 ? j : 0);
  }

  void appendRow(int64_t b, int64_t h, int64_t i, std::vector<double> &out) const {
    int64_t kvHead = h / spec.group(), position = sizes.keys - sizes.queries + i;
    std::vector<double> scores(sizes.keys, -INFINITY);
    double most = spec.hasSinks ? sinks[h] : -INFINITY;
    for (int64_t j = 0; j < sizes.keys; ++j) {
      if ((spec.causal && j > position) || (spec.window && j <= position - spec.window) ||
          (spec.chunk && j / spec.chunk != position / spec.chunk))
        continue;
      double score = 0;
      for (int64_t d = 0; d < spec.headDim; ++d)
        score += query.value(b, h, i, d) * key.value(b, kvHead, j, d);
      score *= spec.scale;
      if (spec.softcap != 0)
        score = spec.softcap * std::tanh(score / spec.softcap);
      scores[j] = score + biasAt(b, h, i, j);
      most = std::max(most, scores[j]);
    }
    double sum = spec.hasSinks ? std::exp(sinks[h] - most) : 0;
    std::vector<double> row(spec.valueDim());
    for (int64_t j = 0; j < sizes.keys; ++j) {
      double weight = scores[j] == -INFINITY ? 0 : std::exp(scores[j] - most);
      sum += weight;
      for (int64_t d = 0; d < spec.valueDim(); ++d)
        row[d] += weight * value.value(b, kvHead, j, d);
    }
    for (double element : row)
      out.push_back(sum == 0 ? 0 : element / sum);
  }

  // The rows of `out`; everything between them must be untouched.
  std::vector<float> take(const HeadTensor &out) const {
    std::vector<float> rows;
    const float mark = roundToKv(out.type, canary);
    int64_t untouched = 0;
    auto read = [&](const uint8_t *from) {
      if (out.type == KvType::F32) {
        float number;
        std::memcpy(&number, from, sizeof(number));
        return number;
      }
      uint16_t bits;
      std::memcpy(&bits, from, sizeof(bits));
      return halfToFloat(out.type, bits);
    };
    out.forEach([&](int64_t b, int64_t h, int64_t r, int64_t d) { rows.push_back(read(out.at(b, h, r, d))); });
    for (int64_t i = 0; i < out.size(); ++i)
      untouched += read(out.data() + i * kvBytes(out.type)) == mark;
    EXPECT_EQ(untouched, out.size() - int64_t(rows.size())) << "numbers written between the rows";
    return rows;
  }

  static float halfToFloat(KvType type, uint16_t bits) {
    if (type == KvType::BF16) {
      uint32_t wide = uint32_t(bits) << 16;
      float number;
      std::memcpy(&number, &wide, sizeof(number));
      return number;
    }
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float magnitude = exponent ? std::ldexp(1024.0f + mantissa, exponent - 25) : std::ldexp(float(mantissa), -24);
    return bits & 0x8000 ? -magnitude : magnitude;
  }

  Layout layout;
  std::vector<float> sinks;
};

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && !std::memcmp(a.data(), b.data(), a.size() * sizeof(float));
}

// A compiled kernel of `spec`.
class Compiled {
public:
  explicit Compiled(const AttentionSpec &spec, const std::string &target = "native")
      : spec(spec), library(std::make_unique<KernelLibrary>(target)) {
    buildFlashAttention(library->module(), "flash", library->withRegisters(spec), library->target());
    EXPECT_TRUE(library->load());
  }
  Kernel *kernel() const { return library->find<Kernel>("flash"); }

  // Against the formula, for 1, 2, 3 and 7 threads that agree to the bit.
  void check(const Problem &problem, double limit = 1e-10) const {
    std::vector<float> out = problem.run(kernel(), 1);
    if (!out.empty())
      EXPECT_LE(nmse(out, problem.expected()), limit) << "batch " << problem.sizes.batch << ", queries "
                                                      << problem.sizes.queries << ", keys " << problem.sizes.keys;
    for (int64_t threads : {2, 3, 7})
      EXPECT_TRUE(sameBits(out, problem.run(kernel(), threads))) << threads << " threads";
  }
  void check(Sizes sizes, Layout layout = Layout::Whole, BiasShape shape = {}, double limit = 1e-10) const {
    check(Problem(spec, sizes, layout, shape), limit);
  }

  const AttentionSpec spec;

private:
  std::unique_ptr<KernelLibrary> library;
};

const Sizes fewSizes[] = {{1, 1, 1}, {2, 5, 5}, {1, 33, 65}, {1, 70, 64}, {2, 17, 130}, {1, 100, 100}};

TEST(FlashAttention, EveryLengthAroundTiles) {
  for (bool causal : {false, true}) {
    Compiled attention(denseSpec(2, 1, 32, causal));
    for (int64_t length : {1,  2,  3,  5,  6,  7,  8,  9,  15, 16, 17, 31, 32,  33,  47,  48,
                           49, 63, 64, 65, 66, 71, 72, 73, 95, 96, 97, 98, 127, 128, 129, 130}) {
      attention.check({1, length, length}, Layout::HeadsInside);
      attention.check({1, 3, length}, Layout::Whole);
      attention.check({1, length, 3}, Layout::Apart);
    }
    attention.check({1, 40, 1030});
    attention.check({1, 513, 513}, Layout::HeadsInside);
  }
}

TEST(FlashAttention, EveryHeadDim) {
  for (int64_t headDim : {1, 4, 8, 20, 32, 37, 64, 72, 80, 96, 128, 256}) {
    SCOPED_TRACE(headDim);
    Compiled attention(denseSpec(3, 1, headDim));
    for (Sizes sizes : fewSizes)
      attention.check(sizes, Layout::HeadsInside);
  }
}

TEST(FlashAttention, EveryGroup) {
  for (int64_t group : {1, 2, 3, 5, 7, 12}) {
    SCOPED_TRACE(group);
    Compiled attention(denseSpec(2 * group, 2, 32, true));
    for (Sizes sizes : fewSizes)
      attention.check(sizes, Layout::Apart);
  }
}

TEST(FlashAttention, ValuesOfAnotherHeadDim) {
  AttentionSpec spec = denseSpec(4, 2, 48);
  for (int64_t valueDim : {32, 90}) {
    spec.valueHeadDim = valueDim;
    Compiled attention(spec);
    for (Sizes sizes : fewSizes)
      attention.check(sizes, Layout::HeadsInside);
  }
}

TEST(FlashAttention, EveryBiasShape) {
  AttentionSpec spec = denseSpec(4, 2, 32);
  spec.hasBias = true;
  Compiled attention(spec);
  for (int shape = 0; shape < 16; ++shape) {
    SCOPED_TRACE(shape);
    for (Sizes sizes : fewSizes)
      attention.check(sizes, Layout::HeadsInside, {bool(shape & 1), bool(shape & 2), bool(shape & 4), bool(shape & 8)});
  }
}

TEST(FlashAttention, BiasUnderAMask) {
  for (int64_t window : {0, 3, 70}) {
    AttentionSpec spec = denseSpec(2, 2, 16, true);
    spec.hasBias = true;
    spec.window = window;
    spec.hasSinks = window == 3;
    spec.softcap = window == 70 ? 4 : 0;
    Compiled attention(spec);
    for (Sizes sizes : fewSizes)
      attention.check(sizes, Layout::Whole, {true, true, true, true});
  }
}

// What exporters write for keys that are not seen: rows of nothing else are the mean of all values, as the formula has it.
TEST(FlashAttention, MostNegativeBias) {
  AttentionSpec spec = denseSpec(2, 2, 16);
  spec.hasBias = true;
  Compiled attention(spec);
  for (float hidden : {lowest, -INFINITY, -10000.0f, -65504.0f})
    for (int64_t keys : {5, 64, 130, 600}) {
      SCOPED_TRACE(hidden);
      Problem problem(spec, {2, 9, keys}, Layout::Whole, {true, false, true, true});
      problem.setBias([&](int64_t b, int64_t i, int64_t j) {
        // Beside a number that is not the greatest, f32 has no digits left for what tells keys apart: only f64 does.
        bool isHidden = i == 0 ? hidden <= lowest : i < 5 ? j >= keys / 2 : j < keys - i;
        return isHidden ? hidden : b ? 0.0f : float(i + j) / 100;
      });
      attention.check(problem);
    }
}

// One token, many, more keys than queries and fewer.
static void checkLengths(const AttentionSpec &spec) {
  Compiled attention(spec);
  for (Sizes sizes : {Sizes{1, 1, 1}, Sizes{1, 150, 150}, Sizes{1, 33, 650}, Sizes{2, 70, 64}})
    attention.check(sizes, Layout::HeadsInside);
}

TEST(FlashAttention, Window) {
  for (bool causal : {false, true})
    for (int64_t window : {1, 3, 63, 64, 100, 5000}) {
      SCOPED_TRACE(window);
      AttentionSpec spec = denseSpec(4, 2, 16, causal);
      spec.window = window;
      checkLengths(spec);
    }
}

TEST(FlashAttention, Chunks) {
  for (int64_t chunk : {1, 3, 63, 64, 100, 5000}) {
    SCOPED_TRACE(chunk);
    AttentionSpec spec = denseSpec(4, 2, 16, true);
    spec.chunk = chunk;
    checkLengths(spec);
  }
}

TEST(FlashAttention, SinksAndSoftcap) {
  AttentionSpec spec = denseSpec(4, 2, 32, true);
  spec.hasSinks = true;
  for (double softcap : {0.0, 50.0, 0.5}) {
    spec.softcap = softcap;
    Compiled attention(spec);
    for (Sizes sizes : fewSizes)
      attention.check(sizes);
  }
}

TEST(FlashAttention, EveryStoredType) {
  for (KvType rows : {KvType::F32, KvType::BF16, KvType::F16})
    for (KvType kv : {KvType::F32, KvType::BF16, KvType::F16}) {
      AttentionSpec spec = denseSpec(2, 1, rows == KvType::F16 ? 21 : 40);
      spec.rows = rows;
      spec.kv = kv;
      Compiled attention(spec);
      double limit = rows == KvType::F32 ? 1e-10 : rows == KvType::F16 ? 1e-6 : 5e-5;
      for (Sizes sizes : fewSizes)
        attention.check(sizes, Layout::HeadsInside, {}, limit);
    }
}

TEST(FlashAttention, LargeScores) {
  AttentionSpec spec = denseSpec(2, 2, 64);
  spec.scale = 30;
  Compiled attention(spec);
  for (Sizes sizes : fewSizes)
    attention.check(sizes);
}

// A row that sees nothing is zeros; nothing at all is no work.
TEST(FlashAttention, NoKeysAndNoQueries) {
  Compiled attention(denseSpec(2, 1, 16)), causal(denseSpec(2, 1, 16, true));
  for (Sizes sizes : {Sizes{0, 3, 3}, Sizes{1, 0, 3}, Sizes{0, 0, 0}})
    attention.check(sizes);
  for (float element : Problem(attention.spec, {2, 3, 0}).run(attention.kernel(), 2))
    EXPECT_EQ(element, 0);
  std::vector<float> early = Problem(causal.spec, {1, 80, 2}).run(causal.kernel(), 1);
  for (size_t i = 0; i < size_t(78) * 16; ++i)
    EXPECT_EQ(early[i], 0) << i;
  EXPECT_NE(early[size_t(78) * 16], 0);
}

TEST(FlashAttention, TileSizesLeaveTheSameBits) {
  for (bool hasBias : {false, true}) {
    AttentionSpec spec = denseSpec(6, 2, 48, true);
    spec.hasBias = hasBias;
    Problem problem(spec, {1, 200, 513}, Layout::HeadsInside, {false, true, true, true});
    std::vector<float> expected = problem.run(Compiled(spec).kernel(), 1);
    for (int64_t blockQ : {1, 5, 16, 64}) {
      spec.blockQ = blockQ;
      EXPECT_TRUE(sameBits(expected, problem.run(Compiled(spec).kernel(), 1))) << blockQ;
    }
  }
}

TEST(FlashAttention, EveryRunnableTarget) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    AttentionSpec spec = denseSpec(4, 2, 40, true);
    Compiled plain(spec, target);
    spec.hasBias = true;
    Compiled biased(spec, target);
    for (Sizes sizes : fewSizes) {
      plain.check(sizes, Layout::HeadsInside);
      biased.check(sizes, Layout::HeadsInside, {true, false, false, true});
    }
  }
}

// Code that no machine here may run: it is made, and calls nothing.
TEST(FlashAttention, EveryTargetIsCompiled) {
  for (const char *target : {"x86-64-v3", "x86-64-v4", "znver5", "sapphirerapids", "aarch64"}) {
    AttentionSpec spec = denseSpec(12, 12, 64);
    spec.hasBias = true;
    KernelLibrary library(target);
    buildFlashAttention(library.module(), "flash", library.withRegisters(spec), library.target());
    ASSERT_TRUE(succeeded(lowerToLLVM(library.module(), library.target())));
    auto assembly = emitMachineCode(library.module(), library.target(), MachineCode::Assembly);
    ASSERT_TRUE(succeeded(assembly)) << target;
    bool isArm = std::string(target) == "aarch64";
    EXPECT_EQ(assembly->find(isArm ? "\tbl\t" : "call"), std::string::npos) << target;
    EXPECT_NE(assembly->find(isArm ? "fmla" : "vfmadd"), std::string::npos) << target;
  }
}

} // namespace
