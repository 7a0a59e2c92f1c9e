// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loop and Scan as structured control flow.
#include "frontends/onnx/import/InnerGraph.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

namespace {

// An iteration: arguments are its number (an index) and the state.
struct Body {
  std::unique_ptr<Block> block;
  SmallVector<Carried> state;
  SmallVector<GraphValue> outputs; // of the inner graph
};

using MakeInputs = function_ref<SmallVector<GraphValue>(const Dim &i, ArrayRef<GraphValue> state)>;

// An output that is stacked must have one shape: what the graph cannot promise of it, its declaration may, and the run
// checks that.
GraphValue asDeclared(GraphBuilder &g, const GraphValue &x, const OnnxValueInfo &info, GraphBuilder::Scope outer) {
  Dims dims = x.dims;
  for (size_t i = 0; i < dims.size() && info.dims.size() == dims.size(); ++i) {
    if (g.isVisible(dims[i], outer) || info.dims[i].value < 0)
      continue;
    Dim declared(info.dims[i].value);
    g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, g.index(dims[i]), g.index(declared)),
              "an output of a loop has another shape than it declares");
    dims[i] = declared;
  }
  return g.wrap(g.tensor(x), x.type, dims);
}

// Lowers the graph with the shapes that the state begins with; a dimension that an iteration changes becomes unknown,
// and the graph is lowered again. The state's next values are outputs from `first` on.
std::optional<Body> importBody(NodeImport &n, const OnnxGraph &graph, ArrayRef<GraphValue> initial, size_t first,
                               MakeInputs makeInputs) {
  GraphBuilder &g = n.g;
  Body body;
  body.state = llvm::map_to_vector(initial, carriedOf);
  if (graph.outputs.size() < first + initial.size()) {
    n.fail("the body has " + Twine(graph.outputs.size()) + " outputs, expected at least " +
           Twine(first + initial.size()));
    return std::nullopt;
  }
  for (bool isStable = false; !isStable;) {
    InnerBlock inner(g);
    Value i = inner.block->addArgument(g.b.getIndexType(), g.loc);
    SmallVector<GraphValue> state;
    for (const Carried &c : body.state)
      state.push_back(received(g, inner.block->addArgument(typeOf(g, c), g.loc), c));
    body.outputs = n.importer.importGraph(graph, makeInputs(g.dimOf(i), state), n.importer.currentScope());
    if (g.failed())
      return std::nullopt;
    isStable = true;
    for (auto [k, c] : llvm::enumerate(body.state)) {
      GraphValue &next = body.outputs[first + k];
      if (next.type != c.type || next.rank() != int64_t(c.dims.size())) {
        n.fail("value " + Twine(k) + " that the loop carries changes its type or rank");
        return std::nullopt;
      }
      for (auto [d, dim] : llvm::enumerate(c.dims))
        if (dim && *dim != next.dims[d]) {
          dim = std::nullopt;
          isStable = false;
        }
    }
    for (GraphValue &output : body.outputs)
      output.value = g.tensor(output);
    for (size_t k = first + initial.size(); k < body.outputs.size() && isStable; ++k)
      body.outputs[k] = asDeclared(g, body.outputs[k], graph.outputs[k], inner.scope);
    if (isStable)
      body.block = std::move(inner.block);
  }
  return body;
}

// For one element per iteration.
std::optional<GraphValue> emptyStack(NodeImport &n, const GraphValue &element, const Dim &count,
                                     GraphBuilder::Scope outer) {
  Dims dims = {count};
  for (const Dim &dim : element.dims) {
    if (!n.g.isVisible(dim, outer)) {
      n.fail("an output that the loop stacks changes its shape");
      return std::nullopt;
    }
    dims.push_back(dim);
  }
  if (n.g.isImpossible(dims)) {
    n.fail("a trip count of " + Twine(count.value()) + " is too large for a loop that keeps an output of each");
    return std::nullopt;
  }
  return n.g.wrap(n.g.empty(element.type, dims), element.type, dims);
}

