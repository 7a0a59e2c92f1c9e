// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/GraphProducts.h"

#include "compiler/codegen/host/GraphTask.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cpu/ProductKernel.h"
#include "compiler/schedule/ScheduleTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cstddef>
#include <vector>

using namespace mlir;
using namespace heddle;

static constexpr char kernelName[] = "heddle_product";

namespace {

// The operands of a product. B's place and A's are exchanged where c's columns come from A.
enum Operand { A, B, C };

// Loops that run as one: each step of all but the last is a whole run of those behind it, in every operand.
using LoopGroup = SmallVector<unsigned>;

// What each loop of a contraction does.
struct ProductLoops {
  linalg::GenericOp op;
  SmallVector<AffineMap, 3> maps;
  unsigned operands[3]; // of the op, for A, B, C
  std::vector<LoopGroup> rows, columns, depth, repeats;

  MemRefType type(Operand x) const { return cast<MemRefType>(buffer(x).getType()); }
  Value buffer(Operand x) const { return linalg::GenericOp(op)->getOperand(operands[x]); }
  AffineMap map(Operand x) const { return maps[operands[x]]; }
  // The dimension of an operand that `loop` walks, -1 for none.
  int64_t position(Operand x, unsigned loop) const {
    std::optional<unsigned> at = map(x).getResultPosition(getAffineDimExpr(loop, maps.front().getContext()));
    return at ? int64_t(*at) : -1;
  }
};

} // namespace

// out + a * b, whichever way round.
static bool isMultiplyAdd(linalg::GenericOp op) {
  Block &body = *op.getBody();
  auto yield = cast<linalg::YieldOp>(body.getTerminator());
  auto sum = yield.getValues()[0].getDefiningOp<arith::AddFOp>();
  if (!sum || body.getOperations().size() != 3)
    return false;
  BlockArgument out = body.getArgument(2);
  Value term = sum.getLhs() == out ? sum.getRhs() : sum.getRhs() == out ? sum.getLhs() : Value();
  auto product = term ? term.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  Value a = body.getArgument(0), b = body.getArgument(1);
  return product &&
         ((product.getLhs() == a && product.getRhs() == b) || (product.getLhs() == b && product.getRhs() == a));
}

static bool isF32Product(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || op.getNumResults() != 0)
    return false;
  for (auto [operand, map] : llvm::zip(op->getOperands(), op.getIndexingMapsArray())) {
    auto type = dyn_cast<MemRefType>(operand.getType());
    if (!type || !type.getElementType().isF32() || !map.isProjectedPermutation() || !type.isStrided())
      return false;
  }
  return isMultiplyAdd(op);
}

// Puts loop `loop` of `kind` behind the last group if both run as one, else into a group of its own.
static void addLoop(const ProductLoops &loops, std::vector<LoopGroup> &groups, unsigned loop) {
  auto runsOn = [&](Operand x) {
    int64_t before = loops.position(x, groups.back().back()), at = loops.position(x, loop);
    return (before < 0 && at < 0) || (before >= 0 && at == before + 1 && loops.type(x).getLayout().isIdentity());
  };
  if (!groups.empty() && runsOn(A) && runsOn(B) && runsOn(C))
    groups.back().push_back(loop);
  else
    groups.push_back({loop});
}

// Fails where a loop is none of the four kinds, or c's columns do not lie side by side.
static FailureOr<ProductLoops> classify(linalg::GenericOp op) {
  if (!isF32Product(op))
    return failure();
  ProductLoops loops{op, op.getIndexingMapsArray(), {0, 1, 2}, {}, {}, {}, {}};
  AffineMap outMap = loops.map(C);
  // Columns of c are those of the operand that has them: B, or both exchange places.
  if (outMap.getNumResults() &&
      loops.map(A).isFunctionOfDim(cast<AffineDimExpr>(outMap.getResults().back()).getPosition()))
    std::swap(loops.operands[A], loops.operands[B]);
  // In the order of memory, so that loops meet those that they run as one with.
  SmallVector<unsigned> order;
  for (Operand x : {C, A, B})
    for (AffineExpr index : loops.map(x).getResults())
      if (unsigned loop = cast<AffineDimExpr>(index).getPosition(); !llvm::is_contained(order, loop))
        order.push_back(loop);
  for (unsigned loop : order) {
    bool inA = loops.position(A, loop) >= 0, inB = loops.position(B, loop) >= 0, inC = loops.position(C, loop) >= 0;
    if (inA + inB + inC < 2)
      return failure();
    addLoop(loops, !inC ? loops.depth : inA && inB ? loops.repeats : inA ? loops.rows : loops.columns, loop);
  }
  auto [strides, offset] = loops.type(C).getStridesAndOffset();
  bool hasColumns =
      outMap.getNumResults() == 0 || (!loops.columns.empty() && strides.back() == 1 &&
                                      loops.position(C, loops.columns.back().back()) + 1 == int64_t(strides.size()));
  size_t outer =
      loops.repeats.size() + std::max<size_t>(loops.rows.size(), 1) + std::max<size_t>(loops.columns.size(), 1) - 2;
  if (!hasColumns || loops.depth.size() != 1 || outer > ProductCall::mostOuter)
    return failure();
  return loops;
}

