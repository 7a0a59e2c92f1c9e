// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// row-bench [TARGET]: RMSNorm, rotary embedding and gated SiLU of a 1B Llama, as Halide makes them for programs
// (Inputs/rows.mlir) and written by hand as MLIR.
// Prints one JSON object for each kernel, number of rows and emitter: the best of rounds that the emitters take in turns, on one thread.
// Results are compared first: nothing is measured where two emitters differ.

#include "compiler/codegen/halide/HalideEmitter.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/kernel/RawBuilder.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/machine/LoadedObject.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/tune/MatmulRun.h"
#include "test/execute/KernelLibrary.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/raw_ostream.h"

#include "HalideBuffer.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <random>

using namespace heddle;
using namespace heddle::test;

static constexpr int64_t hidden = 2048, headDim = 64, ffn = 8192, context = 4096, maxRows = 512;

// `other`: (hidden) weights, or (context, head_dim) cosines and sines. Strides count elements.
using RowFunction = void(const float *x, const float *other, const int32_t *positions, float *out, int64_t rows,
                         int64_t xStride, int64_t outStride);

//===- as MLIR ------------------------------------------------------------===//

namespace {
// A row of a kernel that is being written.
struct Row {
  RawBuilder &b;
  mlir::Value x, other, position, out;
  const unsigned lanes;

  mlir::Value load(mlir::Value from, mlir::Value column, int64_t offset) const {
    return b.loadFloats(b.at(b.at(from, column, 4), 4 * offset), lanes);
  }
  void store(mlir::Value value, mlir::Value column, int64_t offset) const {
    b.store(value, b.at(b.at(out, column, 4), 4 * offset));
  }
  // Calls `body` with offsets from `column` for `count` vectors at a time, until `width`.
  void vectors(int64_t width, int64_t count, llvm::function_ref<void(mlir::Value column, int64_t offset)> body) const {
    b.loop(0, width, count * lanes, [&](mlir::Value column) {
      for (int64_t i = 0; i < count; ++i)
        body(column, i * lanes);
    });
  }
};
using WriteRow = std::function<void(const Row &)>;
} // namespace

// x / sqrt(sum x^2 / hidden + eps) * weight, the sum as so many partial ones.
static void writeNorm(const Row &row, unsigned partialSums) {
  RawBuilder &b = row.b;
  llvm::SmallVector<mlir::Value> init(partialSums / row.lanes, b.constantF32(0, row.lanes));
  auto sums = b.fold(b.constant(0), b.constant(hidden / partialSums), init, [&](mlir::Value i, mlir::ValueRange acc) {
    llvm::SmallVector<mlir::Value> next;
    for (mlir::Value sum : acc) {
      mlir::Value x = row.load(row.x, b.mul(i, partialSums), int64_t(next.size()) * row.lanes);
      next.push_back(b.fma(x, x, sum));
    }
    return next;
  });
  for (size_t left = sums.size() / 2; left; left /= 2)
    for (size_t i = 0; i < left; ++i)
      sums[i] = b.addF(sums[i], sums[i + left]);
  mlir::Value mean = b.divF(b.lane0(b.sumOfLanes(sums[0])), b.constantF32(hidden));
  mlir::Value root = mlir::math::SqrtOp::create(b, b.addF(mean, b.constantF32(1e-5)));
  mlir::Value scale = b.broadcast(b.divF(b.constantF32(1), root), row.lanes);
  row.vectors(hidden, 4, [&](mlir::Value column, int64_t i) {
    row.store(b.mulF(b.mulF(row.load(row.x, column, i), scale), row.load(row.other, column, i)), column, i);
  });
}

// Halves of a head: (a, b) becomes (a cos - b sin, b cos + a sin).
static void writeRope(const Row &row) {
  RawBuilder &b = row.b;
  const int64_t half = headDim / 2;
  mlir::Value table = b.at(row.other, row.position, 4 * headDim), start = b.constant(0);
  llvm::SmallVector<mlir::Value> cosines, sines;
  for (int64_t i = 0; i < half; i += row.lanes) {
    cosines.push_back(row.load(table, start, i));
    sines.push_back(row.load(table, start, half + i));
  }
  b.loop(0, hidden, headDim, [&](mlir::Value head) {
    for (auto [i, cosine, sine] : llvm::enumerate(cosines, sines)) {
      int64_t at = int64_t(i) * row.lanes;
      mlir::Value first = row.load(row.x, head, at), second = row.load(row.x, head, half + at);
      row.store(b.subF(b.mulF(first, cosine), b.mulF(second, sine)), head, at);
      row.store(b.fma(second, cosine, b.mulF(first, sine)), head, half + at);
    }
  });
}

