// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Spectra: DFT and STFT, as products with cosines and sines; the windows of frames (HannWindow, HammingWindow, BlackmanWindow); MelWeightMatrix.
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

namespace {

// Up to here a table is a constant, beyond it is made when the graph runs.
constexpr int64_t maxConstantTable = 1 << 20;
// A transform as a product has as many operations for each row as its table has elements.
constexpr int64_t maxTable = 1 << 26;

// Complex numbers, or real ones without an imaginary part.
struct Complex {
  GraphValue real, imaginary;
};

// x (…, 1) or (…, 2) as parts (…).
std::optional<Complex> partsOf(NodeImport &n, const GraphValue &x) {
  GraphBuilder &g = n.g;
  int64_t last = x.rank() - 1;
  if (g.failed() || last < 1 || !isFloat(x.type) || !(x.dims[last].is(1) || x.dims[last].is(2))) {
    n.fail("input 0 must be floats of rank 2 or more, the last dimension 1 (real) or 2 (complex)");
    return std::nullopt;
  }
  GraphValue wide = g.cast(x, accumulatorOf(x.type));
  auto part = [&](int64_t i) { return g.squeeze(g.slice(wide, last, i, 1), {last}); };
  return Complex{part(0), x.dims[last].is(2) ? part(1) : GraphValue()};
}

// Parts (…) as a tensor (…, 2), or (…, 1) of real numbers.
GraphValue joined(GraphBuilder &g, const Complex &x) {
  int64_t last = x.real.rank();
  GraphValue real = g.unsqueeze(x.real, {last});
  return x.imaginary ? g.concat({real, g.unsqueeze(x.imaginary, {last})}, last) : real;
}

GraphValue constantTable(GraphBuilder &g, OnnxType type, ArrayRef<Dim> dims, function_ref<double(int64_t)> element) {
  auto shape = g.tensorType(OnnxType::Double, dims);
  SmallVector<double> numbers;
  for (int64_t i = 0; i < shape.getNumElements(); ++i)
    numbers.push_back(element(i));
  Value constant = arith::ConstantOp::create(g.b, g.loc, DenseElementsAttr::get(shape, ArrayRef<double>(numbers)));
  return g.cast(g.wrap(constant, OnnxType::Double, dims), type);
}

// What `rows` numbers of a signal (of a spectrum, where isInverse) are multiplied by: cos and sin of 2 pi t k / length, for row t and column k.
struct Waves {
  Dim rows, columns, length;
  bool isInverse = false;
  bool isHalf = false; // of an inverse one: a row stands for its conjugate, too

  // What row t counts for.
  double weight(int64_t t) const {
    double all = isInverse ? 1 / double(length.value()) : 1;
    return isHalf && t > 0 && 2 * t < length.value() ? 2 * all : all;
  }
  GraphValue table(NodeImport &n, OnnxType type, bool isSine) const;

private:
  Value element(GraphBuilder &g, OpBuilder &b, OnnxType type, Value size, ValueRange at, bool isSine) const;
};

GraphValue Waves::table(NodeImport &n, OnnxType type, bool isSine) const {
  GraphBuilder &g = n.g;
  Dims dims = {rows, columns};
  bool isKnown = rows.isStatic() && columns.isStatic() && length.isStatic();
  if (g.failed())
    return {};
  if (isKnown && rows.value() * columns.value() > maxTable)
    return n.unsupported("of " + Twine(length.value()) + " elements is not supported: it is computed as a product");
  if (isKnown && rows.value() * columns.value() <= maxConstantTable)
    return constantTable(g, type, dims, [&](int64_t i) {
      int64_t t = i / columns.value(), k = i % columns.value();
      double angle = 2 * M_PI * double(t * k % length.value()) / double(length.value());
      return weight(t) * (isSine ? std::sin(angle) : std::cos(angle));
    });
  // A symmetric window of one element has the period 0.
  Value size = arith::MaxUIOp::create(g.b, g.loc, g.index(length), g.constantIndex(1));
  return g.generate(type, dims,
                    [&](OpBuilder &b, ValueRange at) -> Value { return element(g, b, type, size, at, isSine); });
}

// The same of a table that the run makes.
Value Waves::element(GraphBuilder &g, OpBuilder &b, OnnxType type, Value size, ValueRange at, bool isSine) const {
  Location loc = g.loc;
  Type scalar = g.elementType(type);
  auto number = [&](double x) -> Value { return arith::ConstantOp::create(b, loc, b.getFloatAttr(scalar, x)); };
  auto ofIndex = [&](Value x) -> Value {
    return arith::SIToFPOp::create(b, loc, scalar, arith::IndexCastOp::create(b, loc, b.getI64Type(), x));
  };
  Value turn = arith::RemUIOp::create(b, loc, arith::MulIOp::create(b, loc, at[0], at[1]), size);
  Value angle =
      arith::MulFOp::create(b, loc, number(2 * M_PI), arith::DivFOp::create(b, loc, ofIndex(turn), ofIndex(size)));
  Value wave = isSine ? math::SinOp::create(b, loc, angle).getResult() : math::CosOp::create(b, loc, angle);
  if (isHalf) {
    Value two = arith::ConstantIndexOp::create(b, loc, 2), zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value isInside = arith::AndIOp::create(
        b, loc, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, at[0], zero),
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, arith::MulIOp::create(b, loc, at[0], two), size));
    wave = arith::MulFOp::create(b, loc, wave, arith::SelectOp::create(b, loc, isInside, number(2), number(1)));
  }
  return isInverse ? arith::DivFOp::create(b, loc, wave, ofIndex(size)).getResult() : wave;
}