namespace {

// Writes the call of one product.
class ProductLowering {
public:
  ProductLowering(const ProductLoops &loops, func::FuncOp graph, Value memory)
      : loops(loops), graph(graph), call(loops.op, graph, memory) {}
  void run();

private:
  Value sizeOf(const LoopGroup &group);
  Value strideOf(Operand x, const LoopGroup &group);
  void storeMain(size_t size, const std::vector<LoopGroup> &groups,
                 std::initializer_list<std::pair<size_t, Operand>> strides);
  void storeOuter(const LoopGroup &group);

  const ProductLoops &loops;
  func::FuncOp graph;
  GraphTask call; // with a ProductCall
  int64_t numOuter = 0;
};

} // namespace

Value ProductLowering::sizeOf(const LoopGroup &group) {
  OpBuilder b(loops.op);
  Value size;
  for (unsigned loop : group) {
    Operand x = loops.position(A, loop) >= 0 ? A : B;
    Value one = call.size(loops.buffer(x), loops.position(x, loop));
    size = size ? Value(arith::MulIOp::create(b, linalg::GenericOp(loops.op).getLoc(), size, one)) : one;
  }
  return call.counted(size);
}

Value ProductLowering::strideOf(Operand x, const LoopGroup &group) {
  int64_t at = loops.position(x, group.back());
  return at < 0 ? call.constant(0) : call.stride(loops.buffer(x), at);
}

// The last group is the kernel's own loop, or there is none and it runs once; the others are outer loops.
void ProductLowering::storeMain(size_t size, const std::vector<LoopGroup> &groups,
                                std::initializer_list<std::pair<size_t, Operand>> strides) {
  call.store(size, groups.empty() ? call.constant(1) : sizeOf(groups.back()));
  for (auto [offset, x] : strides)
    call.store(offset, groups.empty() ? call.constant(0) : strideOf(x, groups.back()));
  for (const LoopGroup &group : ArrayRef(groups).drop_back(groups.empty() ? 0 : 1))
    storeOuter(group);
}

void ProductLowering::storeOuter(const LoopGroup &group) {
  size_t entry = offsetof(ProductCall, outer) + numOuter++ * sizeof(ProductCall::Outer);
  call.store(entry + offsetof(ProductCall::Outer, size), sizeOf(group));
  call.store(entry + offsetof(ProductCall::Outer, a), strideOf(A, group));
  call.store(entry + offsetof(ProductCall::Outer, b), strideOf(B, group));
  call.store(entry + offsetof(ProductCall::Outer, c), strideOf(C, group));
}

void ProductLowering::run() {
  call.storePointer(offsetof(ProductCall, a), loops.buffer(A));
  call.storePointer(offsetof(ProductCall, b), loops.buffer(B));
  call.storePointer(offsetof(ProductCall, c), loops.buffer(C));
  storeMain(offsetof(ProductCall, m), loops.rows, {{offsetof(ProductCall, aRow), A}, {offsetof(ProductCall, cRow), C}});
  storeMain(offsetof(ProductCall, n), loops.columns, {{offsetof(ProductCall, bColumn), B}});
  storeMain(offsetof(ProductCall, k), loops.depth,
            {{offsetof(ProductCall, aColumn), A}, {offsetof(ProductCall, bRow), B}});
  for (const LoopGroup &group : loops.repeats)
    storeOuter(group);
  call.store(offsetof(ProductCall, numOuter), call.constant(numOuter));
  auto kernel = graph->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(kernelName);
  call.run(kernel);
}

bool heddle::isProductKernel(linalg::GenericOp op) {
  return succeeded(classify(op));
}

void heddle::lowerProducts(func::FuncOp graph, const CpuTarget &target) {
  std::vector<ProductLoops> products;
  graph.walk([&](linalg::GenericOp op) {
    if (FailureOr<ProductLoops> loops = classify(op); succeeded(loops))
      products.push_back(std::move(*loops));
  });
  if (products.empty())
    return;
  ScheduleAttr schedule = matmulSchedule(targetAttr(graph.getContext(), target));
  buildProduct(graph->getParentOfType<ModuleOp>(), kernelName, schedule).setPrivate();
  Value memory = taskMemory(graph, sizeof(ProductCall));
  for (const ProductLoops &loops : products)
    ProductLowering(loops, graph, memory).run();
}
