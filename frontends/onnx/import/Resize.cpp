// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Grids that become finer or coarser: Resize, Upsample.
//
// One axis after the other: y[i] = sum over taps k of weight(k, i) * x[place(k, i)]. Places and weights depend on one index alone, so they are
// tables of the length of the new axis, computed in f32 from the scale; the sums then read them.
#include "frontends/onnx/import/GraphImporter.h"

#include "dialect/HeddleDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

namespace {

// How an axis is resized; scalars are f32.
struct ResizedAxis {
  int64_t axis;
  Dim length;                  // of the result
  Value scale, begin, end;     // begin and end of the region that is cut out, of tf_crop_and_resize alone
  std::optional<double> known; // the scale, if it is a constant
};

// What the attributes ask for.
struct ResizeModes {
  std::string mode, coordinates, nearest;
  double cubic, outside; // the coefficient of Keys' kernel; what is beyond the input
  bool isAntialias, excludesOutside;

  bool isCrop() const { return coordinates == "tf_crop_and_resize"; }
};

// f32 scalars, folded where they are constants.
struct Scalars {
  OpBuilder &b;
  Location loc;

  Value number(double x) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(x))); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddFOp>(loc, x, y); }
  Value sub(Value x, Value y) { return b.createOrFold<arith::SubFOp>(loc, x, y); }
  Value mul(Value x, Value y) { return b.createOrFold<arith::MulFOp>(loc, x, y); }
  Value div(Value x, Value y) { return b.createOrFold<arith::DivFOp>(loc, x, y); }
  Value floor(Value x) { return b.createOrFold<math::FloorOp>(loc, x); }
  Value less(Value x, Value y) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value ofIndex(Value x) {
    Value wide = b.createOrFold<arith::IndexCastOp>(loc, b.getI64Type(), x);
    return b.createOrFold<arith::SIToFPOp>(loc, b.getF32Type(), wide);
  }
  Value toIndex(Value x) {
    Value wide = b.createOrFold<arith::FPToSIOp>(loc, b.getI64Type(), x);
    return b.createOrFold<arith::IndexCastOp>(loc, b.getIndexType(), wide);
  }
};

// The elements of a tensor of floats that the file gives.
std::optional<SmallVector<double>> constantFloats(const GraphValue &x) {
  DenseElementsAttr elements;
  if (auto weight = x.value ? x.value.getDefiningOp<WeightOp>() : WeightOp())
    elements = weight->getAttrOfType<DenseElementsAttr>("heddle.content");
  else if (x.value)
    matchPattern(x.value, m_Constant(&elements));
  if (!elements || !isFloat(x.type))
    return std::nullopt;
  return llvm::map_to_vector(elements.getValues<APFloat>(), [](APFloat number) {
    bool lost;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  });
}

// Element i of a rank-1 tensor of floats, as f32.
Value floatAt(GraphBuilder &g, const GraphValue &x, int64_t i) {
  GraphValue wide = g.cast(x, OnnxType::Float);
  return g.failed() ? Value() : tensor::ExtractOp::create(g.b, g.loc, g.tensor(wide), g.constantIndex(i)).getResult();
}

// Where element i (f32) of the resized axis lies on the old one.
Value placeOf(Scalars s, const ResizeModes &modes, const ResizedAxis &axis, Value i, Value oldSize, Value newSize) {
  Value one = s.number(1), half = s.number(0.5), zero = s.number(0);
  auto halfPixel = [&] { return s.sub(s.div(s.add(i, half), axis.scale), half); };
  auto isLong = [&] { return s.less(one, newSize); };
  if (modes.coordinates == "half_pixel")
    return halfPixel();
  if (modes.coordinates == "pytorch_half_pixel")
    return s.select(isLong(), halfPixel(), zero);
  if (modes.coordinates == "half_pixel_symmetric") {
    // What floor(scale * size) cut off is taken off both ends.
    Value adjustment = s.div(newSize, s.mul(axis.scale, oldSize));
    return s.add(s.mul(s.mul(oldSize, half), s.sub(one, adjustment)), halfPixel());
  }
  if (modes.coordinates == "align_corners")
    return s.select(isLong(), s.div(s.mul(i, s.sub(oldSize, one)), s.sub(newSize, one)), zero);
  if (modes.coordinates == "tf_half_pixel_for_nn")
    return s.div(s.add(i, half), axis.scale);
  if (modes.isCrop()) {
    Value last = s.sub(oldSize, one);
    Value step = s.div(s.mul(s.sub(axis.end, axis.begin), last), s.sub(newSize, one));
    return s.select(isLong(), s.add(s.mul(axis.begin, last), s.mul(i, step)),
                    s.mul(s.mul(half, s.add(axis.begin, axis.end)), last));
  }
  return s.div(i, axis.scale); // asymmetric
}

