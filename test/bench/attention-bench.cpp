// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention-bench [--threads N] [--rounds N] [--target T] [--products f32|bf16] [--tile-rows N] [--only PREFIX] [--asm HEAD_DIM]: GFLOP/s of the
// CPU's attention kernels and of f32 multiply-adds, as JSON: over the cache, and over tensors as graphs have them, of BERT-base's heads.
// A bf16 cache is measured with both kinds of products where the target has those of bf16, the kind that models get first. Kernels and
// multiply-adds take turns, so that shares hold on a machine whose speed changes. Counts 2 flops for each multiply-add of visible keys, nothing
// for softmax. What heads of a group gain by sharing a read of their keys stands apart, and latent attention with both of its bodies
// (LatentBench.h): of each op all forms take turns.
#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/targets/cpu/FlashAttention.h"
#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "compiler/tune/AttentionRun.h"
#include "test/bench/LatentBench.h"
#include "test/execute/FlashCall.h"
#include "test/execute/KernelLibrary.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace heddle;
using namespace heddle::test;

namespace {

struct Options {
  int32_t threads = 1;
  int rounds = 5;
  std::string target = "native";
  std::optional<Products> products; // those alone
  int64_t tileRows = 0, assemblyHeadDim = 0;
  std::string only; // names begin with it
};

// 12 independent chains of multiply-adds on registers.
class Peak {
public:
  explicit Peak(const Options &options) : threads(options.threads), library(options.target) {
    const unsigned lanes = library.target().vectorLanes();
    RawBuilder b(library.module().getLoc(), library.module().getContext());
    beginFunction(b, library.module(), "peak", {b.pointerType(), b.getI64Type()});
    mlir::Block *entry = b.getInsertionBlock();
    mlir::Value to = entry->getArgument(0), count = entry->getArgument(1), factor = b.loadFloats(to, lanes);
    llvm::SmallVector<mlir::Value> init;
    for (unsigned i = 0; i < chains; ++i)
      init.push_back(b.constantF32(i, lanes));
    auto sums = b.fold(b.constant(0), count, init, [&](mlir::Value, mlir::ValueRange acc) {
      llvm::SmallVector<mlir::Value> next;
      for (mlir::Value value : acc)
        next.push_back(b.fma(value, factor, factor));
      return next;
    });
    for (mlir::Value sum : llvm::drop_begin(sums))
      sums[0] = b.addF(sums[0], sum);
    b.store(sums[0], to);
    mlir::func::ReturnOp::create(b);
    library.load();
  }

  Turn turn() {
    return {[function = library.find<void(float *, int64_t)>("peak")](int32_t) {
      float vector[16] = {};
      function(vector, steps);
    }};
  }
  double gflops(const Turn &turn) const {
    return 2e-9 * double(steps) * chains * library.target().vectorLanes() * threads / turn.seconds;
  }

private:
  static constexpr unsigned chains = 12;
  static constexpr int64_t steps = 5'000'000;
  int32_t threads;
  KernelLibrary library;
};

struct Shape {
  const char *name;
  int64_t headDim;
  int32_t past, rows;
  KvType kv;
  bool share;
  int64_t layers = 1;
};

AttentionSpec specOf(const Options &options, const Shape &shape, Products products) {
  AttentionSpec spec;
  spec.numHeads = 32;
  spec.numKvHeads = 8;
  spec.headDim = shape.headDim;
  spec.scale = 0.125;
  spec.kv = shape.kv;
  spec.products = products;
  if (options.tileRows)
    spec.tileRows = options.tileRows;
  spec.shareKvHeads = shape.share;
  return spec;
}

// Whether an entry of that name is wanted.
bool isWanted(const Options &options, const std::string &name) {
  return name.compare(0, options.only.size(), options.only) == 0;
}

// Normal numbers, the same in every run.
void draw(std::initializer_list<std::vector<float> *> tensors, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (std::vector<float> *numbers : tensors)
    for (float &value : *numbers)
      value = normal(generator);
}

void beginEntry() {
  static bool isFirst = true;
  std::fputs(isFirst ? "    " : ",\n    ", stdout);
  isFirst = false;
}

class CacheKernel {
public:
  CacheKernel(const Options &options, const Shape &shape, Products products, const char *suffix)
      : name(std::string(shape.name) + suffix), library(options.target) {
    buildAttention(library.module(), "attention", library.withRegisters(specOf(options, shape, products)),
                   library.target());
    library.load();
  }