// The sums of x times e^(-2 pi i t k / length), or of an inverse e^(+…); `sum` multiplies a part by a table (rows, columns).
Complex transformed(NodeImport &n, const Complex &x, const Waves &waves, const GraphValue &window, bool wantsReal,
                    function_ref<GraphValue(const GraphValue &part, const GraphValue &table)> sum) {
  GraphBuilder &g = n.g;
  auto table = [&](bool isSine) {
    GraphValue waveTable = waves.table(n, x.real.type, isSine);
    return window ? g.mul(waveTable, window) : waveTable;
  };
  GraphValue cosines = table(false), sines = table(true);
  // (a + ib)(cos - i sin) = (a cos + b sin) + i(b cos - a sin), and of an inverse with the other sign of the sine.
  GraphValue turned = waves.isInverse ? sines : g.neg(sines);
  Complex y{sum(x.real, cosines), wantsReal ? GraphValue() : sum(x.real, turned)};
  if (x.imaginary) {
    y.real = g.sub(y.real, sum(x.imaginary, turned));
    if (!wantsReal)
      y.imaginary = g.add(y.imaginary, sum(x.imaginary, cosines));
  }
  return y;
}

// x with `length` elements on an axis: the first ones, or zeros behind them.
GraphValue fitted(GraphBuilder &g, const GraphValue &x, int64_t axis, const Dim &length) {
  if (!x || x.dims[axis] == length)
    return x;
  Dim kept = g.minOf(x.dims[axis], length);
  Dims low(x.rank(), Dim(0)), high(x.rank(), Dim(0));
  high[axis] = length - kept;
  return g.pad(g.slice(x, axis, 0, kept), low, high, g.constant(x.type, 0));
}

std::optional<int64_t> axisOf(NodeImport &n, int64_t rank) {
  int64_t axis = n.opset < 20 ? n.integer("axis", 1) : -2;
  if (n.opset >= 20 && n.has(2)) {
    auto given = n.in(2).integers();
    if (!given || given->size() != 1) {
      n.unsupported("with an axis that only the run knows is not supported");
      return std::nullopt;
    }
    axis = given->front();
  }
  axis = n.axis(axis, rank);
  if (n.g.failed() || axis != rank - 1)
    return axis;
  n.fail("axis is that of real and imaginary parts");
  return std::nullopt;
}

// A scalar input as a size of at least 1.
Dim lengthOf(NodeImport &n, size_t i, const Twine &what) {
  Dim length = n.g.toDim(n.g.cast(n.in(i), OnnxType::Int64));
  n.requireAtMost(1, length, what + " must be at least 1");
  return length;
}

