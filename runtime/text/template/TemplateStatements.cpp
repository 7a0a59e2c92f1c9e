// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateEvaluator.h"

namespace heddle {

bool TemplateEvaluator::run(TemplateText &out, std::string &message) {
  execute(program.root, out);
  if (failed())
    message = error;
  return !failed();
}

void TemplateEvaluator::assign(Scope &scope, std::string_view name, TemplateValue value) {
  if (TemplateValue *found = find(scope, name))
    *found = value;
  else
    scope.emplace_back(std::string(name), value);
}

void TemplateEvaluator::print(const TemplateValue &value, TemplateText &out) {
  write(value, false, out);
  checkOutput(out);
}

void TemplateEvaluator::checkOutput(const TemplateText &out) {
  if (out.bytes.size() > maxOutput)
    fail("the output exceeds the limit of " + std::to_string(maxOutput) + " bytes");
}

TemplateEvaluator::Flow TemplateEvaluator::execute(int32_t index, TemplateText &out) {
  const TemplateNode &node = at(index);
  Deeper deeper(*this);
  line = node.line;
  if (!pay())
    return Flow::Break;
  switch (node.kind) {
  case NodeKind::Text:
    if (pay(fuelForBytes(node.text.size())))
      out.append(node.text, true);
    checkOutput(out);
    break;
  case NodeKind::Print:
    print(evaluate(child(node, 0)), out);
    break;
  case NodeKind::Block:
    return executeBlock(node, out);
  case NodeKind::If:
    return executeIf(node, out);
  case NodeKind::For:
    return executeFor(node, out);
  case NodeKind::Set:
    executeSet(node);
    break;
  case NodeKind::SetBlock:
    store(child(node, 0), capture(child(node, 1)));
    break;
  case NodeKind::FilterBlock:
    captured.push_back(capture(child(node, 1)));
    print(evaluate(child(node, 0)), out);
    captured.pop_back();
    break;
  case NodeKind::Macro: {
    TemplateValue macro;
    macro.kind = ValueKind::Macro;
    macro.node = index;
    assign(scopes.back(), node.text, macro);
    break;
  }
  case NodeKind::Break:
    return Flow::Break;
  case NodeKind::Continue:
    return Flow::Continue;
  default:
    fail("an expression where a statement is expected");
  }
  return Flow::Next;
}

TemplateEvaluator::Flow TemplateEvaluator::executeBlock(const TemplateNode &node, TemplateText &out) {
  for (int32_t statement : node.children) {
    Flow flow = execute(statement, out);
    if (failed() || flow != Flow::Next)
      return flow;
  }
  return Flow::Next;
}

// Children: condition, block, condition, block …, and the block of an else.
TemplateEvaluator::Flow TemplateEvaluator::executeIf(const TemplateNode &node, TemplateText &out) {
  size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    bool taken = isTrue(evaluate(child(node, i)));
    if (failed())
      return Flow::Break;
    if (taken)
      return execute(child(node, i + 1), out);
  }
  return i < node.children.size() ? execute(child(node, i), out) : Flow::Next;
}

TemplateValue TemplateEvaluator::capture(int32_t block) {
  TemplateText text;
  execute(block, text);
  return heap.text(std::move(text));
}

void TemplateEvaluator::store(int32_t target, TemplateValue value) {
  const TemplateNode &node = at(target);
  if (node.kind == NodeKind::Name) {
    assign(scopes.back(), node.text, value);
    return;
  }
  TemplateValue object = evaluate(child(node, 0));
  if (object.kind != ValueKind::Dict || !object.isNamespace) {
    fail("cannot assign an attribute of " + std::string(kindName(object)) + ", only of a namespace");
    return;
  }
  if (TemplateValue *found = member(object, node.text))
    *found = value;
  else
    put(object, heap.text(node.text, true), value);
}