// A loop of `count` iterations over the body, stacking its outputs from `firstStacked` on. Returns the state and the
// stacks. `place` says where iteration i writes in stack k.
SmallVector<GraphValue> countedLoop(NodeImport &n, Body body, ArrayRef<GraphValue> initial, size_t first,
                                    const Dim &count, GraphBuilder::Scope outer,
                                    function_ref<Dim(const Dim &i, size_t k)> place) {
  GraphBuilder &g = n.g;
  SmallVector<Value> inits;
  for (auto [x, c] : llvm::zip_equal(initial, body.state))
    inits.push_back(sent(g, x, c));
  SmallVector<GraphValue> stacks;
  for (size_t k = first + initial.size(); k < body.outputs.size(); ++k) {
    std::optional<GraphValue> stack = emptyStack(n, body.outputs[k], count, outer);
    if (!stack)
      return {};
    stacks.push_back(*stack);
    inits.push_back(stack->value);
  }
  auto loop = scf::ForOp::create(g.b, g.loc, g.constantIndex(0), g.index(count), g.constantIndex(1), inits);
  {
    OpBuilder::InsertionGuard guard(g.b);
    GraphBuilder::Scope scope = g.enter();
    g.b.setInsertionPointToEnd(body.block.get());
    SmallVector<Value> yielded;
    for (auto [k, c] : llvm::enumerate(body.state))
      yielded.push_back(sent(g, body.outputs[first + k], c));
    Dim i = g.dimOf(body.block->getArgument(0));
    for (auto [k, stack] : llvm::enumerate(stacks)) {
      GraphValue old{stack.type, stack.dims, body.block->addArgument(stack.value.getType(), g.loc), nullptr};
      GraphValue element = g.unsqueeze(body.outputs[first + initial.size() + k], {0});
      yielded.push_back(g.tensor(g.insertSlice(old, element, 0, place(i, k))));
    }
    scf::YieldOp::create(g.b, g.loc, yielded);
    g.leave(scope);
  }
  loop.getRegion().getBlocks().clear();
  loop.getRegion().push_back(body.block.release());
  SmallVector<GraphValue> results;
  for (auto [k, c] : llvm::enumerate(body.state))
    results.push_back(received(g, loop.getResult(k), c));
  for (auto [k, stack] : llvm::enumerate(stacks))
    results.push_back(g.wrap(loop.getResult(initial.size() + k), stack.type, stack.dims));
  return results;
}

// Runs while i < limit and the condition holds; stacks grow by one element per iteration.
SmallVector<GraphValue> conditionalLoop(NodeImport &n, Body body, ArrayRef<GraphValue> initial,
                                        const std::optional<Dim> &limit, Value condition, GraphBuilder::Scope outer) {
  GraphBuilder &g = n.g;
  SmallVector<Value> inits = {g.constantIndex(0), condition};
  SmallVector<Carried> carried = body.state;
  for (auto [x, c] : llvm::zip_equal(initial, body.state))
    inits.push_back(sent(g, x, c));
  for (size_t k = 1 + initial.size(); k < body.outputs.size(); ++k) {
    std::optional<GraphValue> stack = emptyStack(n, body.outputs[k], 0, outer);
    if (!stack)
      return {};
    Carried c = carriedOf(*stack);
    c.dims[0] = std::nullopt;
    inits.push_back(sent(g, *stack, c));
    carried.push_back(std::move(c));
  }
  Value limitValue = limit ? g.index(*limit) : Value(), one = g.constantIndex(1);
  auto before = std::make_unique<Block>();
  {
    OpBuilder::InsertionGuard guard(g.b);
    g.b.setInsertionPointToStart(before.get());
    for (Value init : inits)
      before->addArgument(init.getType(), g.loc);
    Value goesOn = before->getArgument(1);
    if (limitValue)
      goesOn = arith::AndIOp::create(
          g.b, g.loc, goesOn,
          arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::slt, before->getArgument(0), limitValue));
    SmallVector<Value> passed(before->getArguments());
    passed.erase(passed.begin() + 1);
    scf::ConditionOp::create(g.b, g.loc, goesOn, passed);
    GraphBuilder::Scope scope = g.enter();
    g.b.setInsertionPointToEnd(body.block.get());
    SmallVector<Value> yielded = {arith::AddIOp::create(g.b, g.loc, body.block->getArgument(0), one),
                                  g.toScalar(body.outputs[0])};
    for (auto [k, c] : llvm::enumerate(carried)) {
      if (k < initial.size()) {
        yielded.push_back(sent(g, body.outputs[1 + k], c));
        continue;
      }
      GraphValue old = received(g, body.block->addArgument(typeOf(g, c), g.loc), c);
      yielded.push_back(sent(g, g.concat({old, g.unsqueeze(body.outputs[1 + k], {0})}, 0), c));
    }
    scf::YieldOp::create(g.b, g.loc, yielded);
    g.leave(scope);
  }
  SmallVector<Type> types(body.block->getArgumentTypes());
  auto loop = scf::WhileOp::create(g.b, g.loc, types, inits);
  loop.getBefore().getBlocks().clear();
  loop.getAfter().getBlocks().clear();
  loop.getBefore().push_back(before.release());
  loop.getAfter().push_back(body.block.release());
  SmallVector<GraphValue> results;
  for (auto [k, c] : llvm::enumerate(carried))
    results.push_back(received(g, loop.getResult(1 + k), c));
  return results;
}

bool isTrue(const GraphValue &x) {
  auto known = x.integers();
  return known && known->size() == 1 && known->front() != 0;
}

// Per scanned input or output: its axis, and whether it is walked backwards.
struct ScanAxes {
  SmallVector<int64_t> axes, isReverse;
};

