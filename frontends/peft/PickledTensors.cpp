// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/PickledTensors.h"

#include <algorithm>
#include <deque>

namespace heddle {

namespace {

constexpr size_t maxValues = 1 << 20; // that a dict of tensors consists of
constexpr int64_t maxElements = int64_t(1) << 40;

// Little-endian numbers and bytes, one after the other; past the end they are zeros, and `isPast` says so.
class Cursor {
public:
  explicit Cursor(std::string_view text, size_t at = 0) : text(text), at(at) {}
  uint64_t number(size_t bytes) {
    std::string_view raw = take(bytes);
    uint64_t value = 0;
    for (size_t i = raw.size(); i-- > 0;)
      value = value << 8 | static_cast<uint8_t>(raw[i]);
    return value;
  }
  std::string_view take(uint64_t bytes) {
    isPast |= at > text.size() || bytes > text.size() - at;
    std::string_view taken = isPast ? std::string_view() : text.substr(at, bytes);
    at += taken.size();
    return taken;
  }
  std::string_view line() {
    size_t end = text.find('\n', at);
    std::string_view taken = take(end == std::string_view::npos ? text.size() + 1 : end - at);
    take(1);
    return taken;
  }
  size_t place() const { return at; }
  bool isPast = false;

private:
  std::string_view text;
  size_t at;
};

// Members of the archive by their names without the folder that all lie in, as ranges of the file.
class Archive {
public:
  Status read(const MappedFile &file);
  std::map<std::string, std::string_view, std::less<>> members;
};

} // namespace

Status Archive::read(const MappedFile &file) {
  constexpr std::string_view endMark("PK\5\6", 4), entryMark("PK\1\2", 4), memberMark("PK\3\4", 4);
  auto refused = [&](const std::string &why) { return errorIn(file.path(), why); };
  std::string_view text = file.text();
  size_t end = text.rfind(endMark);
  if (end == std::string_view::npos || text.substr(0, 4) != memberMark)
    return refused("is no ZIP archive: expected a file of torch.save, of PyTorch 1.6 or newer");
  Cursor tail(text, end + 10);
  uint64_t count = tail.number(2);
  tail.take(4);
  Cursor entries(text, tail.number(4));
  for (uint64_t i = 0; i < count; ++i) {
    if (entries.take(4) != entryMark)
      return refused("ends in a damaged table of members");
    entries.take(6);
    uint64_t method = entries.number(2);
    entries.take(8);
    uint64_t packed = entries.number(4), size = entries.number(4), nameSize = entries.number(2);
    uint64_t skipped = entries.number(2) + entries.number(2);
    entries.take(8);
    uint64_t offset = entries.number(4);
    std::string name(entries.take(nameSize));
    entries.take(skipped);
    Cursor member(text, offset);
    bool isMember = member.take(4) == memberMark;
    member.take(22);
    uint64_t before = member.number(2) + member.number(2);
    member.take(before);
    std::string_view bytes = member.take(size);
    if (method != 0 || packed != size || !isMember || member.isPast || entries.isPast)
      return refused("member '" + printable(name, 64) + "' is damaged or packed: expected it as torch.save stores it");
    members.emplace(name.substr(name.find('/') + 1), bytes);
  }
  return Status();
}

namespace {

struct PickledValue;
// Into the machine's own list, which outlasts what may contain itself, or be nested deeply.
using PickledPointer = PickledValue *;

struct PickledValue {
  enum class Kind : uint8_t { Other, Mark, Number, Text, Global, List, Dict, Storage, Tensor } kind = Kind::Other;
  int64_t number = 0;               // also: elements of a storage
  std::string text;                 // also: a global's name, and a storage's member
  std::vector<PickledPointer> list; // also: keys and values of a dict in turn
  TensorType type = TensorType::F32;
  TensorInfo tensor{TensorType::F32, {}};
};

// The machine of pickle, with the operations that torch.save needs.
class Unpickler {
public:
  Unpickler(const MappedFile &file, const Archive &archive, std::string_view text)
      : file(file), archive(archive), code(text) {}
  Status run();
  PickledPointer result = nullptr;

private:
  using Kind = PickledValue::Kind;
  Status refused(const std::string &why) const { return errorIn(file.path(), "data.pkl: " + why); }
  PickledPointer push(Kind kind) {
    stack.push_back(&values.emplace_back());
    stack.back()->kind = kind;
    return stack.back();
  }
  PickledPointer pop() {
    isBroken |= stack.empty();
    if (stack.empty())
      return &values.emplace_back();
    PickledPointer top = stack.back();
    stack.pop_back();
    return top;
  }
  std::vector<PickledPointer> popToMark();
  void pushList(std::vector<PickledPointer> items) { push(Kind::List)->list = std::move(items); }
  void addTo(std::vector<PickledPointer> items);
  Status step(uint8_t op);
  Status stepOfValue(uint8_t op);
  Status call();
  Status loadStorage();
  Status rebuild(const std::vector<PickledPointer> &arguments);

