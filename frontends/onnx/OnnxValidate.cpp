// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/OnnxValidate.h"
#include "bytes/Status.h"

#include <algorithm>
#include <map>
#include <set>

namespace heddle {

namespace {

// The names that a graph sees: its own, and those of the graphs around it.
struct Scope {
  const Scope *parent = nullptr;
  std::set<std::string_view> names;

  bool contains(std::string_view name) const {
    for (const Scope *scope = this; scope; scope = scope->parent)
      if (scope->names.count(name))
        return true;
    return false;
  }
};

// What importing a list of nodes comes to: a call is replaced by the nodes of its function.
struct Expansion {
  uint64_t nodes = 0;
  unsigned depth = 0; // of functions and inner graphs within each other
};
// Bounds of the importer's time and of its stack.
constexpr uint64_t maxNodes = 1 << 20;
constexpr unsigned maxDepth = 64;

class Validator {
public:
  Validator(const OnnxModel &model) : model(model) {}
  bool run();
  Status status() { return failure; }

private:
  bool fail(const std::string &what) {
    failure = errorIn(model.path, what);
    return false;
  }
  bool graph(const OnnxGraph &graph, const Scope *outer, const OnnxOpsets &opsets, unsigned depth);
  bool nodes(const std::vector<OnnxNode> &nodes, Scope &scope, const OnnxOpsets &opsets, unsigned depth);
  bool node(const OnnxNode &node, size_t index, Scope &scope, const OnnxOpsets &opsets, unsigned depth);
  bool undefined(const std::vector<OnnxNode> &nodes, size_t index, const std::string &name);
  bool expand(const std::vector<OnnxNode> &nodes, const std::string &who, Expansion &sum);
  bool expand(const OnnxFunction &function, Expansion &sum);

  const OnnxModel &model;
  std::set<const OnnxFunction *> active;
  std::map<const OnnxFunction *, Expansion> expanded;
  Status failure;
};

bool Validator::undefined(const std::vector<OnnxNode> &nodes, size_t index, const std::string &name) {
  std::string who = describeNode(nodes[index], index) + ": input '" + printable(name) + "' ";
  for (size_t i = index; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].outputs)
      if (output == name)
        return fail(who + "is made by " + (i == index ? "the node itself" : describeNode(nodes[i], i) + " after it") +
                    ": a cycle, or nodes that are not sorted");
  return fail(who + "is undefined: neither a graph input, an initializer nor an output of an earlier node");
}

bool Validator::node(const OnnxNode &node, size_t index, Scope &scope, const OnnxOpsets &opsets, unsigned depth) {
  std::set<std::string_view> attributes;
  for (const OnnxAttribute &attribute : node.attributes) {
    if (!attributes.insert(attribute.name).second)
      return fail(describeNode(node, index) + ": attribute '" + printable(attribute.name) + "' is there twice");
    for (const OnnxGraph &inner : attribute.graphs)
      if (!graph(inner, &scope, opsets, depth + 1))
        return false;
  }
  if (!opsets.count(node.domain) && !model.findFunction(node))
    return fail(describeNode(node, index) + ": domain '" + printable(node.domain.empty() ? "ai.onnx" : node.domain) +
                "' is not in opset_import");
  for (const std::string &output : node.outputs)
    if (!output.empty() && !scope.names.insert(output).second)
      return fail(describeNode(node, index) + ": output '" + printable(output) +
                  "' is already defined: a duplicate name");
  return true;
}

bool Validator::nodes(const std::vector<OnnxNode> &nodes, Scope &scope, const OnnxOpsets &opsets, unsigned depth) {
  auto isRight = [&](size_t i) {
    for (const std::string &input : nodes[i].inputs)
      if (!input.empty() && !scope.contains(input))
        return undefined(nodes, i, input);
    return node(nodes[i], i, scope, opsets, depth);
  };
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!isRight(i)) {
      failure = std::move(failure).ofOp(nameOf(nodes[i], i));
      return false;
    }
  return true;
}