void dft(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  bool isInverse = n.integer("inverse", 0) != 0, isOneSided = n.integer("onesided", 0) != 0;
  std::optional<Complex> parts = partsOf(n, x);
  std::optional<int64_t> axis = parts ? axisOf(n, x.rank()) : std::nullopt;
  if (!axis || g.failed())
    return;
  if (isOneSided && isInverse != bool(parts->imaginary))
    return (void)n.fail(isInverse ? "onesided and inverse expect complex input" : "onesided expects real input");
  Dim size = x.dims[*axis];
  Dim length = n.has(1) ? lengthOf(n, 1, "dft_length") : isOneSided && isInverse ? (size - 1) * Dim(2) : size;
  if (g.failed())
    return;
  Dim half = isOneSided ? g.floorDiv(length, 2) + 1 : length;
  Waves waves{isInverse ? half : length, isInverse ? length : half, length, isInverse, isInverse && isOneSided};
  Complex signal{fitted(g, parts->real, *axis, waves.rows), fitted(g, parts->imaginary, *axis, waves.rows)};
  SmallVector<int64_t> from = llvm::to_vector(llvm::seq<int64_t>(0, x.rank() - 1)), to = from;
  to[*axis] = x.rank() - 1; // a label of its own
  Complex spectrum =
      transformed(n, signal, waves, {}, isInverse && isOneSided, [&](const GraphValue &part, const GraphValue &table) {
        return g.contract(part, from, table, {*axis, to[*axis]}, to, part.type);
      });
  n.out(g.cast(joined(g, spectrum), x.type));
}

// out[b, f, k] = sum over t of x[b, f step + t] table[t, k]
GraphValue framesTimes(GraphBuilder &g, const GraphValue &x, const GraphValue &table, const Dim &frames, int64_t step) {
  if (g.failed())
    return {};
  Dims dims = {x.dims[0], frames, table.dims[1]};
  auto d = [&](unsigned i) { return g.b.getAffineDimExpr(i); };
  auto map = [&](ArrayRef<AffineExpr> places) { return AffineMap::get(4, 0, places, g.b.getContext()); };
  SmallVector<utils::IteratorType> loops(4, utils::IteratorType::parallel);
  loops[3] = utils::IteratorType::reduction;
  auto op = linalg::GenericOp::create(g.b, g.loc, g.tensorType(x.type, dims), ValueRange{g.tensor(x), g.tensor(table)},
                                      g.filled(x.type, dims, g.constant(x.type, 0)),
                                      {map({d(0), d(1) * step + d(3)}), map({d(3), d(2)}), map({d(0), d(1), d(2)})},
                                      loops, [&](OpBuilder &b, Location loc, ValueRange v) {
                                        Value product = arith::MulFOp::create(b, loc, v[0], v[1]);
                                        linalg::YieldOp::create(
                                            b, loc, arith::AddFOp::create(b, loc, v[2], product).getResult());
                                      });
  return g.wrap(op.getResult(0), x.type, dims);
}

void stft(NodeImport &n) {
  GraphBuilder &g = n.g;
  // Exporters write a real signal without its last dimension, and ONNX Runtime takes it.
  GraphValue x = n.in(0).rank() == 2 ? g.unsqueeze(n.in(0), {2}) : n.in(0);
  bool isOneSided = n.integer("onesided", 1) != 0;
  std::optional<Complex> signal = partsOf(n, x);
  if (!signal || x.rank() != 3)
    return (void)n.fail("input 0 (signal) must have rank 3: batch, signal_length, parts");
  if (isOneSided && signal->imaginary)
    return (void)n.fail("onesided expects a real signal");
  auto step = n.in(1).integers();
  if (!step || step->size() != 1)
    return (void)n.unsupported("with a frame_step that only the run knows is not supported");
  if (step->front() < 1)
    return (void)n.fail("frame_step is " + Twine(step->front()) + ", expected at least 1");
  GraphValue window = n.optional(2);
  if (window && (window.rank() != 1 || window.type != x.type))
    return (void)n.fail("input 2 (window) must have rank 1 and the type of the signal");
  if (!window && !n.has(3))
    return (void)n.fail("has neither a window nor a frame_length");
  Dim length = n.has(3) ? lengthOf(n, 3, "frame_length") : window.dims[0];
  if (g.failed() || !n.requireAtMost(length, x.dims[1], "a frame is longer than the signal"))
    return;
  if (window)
    window = g.unsqueeze(g.cast(g.broadcast(window, {length}), signal->real.type), {1});
  Dim frames = g.floorDiv(x.dims[1] - length, step->front()) + 1;
  Waves waves{length, isOneSided ? g.floorDiv(length, 2) + 1 : length, length};
  Complex spectra =
      transformed(n, *signal, waves, window, /*wantsReal=*/false, [&](const GraphValue &part, const GraphValue &table) {
        return framesTimes(g, part, table, frames, step->front());
      });
  n.out(g.cast(joined(g, spectra), x.type));
}