// The element that stands nearest to a place.
Value nearestTo(Scalars s, StringRef mode, Value place) {
  if (mode == "floor")
    return s.floor(place);
  if (mode == "ceil")
    return math::CeilOp::create(s.b, s.loc, place);
  if (mode == "round_prefer_ceil")
    return s.floor(s.add(place, s.number(0.5)));
  return math::CeilOp::create(s.b, s.loc, s.sub(place, s.number(0.5)));
}

// The kernel of an interpolation at a distance: a triangle, or Keys' cubic.
Value kernelAt(Scalars s, const ResizeModes &modes, Value distance) {
  Value x = math::AbsFOp::create(s.b, s.loc, distance), one = s.number(1), zero = s.number(0);
  if (modes.mode == "linear")
    return arith::MaximumFOp::create(s.b, s.loc, s.sub(one, x), zero);
  double a = modes.cubic;
  auto polynomial = [&](double c3, double c2, double c1, double c0) {
    Value sum = s.add(s.mul(s.number(c3), x), s.number(c2));
    return s.add(s.mul(s.add(s.mul(sum, x), s.number(c1)), x), s.number(c0));
  };
  Value near = polynomial(a + 2, -(a + 3), 0, 1), far = polynomial(a, -5 * a, 8 * a, -4 * a);
  return s.select(s.less(x, one), near, s.select(s.less(x, s.number(2)), far, zero));
}

// What each element of a resized axis is a sum of.
struct Taps {
  SmallVector<GraphValue> places,
      weights;        // int64 and f32, of the axis' new length; no weights where an element is taken as it is
  GraphValue outside; // whether it lies beyond the input, of tf_crop_and_resize alone
};

// The first tap, counted from the element at or before the place, and how many there are. A coarser grid is smoothed by a wider kernel.
std::pair<int64_t, int64_t> reachOf(const ResizeModes &modes, double scale) {
  if (modes.mode == "nearest")
    return {0, 1};
  double radius = modes.mode == "linear" ? 1 : 2;
  int64_t first = int64_t(std::floor(-radius / scale)) + 1;
  return {first, 2 - 2 * first};
}

