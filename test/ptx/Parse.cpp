// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/Program.h"
#include "test/ptx/Words.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace heddle::ptx {

int sizeOf(Type type) {
  switch (type) {
  case Type::B8:
  case Type::U8:
  case Type::S8:
    return 1;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
    return 2;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
    return 8;
  default:
    return 4;
  }
}

bool isSigned(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}

namespace {

constexpr std::pair<const char *, Type> typeNames[] = {
    {"pred", Type::Pred}, {"b8", Type::B8},     {"b16", Type::B16},       {"b32", Type::B32},    {"b64", Type::B64},
    {"u8", Type::U8},     {"u16", Type::U16},   {"u32", Type::U32},       {"u64", Type::U64},    {"s8", Type::S8},
    {"s16", Type::S16},   {"s32", Type::S32},   {"s64", Type::S64},       {"f32", Type::F32},    {"f64", Type::F64},
    {"f16", Type::F16},   {"bf16", Type::BF16}, {"bf16x2", Type::BF16x2}, {"f16x2", Type::F16x2}};

constexpr std::pair<const char *, SpecialRegister> specialNames[] = {
    {"%tid.x", SpecialRegister::ThreadX},    {"%tid.y", SpecialRegister::ThreadY},
    {"%tid.z", SpecialRegister::ThreadZ},    {"%ntid.x", SpecialRegister::ThreadsX},
    {"%ntid.y", SpecialRegister::ThreadsY},  {"%ntid.z", SpecialRegister::ThreadsZ},
    {"%ctaid.x", SpecialRegister::BlockX},   {"%ctaid.y", SpecialRegister::BlockY},
    {"%ctaid.z", SpecialRegister::BlockZ},   {"%nctaid.x", SpecialRegister::BlocksX},
    {"%nctaid.y", SpecialRegister::BlocksY}, {"%nctaid.z", SpecialRegister::BlocksZ},
    {"%laneid", SpecialRegister::Lane}};

std::optional<Type> typeOf(std::string_view name) {
  for (auto [known, type] : typeNames)
    if (name == known)
      return type;
  return std::nullopt;
}

class Parser {
public:
  explicit Parser(std::string_view source) : clean(withoutComments(source)), text(clean) {}
  Module parse();

private:
  [[noreturn]] void fail(const std::string &message) const {
    throw Error("PTX line " + std::to_string(lineAt(at)) + ": " + message);
  }
  int lineAt(size_t offset) const {
    return 1 + int(std::count(text.begin(), text.begin() + std::min(offset, text.size()), '\n'));
  }
  void skipBlanks() {
    while (at < text.size() && isspace((unsigned char)text[at]))
      ++at;
  }
  std::string_view word() {
    skipBlanks();
    size_t begin = at;
    while (at < text.size() && isWord(text[at]))
      ++at;
    return text.substr(begin, at - begin);
  }
  std::string_view until(char end);
  void parseKernel(Module &module);
  void parseParameters(std::string_view list);
  void parseBody();
  void parseStatement(std::string_view statement);
  void parseVariable(std::string_view declaration, bool isShared);
  uint32_t placeVariable(std::string_view declaration, uint32_t &end, std::string &name);
  Instruction parseInstruction(std::string_view name, std::string_view operands);
  void parseMemory(Instruction &instruction, const std::vector<std::string> &parts,
                   const std::vector<std::string_view> &operands);
  void parseAtomic(Instruction &instruction, const std::vector<std::string> &parts,
                   const std::vector<std::string_view> &operands);
  void parseConvert(Instruction &instruction, const std::vector<std::string> &parts);
  void parseCompute(Instruction &instruction, const std::vector<std::string> &parts,
                    const std::vector<std::string_view> &operands);
  void parseCopy(Instruction &instruction, const std::vector<std::string> &parts,
                 const std::vector<std::string_view> &operands);
  void parseWarpgroup(Instruction &instruction, std::string_view name, const std::vector<std::string_view> &operands);
  Operand operand(std::string_view name);
  void addOperands(std::vector<Operand> &to, std::string_view text);
  void address(std::string_view text, Operand &base, int64_t &offset);
  int32_t registerOf(std::string_view name);
  uint32_t behindVariables() const {
    return (kernel->sharedBytes + dynamicAlignment - 1) / dynamicAlignment * dynamicAlignment;
  }