// gate / (1 + e^-gate) * up; the gate is the first half of the row.
static void writeGlu(const Row &row) {
  RawBuilder &b = row.b;
  row.vectors(ffn, 4, [&](mlir::Value column, int64_t i) {
    mlir::Value gate = row.load(row.x, column, i), up = row.load(row.x, column, ffn + i);
    row.store(b.mulF(b.mulF(gate, emitSigmoid(b, gate)), up), column, i);
  });
}

static void writeKernel(KernelLibrary &library, const WriteRow &write) {
  RawBuilder b(library.module().getLoc(), library.module().getContext());
  mlir::Type pointer = b.pointerType(), number = b.getI64Type();
  beginFunction(b, library.module(), "kernel", {pointer, pointer, pointer, pointer, number, number, number});
  auto arguments = b.getInsertionBlock()->getArguments();
  b.loop(b.constant(0), arguments[4], 1, [&](mlir::Value row) {
    write({b, b.at(arguments[0], b.mul(row, arguments[5]), 4), arguments[1], b.loadIndex(b.at(arguments[2], row, 4)),
           b.at(arguments[3], b.mul(row, arguments[6]), 4), library.target().vectorLanes()});
  });
  mlir::func::ReturnOp::create(b);
}

//===- measuring ----------------------------------------------------------===//

namespace {
enum class Kind { Norm, Rope, Glu };

struct Formula {
  Kind kind;
  const char *name;
  int64_t in, out; // columns
};

struct Candidate {
  const char *emitter;
  WriteRow write = nullptr; // none: Halide's
  std::string object = "";
  double buildSeconds = 1e30;
  LoadedObject loaded = {};
  Turn turn = {};
};

// What the kernels read and write, the same for all: lines that begin as those of an arena, not at equal places of a page.
struct Memory {
  Memory() {
    std::mt19937 generator(1); // NOLINT(bugprone-random-generator-seed): the same in every run
    std::normal_distribution<float> normal;
    std::generate(x, out, [&] { return normal(generator); });
    for (int64_t row = 0; row < maxRows; ++row)
      positions[row] = int32_t(row * 37 % context);
  }
  static constexpr int64_t apart = 272; // 17 lines
  PageMemory storage{4 * (maxRows * 3 * ffn + context * headDim + 2 * apart)};
  float *x = reinterpret_cast<float *>(storage.data()), *other = x + maxRows * 2 * ffn + apart,
        *out = other + context * headDim + apart;
  std::vector<int32_t> positions = std::vector<int32_t>(maxRows);
};
} // namespace

// The fastest of five times that the object is made, each in a context of its own, which is not timed.
static bool build(Candidate &to, const Formula &formula, const Target &target) {
  for (int i = 0; i < 5; ++i) {
    KernelLibrary library(target.name);
    mlir::MLIRContext *context = library.module().getContext();
    context->loadDialect<mlir::linalg::LinalgDialect, mlir::tensor::TensorDialect>();
    auto source = mlir::parseSourceFile<mlir::ModuleOp>(HEDDLE_ROWS, context);
    if (!source)
      return false;
    std::optional<std::string> object;
    auto start = std::chrono::steady_clock::now();
    if (to.write) {
      writeKernel(library, to.write);
      object = library.compile();
    } else if (auto made = emitHalideKernel(source->lookupSymbol<mlir::func::FuncOp>(formula.name),
                                            rowsSchedule(targetAttr(context, target)), target, "kernel");
               succeeded(made)) {
      object = *made;
    }
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!object)
      return false;
    to.buildSeconds = std::min(to.buildSeconds, seconds.count()), to.object = std::move(*object);
  }
  std::string error;
  if (!to.loaded.load(to.object, HEDDLE_LLD, error))
    return llvm::errs() << error << '\n', false;
  return true;
}

