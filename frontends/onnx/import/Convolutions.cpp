// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Windows that slide: Col2Im, Conv, ConvInteger, ConvTranspose, QLinearConv, pools, CausalConvWithState.
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/Quantized.h"
#include "frontends/onnx/import/StoredCodes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// Per spatial axis.
struct Windows {
  SmallVector<int64_t> strides, dilations;
  Dims kernel, low, high, out;
};

std::optional<SmallVector<int64_t>> positives(NodeImport &n, StringRef name, size_t count) {
  SmallVector<int64_t> numbers = n.integers(name).value_or(SmallVector<int64_t>(count, 1));
  if (numbers.size() == count && llvm::all_of(numbers, [](int64_t i) { return i > 0; }))
    return numbers;
  n.fail("attribute '" + name + "' must have " + Twine(count) + " positive numbers");
  return std::nullopt;
}

// Pads from pads or auto_pad, and the size of the result: floor or ceil((low + size + high - reach) / stride) + 1.
std::optional<Windows> windowsOf(NodeImport &n, const GraphValue &x, ArrayRef<Dim> kernel, bool ceil) {
  GraphBuilder &g = n.g;
  size_t count = kernel.size();
  Windows w;
  w.kernel.assign(kernel.begin(), kernel.end());
  auto strides = positives(n, "strides", count), dilations = positives(n, "dilations", count);
  if (!strides || !dilations)
    return std::nullopt;
  w.strides = *strides, w.dilations = *dilations;
  SmallVector<int64_t> pads = n.integers("pads").value_or(SmallVector<int64_t>(2 * count, 0));
  std::string mode = n.text("auto_pad", "NOTSET");
  bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!isSame && mode != "NOTSET" && mode != "VALID")
    n.fail("attribute 'auto_pad' is '" + mode + "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  if (pads.size() != 2 * count || llvm::any_of(pads, [](int64_t i) { return i < 0; }))
    n.fail("attribute 'pads' must have " + Twine(2 * count) + " numbers of at least 0");
  for (size_t i = 0; i < count && !g.failed(); ++i) {
    Dim size = x.dims[i + 2], reach = (kernel[i] - 1) * Dim(w.dilations[i]) + 1, stride(w.strides[i]);
    if (isSame) {
      Dim out = g.floorDiv(size + stride - 1, stride), total = g.maxOf((out - 1) * stride + reach - size, 0);
      Dim less = g.floorDiv(total, 2);
      w.low.push_back(mode == "SAME_UPPER" ? less : total - less);
      w.high.push_back(total - w.low.back());
      w.out.push_back(out);
      continue;
    }
    w.low.push_back(mode == "VALID" ? 0 : pads[i]);
    w.high.push_back(mode == "VALID" ? 0 : pads[count + i]);
    Dim room = size + w.low.back() + w.high.back() - reach, steps = g.floorDiv(ceil ? room + stride - 1 : room, stride);
    // A window that would begin in the padding behind the input is left out.
    if (ceil)
      steps = g.minOf(steps, g.floorDiv(size + w.low.back() - 1, stride));
    w.out.push_back(steps + 1);
    // With ceil a window may begin in the input and end behind it, however large it is: a pool of all of it by a kernel larger than any.
    n.requireAtMost(0, ceil ? room + stride - 1 : room, "the kernel is larger than the padded input");
    // With ceil the last window may reach further.
    w.high.back() = w.high.back() + g.maxOf(steps * stride - room, 0);
  }
  return g.failed() ? std::nullopt : std::optional<Windows>(std::move(w));
}

// Behind batch and channel; the value is `scalar`.
GraphValue padded(GraphBuilder &g, const GraphValue &x, const Windows &w, Value scalar) {
  Dims low(2, Dim(0)), high(2, Dim(0));
  low.append(w.low);
  high.append(w.high);
  return g.pad(x, low, high, scalar);
}

enum class Weights { AsStored, Transposed };