  std::string clean;
  std::string_view text;
  size_t at = 0;
  Kernel *kernel = nullptr;
  std::map<std::string, int32_t, std::less<>> registers;
  std::map<std::string, uint64_t, std::less<>> symbols; // of parameters and variables: their addresses
  std::map<std::string, uint32_t, std::less<>> labels;
  std::vector<std::pair<uint32_t, std::string>> branches; // instruction, label
  std::string dynamicShared;                              // what a launch adds
  uint32_t dynamicAlignment = 16;
};

std::string_view Parser::until(char end) {
  size_t found = text.find(end, at);
  if (found == std::string_view::npos)
    fail(std::string("no '") + end + "' follows");
  std::string_view result = text.substr(at, found - at);
  at = found + 1;
  return trim(result);
}

Module Parser::parse() {
  Module module;
  for (std::string_view token = word(); !token.empty() || at < text.size(); token = word()) {
    if (token == ".version" || token == ".address_size")
      word();
    else if (token == ".target") {
      module.target = word();
      while (skipBlanks(), at < text.size() && text[at] == ',')
        ++at, word();
    } else if (token == ".visible" || token == ".weak")
      continue;
    else if (token == ".extern") {
      std::string_view declaration = until(';');
      if (declaration.substr(0, 7) != ".shared")
        fail("what is external is not known: " + std::string(declaration));
      uint32_t end = 1; // the next place is the alignment itself
      dynamicAlignment = placeVariable(declaration, end, dynamicShared);
    } else if (token == ".entry")
      parseKernel(module);
    else
      fail("'" + std::string(token.empty() ? text.substr(at, 20) : token) + "' is not known here");
  }
  return module;
}

void Parser::parseKernel(Module &module) {
  registers.clear(), symbols.clear(), labels.clear(), branches.clear();
  std::string name(word());
  kernel = &module.kernels[name];
  kernel->name = name;
  skipBlanks();
  if (at < text.size() && text[at] == '(') {
    ++at;
    parseParameters(until(')'));
  }
  for (std::string_view token = word(); !token.empty(); token = word()) {
    if (token == ".maxntid")
      for (int axis = 0; axis < 3; ++axis) {
        kernel->threads[axis] = leadingNumber(word());
        skipBlanks();
        if (at < text.size() && text[at] == ',')
          ++at;
      }
    else if (token == ".reqnctapercluster") {
      std::string_view sizes = until('\n');
      std::vector<std::string_view> axes = splitOperands(sizes);
      if (axes.size() != 3 || axes[0] != "1" || axes[1] != "1")
        fail("only clusters of blocks along z are known");
      kernel->cluster = std::max(1u, leadingNumber(axes[2]));
    } else if (token != ".explicitcluster")
      word(); // .minnctapersm and other hints
  }
  until('{');
  parseBody();
  for (auto &[index, label] : branches) {
    auto found = labels.find(label);
    if (found == labels.end())
      fail("no label " + label);
    kernel->code[index].target = found->second;
  }
  kernel->code.push_back({});
  kernel->code.back().action = Action::Exit;
  kernel->numRegisters = int(registers.size());
  if (!dynamicShared.empty())
    kernel->sharedBytes = behindVariables();
}

void Parser::parseParameters(std::string_view list) {
  for (std::string_view parameter : splitOperands(list)) {
    size_t begin = parameter.find_last_of(" \t\n") + 1;
    std::optional<Type> type;
    for (const std::string &part : splitName(parameter.substr(0, begin)))
      if (std::optional<Type> found = typeOf(trim(part)); found && !type)
        type = found;
    if (!type)
      fail("parameter without a type: " + std::string(parameter));
    uint32_t size = sizeOf(*type), offset = (kernel->parameterBytes + size - 1) / size * size;
    symbols.emplace(parameter.substr(begin), offset);
    kernel->parameters.push_back({offset, size});
    kernel->parameterBytes = offset + size;
  }
}

void Parser::parseBody() {
  while (true) {
    skipBlanks();
    if (at >= text.size())
      fail("the body does not end");
    if (text[at] == '}') {
      ++at;
      return;
    }
    size_t begin = at;
    std::string_view first = word();
    skipBlanks();
    if (!first.empty() && text.substr(at, 1) == ":" && text.substr(at, 2) != "::") {
      ++at;
      labels.emplace(first, kernel->code.size());
      continue;
    }
    at = begin;
    parseStatement(until(';'));
  }
}

void Parser::parseStatement(std::string_view statement) {
  int32_t guard = -1;
  bool isNegated = false;
  if (statement.front() == '@') {
    isNegated = statement[1] == '!';
    size_t end = statement.find_first_of(" \t", 1);
    guard = registerOf(statement.substr(isNegated ? 2 : 1, end - (isNegated ? 2 : 1)));
    statement = trim(statement.substr(end));
  }
  size_t end = std::min(statement.find_first_of(" \t\n"), statement.size());
  std::string_view name = statement.substr(0, end), rest = trim(statement.substr(end));
  if (name == ".reg" || name == ".pragma")
    return;
  if (name == ".shared" || name == ".local")
    return parseVariable(statement, name == ".shared");
  Instruction instruction = parseInstruction(name, rest);
  instruction.guard = guard;
  instruction.isGuardNegated = isNegated;
  instruction.line = lineAt(at);
  kernel->code.push_back(std::move(instruction));
}

// .shared .align 16 .b8 name[64]: returns its address, and moves `end` behind it.
uint32_t Parser::placeVariable(std::string_view declaration, uint32_t &end, std::string &name) {
  size_t align = declaration.find(".align"), bracket = declaration.find('[');
  uint32_t alignment = align == std::string_view::npos ? 1 : leadingNumber(declaration.substr(align + 6));
  std::string_view head = trim(declaration.substr(0, bracket));
  size_t begin = head.find_last_of(" \t") + 1;
  name = head.substr(begin);
  std::optional<Type> type;
  for (const std::string &part : splitName(head.substr(0, begin)))
    if (std::optional<Type> found = typeOf(trim(part)))
      type = found;
  if (!type || !alignment)
    fail("a variable without type or alignment: " + std::string(declaration));
  uint32_t count = bracket == std::string_view::npos ? 1 : leadingNumber(declaration.substr(bracket + 1));
  uint32_t offset = (end + alignment - 1) / alignment * alignment;
  end = offset + count * uint32_t(sizeOf(*type));
  return offset;
}

void Parser::parseVariable(std::string_view declaration, bool isShared) {
  std::string name;
  uint32_t offset = placeVariable(declaration, isShared ? kernel->sharedBytes : kernel->localBytes, name);
  symbols.emplace(name, offset);
}

int32_t Parser::registerOf(std::string_view name) {
  return registers.emplace(name, int32_t(registers.size())).first->second;
}

Operand Parser::operand(std::string_view name) {
  for (auto [known, special] : specialNames)
    if (name == known)
      return {Operand::Kind::Special, uint64_t(special)};
  if (name.front() == '%')
    return {Operand::Kind::Register, uint64_t(registerOf(name))};
  // What a launch adds lies behind the variables, which are declared first.
  if (name == dynamicShared)
    return {Operand::Kind::Immediate, behindVariables()};
  if (auto symbol = symbols.find(name); symbol != symbols.end())
    return {Operand::Kind::Immediate, symbol->second};
  std::string spelled(name);
  if (name.size() > 2 && name[0] == '0' && strchr("fFdD", name[1]))
    return {Operand::Kind::Immediate, strtoull(spelled.c_str() + 2, nullptr, 16)};
  char *end = nullptr;
  uint64_t value =
      name.front() == '-' ? uint64_t(strtoll(spelled.c_str(), &end, 0)) : strtoull(spelled.c_str(), &end, 0);
  if (*end && *end != 'U')
    fail("no operand: '" + spelled + "'");
  return {Operand::Kind::Immediate, value};
}

// A register, or {several}.
void Parser::addOperands(std::vector<Operand> &to, std::string_view text) {
  if (text.front() != '{') {
    to.push_back(operand(text));
    return;
  }
  for (std::string_view part : splitOperands(text.substr(1, text.size() - 2)))
    to.push_back(operand(part));
}

// [base], [base + offset]
void Parser::address(std::string_view text, Operand &base, int64_t &offset) {
  if (text.size() < 3 || text.front() != '[' || text.back() != ']')
    fail("no address: " + std::string(text));
  text = trim(text.substr(1, text.size() - 2));
  size_t plus = text.find('+');
  if (plus != std::string_view::npos)
    offset = strtoll(std::string(trim(text.substr(plus + 1))).c_str(), nullptr, 0);
  base = operand(trim(text.substr(0, plus)));
}

void Parser::parseMemory(Instruction &instruction, const std::vector<std::string> &parts,
                         const std::vector<std::string_view> &operands) {
  bool isLoad = parts[0] == "ld";
  instruction.action = isLoad ? Action::Load : Action::Store;
  for (auto [name, space] : {std::pair("global", Space::Global), std::pair("shared", Space::Shared),
                             std::pair("shared::cluster", Space::Cluster), std::pair("local", Space::Local),
                             std::pair("param", Space::Parameters)})
    if (contains(parts, name))
      instruction.space = space;
  std::optional<Type> type = typeOf(parts.back());
  if (!type || operands.size() != 2)
    fail("a load or store of no known type");
  instruction.type = *type;
  address(operands[isLoad ? 1 : 0], instruction.address, instruction.offset);
  addOperands(isLoad ? instruction.results : instruction.sources, operands[isLoad ? 0 : 1]);
}

// What a thread adds, others see at once: threads of a block come one after the other.
void Parser::parseAtomic(Instruction &instruction, const std::vector<std::string> &parts,
                         const std::vector<std::string_view> &operands) {
  std::optional<Type> type = typeOf(parts.back());
  // Relaxed and of the whole device, as an atomic operation is that says nothing else.
  bool isCount = parts.size() == 4 && parts[1] == "global" && parts[2] == "inc" && type == Type::U32;
  bool isSum = contains(parts, "shared") && contains(parts, "add") && (type == Type::U32 || type == Type::U64);
  if (operands.size() != 3 || !(isCount || isSum))
    fail("only sums of unsigned integers in shared memory and relaxed counts in global memory are known as atomic");
  instruction.action = isCount ? Action::CountUp : Action::AtomicAdd;
  instruction.space = isCount ? Space::Global : Space::Shared;
  kernel->communicates |= isCount;
  instruction.type = *type;
  instruction.results.push_back(operand(operands[0]));
  address(operands[1], instruction.address, instruction.offset);
  instruction.sources.push_back(operand(operands[2]));
}

void Parser::parseConvert(Instruction &instruction, const std::vector<std::string> &parts) {
  std::optional<Type> to = typeOf(parts[parts.size() - 2]), from = typeOf(parts.back());
  if (!to || !from || contains(parts, "sat"))
    fail("a conversion that is not known");
  instruction.action = Action::Convert;
  instruction.type = *to, instruction.from = *from;
  for (auto [name, rounding] :
       {std::pair("rn", Rounding::Nearest), std::pair("rni", Rounding::Nearest), std::pair("rzi", Rounding::Zero),
        std::pair("rz", Rounding::Zero), std::pair("rmi", Rounding::Down), std::pair("rpi", Rounding::Up)})
    if (contains(parts, name))
      instruction.rounding = rounding;
  instruction.flushesInputs = contains(parts, "ftz") && *from == Type::F32;
  instruction.flushesResult = contains(parts, "ftz") && *to == Type::F32;
}

void Parser::parseCopy(Instruction &instruction, const std::vector<std::string> &parts,
                       const std::vector<std::string_view> &operands) {
  if (contains(parts, "commit_group")) {
    instruction.action = Action::CommitCopies;
    return;
  }
  if (contains(parts, "wait_group") || contains(parts, "wait_all")) {
    instruction.action = Action::WaitCopies;
    instruction.sources.push_back(operands.empty() ? Operand() : operand(operands[0]));
    return;
  }
  if (operands.size() < 3)
    fail("a copy without a size");
  instruction.action = Action::CopyAsync;
  address(operands[0], instruction.address, instruction.offset);
  address(operands[1], instruction.copyFrom, instruction.copyFromOffset);
  instruction.sources.push_back(operand(operands[2]));
  instruction.sources.push_back(operand(operands.size() > 3 ? operands[3] : operands[2]));
}

void Parser::parseWarpgroup(Instruction &instruction, std::string_view name,
                            const std::vector<std::string_view> &operands) {
  kernel->hasWarpgroups = true;
  if (name == "wgmma.fence.sync.aligned") {
    instruction.action = Action::WarpgroupFence;
  } else if (name == "wgmma.commit_group.sync.aligned") {
    instruction.action = Action::WarpgroupCommit;
  } else if (name == "wgmma.wait_group.sync.aligned") {
    instruction.action = Action::WarpgroupWait;
    instruction.sources.push_back(operand(operands.at(0)));
  } else {
    constexpr std::string_view begin = "wgmma.mma_async.sync.aligned.m64n", end = "k16.f32.bf16.bf16";
    uint32_t columns = leadingNumber(name.substr(std::min(begin.size(), name.size())));
    bool isKnown = name == std::string(begin) + std::to_string(columns) + std::string(end);
    auto isFlag = [&](size_t i) { return operands[i] == "0" || operands[i] == "1"; };
    // Whether sums count, signs that stay, and whether the right operand is in rows of columns.
    if (!isKnown || operands.size() != 7 || operands[1].front() != '{' || !isFlag(3) || operands[4] != "1" ||
        operands[5] != "1" || !isFlag(6))
      fail("only products of bf16 with A in registers are known of wgmma");
    instruction.startsAtZero = operands[3] == "0";
    instruction.isTransposed = operands[6] == "1";
    instruction.action = Action::WarpgroupMultiply;
    addOperands(instruction.results, operands[0]);
    addOperands(instruction.sources, operands[1]);
    instruction.sources.push_back(operand(operands[2]));
    if (columns % 8 || columns < 8 || columns > 256 || instruction.results.size() != columns / 2 ||
        instruction.sources.size() != 5)
      fail("wgmma of another shape than its registers");
  }
}

// Modifiers of precision fall away: what is computed is the nearest number, which every precision allows.
void Parser::parseCompute(Instruction &instruction, const std::vector<std::string> &parts,
                          const std::vector<std::string_view> &operands) {
  std::string name = parts[0];
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i] != "rn" && parts[i] != "ftz" && parts[i] != "approx" && parts[i] != "full")
      name += "." + parts[i];
  size_t numSources = 0;
  instruction.action = Action::Compute;
  instruction.compute = findCompute(name, numSources);
  if (!instruction.compute)
    fail("instruction '" + name + "' is not known");
  if (operands.size() != numSources + 1)
    fail("'" + name + "' takes " + std::to_string(numSources) + " operands");
  instruction.results.push_back(operand(operands[0]));
  for (size_t i = 0; i < numSources; ++i)
    instruction.sources.push_back(operand(operands[1 + i]));
  instruction.flushesInputs = contains(parts, "ftz");
  instruction.flushesResult = contains(parts, "ftz") && parts[0] != "setp";
}

