// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ops are lowered with: values of the graph, whose shapes and small integer contents are followed symbolically,
// and one call per primitive. A call that is given wrong operands records the first error; every later call then does
// nothing, so that a lowering reads as its formula and checks once, at its end.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_GRAPHBUILDER_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_GRAPHBUILDER_H

#include "dialect/HeddleDialect.h"
#include "frontends/onnx/OnnxModel.h"
#include "frontends/onnx/import/Dim.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <memory>

namespace heddle {

using Dims = llvm::SmallVector<Dim>;

struct Dequantized;

// A tensor of the graph. Its MLIR type follows from `type` and `dims`: static where a dimension is, '?' elsewhere. The
// op that makes it may not be there yet: integers that are known are written only when something reads them as a
// tensor.
struct GraphValue {
  OnnxType type = OnnxType::Undefined;
  Dims dims;
  mlir::Value value;                               // null until it is needed, if `content` is there
  std::shared_ptr<const std::vector<Dim>> content; // integers or booleans, row-major, if they are all known
  // Of a sequence its tensors, of any shapes; it is none itself, and no op is made for it.
  std::shared_ptr<const std::vector<GraphValue>> sequence = nullptr;
  // Where the file has the elements of a constant, or null.
  StorageAttr storage = nullptr;
  // The integers that it was computed from, if it is what DequantizeLinear gave (Quantized.h).
  std::shared_ptr<const Dequantized> dequantized = nullptr;

  explicit operator bool() const { return type != OnnxType::Undefined; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  bool isStatic() const {
    return llvm::all_of(dims, [](const Dim &dim) { return dim.isStatic(); });
  }
  // Every element, if they are constants.
  std::optional<llvm::SmallVector<int64_t>> integers() const;
};

inline bool isFloat(OnnxType type) {
  return type == OnnxType::Float || type == OnnxType::Float16 || type == OnnxType::Bfloat16 || type == OnnxType::Double;
}
inline bool isUnsigned(OnnxType type) {
  return type == OnnxType::Uint8 || type == OnnxType::Uint16 || type == OnnxType::Uint32 || type == OnnxType::Uint64 ||
         type == OnnxType::Bool || type == OnnxType::Uint4;
}
inline bool isInteger(OnnxType type) {
  return !isFloat(type) && type != OnnxType::Bool;
}
// The type that sums and softmax of `type` are computed in: f32 for 16-bit floats.
OnnxType accumulatorOf(OnnxType type);

enum class Reduction { Sum, Product, Max, Min, And, Or };
enum class Predicate { Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual };

class GraphBuilder {
public:
  GraphBuilder(mlir::OpBuilder builder, mlir::Location loc) : b(builder), loc(loc) {}

  mlir::OpBuilder b;
  mlir::Location loc;

  // --- errors
  GraphValue fail(const llvm::Twine &what, StatusCode code = StatusCode::InvalidInput);
  bool failed() const { return !failure.isOk(); }
  // The first, without the file that it is in.
  const Status &error() const { return failure; }
  void setError(Status error) { failure = std::move(error); }

  // --- values and dimensions
  mlir::Type elementType(OnnxType type);
  mlir::RankedTensorType tensorType(OnnxType type, llvm::ArrayRef<Dim> dims);
  // A symbol for a size that `index` holds at run time.
  Dim dimOf(mlir::Value index);
  mlir::Value index(const Dim &dim);
  mlir::OpFoldResult size(const Dim &dim);
  llvm::SmallVector<mlir::OpFoldResult> sizes(llvm::ArrayRef<Dim> dims);
  llvm::SmallVector<mlir::Value> dynamicSizes(llvm::ArrayRef<Dim> dims);
  // Whether a tensor of these dims has a negative size, or one beyond the address space of today's machines.
  static bool isImpossible(llvm::ArrayRef<Dim> dims);
  // The tensor, written now if it was not.
  mlir::Value tensor(const GraphValue &x);
  // `value` as a graph value of these dims; cast if its MLIR type is another.
  GraphValue wrap(mlir::Value value, OnnxType type, llvm::ArrayRef<Dim> dims);
  // One whose dims are read from it where its type does not say them.
  GraphValue wrap(mlir::Value value, OnnxType type);
  mlir::Value empty(OnnxType type, llvm::ArrayRef<Dim> dims);
  mlir::Value filled(OnnxType type, llvm::ArrayRef<Dim> dims, mlir::Value scalar);
  // Symbols made since a mark die with the region that made them.
  struct Scope {
    size_t derived, symbols;
  };
  Scope enter() const { return {derivedDims.size(), symbols.size()}; }
  void leave(Scope scope) { derivedDims.resize(scope.derived); }
  // Of a region that is thrown away: its values may be made again where they were.
  void forget(Scope scope);
  // Whether a dimension was there before the mark.
  bool isVisible(const Dim &dim, Scope scope) const;
  // `dim` where it is a count: what the run knows alone is not negative.
  Dim asCount(const Dim &dim);
  // A symbol for a polynomial that would only grow in what is computed from it.
  Dim opaque(const Dim &dim) { return dim.isStatic() || failed() ? dim : dimOf(index(dim)); }
  // The number k above 0 for which `clamped` is min(size, k), the length of a slice of a table by the size of another tensor; nothing for others.
  // Where the two broadcast and k is above 1 they are equal, since min(size, k) is 1 only if size is.
  std::optional<int64_t> clampOf(const Dim &clamped, const Dim &size) const;
  // Whether `dim` is min(size, 1) of a size: 1, or 0 where that is 0.
  bool isFirstOf(const Dim &dim) const;
  // What is left of a dimension behind start = max(size - length, 0): min(length, size). Nothing where start is no such maximum.
  std::optional<Dim> lengthBehind(const Dim &start, const Dim &size);
  // 1 where the i1 holds, else 0.
  Dim indicator(mlir::Value condition);
  // floor(a / c), max(a, c), min(a, c) of integers that are not all constants.
  Dim floorDiv(const Dim &a, const Dim &c);
  // a - c floor(a / c) for a number c above 0.
  Dim floorMod(const Dim &a, const Dim &c);
  Dim maxOf(const Dim &a, const Dim &c);
  Dim minOf(const Dim &a, const Dim &c);
  // Whether it follows from sizes of tensors, and from what a run was aborted without, that the number is not negative.
  bool isNonNegative(const Dim &dim) const;
  // Aborts the run with `what` unless the i1 holds.
  void require(mlir::Value condition, const llvm::Twine &what);
  // The same where the condition says that the number is not negative, which is known from then on.
  void requireNonNegative(const Dim &number, mlir::Value condition, const llvm::Twine &what);