Taps tapsOf(NodeImport &n, const ResizeModes &modes, const ResizedAxis &axis, const Dim &oldLength) {
  GraphBuilder &g = n.g;
  Taps taps;
  double narrow = modes.isAntialias ? std::min(*axis.known, 1.0) : 1.0;
  int64_t first, count;
  std::tie(first, count) = reachOf(modes, narrow);
  if (count > 256)
    return n.unsupported("with antialias by a scale of " + std::to_string(narrow) + " is not supported"), taps;
  Value size = g.index(oldLength), newSize = g.index(axis.length);
  auto table = [&](OnnxType type, function_ref<Value(Scalars, Value place, Value oldSize)> element) {
    return g.generate(type, {axis.length}, [&](OpBuilder &inner, ValueRange at) -> Value {
      Scalars s{inner, g.loc};
      Value oldSize = s.ofIndex(size);
      return element(s, placeOf(s, modes, axis, s.ofIndex(at[0]), oldSize, s.ofIndex(newSize)), oldSize);
    });
  };
  auto tapAt = [&](Scalars s, Value place, int64_t k) {
    return modes.mode == "nearest" ? nearestTo(s, modes.nearest, place)
                                   : s.add(s.floor(place), s.number(double(first + k)));
  };
  auto weightAt = [&](Scalars s, Value place, Value oldSize, int64_t k) {
    Value tap = tapAt(s, place, k), weight = kernelAt(s, modes, s.mul(s.sub(place, tap), s.number(narrow)));
    if (!modes.excludesOutside)
      return weight;
    Value zero = s.number(0),
          isInside = arith::AndIOp::create(s.b, s.loc, s.less(s.number(-1), tap), s.less(tap, oldSize));
    return s.select(isInside, weight, zero);
  };
  bool isNormalized = modes.isAntialias || modes.excludesOutside;
  for (int64_t k = 0; k < count; ++k) {
    taps.places.push_back(table(OnnxType::Int64, [&](Scalars s, Value place, Value oldSize) -> Value {
      Value last = s.sub(oldSize, s.number(1));
      Value inside = arith::MaximumFOp::create(
          s.b, s.loc, arith::MinimumFOp::create(s.b, s.loc, tapAt(s, place, k), last), s.number(0));
      return arith::FPToSIOp::create(s.b, s.loc, s.b.getI64Type(), inside);
    }));
    if (modes.mode == "nearest")
      continue;
    taps.weights.push_back(table(OnnxType::Float, [&](Scalars s, Value place, Value oldSize) -> Value {
      Value weight = weightAt(s, place, oldSize, k), sum;
      for (int64_t other = 0; isNormalized && other < count; ++other) {
        Value part = weightAt(s, place, oldSize, other);
        sum = sum ? s.add(sum, part) : part;
      }
      return sum ? s.div(weight, sum) : weight;
    }));
  }
  if (modes.isCrop())
    taps.outside = table(OnnxType::Bool, [&](Scalars s, Value place, Value oldSize) -> Value {
      return arith::OrIOp::create(s.b, s.loc, s.less(place, s.number(0)), s.less(s.sub(oldSize, s.number(1)), place));
    });
  return taps;
}

// x with one axis resized; f32, or of any type where elements are only taken.
GraphValue resizeAxis(NodeImport &n, const ResizeModes &modes, const ResizedAxis &axis, const GraphValue &x) {
  GraphBuilder &g = n.g;
  Taps taps = tapsOf(n, modes, axis, x.dims[axis.axis]);
  if (g.failed())
    return {};
  Dims dims = x.dims;
  dims[axis.axis] = axis.length;
  Value source = g.tensor(x);
  SmallVector<Value> places, weights;
  for (const GraphValue &place : taps.places)
    places.push_back(g.tensor(place));
  for (const GraphValue &weight : taps.weights)
    weights.push_back(g.tensor(weight));
  Value outside = taps.outside ? g.tensor(taps.outside) : Value();
  Value beyond = outside ? g.constant(x.type, modes.outside) : Value();
  return g.generate(x.type, dims, [&](OpBuilder &inner, ValueRange to) -> Value {
    Scalars s{inner, g.loc};
    Value sum, at = to[axis.axis];
    for (size_t k = 0; k < places.size(); ++k) {
      SmallVector<Value> from(to);
      from[axis.axis] = g.indexAt(inner, places[k], at);
      Value element = tensor::ExtractOp::create(inner, g.loc, source, from);
      if (!weights.empty())
        element = s.mul(element, tensor::ExtractOp::create(inner, g.loc, weights[k], at));
      sum = sum ? s.add(sum, element) : element;
    }
    return outside ? s.select(tensor::ExtractOp::create(inner, g.loc, outside, at), beyond, sum) : sum;
  });
}

// Whether a value is one of the names that an attribute may have.
bool expectOneOf(NodeImport &n, StringRef attribute, StringRef value, ArrayRef<StringRef> names) {
  if (llvm::is_contained(names, value))
    return true;
  n.fail("attribute '" + attribute + "' is '" + value + "', expected " + llvm::join(names, ", "));
  return false;
}