// out[n, g, m, o…] = sum over c, k… of x[n, g, c, o s + k d…] * w[g, m, c, k…]; with transposed weights
//                    sum over c, k… of x[n, g, c, o s + (K - 1 - k) d…] * w[g, c, m, k…]
GraphValue convolve(NodeImport &n, const GraphValue &x, const GraphValue &weights, const Windows &w, int64_t group,
                    Weights form = Weights::AsStored) {
  GraphBuilder &g = n.g;
  bool isTransposed = form == Weights::Transposed;
  std::optional<Dim> channels = x.dims[1].dividedBy(group), rows = weights.dims[0].dividedBy(group);
  if (!channels || !rows)
    return n.fail("group (" + Twine(group) + ") must divide channels and features");
  Dim features = isTransposed ? weights.dims[1] : *rows, read = isTransposed ? *rows : weights.dims[1];
  if ((*channels - read).isStatic() && *channels != read)
    return n.fail("weights for other channels per group than the input's" +
                  (channels->isStatic() ? " (" + Twine(channels->value()) + ")" : Twine("")));
  OnnxType wide = accumulatorOf(x.type);
  Dims xDims = {x.dims[0], Dim(group), *channels}, wDims = {Dim(group), *rows, weights.dims[1]},
       dims = {x.dims[0], Dim(group), features};
  xDims.append(x.dims.begin() + 2, x.dims.end());
  wDims.append(weights.dims.begin() + 2, weights.dims.end());
  dims.append(w.out.begin(), w.out.end());
  GraphValue source = g.reshape(g.cast(x, wide), xDims), kernel = g.reshape(g.cast(weights, wide), wDims);
  if (g.failed())
    return {};
  // Loops: n, g, m, o…, c, k…
  unsigned spatial = unsigned(w.out.size()), loops = 4 + 2 * spatial, channel = 3 + spatial;
  auto d = [&](unsigned i) { return g.b.getAffineDimExpr(i); };
  SmallVector<AffineExpr> xPlaces = {d(0), d(1), d(channel)}, wPlaces = {d(1), d(2), d(channel)};
  if (isTransposed)
    std::swap(wPlaces[1], wPlaces[2]);
  for (unsigned i = 0; i < spatial; ++i) {
    AffineExpr k = d(channel + 1 + i), tap = isTransposed ? w.kernel[i].value() - 1 - k : k;
    xPlaces.push_back(d(3 + i) * w.strides[i] + tap * w.dilations[i]);
    wPlaces.push_back(k);
  }
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::reduction);
  std::fill_n(iterators.begin(), 3 + spatial, utils::IteratorType::parallel);
  AffineMap outMap = g.b.getMultiDimIdentityMap(loops).getMajorSubMap(3 + spatial);
  auto map = [&](ArrayRef<AffineExpr> places) { return AffineMap::get(loops, 0, places, g.b.getContext()); };
  auto op =
      linalg::GenericOp::create(g.b, g.loc, g.tensorType(wide, dims), ValueRange{g.tensor(source), g.tensor(kernel)},
                                g.filled(wide, dims, g.constant(wide, 0)), {map(xPlaces), map(wPlaces), outMap},
                                iterators, [&](OpBuilder &b, Location loc, ValueRange v) {
                                  Value product = isFloat(wide) ? arith::MulFOp::create(b, loc, v[0], v[1]).getResult()
                                                                : arith::MulIOp::create(b, loc, v[0], v[1]).getResult();
                                  Value sum = GraphBuilder::combine(b, loc, Reduction::Sum, wide, v[2], product);
                                  linalg::YieldOp::create(b, loc, sum);
                                });
  Dims merged = {x.dims[0], features * group};
  merged.append(w.out.begin(), w.out.end());
  return g.cast(g.reshape(g.wrap(op.getResult(0), wide, dims), merged), x.type);
}

// (C) beside (N, C, …).
GraphValue perChannel(GraphBuilder &g, const GraphValue &v, int64_t rank) {
  if (g.failed())
    return {};
  Dims dims(rank, Dim(1));
  dims[1] = v.dims[0];
  return g.reshape(v, dims);
}

// The windows of x as rows: (n, o…, c k…).
GraphValue rowsOfWindows(GraphBuilder &g, const GraphValue &x, const Windows &w) {
  Dims dims = {x.dims[0]};
  dims.append(w.out.begin(), w.out.end());
  Dims rows = dims;
  dims.push_back(x.dims[1]);
  dims.append(w.kernel.begin(), w.kernel.end());
  // Loops: n, o…, c, k…
  unsigned spatial = unsigned(w.out.size()), loops = 2 + 2 * spatial, channel = 1 + spatial;
  auto d = [&](unsigned i) { return g.b.getAffineDimExpr(i); };
  SmallVector<AffineExpr> places = {d(0), d(channel)};
  Dim depth = x.dims[1];
  for (unsigned i = 0; i < spatial; ++i) {
    places.push_back(d(1 + i) * w.strides[i] + d(channel + 1 + i) * w.dilations[i]);
    depth = depth * w.kernel[i];
  }
  rows.push_back(depth);
  SmallVector<AffineMap> maps = {AffineMap::get(loops, 0, places, g.b.getContext()), g.b.getMultiDimIdentityMap(loops)};
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::parallel);
  auto op = linalg::GenericOp::create(
      g.b, g.loc, g.tensorType(x.type, dims), g.tensor(x), g.empty(x.type, dims), maps, iterators,
      [](OpBuilder &b, Location loc, ValueRange v) { linalg::YieldOp::create(b, loc, v[0]); });
  return g.reshape(g.wrap(op.getResult(0), x.type, dims), rows);
}