std::optional<ScanAxes> scanAxes(NodeImport &n, StringRef kind, size_t count) {
  SmallVector<int64_t> zeros(count, 0);
  ScanAxes result{n.integers(("scan_" + kind + "_axes").str()).value_or(zeros),
                  n.integers(("scan_" + kind + "_directions").str()).value_or(zeros)};
  if (result.axes.size() == count && result.isReverse.size() == count)
    return result;
  n.fail("scan_" + kind + "_axes and scan_" + kind + "_directions must have " + Twine(count) + " numbers");
  return std::nullopt;
}

} // namespace

// M, condition, state -> condition, state, what is stacked. Without M it runs as long as the condition holds.
void heddle::loopOp(NodeImport &n) {
  GraphBuilder &g = n.g;
  const OnnxGraph *graph = n.graph("body");
  if (g.failed())
    return;
  std::optional<Dim> limit;
  if (n.has(0))
    limit = g.toDim(g.cast(n.in(0), OnnxType::Int64));
  SmallVector<GraphValue> initial;
  for (size_t i = 2; i < n.numInputs(); ++i)
    initial.push_back(n.in(i));
  if (!g.failed() && graph->inputs.size() != initial.size() + 2)
    n.fail("the body has " + Twine(graph->inputs.size()) + " inputs, expected " + Twine(initial.size() + 2));
  if (g.failed())
    return;
  GraphBuilder::Scope outer = g.enter();
  std::optional<Body> body = importBody(n, *graph, initial, 1, [&](const Dim &i, ArrayRef<GraphValue> state) {
    // The body runs only while the condition holds.
    SmallVector<GraphValue> inputs = {g.integers(OnnxType::Int64, {}, {i}), g.scalar(OnnxType::Bool, 1)};
    llvm::append_range(inputs, state);
    return inputs;
  });
  if (!body)
    return;
  bool isCounted = limit && isTrue(body->outputs[0]) && (!n.has(1) || isTrue(n.in(1)));
  Value condition = isCounted ? Value() : n.has(1) ? g.toScalar(n.in(1)) : g.constant(OnnxType::Bool, 1);
  if (g.failed())
    return;
  SmallVector<GraphValue> results = isCounted ? countedLoop(n, std::move(*body), initial, 1, g.maxOf(*limit, 0), outer,
                                                            [](const Dim &i, size_t) { return i; })
                                              : conditionalLoop(n, std::move(*body), initial, limit, condition, outer);
  for (auto [i, result] : llvm::enumerate(results))
    n.out(result, i);
}

// State and slices of what is scanned -> state, and slices of what is stacked.
void heddle::scanOp(NodeImport &n) {
  GraphBuilder &g = n.g;
  const OnnxGraph *graph = n.graph("body");
  int64_t count = n.integer("num_scan_inputs", 0);
  ArrayRef<GraphValue> inputs = n.all();
  if (g.failed())
    return;
  if (count < 1 || count > int64_t(inputs.size()) || graph->inputs.size() != inputs.size())
    return (void)n.fail("num_scan_inputs is " + Twine(count) + " for " + Twine(inputs.size()) +
                        " inputs and a body of " + Twine(graph->inputs.size()));
  size_t states = inputs.size() - size_t(count);
  if (graph->outputs.size() < states)
    return (void)n.fail("the body has fewer outputs than the state has values");
  auto in = scanAxes(n, "input", size_t(count)), out = scanAxes(n, "output", graph->outputs.size() - states);
  if (!in || !out)
    return;
  ArrayRef<GraphValue> initial = inputs.take_front(states), scanned = inputs.drop_front(states);
  Dim length;
  for (auto [k, x] : llvm::enumerate(scanned)) {
    in->axes[k] = n.axis(in->axes[k], x.rank());
    if (g.failed())
      return;
    Dim here = x.dims[in->axes[k]];
    if (k == 0)
      length = here;
    else if (!n.requireAtMost(here, length, "scanned inputs have different lengths") ||
             !n.requireAtMost(length, here, "scanned inputs have different lengths"))
      return;
  }
  GraphBuilder::Scope outer = g.enter();
  std::optional<Body> body = importBody(n, *graph, initial, 0, [&](const Dim &i, ArrayRef<GraphValue> state) {
    SmallVector<GraphValue> given(state);
    for (auto [k, x] : llvm::enumerate(scanned))
      given.push_back(g.squeeze(g.slice(x, in->axes[k], in->isReverse[k] ? length - 1 - i : i, 1), {in->axes[k]}));
    return given;
  });
  if (!body)
    return;
  SmallVector<GraphValue> results =
      countedLoop(n, std::move(*body), initial, 0, length, outer,
                  [&](const Dim &i, size_t k) { return out->isReverse[k] ? length - 1 - i : i; });
  for (auto [i, result] : llvm::enumerate(results)) {
    if (i >= states) {
      int64_t axis = n.axis(out->axes[i - states], result.rank());
      SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(1, result.rank()));
      permutation.insert(permutation.begin() + axis, 0);
      result = g.transpose(result, permutation);
    }
    n.out(result, i);
  }
}
