// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kahn's algorithm; of the nodes that may be next the first one is, so that a sorted graph keeps its order.
#include "frontends/onnx/OnnxOrder.h"

#include <functional>
#include <map>
#include <queue>
#include <set>

namespace heddle {

namespace {

using Names = std::set<std::string_view>;

void addReads(const OnnxNode &node, Names &names);

// What a graph inside a node reads of the graphs around it.
void addReads(const OnnxGraph &graph, Names &names) {
  Names inner;
  for (const OnnxNode &node : graph.nodes)
    addReads(node, inner);
  for (const OnnxValueInfo &output : graph.outputs)
    inner.insert(output.name);
  for (const OnnxNode &node : graph.nodes)
    for (const std::string &output : node.outputs)
      inner.erase(output);
  for (const OnnxValueInfo &input : graph.inputs)
    inner.erase(input.name);
  for (const OnnxTensor &tensor : graph.initializers)
    inner.erase(tensor.name);
  names.insert(inner.begin(), inner.end());
}

void addReads(const OnnxNode &node, Names &names) {
  for (const std::string &input : node.inputs)
    if (!input.empty())
      names.insert(input);
  for (const OnnxAttribute &attribute : node.attributes)
    for (const OnnxGraph &graph : attribute.graphs)
      addReads(graph, names);
}

// The order to put nodes in; nothing where they stand in one, or none is.
std::vector<size_t> orderOf(const std::vector<OnnxNode> &nodes) {
  std::map<std::string_view, size_t> makers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].outputs)
      makers.emplace(output, i);
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  bool isSorted = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Names names;
    addReads(nodes[i], names);
    for (std::string_view name : names)
      if (auto maker = makers.find(name); maker != makers.end()) {
        readers[maker->second].push_back(i);
        ++missing[i];
        isSorted = isSorted && maker->second < i;
      }
  }
  if (isSorted)
    return {};
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!missing[i])
      ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (size_t reader : readers[next])
      if (!--missing[reader])
        ready.push(reader);
  }
  return order.size() == nodes.size() ? order : std::vector<size_t>();
}

void sortNodes(std::vector<OnnxNode> &nodes) {
  for (OnnxNode &node : nodes)
    for (OnnxAttribute &attribute : node.attributes)
      for (OnnxGraph &graph : attribute.graphs)
        sortNodes(graph.nodes);
  std::vector<size_t> order = orderOf(nodes);
  if (order.empty())
    return;
  std::vector<OnnxNode> sorted;
  sorted.reserve(nodes.size());
  for (size_t i : order)
    sorted.push_back(std::move(nodes[i]));
  nodes = std::move(sorted);
}

} // namespace

void sortNodes(OnnxModel &model) {
  sortNodes(model.graph.nodes);
  for (OnnxFunction &function : model.functions)
    sortNodes(function.nodes);
}

} // namespace heddle