// The same of bytes with stored weights, as int32 (n, m, o…): a product of windows, whose padding is the zero point. Nothing for other operands.
GraphValue convolvedBytes(NodeImport &n, const Quantized &x, const Quantized &weights) {
  GraphBuilder &g = n.g;
  const GraphValue &codes = x.codes, &kernel = weights.codes;
  if (g.failed() || codes.rank() < 3 || kernel.rank() != codes.rank() || n.integer("group", 1) != 1 ||
      !storedWeight(kernel) || codes.dims[1] != kernel.dims[1] || !isInteger(codes.type))
    return {};
  std::optional<Windows> w = windowsOf(n, codes, ArrayRef<Dim>(kernel.dims).drop_front(2), false);
  if (!w || !isOneNumber(x.zero))
    return {};
  Value zero = x.zero ? g.toScalar(x.zero) : g.constant(codes.type, 0);
  GraphValue rows = rowsOfWindows(g, padded(g, codes, *w, zero), *w);
  GraphValue product = g.failed() ? GraphValue() : storedMatmul(g, {rows, {}, x.zero}, weights, /*isTransposed=*/true);
  if (!product)
    return {};
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, product.rank() - 1));
  order.insert(order.begin() + 1, product.rank() - 1);
  return g.transpose(product, order);
}

// The same of what was dequantised of bytes, in f32.
GraphValue convolvedDequantized(NodeImport &n, const GraphValue &x, const GraphValue &weights) {
  GraphBuilder &g = n.g;
  const Dequantized *from = Dequantized::of(x), *by = Dequantized::of(weights);
  if (g.failed() || !from || !by || x.type != OnnxType::Float || weights.type != OnnxType::Float)
    return {};
  const GraphValue &scale = by->integers.scale;
  if (!isOneNumber(from->integers.scale) || !isOneNumber(from->integers.zero) || (!isOneNumber(scale) && by->axis != 0))
    return {};
  GraphValue y = convolvedBytes(n, from->integers, by->integers);
  if (!y)
    return {};
  GraphValue both = g.mul(g.reshape(from->integers.scale, {}),
                          isOneNumber(scale) ? g.reshape(scale, {}) : perChannel(g, scale, y.rank()));
  return g.mul(g.cast(y, OnnxType::Float), both);
}

// The convolution that the node's attributes describe, without a bias.
GraphValue convolved(NodeImport &n, const GraphValue &x, const GraphValue &weights) {
  GraphBuilder &g = n.g;
  if (g.failed())
    return {};
  if (x.rank() < 3 || weights.rank() != x.rank() || x.type != weights.type)
    return n.fail("input and weights have ranks " + Twine(x.rank()) + " and " + Twine(weights.rank()) +
                  ", expected the same, at least 3, and one type");
  std::optional<Windows> w = windowsOf(n, x, ArrayRef<Dim>(weights.dims).drop_front(2), false);
  int64_t group = n.integer("group", 1);
  if (!w)
    return {};
  if (group < 1)
    return n.fail("attribute 'group' is " + Twine(group));
  return convolve(n, padded(g, x, *w, g.constant(x.type, 0)), weights, *w, group);
}

// With the bias at input 2.
GraphValue biasedConvolution(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue y = convolvedDequantized(n, n.in(0), n.in(1));
  if (!y)
    y = convolved(n, n.in(0), n.in(1));
  if (n.has(2) && n.checkRank(2, 1, "bias"))
    y = g.add(y, perChannel(g, n.in(2), n.in(0).rank()));
  return y;
}

void conv(NodeImport &n) {
  n.out(biasedConvolution(n));
}

