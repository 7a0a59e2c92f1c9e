// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels choose a body for each sequence (OnlineLatentAttention.cpp), so the choice is measured here, without a model: one
// sequence of one layer, whose weights and cached rows are random numbers in bf16.
#include "test/bench/LatentBench.h"

#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/tune/MatmulRun.h"
#include "compiler/weights/PackedLayout.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <cstring>
#include <random>

using namespace heddle;
using namespace heddle::test;

// LatentAttentionCall (compiler/codegen/kernel/KernelCalls.h), as C++ sees it.
using LatentCall = void(const float *q, float *out, float *scratch, const uint8_t *keyUps, const uint8_t *keyFolds,
                        const uint8_t *valueUps, const heddle_sequence *sequences, int64_t numSequences,
                        int64_t keyOffset, int64_t qStride, int64_t outStride, int64_t isFixed, int32_t thread,
                        int32_t numThreads);
using SplitLatentCall = void(const float *q, float *out, float *scratch, const uint8_t *keyUps, const uint8_t *keyFolds,
                             const uint8_t *valueUps, const heddle_sequence *sequences, int64_t numSequences,
                             int64_t keyOffset, int64_t qStride, int64_t outStride, int64_t isFixed, float *outputs,
                             float *maxima, float *sums, int64_t maxSplits, int32_t thread, int32_t numThreads);

static LatentDims latentDims() {
  LatentDims dims;
  dims.numHeads = dims.numKvHeads = 16;
  dims.rank = 512;
  dims.nope = dims.value = 128;
  dims.rope = 64;
  return dims;
}

//===- kernels ------------------------------------------------------------===//

// The op, alone in a function, with each of its matrices packed.
static std::string latentModule(LatentForm form, int64_t splits) {
  const LatentDims dims = latentDims();
  PackedLayout layout = *layoutFor(TensorType::BF16);
  int64_t queries = dims.numHeads * dims.queryDim(), width = dims.numHeads * dims.value;
  auto packed = [&](int64_t n, int64_t k) {
    return llvm::formatv("tensor<{0}xi8>", dims.numKvHeads * layout.bytes(n, k)).str();
  };
  std::string ups = packed(dims.nope, dims.rank), folds = packed(dims.rank, dims.nope),
              values = packed(dims.value, dims.rank), query = llvm::formatv("tensor<?x{0}xf32>", queries).str(),
              out = llvm::formatv("tensor<?x{0}xf32>", width).str(),
              scratch = llvm::formatv("tensor<?x{0}xf32>", dims.scratchDim()).str(),
              states = llvm::formatv("tensor<1x{0}xf32>", splits * dims.numHeads * (dims.rank + 2)).str(),
              cache = llvm::formatv("<1 x 1 x {0} x bf16, latent = {1}>", dims.cachedDim(), dims.rank).str();
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "func.func @step(%q: " << query << ", %cache: !heddle.kv_cache" << cache << ", %ups: " << ups
     << ", %folds: " << folds << ", %values: " << values << ", %out: " << out << ", %scratch: " << scratch
     << (splits ? ", %states: " + states : "") << ") -> " << out << " {\n  %layer = arith.constant 0 : index\n  %o"
     << (splits ? ":3" : ":2") << " = heddle.online_latent_attention <" << stringifyLatentForm(form)
     << "> <causal> ins(%q, %cache[%layer] : " << query << ", " << cache << ")";
  if (form != LatentForm::Absorbed)
    os << " key_ups(%ups : " << ups << ")";
  os << " value_ups(%values : " << values << ")";
  if (form != LatentForm::Materialised)
    os << " key_folds(%folds : " << folds << ")";
  std::string destinations = out + ", " + scratch + (splits ? ", " + states : "");
  os << " outs(%out, %scratch" << (splits ? ", %states : " : " : ") << destinations
     << ") {num_heads = " << dims.numHeads << ", num_kv_heads = " << dims.numKvHeads << ", nope = " << dims.nope
     << ", value = " << dims.value << (splits ? ", split_kv = " + std::to_string(defaultSplitKv) : "")
     << ", scale = 0.0721, key_format = \"bf16\", value_format = \"bf16\", fold_format = \"bf16\"} -> " << destinations
     << "\n  return %o#0 : " << out << "\n}\n";
  return text;
}

LatentKernels::LatentKernels(const std::string &targetName, LatentForm form, int64_t splits)
    : form(form), splits(splits), library(targetName) {}

bool LatentKernels::load() {
  mlir::MLIRContext *context = library.module().getContext();
  auto source = mlir::parseSourceString<mlir::ModuleOp>(latentModule(form, splits), context);
  if (!source)
    return false;
  OnlineLatentAttentionOp op;
  source->walk([&](OnlineLatentAttentionOp found) { op = found; });
  fixedBytes = op.getFixedBytes();
  bytesPerRow = op.getBytesPerRow();
  KernelModule module(*source, library.module());
  std::unique_ptr<KernelEmitter> emitter = cpu::onlineLatentAttention(library.target());
  auto kernels = emitter->emit(op, scheduleFor(op, targetAttr(context, library.target())), "_bench", module);
  if (failed(kernels))
    return false;
  std::vector<std::string> names;
  for (mlir::func::FuncOp kernel : *kernels)
    names.push_back(kernel.getSymName().str());
  if (!library.load())
    return false;
  for (const std::string &name : names)
    functions.push_back(reinterpret_cast<void *>(library.find<LatentCall>(name)));
  return true;
}