  // --- constants
  mlir::Value constant(OnnxType type, double number); // an MLIR scalar
  mlir::Value constantIndex(int64_t number);
  GraphValue scalar(OnnxType type, double number); // a tensor of rank 0
  GraphValue integers(OnnxType type, llvm::ArrayRef<Dim> dims, std::vector<Dim> content);
  GraphValue vectorOf(llvm::ArrayRef<Dim> content); // int64, rank 1
  GraphValue full(OnnxType type, llvm::ArrayRef<Dim> dims, double number);
  mlir::Value toScalar(const GraphValue &x); // the one element of a tensor of one element
  mlir::Value toIndex(const GraphValue &x);  // the same as an index
  Dim toDim(const GraphValue &x);            // the same, symbolically
  // The elements of a rank-1 tensor of known length, as dims.
  std::optional<Dims> toDims(const GraphValue &x);
  // The number of the one element of a constant tensor.
  std::optional<double> constantNumber(const GraphValue &x);

  // --- elementwise (BuildElementwise.cpp)
  using Emit = llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)>;
  // Broadcasts operands to one shape and emits an op on whole tensors.
  GraphValue map(llvm::ArrayRef<GraphValue> operands, OnnxType result, Emit emit);
  GraphValue add(const GraphValue &x, const GraphValue &y);
  GraphValue sub(const GraphValue &x, const GraphValue &y);
  GraphValue mul(const GraphValue &x, const GraphValue &y);
  GraphValue div(const GraphValue &x, const GraphValue &y);
  GraphValue maximum(const GraphValue &x, const GraphValue &y);
  GraphValue minimum(const GraphValue &x, const GraphValue &y);
  GraphValue pow(const GraphValue &x, const GraphValue &y);
  GraphValue compare(Predicate predicate, const GraphValue &x, const GraphValue &y);
  GraphValue select(const GraphValue &condition, const GraphValue &x, const GraphValue &y);
  GraphValue logicalAnd(const GraphValue &x, const GraphValue &y);
  GraphValue logicalOr(const GraphValue &x, const GraphValue &y);
  GraphValue logicalNot(const GraphValue &x);
  GraphValue cast(const GraphValue &x, OnnxType type);
  // The rest of an integer division with the divisor's sign.
  GraphValue modulo(const GraphValue &x, const GraphValue &y);
  GraphValue neg(const GraphValue &x);
  GraphValue abs(const GraphValue &x);
  GraphValue exp(const GraphValue &x);
  GraphValue log(const GraphValue &x);
  GraphValue sqrt(const GraphValue &x);
  GraphValue rsqrt(const GraphValue &x) { return div(like(x, 1), sqrt(x)); }
  GraphValue tanh(const GraphValue &x);
  GraphValue erf(const GraphValue &x);
  GraphValue sigmoid(const GraphValue &x);
  GraphValue floor(const GraphValue &x);
  GraphValue roundEven(const GraphValue &x);
  // A scalar of x's type.
  GraphValue like(const GraphValue &x, double number) { return x ? scalar(x.type, number) : GraphValue(); }

