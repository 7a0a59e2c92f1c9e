// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/OnnxValidate.h"
#include "bytes/Status.h"

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
  bool callees(const std::vector<OnnxNode> &nodes);
  bool callees(const OnnxFunction &function);

  const OnnxModel &model;
  std::set<const OnnxFunction *> active, finished;
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
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string &input : nodes[i].inputs)
      if (!input.empty() && !scope.contains(input))
        return undefined(nodes, i, input);
    if (!node(nodes[i], i, scope, opsets, depth))
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

bool Validator::callees(const OnnxFunction &function) {
  if (finished.count(&function))
    return true;
  if (active.size() >= 64)
    return fail("function '" + printable(function.name) + "' is called through more than 64 others");
  if (!active.insert(&function).second)
    return fail("function '" + printable(function.name) + "' calls itself: recursion is not allowed");
  bool done = callees(function.nodes);
  active.erase(&function);
  finished.insert(&function);
  return done;
}

bool Validator::callees(const std::vector<OnnxNode> &nodes) {
  for (const OnnxNode &node : nodes) {
    if (const OnnxFunction *callee = model.findFunction(node); callee && !callees(*callee))
      return false;
    for (const OnnxAttribute &attribute : node.attributes)
      for (const OnnxGraph &inner : attribute.graphs)
        if (!callees(inner.nodes))
          return false;
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
    if (!callees(function))
      return false;
  }
  return graph(model.graph, nullptr, model.opsets, 0);
}

} // namespace

Status validateOnnx(const OnnxModel &model) {
  Validator validator(model);
  if (!validator.run())
    return validator.status();
  return Status();
}

} // namespace heddle
