// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If as structured control flow, and the table of the nodes that hold graphs.
#include "frontends/onnx/import/InnerGraph.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

namespace {

struct Branch {
  std::unique_ptr<Block> block;
  SmallVector<GraphValue> outputs;
};

Branch importBranch(NodeImport &n, const OnnxGraph &graph) {
  InnerBlock inner(n.g);
  SmallVector<GraphValue> outputs = n.importer.importGraph(graph, {}, n.importer.currentScope());
  // Written here, not where they are yielded, so that they belong to the block.
  for (GraphValue &output : outputs)
    output.value = n.g.tensor(output);
  return {std::move(inner.block), std::move(outputs)};
}

void inlineBranch(NodeImport &n, const OnnxGraph &graph) {
  for (auto [i, output] : llvm::enumerate(n.importer.importGraph(graph, {}, n.importer.currentScope())))
    n.out(output, i);
}

bool differInRank(ArrayRef<GraphValue> a, ArrayRef<GraphValue> c) {
  return a.size() == c.size() && llvm::any_of(llvm::zip_equal(a, c), [](auto pair) {
           return std::get<0>(pair).type == std::get<1>(pair).type &&
                  std::get<0>(pair).rank() != std::get<1>(pair).rank();
         });
}

// What both branches have in common.
std::optional<Carried> meet(NodeImport &n, const GraphValue &a, const GraphValue &c, GraphBuilder::Scope outer) {
  if (a.type != c.type || a.rank() != c.rank()) {
    n.fail("branches give tensors of " + Twine(onnxTypeName(int32_t(a.type))) + ", rank " + Twine(a.rank()) +
           ", and of " + onnxTypeName(int32_t(c.type)) + ", rank " + Twine(c.rank()) +
           ": expected the same, or a condition that sizes decide which the compiler knows (--dim)");
    return std::nullopt;
  }
  Carried both{a.type, {}};
  for (auto [left, right] : llvm::zip_equal(a.dims, c.dims))
    both.dims.push_back(left == right && n.g.isVisible(left, outer) ? std::optional<Dim>(left) : std::nullopt);
  return both;
}

void ifOp(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &condition = n.in(0);
  const OnnxGraph *thenGraph = n.graph("then_branch"), *elseGraph = n.graph("else_branch");
  if (g.failed())
    return;
  if (condition.type != OnnxType::Bool)
    return (void)n.fail("the condition is of " + Twine(onnxTypeName(int32_t(condition.type))) + ", expected bool");
  if (std::optional<double> known = g.constantNumber(condition))
    return inlineBranch(n, *known != 0 ? *thenGraph : *elseGraph);
  Value flag = g.toScalar(condition);
  GraphBuilder::Scope outer = g.enter();
  Branch branches[] = {importBranch(n, *thenGraph), importBranch(n, *elseGraph)};
  if (!g.failed() && branches[0].outputs.size() != branches[1].outputs.size())
    n.fail("branches have " + Twine(branches[0].outputs.size()) + " and " + Twine(branches[1].outputs.size()) +
           " outputs");
  if (g.failed())
    return;
  if (differInRank(branches[0].outputs, branches[1].outputs)) {
    BranchChoices &choices = n.importer.choices;
    if (auto choice = choices.takesThen.find(&n.node); choice != choices.takesThen.end()) {
      for (Branch &branch : branches)
        branch.block.reset();
      g.forget(outer);
      g.require(choice->second ? flag
                               : arith::XOrIOp::create(g.b, g.loc, flag, g.constant(OnnxType::Bool, 1)).getResult(),
                "the branch is to be taken whose outputs have a rank that what follows cannot be computed with");
      return inlineBranch(n, choice->second ? *thenGraph : *elseGraph);
    }
    choices.missing = choices.missing ? choices.missing : &n.node;
  }
  SmallVector<Carried> carried;
  SmallVector<Type> types;
  for (auto [a, c] : llvm::zip_equal(branches[0].outputs, branches[1].outputs)) {
    std::optional<Carried> both = meet(n, a, c, outer);
    if (!both)
      return;
    carried.push_back(*both);
    types.push_back(typeOf(g, *both));
  }
  auto op = scf::IfOp::create(g.b, g.loc, types, flag, /*addThenBlock=*/false, /*addElseBlock=*/false);
  for (auto [branch, region] : llvm::zip_equal(branches, op->getRegions())) {
    OpBuilder::InsertionGuard guard(g.b);
    g.b.setInsertionPointToEnd(branch.block.get());
    SmallVector<Value> yielded;
    for (auto [output, c] : llvm::zip_equal(branch.outputs, carried))
      yielded.push_back(sent(g, output, c));
    scf::YieldOp::create(g.b, g.loc, yielded);
    region.push_back(branch.block.release());
  }
  for (auto [i, c] : llvm::enumerate(carried))
    n.out(received(g, op.getResult(i), c), i);
}

} // namespace

ArrayRef<OpRow> heddle::controlFlowOps() {
  static const OpRow table[] = {{"", "If", 1, ifOp}, {"", "Loop", 1, loopOp}, {"", "Scan", 9, scanOp}};
  return table;
}