bool Validator::graph(const OnnxGraph &graph, const Scope *outer, const OnnxOpsets &opsets, unsigned depth) {
  Scope scope{outer, {}};
  for (const OnnxValueInfo &input : graph.inputs)
    if (input.name.empty() || !scope.names.insert(input.name).second)
      return fail("graph input '" + printable(input.name) + "' has no name or is there twice");
  std::set<std::string_view> initializers;
  for (const OnnxTensor &tensor : graph.initializers) {
    if (tensor.name.empty() || !initializers.insert(tensor.name).second)
      return fail("initializer '" + printable(tensor.name) + "' has no name or is there twice: a duplicate name");
    scope.names.insert(tensor.name);
  }
  if (!nodes(graph.nodes, scope, opsets, depth))
    return false;
  std::set<std::string_view> outputs;
  for (const OnnxValueInfo &output : graph.outputs) {
    if (!scope.contains(output.name))
      return fail("graph output '" + printable(output.name) + "' is undefined: no node makes it");
    if (!depth && !outputs.insert(output.name).second)
      return fail("graph output '" + printable(output.name) + "' is there twice: a duplicate output");
  }
  return true;
}

bool Validator::expand(const OnnxFunction &function, Expansion &sum) {
  if (auto known = expanded.find(&function); known != expanded.end()) {
    sum = known->second;
    return true;
  }
  std::string who = "function '" + printable(function.name) + "'";
  if (active.size() >= maxDepth)
    return fail(who + " is called through more than " + std::to_string(maxDepth) + " others");
  if (!active.insert(&function).second)
    return fail(who + " calls itself: recursion is not allowed");
  if (!expand(function.nodes, who, sum))
    return false;
  active.erase(&function);
  expanded[&function] = sum;
  return true;
}

// Each function is expanded once, however often it is called. Inner graphs are as deep as the file nests them, which the scan bounds.
bool Validator::expand(const std::vector<OnnxNode> &nodes, const std::string &who, Expansion &sum) {
  auto add = [&](const Expansion &part) {
    sum.nodes += part.nodes;
    sum.depth = std::max(sum.depth, part.depth + 1);
  };
  for (const OnnxNode &node : nodes) {
    ++sum.nodes;
    Expansion called;
    if (const OnnxFunction *callee = model.findFunction(node)) {
      if (!expand(*callee, called))
        return false;
      add(called);
    }
    for (const OnnxAttribute &attribute : node.attributes)
      for (const OnnxGraph &graph : attribute.graphs) {
        Expansion inner;
        if (!expand(graph.nodes, who, inner))
          return false;
        add(inner);
      }
    if (sum.nodes > maxNodes)
      return fail(who + ": with its functions expanded it has more than " + std::to_string(maxNodes) + " nodes");
    if (sum.depth > maxDepth)
      return fail(who + ": functions and graphs are nested deeper than " + std::to_string(maxDepth));
  }
  return true;
}

bool Validator::run() {
  if (model.opsets.empty())
    return fail("opset_import is missing");
  std::set<std::string> functions;
  for (const OnnxFunction &function : model.functions) {
    if (!functions.insert(function.domain + "\n" + function.name + "\n" + function.overload).second)
      return fail("function '" + printable(function.name) + "' is there twice");
    Scope scope;
    for (const std::string &input : function.inputs)
      scope.names.insert(input);
    if (!nodes(function.nodes, scope, function.opsets, 1))
      return false;
    for (const std::string &output : function.outputs)
      if (!scope.contains(output))
        return fail("function '" + printable(function.name) + "': output '" + printable(output) + "' is undefined");
    if (Expansion sum; !expand(function, sum))
      return false;
  }
  Expansion sum;
  return graph(model.graph, nullptr, model.opsets, 0) && expand(model.graph.nodes, "the graph", sum);
}

} // namespace

Status validateOnnx(const OnnxModel &model) {
  Validator validator(model);
  if (!validator.run())
    return validator.status();
  return Status();
}

} // namespace heddle