// What is to be added before the activation is input 3.
void fusedConv(NodeImport &n) {
  GraphValue y = biasedConvolution(n);
  if (n.has(3))
    y = n.g.add(y, n.in(3));
  SmallVector<std::optional<float>> parameters;
  if (const OnnxAttribute *given = n.attribute("activation_params", 6))
    parameters.append(given->floats.begin(), given->floats.end());
  n.out(fusedActivation(n.g, y, n.text("activation", ""), parameters));
}

// x[n, c, i…] at s i…, zeros between.
GraphValue spread(GraphBuilder &g, const GraphValue &x, ArrayRef<int64_t> strides) {
  if (llvm::all_of(strides, [](int64_t s) { return s == 1; }))
    return x;
  Dims apart = {x.dims[0], x.dims[1]}, low(2 + 2 * strides.size(), Dim(0)), high(low), dims(apart);
  for (auto [i, stride] : llvm::enumerate(strides)) {
    apart.append({x.dims[i + 2], Dim(1)});
    high[3 + 2 * i] = stride - 1;
    dims.push_back(x.dims[i + 2] * stride);
  }
  return g.reshape(g.pad(g.reshape(x, apart), low, high, g.constant(x.type, 0)), dims);
}

// Axis `axis` with `before` and `after` zeros around it, or as many elements less where they are negative, which is known then.
GraphValue withMargins(NodeImport &n, const GraphValue &x, int64_t axis, const Dim &before, const Dim &after) {
  GraphBuilder &g = n.g;
  auto cut = [](const Dim &margin) { return margin.isStatic() && margin.value() < 0 ? -margin.value() : 0; };
  int64_t first = cut(before), last = cut(after);
  for (const Dim &margin : {before, after})
    if (!margin.isStatic())
      n.requireAtMost(0, margin, "output_shape is larger than the input gives");
  if (g.failed())
    return {};
  GraphValue kept = first || last ? g.slice(x, axis, first, x.dims[axis] - first - last) : x;
  Dims low(x.rank(), Dim(0)), high(low);
  low[axis] = before + first;
  high[axis] = after + last;
  return g.pad(kept, low, high, g.constant(x.type, 0));
}

// Stored numbers as rows of them: the same bytes under another shape.
GraphValue storedRows(GraphBuilder &g, const GraphValue &v, const Dim &columns) {
  WeightOp weight = g.failed() ? WeightOp() : storedWeight(v);
  if (!weight || !columns.isStatic() || !v.dims[0].isStatic())
    return g.reshape(v, {v.dims[0], columns});
  auto type = RankedTensorType::get({v.dims[0].value(), columns.value()},
                                    cast<RankedTensorType>(weight.getType()).getElementType());
  Value rows = WeightOp::create(g.b, weight.getLoc(), type, weight.getName(), weight.getStorage());
  return g.wrap(rows, v.type, {v.dims[0], columns});
}

// Where kernels lie side by side, as wide as they are apart, every element of the result has one place of the input: a product of its channels with
// (c, m k…), whose columns become places.
GraphValue sideBySide(GraphBuilder &g, const GraphValue &x, const GraphValue &weights, ArrayRef<int64_t> strides) {
  int64_t spatial = int64_t(strides.size());
  auto range = [](int64_t begin, int64_t end) { return llvm::to_vector(llvm::seq<int64_t>(begin, end)); };
  SmallVector<int64_t> channelsLast = {0}, places = {0}, channelsFirst = {0, spatial + 1};
  llvm::append_range(channelsLast, range(2, spatial + 2));
  channelsLast.push_back(1);
  Dims rows = {x.dims[0]}, whole = {x.dims[0]};
  Dim columns = weights.dims[1];
  for (int64_t i = 0; i < spatial; ++i) {
    rows.push_back(x.dims[i + 2]);
    whole.push_back(x.dims[i + 2] * strides[i]);
    columns = columns * strides[i];
    places.append({i + 1, spatial + 2 + i});
  }
  places.push_back(spatial + 1);
  whole.push_back(weights.dims[1]);
  llvm::append_range(channelsFirst, range(1, spatial + 1));
  GraphValue product = g.matmul(g.transpose(x, channelsLast), storedRows(g, weights, columns));
  rows.push_back(weights.dims[1]);
  for (int64_t stride : strides)
    rows.push_back(stride);
  return g.transpose(g.reshape(g.transpose(g.reshape(product, rows), places), whole), channelsFirst);
}