std::optional<ResizeModes> modesOf(NodeImport &n) {
  ResizeModes modes;
  bool isOld = n.opset < 11; // without coordinate modes
  modes.mode = n.text("mode", "nearest");
  modes.coordinates = n.text("coordinate_transformation_mode", isOld ? "asymmetric" : "half_pixel");
  modes.nearest = n.text("nearest_mode", isOld ? "floor" : "round_prefer_floor");
  modes.cubic = n.real("cubic_coeff_a", -0.75);
  modes.outside = n.real("extrapolation_value", 0);
  modes.isAntialias = n.integer("antialias", 0) != 0 && modes.mode != "nearest";
  modes.excludesOutside = n.integer("exclude_outside", 0) != 0 && modes.mode != "nearest";
  if (expectOneOf(n, "mode", modes.mode, {"nearest", "linear", "cubic"}) &&
      expectOneOf(n, "coordinate_transformation_mode", modes.coordinates,
                  {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                   "tf_half_pixel_for_nn", "tf_crop_and_resize"}) &&
      expectOneOf(n, "nearest_mode", modes.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) &&
      !n.g.failed())
    return modes;
  return std::nullopt;
}

// floor(size * scale), symbolically where the scale is a whole number.
Dim scaledLength(GraphBuilder &g, const Dim &size, Value scale, std::optional<double> known) {
  if (known && *known == std::floor(*known))
    return size * Dim(int64_t(*known));
  Scalars s{g.b, g.loc};
  return g.dimOf(s.toIndex(s.floor(s.mul(s.ofIndex(g.index(size)), scale))));
}

// The least (or greatest) of the scales that the sizes ask for, and lengths by it: the aspect ratio is kept.
void keepAspectRatio(GraphBuilder &g, SmallVectorImpl<ResizedAxis> &axes, const GraphValue &x, bool isLeast) {
  Scalars s{g.b, g.loc};
  Value scale;
  for (const ResizedAxis &axis : axes)
    scale = !scale    ? axis.scale
            : isLeast ? g.b.createOrFold<arith::MinimumFOp>(g.loc, scale, axis.scale)
                      : g.b.createOrFold<arith::MaximumFOp>(g.loc, scale, axis.scale);
  for (ResizedAxis &axis : axes) {
    Value length = s.floor(s.add(s.mul(s.ofIndex(g.index(x.dims[axis.axis])), scale), s.number(0.5)));
    axis.length = g.dimOf(s.toIndex(length));
    axis.scale = scale;
  }
}

std::optional<double> knownNumber(Value scalar) {
  FloatAttr attr;
  return matchPattern(scalar, m_Constant(&attr)) ? std::optional(attr.getValueAsDouble()) : std::nullopt;
}

// What input `scales` (rank 1, a number for each axis) asks for.
void takeScales(NodeImport &n, const GraphValue &scales, const GraphValue &x, SmallVectorImpl<ResizedAxis> &axes) {
  GraphBuilder &g = n.g;
  std::optional<SmallVector<double>> known = constantFloats(scales);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (known && (!((*known)[i] > 0) || std::isinf((*known)[i])))
      return (void)n.fail("scale " + Twine(i) + " is " + std::to_string((*known)[i]) + ", expected a positive number");
    axis.scale = known ? g.constant(OnnxType::Float, (*known)[i]) : floatAt(g, scales, int64_t(i));
    if (g.failed())
      return;
    axis.length = scaledLength(g, x.dims[axis.axis], axis.scale, knownNumber(axis.scale));
  }
}

// What input `sizes` asks for: lengths, of which the scales follow.
void takeSizes(NodeImport &n, const GraphValue &sizes, const GraphValue &x, SmallVectorImpl<ResizedAxis> &axes) {
  GraphBuilder &g = n.g;
  std::optional<Dims> lengths = g.toDims(sizes);
  if (!lengths || lengths->size() != axes.size())
    return (void)n.fail("sizes must have a known number of elements, one for each resized axis");
  Scalars s{g.b, g.loc};
  for (auto [axis, length] : llvm::zip_equal(axes, *lengths)) {
    axis.length = length;
    axis.scale = length == x.dims[axis.axis] ? s.number(1)
                                             : s.div(s.ofIndex(g.index(length)), s.ofIndex(g.index(x.dims[axis.axis])));
  }
  std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  if (expectOneOf(n, "keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"}) &&
      policy != "stretch")
    keepAspectRatio(g, axes, x, policy == "not_larger");
}