static uint64_t codeBytes(const std::string &bytes) {
  auto object = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernel")));
  uint64_t size = 0;
  for (const llvm::object::SectionRef &section : object->sections())
    size += section.isText() ? section.getSize() : 0;
  return size;
}

template <typename... Buffers>
static std::function<void(int32_t)> call(const Candidate &candidate, Buffers... buffers) {
  auto *kernel = reinterpret_cast<int (*)(decltype(buffers.raw_buffer())...)>(candidate.loaded.find("kernel"));
  return [=](int32_t) mutable { kernel(buffers.raw_buffer()...); };
}

static std::function<void(int32_t)> callHalide(const Candidate &candidate, const Formula &formula, Memory &in,
                                               int rows) {
  using Floats = Halide::Runtime::Buffer<float>;
  Floats x(in.x, int(formula.in), rows), out(in.out, int(formula.out), rows);
  if (formula.kind == Kind::Glu)
    return call(candidate, x, out);
  if (formula.kind == Kind::Norm)
    return call(candidate, x, Floats(in.other, int(hidden)), out);
  return call(candidate, x, Halide::Runtime::Buffer<int32_t>(in.positions.data(), rows),
              Floats(in.other, int(headDim), int(context)), out);
}

static bool measure(const Formula &formula, llvm::MutableArrayRef<Candidate> candidates, Memory &in, int64_t rows) {
  llvm::SmallVector<Turn *> turns;
  std::vector<float> expected; // Halide's, which comes first
  for (Candidate &each : candidates) {
    auto *function = reinterpret_cast<RowFunction *>(each.loaded.find("kernel"));
    each.turn = Turn{[=, &in, &formula](int32_t) {
      function(in.x, in.other, in.positions.data(), in.out, rows, formula.in, formula.out);
    }};
    if (!each.write)
      each.turn.body = callHalide(each, formula, in, int(rows));
    setRepeats(1, each.turn, 0.01);
    turns.push_back(&each.turn);
    if (!each.write)
      expected.assign(in.out, in.out + rows * formula.out);
    NormalizedError error;
    for (size_t i = 0; i < expected.size(); ++i)
      error.add(in.out[i], expected[i]);
    if (!(error.value() < 1e-6))
      return llvm::errs() << formula.name << ": " << each.emitter << " is not what Halide's kernel is\n", false;
  }
  takeTurns(1, 40, turns);
  for (const Candidate &each : candidates)
    std::printf("{\"kernel\": \"%s\", \"rows\": %ld, \"emitter\": \"%s\", \"nanoseconds_per_row\": %.1f, "
                "\"gigabytes_per_second\": %.1f, \"code_bytes\": %lu, \"build_milliseconds\": %.1f}\n",
                formula.name, long(rows), each.emitter, each.turn.seconds / double(rows) * 1e9,
                double(4 * rows * (formula.in + formula.out)) / each.turn.seconds * 1e-9,
                static_cast<unsigned long>(codeBytes(each.object)), each.buildSeconds * 1e3);
  return true;
}

static bool measure(const Formula &formula, llvm::MutableArrayRef<Candidate> candidates, const Target &target,
                    Memory &in) {
  return llvm::all_of(candidates, [&](Candidate &each) { return build(each, formula, target); }) &&
         measure(formula, candidates, in, 1) && measure(formula, candidates, in, maxRows);
}

int main(int argc, char **argv) {
  std::string error;
  mlir::FailureOr<Target> target = parseTarget(argc > 1 ? argv[1] : "native", error);
  if (failed(target))
    return llvm::errs() << error << '\n', 2;
  Memory in;
  Candidate norms[] = {{"halide"},
                       {"mlir", [](const Row &row) { writeNorm(row, 128); }},
                       {"mlir, sums as Halide's", [](const Row &row) { writeNorm(row, 32); }}};
  Candidate ropes[] = {{"halide"}, {"mlir", writeRope}}, glus[] = {{"halide"}, {"mlir", writeGlu}};
  bool isWhole = measure({Kind::Norm, "rms_norm", hidden, hidden}, norms, *target, in) &&
                 measure({Kind::Rope, "rope", hidden, hidden}, ropes, *target, in) &&
                 measure({Kind::Glu, "glu", 2 * ffn, ffn}, glus, *target, in);
  return isWhole ? 0 : 1;
}