// Each element of the input adds its multiple of the kernel to the output, `stride` apart: a convolution of what is spread.
void convTranspose(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &weights = n.in(1);
  if (g.failed())
    return;
  if (x.rank() < 3 || weights.rank() != x.rank() || x.type != weights.type)
    return (void)n.fail("input and weights have ranks " + Twine(x.rank()) + " and " + Twine(weights.rank()) +
                        ", expected the same, at least 3, and one type");
  Windows w;
  w.kernel.assign(weights.dims.begin() + 2, weights.dims.end());
  size_t count = w.kernel.size();
  auto strides = positives(n, "strides", count), dilations = positives(n, "dilations", count);
  int64_t group = n.integer("group", 1);
  if (group < 1 || !llvm::all_of(w.kernel, [](const Dim &dim) { return dim.isStatic() && dim.value() > 0; }))
    n.fail("group and the kernel's sizes must be positive and known");
  auto numbers = [&](StringRef name, size_t size) {
    SmallVector<int64_t> list = n.integers(name).value_or(SmallVector<int64_t>(size, 0));
    if (list.size() != size || llvm::any_of(list, [](int64_t i) { return i < 0; }))
      n.fail("attribute '" + name + "' must have " + Twine(size) + " numbers of at least 0");
    return list;
  };
  SmallVector<int64_t> pads = numbers("pads", 2 * count), more = numbers("output_padding", count);
  bool hasShape = n.hasAttribute("output_shape");
  SmallVector<int64_t> shape = hasShape ? numbers("output_shape", count) : SmallVector<int64_t>();
  std::string mode = n.text("auto_pad", "NOTSET");
  bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!isSame && mode != "NOTSET" && mode != "VALID")
    n.fail("attribute 'auto_pad' is '" + mode + "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  if (g.failed())
    return;
  auto isZero = [](int64_t number) { return number == 0; };
  bool isApart =
      group == 1 && isFloat(x.type) && llvm::all_of(pads, isZero) && llvm::all_of(more, isZero) && !hasShape && !isSame;
  for (size_t i = 0; i < count; ++i)
    isApart = isApart && w.kernel[i].is((*strides)[i]) && (*dilations)[i] == 1;
  auto withBias = [&](const GraphValue &y) {
    return n.has(2) && n.checkRank(2, 1, "bias") ? g.add(y, perChannel(g, n.in(2), x.rank())) : y;
  };
  if (isApart && x.dims[1] == weights.dims[0])
    return n.out(withBias(sideBySide(g, x, weights, *strides)));
  w.strides.assign(count, 1);
  w.dilations = *dilations;
  GraphValue source = spread(g, x, *strides);
  for (size_t i = 0; i < count && !g.failed(); ++i) {
    Dim size = x.dims[i + 2], reach = (w.kernel[i] - 1) * Dim(w.dilations[i]);
    Dim whole = (size - 1) * Dim((*strides)[i]) + reach + 1 + more[i];
    Dim low = mode == "VALID" ? 0 : pads[i], out = whole - low - (mode == "VALID" ? 0 : pads[count + i]);
    if (hasShape || isSame) {
      out = hasShape ? Dim(shape[i]) : size * (*strides)[i];
      Dim total = whole - out, less = g.floorDiv(total, 2);
      low = mode == "SAME_UPPER" ? less : total - less;
    }
    n.requireAtMost(1, out, "the result would be empty");
    Dim before = reach - low;
    source = withMargins(n, source, int64_t(i) + 2, before, out + reach - before - size * (*strides)[i]);
    w.out.push_back(out);
  }
  if (g.failed())
    return;
  n.out(withBias(convolve(n, source, weights, w, group, Weights::Transposed)));
}

// A scale or zero point beside a tensor: of all of it, or one for each index of `axis`.
GraphValue besideAxis(NodeImport &n, size_t i, int64_t axis, int64_t rank) {
  GraphBuilder &g = n.g;
  const GraphValue &v = n.in(i);
  if (g.failed() || v.rank() == 0 || (v.rank() == 1 && v.dims[0].is(1)))
    return g.failed() ? GraphValue() : g.reshape(v, {});
  if (!n.checkRank(i, 1, "scale or zero point"))
    return {};
  Dims dims(rank, Dim(1));
  dims[axis] = v.dims[0];
  return g.reshape(v, dims);
}