  // --- shapes (BuildShapes.cpp)
  std::optional<Dims> broadcastDims(llvm::ArrayRef<GraphValue> operands);
  GraphValue broadcast(const GraphValue &x, llvm::ArrayRef<Dim> dims);
  GraphValue reshape(const GraphValue &x, llvm::ArrayRef<Dim> dims);
  GraphValue squeeze(const GraphValue &x, llvm::ArrayRef<int64_t> axes);
  GraphValue unsqueeze(const GraphValue &x, llvm::ArrayRef<int64_t> axes);
  GraphValue transpose(const GraphValue &x, llvm::ArrayRef<int64_t> permutation);
  // Unit stride slices of one axis: [begin, begin + length).
  GraphValue slice(const GraphValue &x, int64_t axis, const Dim &begin, const Dim &length);
  GraphValue concat(llvm::ArrayRef<GraphValue> parts, int64_t axis);
  GraphValue pad(const GraphValue &x, llvm::ArrayRef<Dim> low, llvm::ArrayRef<Dim> high, mlir::Value scalar);
  // 0, 1, … of `type`, rank 1.
  GraphValue iota(OnnxType type, const Dim &length);
  // Known integers rearranged, or nothing where they or a size are not known; `source` gives the old offset of the element at new indices.
  GraphValue foldShape(const GraphValue &x, llvm::ArrayRef<Dim> dims,
                       llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> source);
  // The offset of an element of a tensor whose sizes are known.
  static int64_t offsetIn(const GraphValue &x, llvm::ArrayRef<int64_t> place);
  // A tensor whose element at given indices is what the body returns.
  GraphValue generate(OnnxType type, llvm::ArrayRef<Dim> dims,
                      llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::ValueRange)> body);
  // Loops over indices in row-major order; the body makes the new state from the old one. Returns the last state.
  llvm::SmallVector<mlir::Value> loopNest(
      llvm::ArrayRef<Dim> dims, mlir::ValueRange state,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &, mlir::ValueRange, mlir::ValueRange)> body);
  // The same over whole tensors: 'body' lowers one iteration, and what it returns has the types and shapes of 'state'.
  llvm::SmallVector<GraphValue>
  loop(const Dim &count, llvm::ArrayRef<GraphValue> state,
       llvm::function_ref<llvm::SmallVector<GraphValue>(const Dim &i, llvm::ArrayRef<GraphValue> old)> body);
  // x with 'part' in place of [begin, begin + part.dims[axis]) of one axis.
  GraphValue insertSlice(const GraphValue &x, const GraphValue &part, int64_t axis, const Dim &begin);
  // An integer of a tensor as an index, inside a body.
  mlir::Value indexAt(mlir::OpBuilder &inner, mlir::Value tensor, mlir::ValueRange at);
  GraphValue flatten(const GraphValue &x, int64_t axis); // rank 2
  Dim product(llvm::ArrayRef<Dim> dims);

  // --- contractions and reductions (BuildLinalg.cpp)
  // Sums over the labels that `out` lacks; a label is a number below 64, labels of x and y distinct within each.
  GraphValue contract(const GraphValue &x, llvm::ArrayRef<int64_t> xLabels, const GraphValue &y,
                      llvm::ArrayRef<int64_t> yLabels, llvm::ArrayRef<int64_t> out, OnnxType result);
  GraphValue matmul(const GraphValue &x, const GraphValue &y);
  GraphValue matmul(const GraphValue &x, const GraphValue &y, OnnxType result);
  GraphValue reduce(Reduction kind, const GraphValue &x, llvm::ArrayRef<int64_t> axes, bool keepDims);
  // Of two scalars, and what leaves the other one as it is.
  static mlir::Value combine(mlir::OpBuilder &b, mlir::Location loc, Reduction kind, OnnxType type, mlir::Value x,
                             mlir::Value y);
  mlir::Value neutral(Reduction kind, OnnxType type);
  GraphValue mean(const GraphValue &x, llvm::ArrayRef<int64_t> axes, bool keepDims);
  GraphValue softmax(const GraphValue &x, int64_t axis);
  // Indices made non-negative; a run whose indices leave [-size, size) stops.
  GraphValue checkedIndices(const GraphValue &indices, const Dim &size, const llvm::Twine &what);
  GraphValue gather(const GraphValue &x, const GraphValue &indices, int64_t axis);
  // The lowest or highest number of a type.
  mlir::Value limit(OnnxType type, bool highest);

  mlir::Location location() const { return loc; }

private:
  // How a symbol follows from two dimensions.
  enum class Derivation { FloorDiv, FloorMod, Max, Min };
  Dim derived(Derivation kind, const Dim &a, const Dim &c);
  GraphValue foldIntegers(const GraphValue &x, const GraphValue &y, OnnxType type,
                          llvm::function_ref<std::optional<Dim>(const Dim &, const Dim &)> fold);
  GraphValue guardedBroadcast(const GraphValue &x, llvm::ArrayRef<Dim> dims);

  // Whether a dimension is a sum of products of counts.
  bool isNatural(const Dim &dim) const;

  struct DerivedDim {
    Derivation kind;
    Dim a, c, result;
  };
  struct Symbol {
    mlir::Value index;
    bool isNonNegative;
  };
  std::vector<Symbol> symbols;
  std::vector<DerivedDim> derivedDims;
  std::vector<Dim> required; // numbers that are not negative, or the run has ended; a bounded number of them
  Status failure;
};

} // namespace heddle

#endif