void TemplateEvaluator::unpack(const std::vector<int32_t> &targets, size_t count, TemplateValue value) {
  if (count == 1) {
    store(targets[0], value);
    return;
  }
  std::vector<TemplateValue> parts = elements(value);
  if (!failed() && parts.size() != count)
    fail("cannot unpack " + std::to_string(parts.size()) + " values into " + std::to_string(count) + " names");
  for (size_t i = 0; i < count && !failed(); ++i)
    store(targets[i], parts[i]);
}

void TemplateEvaluator::executeSet(const TemplateNode &node) {
  TemplateValue value = evaluate(node.children.back());
  if (!failed())
    unpack(node.children, node.children.size() - 1, value);
}

TemplateEvaluator::Flow TemplateEvaluator::executeFor(const TemplateNode &node, TemplateText &out) {
  const std::vector<int32_t> &targets = at(child(node, 0)).children;
  int32_t condition = child(node, 2), otherwise = child(node, 4);
  std::vector<TemplateValue> items = elements(evaluate(child(node, 1)));
  if (at(condition).kind != NodeKind::Absent) {
    std::vector<TemplateValue> kept;
    scopes.emplace_back();
    for (size_t i = 0; i < items.size() && !failed(); ++i) {
      unpack(targets, targets.size(), items[i]);
      if (isTrue(evaluate(condition)))
        kept.push_back(items[i]);
    }
    scopes.pop_back();
    items.swap(kept);
  }
  if (failed())
    return Flow::Break;
  if (items.empty())
    return at(otherwise).kind == NodeKind::Absent ? Flow::Next : execute(otherwise, out);
  TemplateValue list = heap.list(std::move(items));
  TemplateValue loop = heap.loop({list.list, 0, ++loopDepth});
  for (size_t i = 0; i < list.list->items.size() && !failed(); ++i) {
    loop.loop->index = static_cast<int64_t>(i);
    scopes.emplace_back();
    assign(scopes.back(), "loop", loop);
    unpack(targets, targets.size(), list.list->items[i]);
    Flow flow = failed() ? Flow::Break : execute(child(node, 3), out);
    scopes.pop_back();
    if (flow == Flow::Break)
      break;
  }
  --loopDepth;
  return Flow::Next;
}

// A macro sees its parameters and the template's own variables.
TemplateValue TemplateEvaluator::callMacro(int32_t index, const TemplateArguments &arguments) {
  const TemplateNode &node = at(index);
  size_t numParameters = node.children.size() - 1;
  if (arguments.positional.size() > numParameters)
    return fail("macro '" + node.text + "' takes " + std::to_string(numParameters) + " arguments, " +
                std::to_string(arguments.positional.size()) + " are given");
  // Every parameter is looked for among the arguments with a name, and every such argument among the parameters.
  if (!pay(static_cast<int64_t>(numParameters * (1 + arguments.named.size()))))
    return TemplateValue();
  size_t outerVisible = visible;
  scopes.emplace_back();
  visible = scopes.size() - 1;
  for (size_t i = 0; i < numParameters && !failed(); ++i) {
    const TemplateNode &parameter = at(child(node, i));
    const TemplateValue *given = arguments.get(i, parameter.text);
    TemplateValue value;
    if (given)
      value = *given;
    else if (!parameter.children.empty())
      value = evaluate(parameter.children[0]);
    assign(scopes.back(), parameter.text, value);
  }
  for (const auto &named : arguments.named) {
    bool known = false;
    for (size_t i = 0; i < numParameters; ++i)
      known |= at(child(node, i)).text == named.first;
    if (!known)
      fail("macro '" + node.text + "' has no parameter '" + named.first + "'");
  }
  TemplateText text;
  int64_t outerLoopDepth = loopDepth;
  loopDepth = 0;
  if (!failed())
    execute(node.children.back(), text);
  loopDepth = outerLoopDepth;
  scopes.pop_back();
  visible = outerVisible;
  return heap.text(std::move(text));
}

} // namespace heddle