// Input i in int32, without the zero point of input `zero`, of which the weights may have one for each feature.
GraphValue centered(NodeImport &n, size_t i, size_t zero) {
  GraphValue wide = n.g.cast(n.in(i), OnnxType::Int32);
  return n.has(zero) ? n.g.sub(wide, n.g.cast(besideAxis(n, zero, 0, wide.rank()), OnnxType::Int32)) : wide;
}

// The convolution of inputs x and w, without the zero points of inputs xZero and wZero, in int32.
GraphValue convolvedIntegers(NodeImport &n, size_t x, size_t xZero, size_t w, size_t wZero) {
  if (GraphValue y = convolvedBytes(n, {n.in(x), {}, n.optional(xZero)}, {n.in(w), {}, n.optional(wZero)}))
    return y;
  return convolved(n, centered(n, x, xZero), centered(n, w, wZero));
}

// x, w, their zero points
void convInteger(NodeImport &n) {
  n.out(convolvedIntegers(n, 0, 2, 1, 3));
}

// x, its scale and zero point, w, its, the result's, a bias in int32
void qLinearConv(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue y = convolvedIntegers(n, 0, 2, 3, 5);
  if (g.failed())
    return;
  int64_t rank = y.rank();
  if (n.has(8) && n.checkRank(8, 1, "bias"))
    y = g.add(y, perChannel(g, n.in(8), rank));
  GraphValue scale = g.mul(besideAxis(n, 1, 1, rank), besideAxis(n, 4, 1, rank));
  GraphValue real = g.mul(g.cast(y, OnnxType::Float), g.div(scale, besideAxis(n, 6, 1, rank)));
  OnnxType type = n.in(7).type;
  if (g.failed())
    return;
  if (!isQuantized(type))
    return (void)n.unsupported("to " + Twine(onnxTypeName(int32_t(type))) + " is not supported");
  n.out(saturated(g, real, besideAxis(n, 7, 1, rank), type));
}

// x combined over windows: a reduction over the kernel's places.
GraphValue pool(GraphBuilder &g, Reduction kind, const GraphValue &x, const Windows &w) {
  if (g.failed())
    return {};
  Dims dims = {x.dims[0], x.dims[1]};
  dims.append(w.out.begin(), w.out.end());
  unsigned spatial = unsigned(w.out.size()), loops = 2 + 2 * spatial;
  auto d = [&](unsigned i) { return g.b.getAffineDimExpr(i); };
  SmallVector<AffineExpr> places = {d(0), d(1)}, window;
  for (unsigned i = 0; i < spatial; ++i) {
    places.push_back(d(2 + i) * w.strides[i] + d(2 + spatial + i) * w.dilations[i]);
    window.push_back(d(2 + spatial + i));
  }
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::reduction);
  std::fill_n(iterators.begin(), 2 + spatial, utils::IteratorType::parallel);
  // The empty tensor only says how large a window is.
  Value shape = g.empty(x.type, w.kernel), start = g.filled(x.type, dims, g.neutral(kind, x.type));
  AffineMap outMap = g.b.getMultiDimIdentityMap(loops).getMajorSubMap(2 + spatial);
  auto map = [&](ArrayRef<AffineExpr> exprs) { return AffineMap::get(loops, 0, exprs, g.b.getContext()); };
  auto op = linalg::GenericOp::create(g.b, g.loc, g.tensorType(x.type, dims), ValueRange{g.tensor(x), shape}, start,
                                      {map(places), map(window), outMap}, iterators,
                                      [&](OpBuilder &b, Location loc, ValueRange v) {
                                        Value both = GraphBuilder::combine(b, loc, kind, x.type, v[2], v[0]);
                                        linalg::YieldOp::create(b, loc, both);
                                      });
  return g.wrap(op.getResult(0), x.type, dims);
}

std::optional<Windows> poolWindows(NodeImport &n, const GraphValue &x) {
  auto kernel = n.integers("kernel_shape");
  if (n.g.failed())
    return std::nullopt;
  if (!kernel || int64_t(kernel->size()) + 2 != x.rank() || llvm::any_of(*kernel, [](int64_t i) { return i < 1; })) {
    n.fail("attribute 'kernel_shape' must have a positive number per spatial axis");
    return std::nullopt;
  }
  return windowsOf(n, x, Dims(kernel->begin(), kernel->end()), n.integer("ceil_mode", 0) != 0);
}

void maxPool(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (n.wants(1))
    return (void)n.unsupported("with indices is not supported");
  if (auto w = poolWindows(n, n.in(0)))
    n.out(pool(g, Reduction::Max, padded(g, n.in(0), *w, g.limit(n.in(0).type, false)), *w));
}