// x along these axes, one after the other.
void resizeAll(NodeImport &n, const ResizeModes &modes, GraphValue x, MutableArrayRef<ResizedAxis> axes) {
  GraphBuilder &g = n.g;
  OnnxType type = x.type;
  if (modes.mode != "nearest")
    x = g.cast(x, OnnxType::Float);
  for (ResizedAxis &axis : axes) {
    if (g.failed())
      return;
    axis.known = knownNumber(axis.scale);
    if (axis.length == x.dims[axis.axis] && axis.known == 1.0 && !modes.isCrop())
      continue;
    if (modes.isAntialias && !axis.known)
      return (void)n.unsupported("with antialias by a scale that only the run knows is not supported");
    if (axis.length.isStatic() && axis.length.value() < 0)
      return (void)n.fail("a resized axis has length " + Twine(axis.length.value()));
    n.requireAtMost(1, x.dims[axis.axis], "a resized axis is empty");
    x = resizeAxis(n, modes, axis, x);
  }
  n.out(g.cast(x, type));
}

// X, scales (an attribute of Upsample in opsets 7 and 8).
void upsample(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  std::optional<ResizeModes> modes = modesOf(n);
  if (!modes || g.failed())
    return;
  modes->coordinates = "asymmetric";
  modes->nearest = "floor";
  SmallVector<ResizedAxis> axes;
  for (int64_t i = 0; i < x.rank(); ++i)
    axes.push_back({i, {}, {}, {}, {}, {}});
  const OnnxAttribute *attribute = n.attribute("scales", 6);
  if (attribute ? int64_t(attribute->floats.size()) != x.rank()
                : !n.has(1) || n.in(1).rank() != 1 || !n.in(1).dims[0].is(x.rank()))
    return (void)n.fail("scales must have " + Twine(x.rank()) + " elements");
  if (attribute) {
    auto type = RankedTensorType::get({x.rank()}, g.b.getF32Type());
    auto elements = DenseElementsAttr::get(type, ArrayRef<float>(attribute->floats));
    Value value = arith::ConstantOp::create(g.b, g.loc, elements);
    takeScales(n, g.wrap(value, OnnxType::Float), x, axes);
  } else {
    takeScales(n, n.in(1), x, axes);
  }
  resizeAll(n, *modes, x, axes);
}

// X, roi, scales, sizes; before opset 11 as Upsample
void resize(NodeImport &n) {
  if (n.opset < 11)
    return upsample(n);
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  std::optional<ResizeModes> modes = modesOf(n);
  if (!modes || g.failed())
    return;
  SmallVector<int64_t> every = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  SmallVector<ResizedAxis> axes;
  for (int64_t axis : n.axes(n.integers("axes").value_or(every), x.rank()))
    axes.push_back({axis, {}, {}, {}, {}, {}});
  auto isGiven = [&](size_t i) { return n.has(i) && !(n.in(i).rank() == 1 && n.in(i).dims[0].is(0)); };
  bool hasScales = isGiven(2), hasSizes = isGiven(3);
  if (hasScales == hasSizes)
    return (void)n.fail("either scales or sizes must be given");
  const GraphValue &target = n.in(hasScales ? 2 : 3);
  if (g.failed() || target.rank() != 1 || !target.dims[0].is(int64_t(axes.size())))
    return (void)n.fail("scales or sizes must have rank 1 and " + Twine(axes.size()) + " elements");
  if (hasScales)
    takeScales(n, target, x, axes);
  else
    takeSizes(n, target, x, axes);
  if (modes->isCrop() && !g.failed()) {
    if (!n.has(1) || n.in(1).rank() != 1 || !n.in(1).dims[0].is(2 * int64_t(axes.size())))
      return (void)n.fail("roi must have rank 1 and " + Twine(2 * axes.size()) + " elements");
    for (auto [i, axis] : llvm::enumerate(axes)) {
      axis.begin = floatAt(g, n.in(1), int64_t(i));
      axis.end = floatAt(g, n.in(1), int64_t(i + axes.size()));
    }
  }
  resizeAll(n, *modes, x, axes);
}

} // namespace

ArrayRef<OpRow> heddle::resizeOps() {
  static const OpRow table[] = {
      {"", "Resize", 10, resize},
      {"", "Upsample", 7, upsample},
  };
  return table;
}