  const MappedFile &file;
  const Archive &archive;
  Cursor code;
  std::deque<PickledValue> values;
  std::vector<PickledPointer> stack;
  std::map<uint64_t, PickledPointer> memo;
  bool isBroken = false;
};

} // namespace

std::vector<PickledPointer> Unpickler::popToMark() {
  auto mark =
      std::find_if(stack.rbegin(), stack.rend(), [](PickledPointer value) { return value->kind == Kind::Mark; });
  std::vector<PickledPointer> items(mark.base(), stack.end());
  stack.erase(mark.base(), stack.end());
  pop();
  return items;
}

void Unpickler::addTo(std::vector<PickledPointer> items) {
  if (stack.empty())
    isBroken = true;
  else
    stack.back()->list.insert(stack.back()->list.end(), items.begin(), items.end());
}

// ('storage', type, member, device, elements)
Status Unpickler::loadStorage() {
  std::vector<PickledPointer> said = pop()->list;
  if (said.size() != 5 || said[0]->text != "storage")
    return refused("has a persistent value that is no storage of a tensor");
  PickledPointer storage = push(Kind::Storage);
  std::string type = said[1]->text;
  if (type == "torch FloatStorage")
    storage->type = TensorType::F32;
  else if (type == "torch HalfStorage")
    storage->type = TensorType::F16;
  else if (type == "torch BFloat16Storage")
    storage->type = TensorType::BF16;
  else
    return refused("has a '" + printable(type, 64) + "', expected a FloatStorage, HalfStorage or BFloat16Storage");
  storage->text = said[2]->text;
  storage->number = said[4]->number;
  return Status();
}

// (storage, first element, sizes, strides, …)
Status Unpickler::rebuild(const std::vector<PickledPointer> &arguments) {
  if (arguments.size() < 4 || arguments[0]->kind != Kind::Storage)
    return refused("has a tensor without a storage");
  const PickledValue &storage = *arguments[0];
  auto bytes = archive.members.find("data/" + storage.text);
  if (bytes == archive.members.end())
    return refused("has a tensor whose numbers are not there: data/" + printable(storage.text, 64));
  PickledPointer made = push(Kind::Tensor);
  TensorInfo &tensor = made->tensor;
  tensor.type = storage.type;
  int64_t elements = 1, first = arguments[1]->number;
  const std::vector<PickledPointer> &sizes = arguments[2]->list, &strides = arguments[3]->list;
  bool isDense = sizes.size() == strides.size();
  for (size_t i = sizes.size(); isDense && i-- > 0;) {
    int64_t size = sizes[i]->number;
    isDense = size > 0 && size <= maxElements / elements && (size == 1 || strides[i]->number == elements);
    elements *= isDense ? size : 1;
    tensor.shape.insert(tensor.shape.begin(), size);
  }
  uint64_t width = tensorTypeInfo(tensor.type).blockBytes, all = bytes->second.size() / width;
  if (!isDense || first < 0 || static_cast<uint64_t>(first) > all ||
      static_cast<uint64_t>(elements) > all - static_cast<uint64_t>(first))
    return refused("has a tensor that is not dense, or larger than its storage");
  tensor.offset =
      static_cast<uint64_t>(bytes->second.data() - file.text().data()) + static_cast<uint64_t>(first) * width;
  tensor.bytes = static_cast<uint64_t>(elements) * width;
  return Status();
}

Status Unpickler::call() {
  std::vector<PickledPointer> arguments = pop()->list;
  std::string name = pop()->text;
  if (name == "collections OrderedDict") {
    push(Kind::Dict);
    return Status();
  }
  if (name == "torch._utils _rebuild_tensor_v2")
    return rebuild(arguments);
  if (name == "torch._utils _rebuild_parameter" && !arguments.empty()) {
    stack.push_back(arguments[0]);
    return Status();
  }
  return refused("calls '" + printable(name, 64) + "', expected tensors alone");
}

// What pushes one value.
Status Unpickler::stepOfValue(uint8_t op) {
  switch (op) {
  case '(':
    push(Kind::Mark);
    break;
  case ')':
  case ']':
    push(Kind::List);
    break;
  case '}':
    push(Kind::Dict);
    break;
  case 'N':
  case 0x88: // True
  case 0x89: // False
    push(Kind::Other);
    break;
  case 'J':
    push(Kind::Number)->number = static_cast<int32_t>(code.number(4));
    break;
  case 'K':
    push(Kind::Number)->number = static_cast<int64_t>(code.number(1));
    break;
  case 'M':
    push(Kind::Number)->number = static_cast<int64_t>(code.number(2));
    break;
  case 0x8a: { // LONG1
    uint64_t bytes = code.number(1);
    if (bytes > 8)
      return refused("has a number of more than 64 bits");
    push(Kind::Number)->number = static_cast<int64_t>(code.number(bytes));
    break;
  }
  case 'G':
    code.take(8);
    push(Kind::Other);
    break;
  case 'X':
    push(Kind::Text)->text = std::string(code.take(code.number(4)));
    break;
  case 'c': {
    std::string module(code.line());
    push(Kind::Global)->text = module + " " + std::string(code.line());
    break;
  }
  default:
    return refused("has an unknown operation, byte " + std::to_string(op) + " at " + std::to_string(code.place() - 1));
  }
  return Status();
}

Status Unpickler::step(uint8_t op) {
  switch (op) {
  case 0x80: // PROTO
    if (uint64_t protocol = code.number(1); protocol != 2)
      return refused("is of protocol " + std::to_string(protocol) + ", expected 2");
    break;
  case 'q':
  case 'r': {
    uint64_t key = code.number(op == 'q' ? 1 : 4);
    if (stack.empty())
      isBroken = true;
    else
      memo[key] = stack.back();
    break;
  }
  case 'h':
  case 'j': {
    auto found = memo.find(code.number(op == 'h' ? 1 : 4));
    isBroken |= found == memo.end();
    if (!isBroken)
      stack.push_back(found->second);
    break;
  }
  case 't':
    pushList(popToMark());
    break;
  case 0x85: // TUPLE1 … TUPLE3
  case 0x86:
  case 0x87: {
    std::vector<PickledPointer> items;
    for (uint8_t i = 0x85; i <= op; ++i)
      items.insert(items.begin(), pop());
    pushList(std::move(items));
    break;
  }
  case 'e':
  case 'u':
    addTo(popToMark());
    break;
  case 'a':
    addTo({pop()});
    break;
  case 's': {
    PickledPointer value = pop(), key = pop();
    addTo({key, value});
    break;
  }
  case 'b': // attributes of a dict: _metadata
    pop();
    break;
  case 'R':
    return call();
  case 'Q':
    return loadStorage();
  case '.':
    result = pop();
    break;
  default:
    return stepOfValue(op);
  }
  return Status();
}

Status Unpickler::run() {
  for (size_t steps = 0; !result; ++steps) {
    auto op = static_cast<uint8_t>(code.number(1));
    if (!code.isPast)
      HEDDLE_RETURN_IF_ERROR(step(op));
    if (code.isPast || isBroken || steps == maxValues)
      return refused("ends too early, or is damaged");
  }
  return Status();
}

Status readPickledTensors(SharedFile file, Checkpoint &checkpoint) {
  Archive archive;
  HEDDLE_RETURN_IF_ERROR(archive.read(*file));
  if (auto order = archive.members.find("byteorder"); order != archive.members.end() && order->second != "little")
    return errorIn(file->path(), "byteorder is '" + printable(std::string(order->second), 16) + "', expected little");
  auto text = archive.members.find("data.pkl");
  if (text == archive.members.end())
    return errorIn(file->path(), "holds no data.pkl: expected a file of torch.save");
  Unpickler unpickler(*file, archive, text->second);
  HEDDLE_RETURN_IF_ERROR(unpickler.run());
  const PickledValue &dict = *unpickler.result;
  auto refused = [&] {
    return errorIn(file->path(), "data.pkl: holds something else than tensors: expected a dict of them by name");
  };
  if (dict.kind != PickledValue::Kind::Dict || dict.list.size() % 2 != 0)
    return refused();
  for (size_t i = 0; i < dict.list.size(); i += 2) {
    const PickledValue &key = *dict.list[i], &value = *dict.list[i + 1];
    if (key.kind != PickledValue::Kind::Text || value.kind != PickledValue::Kind::Tensor)
      return refused();
    TensorInfo tensor = value.tensor;
    tensor.file = static_cast<uint32_t>(checkpoint.files.size());
    checkpoint.tensors[key.text] = std::move(tensor);
  }
  checkpoint.files.push_back(std::move(file));
  return Status();
}

} // namespace heddle