// The sum over a window of x by its number of elements, those of the padding counted or not.
GraphValue averages(NodeImport &n, const GraphValue &x) {
  GraphBuilder &g = n.g;
  auto w = poolWindows(n, x);
  if (!w)
    return {};
  OnnxType wide = accumulatorOf(x.type);
  auto sum = [&](const GraphValue &v) { return pool(g, Reduction::Sum, padded(g, v, *w, g.constant(wide, 0)), *w); };
  GraphValue ones = g.full(wide, x.dims, 1);
  if (n.integer("count_include_pad", 0)) {
    // Pads that were asked for count, what ceil_mode adds does not.
    SmallVector<int64_t> pads = n.integers("pads").value_or(SmallVector<int64_t>(2 * w->kernel.size(), 0));
    Windows given = *w, rest = *w;
    for (size_t i = 0; i < w->kernel.size(); ++i) {
      if (n.text("auto_pad", "NOTSET") == "NOTSET")
        given.high[i] = pads[w->kernel.size() + i];
      rest.low[i] = 0;
      rest.high[i] = w->high[i] - given.high[i];
    }
    GraphValue counted = padded(g, ones, given, g.constant(wide, 1));
    ones = pool(g, Reduction::Sum, padded(g, counted, rest, g.constant(wide, 0)), *w);
    return g.cast(g.div(sum(g.cast(x, wide)), ones), x.type);
  }
  return g.cast(g.div(sum(g.cast(x, wide)), sum(ones)), x.type);
}

void averagePool(NodeImport &n) {
  n.out(averages(n, n.in(0)));
}

// X, its scale and zero point, the result's.
void qLinearAveragePool(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (n.integer("channels_last", 0))
    n.unsupported("with channels_last is not supported");
  GraphValue x = g.cast(n.in(0), OnnxType::Float);
  auto numberOf = [&](size_t i) { return g.failed() ? GraphValue() : g.cast(g.reshape(n.in(i), {}), OnnxType::Float); };
  if (n.has(2))
    x = g.sub(x, numberOf(2));
  GraphValue y = averages(n, g.mul(x, numberOf(1)));
  n.out(saturated(g, g.div(y, numberOf(3)), n.has(4) ? numberOf(4) : GraphValue(), n.in(0).type));
}

template <bool IsMax> void globalPool(NodeImport &n) {
  const GraphValue &x = n.in(0);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, std::max<int64_t>(x.rank(), 2)));
  n.out(IsMax ? n.g.reduce(Reduction::Max, x, axes, true) : n.g.mean(x, axes, true));
}