//===- windows ------------------------------------------------------------===//

std::optional<OnnxType> outputType(NodeImport &n) {
  OnnxType type = OnnxType(n.integer("output_datatype", int64_t(OnnxType::Float)));
  if (n.g.failed() || isFloat(type))
    return n.g.failed() ? std::nullopt : std::optional(type);
  n.unsupported("with output_datatype " + Twine(int64_t(type)) + " is not supported, which is no type of floats");
  return std::nullopt;
}

// The sum of a[i] cos(2 pi i t / period) for t below the size.
void window(NodeImport &n, ArrayRef<double> a) {
  GraphBuilder &g = n.g;
  std::optional<OnnxType> type = outputType(n);
  if (!type)
    return;
  Dim size = lengthOf(n, 0, "size");
  if (g.failed())
    return;
  OnnxType wide = accumulatorOf(*type);
  Dim period = n.integer("periodic", 1) != 0 ? size : size - 1;
  Waves waves{size, Dim(int64_t(a.size())), period};
  // Of a symmetric window of one element the formula says 0/0.
  if (period.is(0))
    return (void)n.out(g.full(*type, {size}, 1));
  GraphValue table = waves.table(n, wide, /*isSine=*/false), sum = g.scalar(wide, 0);
  for (auto [i, factor] : llvm::enumerate(a))
    sum = g.add(sum, g.mul(g.squeeze(g.slice(table, 1, int64_t(i), 1), {1}), g.scalar(wide, factor)));
  n.out(g.cast(sum, *type));
}

void hannWindow(NodeImport &n) {
  window(n, {0.5, -0.5});
}

void hammingWindow(NodeImport &n) {
  window(n, {25.0 / 46.0, -21.0 / 46.0});
}

void blackmanWindow(NodeImport &n) {
  window(n, {0.42, -0.5, 0.08});
}

// Triangles (floor(dft_length / 2) + 1, num_mel_bins) between places that lie evenly on the mel scale, 2595 log10(1 + hertz / 700).
void melWeightMatrix(NodeImport &n) {
  GraphBuilder &g = n.g;
  std::optional<OnnxType> type = outputType(n);
  SmallVector<double> given;
  for (size_t i = 0; i < 5 && !g.failed(); ++i)
    if (auto number = g.constantNumber(n.in(i)))
      given.push_back(*number);
  if (!type || g.failed())
    return;
  if (given.size() != 5)
    return (void)n.unsupported("with inputs that only the run knows is not supported");
  auto [bins, length, rate, low, high] = std::make_tuple(given[0], given[1], given[2], given[3], given[4]);
  if (!(bins >= 1 && length >= 1 && rate >= 1 && bins * length <= maxConstantTable) || !(low >= 0 && low <= high))
    return (void)n.fail("expected counts of at least 1, a product of bins and dft_length of at most 2^20, and edges "
                        "that begin at 0 and ascend");
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  int64_t rows = int64_t(length) / 2 + 1, columns = int64_t(bins);
  SmallVector<int64_t> places;
  for (int64_t i = 0; i < columns + 2; ++i) {
    double at = mel(low) + double(i) * (mel(high) - mel(low)) / double(columns + 2);
    places.push_back(int64_t(std::floor((length + 1) * 700 * (std::pow(10, at / 2595) - 1) / rate)));
  }
  n.out(constantTable(g, *type, {Dim(rows), Dim(columns)}, [&](int64_t i) {
    int64_t row = i / columns, begin = places[i % columns], peak = places[i % columns + 1],
            end = places[i % columns + 2];
    if (row == peak)
      return 1.0;
    if (row >= begin && row < peak)
      return double(row - begin) / double(peak - begin);
    return row > peak && row < end ? double(end - row) / double(end - peak) : 0.0;
  }));
}

} // namespace

ArrayRef<OpRow> heddle::fourierOps() {
  static const OpRow table[] = {
      {"", "DFT", 17, dft},
      {"", "STFT", 17, stft},
      {"", "HannWindow", 17, hannWindow},
      {"", "HammingWindow", 17, hammingWindow},
      {"", "BlackmanWindow", 17, blackmanWindow},
      {"", "MelWeightMatrix", 17, melWeightMatrix},
  };
  return table;
}