  Turn turn(const AttentionRun &run) { return run.turn(library.find<void>("attention")); }

  const std::string name;

private:
  KernelLibrary library;
};

void print(const std::string &name, const Turn &turn, const AttentionRun &step, double peak) {
  double gflops = 1e-9 * step.flops / turn.seconds;
  beginEntry();
  std::printf("{\"name\": \"%s\", \"seconds\": %.6f, \"gflops\": %.1f, \"share_of_f32_peak\": %.3f, "
              "\"cache_gb_per_second_if_read_once\": %.1f}",
              name.c_str(), turn.seconds / double(step.layers), gflops, gflops / peak,
              1e-9 * step.cachedBytes / turn.seconds);
}

void measure(const Options &options, const Shape &shape, Peak &peak) {
  if (!isWanted(options, shape.name))
    return;
  const CpuTarget target = KernelLibrary(options.target).target();
  bool hasPairs = shape.kv == KvType::BF16 || shape.kv == KvType::Q8_0;
  bool multipliesBf16 = hasPairs && (target.hasBf16Dot() || target.hasBf16Tiles());
  AttentionRun step(specOf(options, shape, Products::F32), shape.past, shape.rows, options.threads, shape.layers);
  Turn peakTurn = peak.turn();
  if (!multipliesBf16 || options.products) {
    bool isBf16 = hasPairs && options.products == Products::Bf16;
    CacheKernel kernel(options, shape, isBf16 ? Products::Bf16 : Products::F32, "");
    Turn turn = kernel.turn(step);
    takeTurns(options.threads, options.rounds, {&peakTurn, &turn});
    return print(kernel.name, turn, step, peak.gflops(peakTurn));
  }
  CacheKernel bf16(options, shape, Products::Bf16, ""), f32(options, shape, Products::F32, ", f32 products");
  Turn bf16Turn = bf16.turn(step), f32Turn = f32.turn(step);
  takeTurns(options.threads, options.rounds, {&peakTurn, &bf16Turn, &f32Turn});
  print(bf16.name, bf16Turn, step, peak.gflops(peakTurn));
  print(f32.name, f32Turn, step, peak.gflops(peakTurn));
}

// Bidirectional attention of 12 heads of 64 that lie inside the rows of a projection, with a padding mask or without.
void measureTensors(const Options &options, int64_t batch, int64_t tokens, bool hasMask, Peak &peak) {
  std::string name = "tensors " + std::to_string(batch) + " x " + std::to_string(tokens) + ", 12 heads of 64" +
                     (hasMask ? ", mask" : "");
  if (!isWanted(options, name))
    return;
  const int64_t heads = 12, headDim = 64, width = heads * headDim;
  AttentionSpec spec;
  spec.numHeads = spec.numKvHeads = heads;
  spec.headDim = headDim;
  spec.scale = 0.125;
  spec.causal = false;
  spec.kv = KvType::F32;
  spec.hasBias = hasMask;
  KernelLibrary library(options.target);
  buildFlashAttention(library.module(), "flash", library.withRegisters(spec), library.target());
  if (!library.load())
    return;
  std::vector<float> q(batch * tokens * width), k(q.size()), v(q.size()), out(q.size()), mask(batch * tokens);
  draw({&q, &k, &v});
  FlashCall::Strides strides = {tokens * width, headDim, width};
  FlashCall call = {q.data(), k.data(), v.data(), out.data(), mask.data(), nullptr,        batch, tokens,
                    tokens,   strides,  strides,  strides,    strides,     {tokens, 0, 0}, 1};
  const int repeats = std::max<int64_t>(1, (1 << 18) / (batch * tokens * tokens));
  Turn peakTurn = peak.turn(), turn = {[&](int32_t thread) {
                                 for (int repeat = 0; repeat < repeats; ++repeat)
                                   call.run(library.find<FlashCall::Function>("flash"), thread, options.threads);
                               }};
  takeTurns(options.threads, options.rounds, {&peakTurn, &turn});
  double gflops = 4e-9 * repeats * double(batch * tokens * tokens * width) / turn.seconds;
  beginEntry();
  std::printf("{\"name\": \"%s\", \"seconds\": %.6f, \"gflops\": %.1f, \"share_of_f32_peak\": %.3f}", name.c_str(),
              turn.seconds / repeats, gflops, gflops / peak.gflops(peakTurn));
}

// One token behind 8191 others, with a read of keys and values for a group of four heads and for each head: the same kernel, the same numbers.
void measureSharing(const Options &options, int64_t headDim, const char *&separator) {
  const std::string name = "shared heads at 8192, D " + std::to_string(headDim);
  if (!isWanted(options, name))
    return;
  const CpuTarget target = KernelLibrary(options.target).target();
  Products products = target.hasBf16Dot() || target.hasBf16Tiles() ? Products::Bf16 : Products::F32;
  Shape shared = {"", headDim, 8191, 1, KvType::BF16, true}, alone = shared;
  alone.share = false;
  CacheKernel kernels[] = {CacheKernel(options, shared, products, ""), CacheKernel(options, alone, products, "")};
  AttentionRun step(specOf(options, shared, products), shared.past, shared.rows, options.threads);
  Turn turns[] = {kernels[0].turn(step), kernels[1].turn(step)};
  for (Turn &turn : turns)
    setRepeats(options.threads, turn, 0.02);
  takeTurns(options.threads, options.rounds, {&turns[0], &turns[1]});
  const char *forms[] = {"shared", "one by one"};
  for (auto [turn, form] : llvm::zip(turns, forms)) {
    std::printf("%s\n    {\"name\": \"%s\", \"form\": \"%s\", \"seconds\": %.9f, \"flops\": %.0f, \"bytes\": %.0f}",
                separator, name.c_str(), form, turn.seconds, step.flops, step.cachedBytes);
    separator = ",";
  }
}

int printAssembly(const Options &options) {
  KernelLibrary library(options.target);
  AttentionSpec spec = specOf(options, {"", options.assemblyHeadDim, 0, 0, KvType::BF16, true},
                              options.products.value_or(Products::F32));
  buildAttention(library.module(), "attention", library.withRegisters(spec), library.target());
  if (failed(lowerToLLVM(library.module(), library.target())))
    return 1;
  auto text = emitMachineCode(library.module(), library.target(), MachineCode::Assembly);
  if (failed(text))
    return 1;
  std::fputs(text->c_str(), stdout);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string flag = argv[i];
    long number = std::strtol(argv[i + 1], nullptr, 10);
    if (flag == "--threads")
      options.threads = std::max(1, int(number));
    else if (flag == "--rounds")
      options.rounds = std::max(1, int(number));
    else if (flag == "--target")
      options.target = argv[i + 1];
    else if (flag == "--products")
      options.products = !std::strcmp(argv[i + 1], "bf16") ? Products::Bf16 : Products::F32;
    else if (flag == "--tile-rows")
      options.tileRows = number;
    else if (flag == "--only")
      options.only = argv[i + 1];
    else if (flag == "--asm")
      options.assemblyHeadDim = number;
  }
  if (options.assemblyHeadDim)
    return printAssembly(options);
  Peak peak(options);
  Turn alone = peak.turn();
  takeTurns(options.threads, options.rounds, {&alone});
  std::printf("{\n  \"threads\": %d, \"f32_peak_gflops\": %.1f,\n  \"attention\": [\n", options.threads,
              peak.gflops(alone));
  const Shape shapes[] = {
      {"prefill 4096, D 64, bf16", 64, 0, 4096, KvType::BF16, true},
      {"prefill 4096, D 128, bf16", 128, 0, 4096, KvType::BF16, true},
      {"prefill 4096, D 64, f32", 64, 0, 4096, KvType::F32, true},
      {"prefill 512, D 64, bf16", 64, 0, 512, KvType::BF16, true},
      {"decode at 8192, D 64, bf16", 64, 8191, 1, KvType::BF16, true, 16},
      {"decode at 8192, D 64, q8_0", 64, 8191, 1, KvType::Q8_0, true, 16},
      {"decode at 8192, D 128, bf16", 128, 8191, 1, KvType::BF16, true, 8},
      {"decode at 8192, D 128, q8_0", 128, 8191, 1, KvType::Q8_0, true, 8},
  };
  for (const Shape &shape : shapes)
    measure(options, shape, peak);
  for (int64_t tokens : {64, 128, 512})
    for (bool hasMask : {false, true})
      measureTensors(options, 1, tokens, hasMask, peak);
  measureTensors(options, 8, 128, true, peak);
  std::printf("\n  ],\n  \"sharing\": [");
  const char *separator = "";
  for (int64_t headDim : {64, 128})
    measureSharing(options, headDim, separator);
  std::printf("\n  ],\n  \"latent\": [");
  bool isMeasured = measureLatent(options.target, options.threads, options.rounds, options.only);
  std::printf("\n  ]\n}\n");
  return isMeasured ? 0 : 1;
}