Instruction Parser::parseInstruction(std::string_view name, std::string_view rest) {
  std::vector<std::string> parts = splitName(name);
  std::vector<std::string_view> operands = splitOperands(rest);
  Instruction instruction;
  const std::string &op = parts[0];
  auto collective = [&](Action action) {
    instruction.action = action;
    for (size_t i = 1; i < operands.size(); ++i)
      addOperands(instruction.sources, operands[i]);
    addOperands(instruction.results, operands[0]);
  };
  if (op == "ret" || op == "exit")
    instruction.action = Action::Exit;
  else if (op == "bra") {
    instruction.action = Action::Branch;
    branches.emplace_back(uint32_t(kernel->code.size()), std::string(operands.at(0)));
  } else if ((op == "bar" || op == "barrier") && !contains(parts, "cluster")) {
    instruction.action = Action::Barrier;
    if (operands.size() != 1 || !contains(parts, "sync"))
      fail("only a barrier of the whole block is known");
    instruction.sources.push_back(operand(operands[0]));
  } else if (name == "barrier.cluster.arrive.aligned") {
    instruction.action = Action::Nothing;
  } else if (name == "barrier.cluster.wait.aligned") {
    instruction.action = Action::ClusterWait;
  } else if (op == "ld" || op == "st")
    parseMemory(instruction, parts, operands);
  else if (op == "atom")
    parseAtomic(instruction, parts, operands);
  else if (name == "fence.acq_rel.gpu") {
    instruction.action = Action::Fence;
    kernel->communicates = true;
  } else if (name == "fence.proxy.async.shared::cta")
    instruction.action = Action::FenceProxy;
  else if (op == "prefetch") {
    Operand base;
    int64_t offset = 0;
    address(operands.at(0), base, offset);
  } else if (op == "wgmma")
    parseWarpgroup(instruction, name, operands);
  else if (op == "cvt") {
    parseConvert(instruction, parts);
    instruction.results.push_back(operand(operands.at(0)));
    for (size_t i = 1; i < operands.size(); ++i)
      instruction.sources.push_back(operand(operands[i]));
  } else if (op == "cvta") {
    // Global addresses are generic ones; of the other spaces no address leaves its space.
    if (!contains(parts, "global"))
      fail("generic addresses are those of global memory alone");
    size_t numSources;
    instruction.action = Action::Compute;
    instruction.compute = findCompute("mov.b64", numSources);
    instruction.results.push_back(operand(operands.at(0)));
    instruction.sources.push_back(operand(operands.at(1)));
  } else if (op == "cp")
    parseCopy(instruction, parts, operands);
  else if (name == "shfl.sync.bfly.b32")
    collective(Action::Shuffle);
  else if (name == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    collective(Action::Multiply);
  else if (name == "ldmatrix.sync.aligned.m8n8.x4.shared.b16" ||
           name == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") {
    instruction.action = Action::LoadMatrices;
    instruction.isTransposed = contains(parts, "trans");
    addOperands(instruction.results, operands.at(0));
    address(operands.at(1), instruction.address, instruction.offset);
  } else if (op == "mov" && operands.size() == 2 && operands[0].front() == '{') {
    std::optional<Type> type = typeOf(parts.back());
    instruction.action = Action::Split;
    addOperands(instruction.results, operands[0]);
    instruction.sources.push_back(operand(operands[1]));
    if (!type || instruction.results.size() != 2 || sizeOf(*type) < 4)
      fail("only moves into two halves are known");
    instruction.type = *type;
  } else if (op == "mov" && operands.size() == 2 && operands[1].front() == '{')
    fail("moves of several registers into one are not known");
  else
    parseCompute(instruction, parts, operands);
  return instruction;
}

} // namespace

Module parseModule(std::string_view text) {
  return Parser(text).parse();
}

} // namespace heddle::ptx