// Windows (N, C k…, o…) put back where they came from, summed where they overlap: y[n, c, i…] is the sum over places k… of a window of x[n, c, k…, o…]
// where o s + k d - low is i.
void col2Im(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  std::optional<Dims> image = g.toDims(n.in(1)), kernel = g.toDims(n.in(2));
  if (!n.checkRank(0, 3, "input"))
    return;
  if (!image || !kernel || image->empty() || image->size() != kernel->size() ||
      !llvm::all_of(*kernel, [](const Dim &dim) { return dim.isStatic() && dim.value() > 0; }))
    return (void)n.unsupported(
        "with a block_shape that only the run knows, or that is not as long as image_shape, is not supported");
  // The windows are those that a convolution of the image would have.
  GraphValue whole;
  whole.type = x.type;
  whole.dims = {x.dims[0], Dim(1)};
  whole.dims.append(image->begin(), image->end());
  constexpr int64_t mostPlaces = int64_t(1) << 32;
  int64_t count = 1;
  for (const Dim &side : *kernel)
    if (llvm::MulOverflow(count, side.value(), count) || count > mostPlaces)
      return (void)n.fail("block_shape has more than " + Twine(mostPlaces) + " places");
  std::optional<Windows> w = windowsOf(n, whole, *kernel, false);
  if (!w)
    return;
  Dim places(count);
  std::optional<Dim> channels = x.dims[1].dividedBy(places);
  if (!channels)
    return (void)n.fail("the channels of the input are no multiple of the places of a window");
  if (!n.requireAtMost(g.product(w->out), x.dims[2], "the input has fewer windows than the image") ||
      !n.requireAtMost(x.dims[2], g.product(w->out), "the input has more windows than the image"))
    return;
  size_t spatial = kernel->size();
  Dims dims = {x.dims[0], *channels};
  dims.append(image->begin(), image->end());
  dims.append(kernel->begin(), kernel->end());
  Value source = g.tensor(x), zero = g.constantIndex(0), none = g.constant(x.type, 0), placesOf = g.index(places);
  SmallVector<Value> low, out;
  for (size_t i = 0; i < spatial && !g.failed(); ++i) {
    low.push_back(g.index(w->low[i]));
    out.push_back(g.index(w->out[i]));
  }
  GraphValue terms = g.generate(x.type, dims, [&](OpBuilder &b, ValueRange at) -> Value {
    Location loc = g.loc;
    auto number = [&](int64_t i) -> Value { return arith::ConstantIndexOp::create(b, loc, i); };
    Value isThere, window = zero, place = zero;
    for (size_t i = 0; i < spatial; ++i) {
      Value k = at[2 + spatial + i], stride = number(w->strides[i]);
      Value tap = arith::MulIOp::create(b, loc, k, number(w->dilations[i]));
      Value from = arith::SubIOp::create(b, loc, arith::AddIOp::create(b, loc, at[2 + i], low[i]), tap);
      Value positive = arith::MaxSIOp::create(b, loc, from, zero), o = arith::DivUIOp::create(b, loc, positive, stride);
      Value isOn =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, arith::MulIOp::create(b, loc, o, stride), from);
      isOn = arith::AndIOp::create(b, loc, isOn, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, o, out[i]));
      isThere = isThere ? arith::AndIOp::create(b, loc, isThere, isOn).getResult() : isOn;
      Value kept = arith::SelectOp::create(b, loc, isOn, o, zero);
      window = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, window, out[i]), kept);
      place = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, place, number((*kernel)[i].value())), k);
    }
    Value row = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, at[1], placesOf), place);
    Value element = tensor::ExtractOp::create(b, loc, source, ValueRange{at[0], row, window});
    return arith::SelectOp::create(b, loc, isThere, element, none);
  });
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(int64_t(2 + spatial), int64_t(2 + 2 * spatial)));
  n.out(g.reduce(Reduction::Sum, terms, axes, false));
}

// Each channel convolved with what came before it; the last k - 1 elements are carried to the next call.
void causalConvWithState(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &weights = n.in(1);
  if (!n.checkRank(0, 3, "input") || !n.checkRank(1, 3, "weight"))
    return;
  std::string activation = n.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return (void)n.fail("attribute 'activation' is '" + activation + "', expected none, silu or swish");
  if (!x.dims[1].isStatic() || x.dims[1].value() < 1 || !weights.dims[2].isStatic() || weights.dims[2].value() < 1)
    return (void)n.fail("channels and kernel size must be known");
  Dim carried = weights.dims[2] - 1;
  GraphValue past = n.has(3) ? n.in(3) : g.full(x.type, {x.dims[0], x.dims[1], carried}, 0);
  GraphValue whole = carried.is(0) ? x : g.concat({past, x}, 2);
  Windows w{{1}, {1}, {weights.dims[2]}, {Dim(0)}, {Dim(0)}, {x.dims[2]}};
  GraphValue y = convolve(n, whole, weights, w, x.dims[1].value());
  if (n.has(2) && n.checkRank(2, 1, "bias"))
    y = g.add(y, perChannel(g, n.in(2), 3));
  n.out(activation == "none" || g.failed() ? y : g.mul(y, g.sigmoid(y)));
  n.out(g.slice(whole, 2, x.dims[2], carried), 1);
}

} // namespace

ArrayRef<OpRow> heddle::convolutionOps() {
  static const OpRow table[] = {
      {"", "AveragePool", 7, averagePool},
      {"", "CausalConvWithState", 27, causalConvWithState},
      {"", "Col2Im", 18, col2Im},
      {"", "Conv", 1, conv},
      {"", "ConvInteger", 10, convInteger},
      {"", "ConvTranspose", 1, convTranspose},
      {"", "GlobalAveragePool", 1, globalPool<false>},
      {"", "GlobalMaxPool", 1, globalPool<true>},
      {"", "MaxPool", 1, maxPool},
      {"", "QLinearConv", 10, qLinearConv},
      {"com.microsoft", "FusedConv", 1, fusedConv},
      {"com.microsoft", "QLinearAveragePool", 1, qLinearAveragePool},
  };
  return table;
}