//===- one sequence -------------------------------------------------------===//

namespace {

// The up-projections of all heads, each packed for itself.
struct LatentWeights {
  LatentWeights();
  PageMemory keyUps, keyFolds, valueUps;
};

class LatentRun {
public:
  // `rows` queries behind `past` cached tokens.
  LatentRun(const LatentWeights &weights, int32_t past, int32_t rows, int32_t threads);

  Turn turn(const LatentKernels &kernels);
  LatentCost cost(const LatentKernels &kernels, LatentForm form) const;
  // Of the last call, (rows, num_heads * value).
  const std::vector<float> &result() const { return out; }

  const int32_t past, rows, threads;

private:
  const LatentWeights &weights;
  MeetingPoint point;
  PageMemory cached, scratch, states;
  std::vector<uint8_t *> pages;
  std::vector<float> queries, out;
  heddle_sequence sequence;
};

} // namespace

// Normal numbers, the same in every run.
static void draw(std::vector<float> &numbers, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (float &value : numbers)
    value = normal(generator);
}

static void drawBf16(uint16_t *numbers, size_t count, float deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  for (size_t i = 0; i < count; ++i) {
    float value = normal(generator);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    numbers[i] = uint16_t((bits + 0x8000) >> 16);
  }
}

LatentWeights::LatentWeights() {
  const LatentDims dims = latentDims();
  PackedLayout layout = *layoutFor(TensorType::BF16);
  auto pack = [&](PageMemory &to, int64_t n, int64_t k, bool transposed, unsigned seed) {
    int64_t bytes = layout.bytes(n, k);
    to = PageMemory(dims.numKvHeads * bytes + (64 << 10)); // what is fetched ahead may lie behind the last panel
    std::vector<uint16_t> numbers(n * k);
    for (int64_t head = 0; head < dims.numKvHeads; ++head) {
      drawBf16(numbers.data(), numbers.size(), 0.04f, seed + unsigned(head));
      WeightSource matrix{reinterpret_cast<const uint8_t *>(numbers.data()), n, transposed};
      packPanels(TensorType::BF16, {matrix}, k, 0, layout.numPanels(n), to.data() + head * bytes);
    }
  };
  pack(keyUps, dims.nope, dims.rank, false, 100);
  pack(keyFolds, dims.rank, dims.nope, true, 100);
  pack(valueUps, dims.value, dims.rank, false, 200);
}

static int64_t splitsOf(int64_t keys) {
  return (keys + defaultSplitKv - 1) / defaultSplitKv;
}

LatentRun::LatentRun(const LatentWeights &weights, int32_t past, int32_t rows, int32_t threads)
    : past(past), rows(rows), threads(threads), weights(weights), point(threads) {
  const LatentDims dims = latentDims();
  int64_t pageNumbers = HEDDLE_KV_PAGE_SIZE * dims.cachedDim(),
          count = (int64_t(past) + rows + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  cached = PageMemory(count * pageNumbers * 2);
  drawBf16(reinterpret_cast<uint16_t *>(cached.data()), count * pageNumbers, 1, 1);
  for (int64_t page = 0; page < count; ++page)
    pages.push_back(cached.data() + page * pageNumbers * 2);
  scratch = PageMemory(rows * dims.scratchDim() * 4);
  states = PageMemory(rows * splitsOf(past + rows + 1) * dims.numHeads * (dims.rank + 2) * 4);
  queries.resize(rows * dims.numHeads * dims.queryDim());
  draw(queries, 2);
  out.resize(rows * dims.numHeads * dims.value);
  sequence = {0, rows, past, 0, pages.data()};
}

Turn LatentRun::turn(const LatentKernels &kernels) {
  const LatentDims dims = latentDims();
  Turn turn;
  turn.body = [this, &kernels, dims](int32_t thread) {
    for (size_t i = 0; i < kernels.functions.size(); ++i) {
      if (i)
        point.wait();
      auto *used = reinterpret_cast<float *>(scratch.data()), *outputs = reinterpret_cast<float *>(states.data());
      int64_t plane = rows * kernels.splits * dims.numHeads, qStride = dims.numHeads * dims.queryDim(),
              outStride = dims.numHeads * dims.value;
      if (kernels.splits)
        reinterpret_cast<SplitLatentCall *>(kernels.functions[i])(
            queries.data(), out.data(), used, weights.keyUps.data(), weights.keyFolds.data(), weights.valueUps.data(),
            &sequence, 1, 0, qStride, outStride, /*isFixed=*/0, outputs, outputs + plane * dims.rank,
            outputs + plane * (dims.rank + 1), kernels.splits, thread, threads);
      else
        reinterpret_cast<LatentCall *>(kernels.functions[i])(
            queries.data(), out.data(), used, weights.keyUps.data(), weights.keyFolds.data(), weights.valueUps.data(),
            &sequence, 1, 0, qStride, outStride, /*isFixed=*/0, thread, threads);
    }
  };
  return turn;
}

LatentCost LatentRun::cost(const LatentKernels &kernels, LatentForm form) const {
  const LatentDims dims = latentDims();
  double keys = double(past) + rows, pairs = double(rows) * past + 0.5 * double(rows) * (rows + 1);
  bool absorbs = form == LatentForm::Absorbed;
  double ofPair = absorbs ? 2 * dims.rank + dims.rope : dims.queryDim() + dims.value;
  double flops = 2.0 * double(dims.numHeads) * ((absorbs ? rows : keys) * double(dims.rebuildCost()) + pairs * ofPair);
  double bytes =
      double(kernels.fixedBytes) + double(rows) * double(kernels.bytesPerRow) + 2.0 * keys * double(dims.cachedDim());
  return {flops, bytes};
}

//===- measuring ----------------------------------------------------------===//

static bool agree(const std::vector<float> &result, const std::vector<float> &expected) {
  NormalizedError error;
  for (size_t i = 0; i < result.size(); ++i)
    error.add(result[i], expected[i]);
  return error.value() < 1e-6;
}

// The body that `automatic` takes by its formula (AttentionKernelOps.td).
static LatentForm chosenForm(int64_t queries, int64_t keys) {
  const LatentDims dims = latentDims();
  int64_t rebuild = dims.rebuildCost();
  return queries * (rebuild + keys * dims.latentCost()) > keys * rebuild ? LatentForm::Materialised
                                                                         : LatentForm::Absorbed;
}

bool heddle::test::measureLatent(const std::string &target, int32_t threads, int rounds, const std::string &only) {
  constexpr int32_t context = 4096;
  struct Shape {
    std::string name;
    int32_t past, rows;
  };
  std::vector<Shape> shapes = {
      {"latent decode at 4096", context, 1}, {"latent prefill 512", 0, 512}, {"latent prefill 2048", 0, 2048}};
  for (int32_t rows = 1; rows <= 2048; rows *= 2)
    shapes.push_back({"latent " + std::to_string(rows) + " of 4096", context - rows, rows});
  auto isWanted = [&](const Shape &shape) { return shape.name.compare(0, only.size(), only) == 0; };
  if (llvm::none_of(shapes, isWanted))
    return true;
  using Kernels = std::array<LatentKernels, 3>;
  auto ofSplits = [&](int64_t splits) {
    return Kernels{LatentKernels(target, LatentForm::Absorbed, splits), LatentKernels(target, LatentForm::Materialised),
                   LatentKernels(target, LatentForm::Automatic, splits)};
  };
  // Several threads divide the keys where a step has few rows, as heddle-split-kv has it.
  Kernels whole = ofSplits(0), split = ofSplits(splitsOf(context + 1));
  for (Kernels *kernels : {&whole, &split})
    for (LatentKernels &each : *kernels)
      if (!each.load())
        return false;
  LatentWeights weights;
  const char *separator = "";
  for (const Shape &shape : llvm::make_filter_range(shapes, isWanted)) {
    LatentRun run(weights, shape.past, shape.rows, threads);
    bool divides = threads > 1 && shape.past + shape.rows > defaultSplitKv &&
                   shape.rows * splitsOf(context + 1) <= SplitKvOptions().slots;
    Kernels &kernels = divides ? split : whole;
    std::array<Turn, 3> turns;
    std::vector<float> expected;
    for (auto [turn, each] : llvm::zip(turns, kernels)) {
      turn = run.turn(each);
      setRepeats(threads, turn, 0.02);
      if (expected.empty())
        expected = run.result();
      else if (!agree(run.result(), expected))
        return llvm::errs() << shape.name << ": " << stringifyLatentForm(each.form) << " is not what absorbed is\n",
               false;
    }
    takeTurns(threads, rounds, {&turns[0], &turns[1], &turns[2]});
    for (auto [turn, each] : llvm::zip(turns, kernels)) {
      LatentForm chosen =
          each.form == LatentForm::Automatic ? chosenForm(shape.rows, int64_t(shape.past) + shape.rows) : each.form;
      LatentCost cost = run.cost(each, chosen);
      std::printf("%s\n    {\"name\": \"%s\", \"form\": \"%s\", \"body\": \"%s\", \"seconds\": %.9f, \"flops\": %.0f, "
                  "\"bytes\": %.0f, \"gflops\": %.1f}",
                  separator, shape.name.c_str(), stringifyLatentForm(each.form).str().c_str(),
                  stringifyLatentForm(chosen).str().c_str(), turn.seconds, cost.flops, cost.bytes,
                  1e-9 * cost.flops / turn.seconds);
      separator = ",";
    }
  }
  return true;
}
