// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/Machine.h"

#include "test/ptx/BlockView.h"
#include "test/ptx/Warp.h"
#include "test/ptx/Warpgroups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

namespace heddle::ptx {

// A kernel that does not come to an end: no test runs as long.
static constexpr uint64_t maxSteps = uint64_t(1) << 32;

void Memory::allow(const void *begin, size_t size, Access access) {
  ranges[reinterpret_cast<uint64_t>(begin)] = {reinterpret_cast<uint64_t>(begin) + size, access};
}

void Memory::forbid(const void *begin) {
  ranges.erase(reinterpret_cast<uint64_t>(begin));
  last = {0, {0, Access::Read}};
}

std::vector<Memory::Span> Memory::spans() const {
  std::vector<Span> spans;
  spans.reserve(ranges.size());
  for (const auto &[begin, range] : ranges) // NOLINTNEXTLINE(performance-no-int-to-ptr)
    spans.push_back({reinterpret_cast<void *>(begin), range.end - begin, range.access});
  return spans;
}

uint8_t *Memory::at(uint64_t address, size_t size, size_t alignment, Access access) {
  if (address % alignment)
    throw Error("an access of " + std::to_string(size) + " bytes is not aligned");
  if (address < last.first || address + size > last.second.end) {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin() || address + size > std::prev(after)->second.end)
      throw Error("an access of " + std::to_string(size) + " bytes lies outside of every allocation");
    last = *std::prev(after);
  }
  if (access == Access::ReadWrite && last.second.access == Access::Read)
    throw Error("a store to memory that is only read");
  return reinterpret_cast<uint8_t *>(address); // NOLINT(performance-no-int-to-ptr)
}

namespace {

constexpr int lanes = 32;

struct Copy {
  uint32_t to;
  uint64_t from;
  uint32_t bytes, size; // the rest of `size` becomes 0
};

struct Thread {
  enum class State : uint8_t { Running, AtWarp, AtBarrier, AtCluster, Done } state = State::Running;
  uint32_t pc = 0;
  std::vector<Copy> copies;             // not committed yet
  std::deque<std::vector<Copy>> groups; // oldest first
};

float flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

uint64_t flushedBits(uint64_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  value = flushed(value);
  bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

class Block {
public:
  // `view`: of kernels whose blocks communicate, else null.
  Block(const Kernel &kernel, const Launch &launch, const uint8_t *parameters, Memory &memory, BlockView *view,
        WarpOrder order)
      : kernel(kernel), launch(launch), parameters(parameters), memory(memory), view(view), order(order),
        count(int(launch.threads[0] * launch.threads[1] * launch.threads[2])),
        shared(kernel.sharedBytes + launch.sharedBytes) {}
  // A block of a cluster, which `blocks` are.
  void begin(std::array<uint32_t, 3> at, const std::vector<std::unique_ptr<Block>> &blocks);
  // Until its threads are done, or wait for the cluster: false.
  bool advance();
  // All of the cluster have come so far.
  void releaseCluster();

private:
  void runWarp(int warp);
  void runThread(int index);
  bool step(int index, const Instruction &instruction);
  void releaseBarrier();
  bool areAll(Thread::State state) const;
  void collective(int warp);
  bool multiplyAsync(int warp, const Instruction &instruction);
  uint64_t read(int index, const Operand &operand) const;
  uint64_t special(int index, SpecialRegister which) const;
  void write(int index, const Operand &operand, uint64_t value) {
    if (warpgroups)
      warpgroups->write(index, operand.value);
    registers[size_t(index) * kernel.numRegisters + operand.value] = value;
  }
  uint8_t *locate(int index, const Instruction &instruction, size_t bytes, Memory::Access access);
  uint8_t *sharedAt(uint64_t offset, size_t bytes);
  void loadOrStore(int index, const Instruction &instruction);
  void addAtomically(int index, const Instruction &instruction);
  void countUp(int index, const Instruction &instruction);
  void issueCopy(int index, const Instruction &instruction);
  void waitCopies(int index, size_t left);
  void compute(int index, const Instruction &instruction);

  const Kernel &kernel;
  const Launch &launch;
  const uint8_t *parameters;
  Memory &memory;
  BlockView *view;
  WarpOrder order;
  int count; // threads
  uint32_t block[3] = {0, 0, 0};
  std::vector<uint8_t> shared, local;
  std::vector<uint64_t> registers; // (threads, numRegisters)
  std::vector<Thread> threads;
  const std::vector<std::unique_ptr<Block>> *cluster = nullptr;
  std::optional<Warpgroups> warpgroups; // of kernels that have some
  uint64_t steps = 0;
};

} // namespace

void Block::begin(std::array<uint32_t, 3> at, const std::vector<std::unique_ptr<Block>> &blocks) {
  std::copy(at.begin(), at.end(), block);
  cluster = &blocks;
  threads.assign(count, {});
  registers.assign(size_t(count) * kernel.numRegisters, 0);
  local.assign(size_t(count) * kernel.localBytes, 0xff);
  std::fill(shared.begin(), shared.end(), 0xff);
  if (kernel.hasWarpgroups)
    warpgroups.emplace(count, kernel.numRegisters, shared);
}

bool Block::areAll(Thread::State state) const {
  return std::all_of(threads.begin(), threads.end(), [&](const Thread &thread) { return thread.state == state; });
}

bool Block::advance() {
  int warps = (count + lanes - 1) / lanes;
  while (!areAll(Thread::State::Done) && !areAll(Thread::State::AtCluster)) {
    for (int warp = 0; warp < warps; ++warp)
      runWarp(order == WarpOrder::Ascending ? warp : warps - 1 - warp);
    releaseBarrier();
  }
  bool isDone = areAll(Thread::State::Done);
  if (isDone && warpgroups)
    warpgroups->end();
  return isDone;
}

void Block::releaseCluster() {
  for (Thread &thread : threads) {
    thread.state = Thread::State::Running;
    ++thread.pc;
  }
}

// Everyone waits, or is done.
void Block::releaseBarrier() {
  if (areAll(Thread::State::AtCluster))
    return;
  const Instruction *first = nullptr;
  for (Thread &thread : threads) {
    if (thread.state == Thread::State::Done)
      continue;
    const Instruction &barrier = kernel.code[thread.pc];
    if (thread.state == Thread::State::AtCluster)
      throw Error("line " + std::to_string(barrier.line) + ": some threads of a block wait for the cluster alone");
    if (first && first->sources[0].value != barrier.sources[0].value)
      throw Error("line " + std::to_string(barrier.line) + ": threads wait at different barriers");
    first = &barrier;
    thread.state = Thread::State::Running;
    ++thread.pc;
  }
}

// Until each thread of the warp waits at a barrier or is done.
void Block::runWarp(int warp) {
  int begin = warp * lanes, end = std::min(count, begin + lanes);
  while (true) {
    int atWarp = 0;
    for (int i = begin; i < end; ++i) {
      if (threads[i].state == Thread::State::Running)
        runThread(i);
      atWarp += threads[i].state == Thread::State::AtWarp;
    }
    if (atWarp == 0)
      return;
    const Instruction &instruction = kernel.code[threads[begin].pc];
    for (int i = begin; i < begin + lanes; ++i)
      if (atWarp != lanes || threads[i].pc != threads[begin].pc)
        throw Error("line " + std::to_string(instruction.line) + ": a warp does not execute it together");
    try {
      collective(begin);
    } catch (const Error &error) {
      throw Error(kernel.name + ", line " + std::to_string(instruction.line) + ", warp " + std::to_string(warp) + ": " +
                  error.what());
    }
    for (int i = begin; i < end; ++i) {
      threads[i].state = Thread::State::Running;
      ++threads[i].pc;
    }
  }
}

void Block::runThread(int index) {
  Thread &thread = threads[index];
  while (thread.state == Thread::State::Running) {
    const Instruction &instruction = kernel.code[thread.pc];
    if (++steps > maxSteps)
      throw Error("the kernel does not end");
    if (instruction.guard >= 0 &&
        bool(registers[size_t(index) * kernel.numRegisters + instruction.guard] & 1) == instruction.isGuardNegated) {
      ++thread.pc;
      continue;
    }
    try {
      if (step(index, instruction))
        ++thread.pc;
    } catch (const Error &error) {
      throw Error(kernel.name + ", line " + std::to_string(instruction.line) + ", thread " + std::to_string(index) +
                  ": " + error.what());
    }
  }
}

// Returns whether the next instruction follows.
bool Block::step(int index, const Instruction &instruction) {
  Thread &thread = threads[index];
  switch (instruction.action) {
  case Action::Compute:
    compute(index, instruction);
    return true;
  case Action::Convert: {
    uint64_t sources[2] = {read(index, instruction.sources[0]),
                           instruction.sources.size() > 1 ? read(index, instruction.sources[1]) : 0};
    if (instruction.flushesInputs)
      sources[0] = flushedBits(sources[0]);
    uint64_t value = convert(instruction, sources[0], sources[1]);
    write(index, instruction.results[0], instruction.flushesResult ? flushedBits(value) : value);
    return true;
  }
  case Action::Split: {
    uint64_t value = read(index, instruction.sources[0]);
    int half = 4 * sizeOf(instruction.type);
    for (size_t i = 0; i < instruction.results.size(); ++i)
      write(index, instruction.results[i], value >> (int(i) * half) & ((uint64_t(1) << half) - 1));
    return true;
  }
  case Action::Load:
  case Action::Store:
    loadOrStore(index, instruction);
    return true;
  case Action::AtomicAdd:
    addAtomically(index, instruction);
    return true;
  case Action::CountUp:
    countUp(index, instruction);
    return true;
  case Action::Fence:
    view->fence();
    return true;
  case Action::FenceProxy:
    if (warpgroups)
      warpgroups->fenceProxy(index);
    return true;
  case Action::Branch:
    thread.pc = instruction.target;
    return false;
  case Action::Exit:
    thread.state = Thread::State::Done;
    return false;
  case Action::Barrier:
    thread.state = Thread::State::AtBarrier;
    return false;
  case Action::ClusterWait:
    thread.state = Thread::State::AtCluster;
    return false;
  case Action::CopyAsync:
    issueCopy(index, instruction);
    return true;
  case Action::CommitCopies:
    thread.groups.push_back(std::move(thread.copies));
    thread.copies.clear();
    return true;
  case Action::WaitCopies:
    waitCopies(index, read(index, instruction.sources[0]));
    return true;
  case Action::Shuffle:
  case Action::LoadMatrices:
  case Action::Multiply:
  case Action::WarpgroupFence:
  case Action::WarpgroupMultiply:
  case Action::WarpgroupCommit:
  case Action::WarpgroupWait:
    thread.state = Thread::State::AtWarp;
    return false;
  case Action::Nothing:
    return true;
  }
  return true;
}

void Block::compute(int index, const Instruction &instruction) {
  uint64_t sources[3] = {0, 0, 0};
  for (size_t i = 0; i < instruction.sources.size(); ++i) {
    sources[i] = read(index, instruction.sources[i]);
    if (instruction.flushesInputs)
      sources[i] = flushedBits(sources[i]);
  }
  uint64_t value = instruction.compute(sources[0], sources[1], sources[2]);
  write(index, instruction.results[0], instruction.flushesResult ? flushedBits(value) : value);
}

uint64_t Block::special(int index, SpecialRegister which) const {
  uint32_t x = launch.threads[0], y = launch.threads[1];
  switch (which) {
  case SpecialRegister::ThreadX:
    return index % x;
  case SpecialRegister::ThreadY:
    return index / x % y;
  case SpecialRegister::ThreadZ:
    return index / x / y;
  case SpecialRegister::Lane:
    return index % lanes;
  case SpecialRegister::ThreadsX:
  case SpecialRegister::ThreadsY:
  case SpecialRegister::ThreadsZ:
    return launch.threads[int(which) - int(SpecialRegister::ThreadsX)];
  case SpecialRegister::BlockX:
  case SpecialRegister::BlockY:
  case SpecialRegister::BlockZ:
    return block[int(which) - int(SpecialRegister::BlockX)];
  case SpecialRegister::BlocksX:
  case SpecialRegister::BlocksY:
  case SpecialRegister::BlocksZ:
    return launch.blocks[int(which) - int(SpecialRegister::BlocksX)];
  }
  return 0;
}

uint64_t Block::read(int index, const Operand &operand) const {
  if (operand.kind == Operand::Kind::Register && warpgroups)
    warpgroups->read(index, operand.value);
  if (operand.kind == Operand::Kind::Register)
    return registers[size_t(index) * kernel.numRegisters + operand.value];
  return operand.kind == Operand::Kind::Immediate ? operand.value : special(index, SpecialRegister(operand.value));
}

uint8_t *Block::sharedAt(uint64_t offset, size_t bytes) {
  if (offset % bytes || offset + bytes > shared.size())
    throw Error("shared memory: " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of " +
                std::to_string(shared.size()));
  return shared.data() + offset;
}

uint8_t *Block::locate(int index, const Instruction &instruction, size_t bytes, Memory::Access access) {
  uint64_t address = read(index, instruction.address) + instruction.offset;
  switch (instruction.space) {
  case Space::Generic:
  case Space::Global:
    return memory.at(address, bytes, bytes, access);
  case Space::Shared:
    return sharedAt(uint32_t(address), bytes);
  case Space::Cluster: {
    uint64_t rank = (address >> clusterRankShift) - 1;
    if (rank >= cluster->size() || access == Memory::Access::ReadWrite)
      throw Error("shared memory of the cluster: address " + std::to_string(address));
    Block &other = *(*cluster)[rank];
    if (other.areAll(Thread::State::Done))
      throw Error("shared memory of a block of the cluster that has ended");
    return other.sharedAt(address & ((uint64_t(1) << clusterRankShift) - 1), bytes);
  }
  case Space::Local:
    if (uint32_t(address) + bytes > kernel.localBytes)
      throw Error("local memory: address " + std::to_string(address));
    return local.data() + size_t(index) * kernel.localBytes + uint32_t(address);
  case Space::Parameters:
    if (address + bytes > kernel.parameterBytes || access == Memory::Access::ReadWrite)
      throw Error("parameters: address " + std::to_string(address));
    return const_cast<uint8_t *>(parameters) + address;
  }
  return nullptr;
}

void Block::loadOrStore(int index, const Instruction &instruction) {
  bool isLoad = instruction.action == Action::Load;
  const std::vector<Operand> &values = isLoad ? instruction.results : instruction.sources;
  size_t bytes = sizeOf(instruction.type);
  uint8_t *at =
      locate(index, instruction, bytes * values.size(), isLoad ? Memory::Access::Read : Memory::Access::ReadWrite);
  if (!isLoad && warpgroups && instruction.space == Space::Shared)
    warpgroups->stored(index, at - shared.data(), bytes * values.size());
  bool isShown = view && (instruction.space == Space::Global || instruction.space == Space::Generic);
  for (const Operand &operand : values) {
    uint64_t value = 0;
    if (isLoad) {
      if (isShown)
        view->load(reinterpret_cast<uint64_t>(at), &value, bytes);
      else
        std::memcpy(&value, at, bytes);
      if (isSigned(instruction.type))
        value = uint64_t(int64_t(value << (64 - 8 * bytes)) >> (64 - 8 * bytes));
      write(index, operand, value);
    } else {
      value = read(index, operand);
      if (isShown)
        view->store(reinterpret_cast<uint64_t>(at), &value, bytes);
      else
        std::memcpy(at, &value, bytes);
    }
    at += bytes;
  }
}

void Block::countUp(int index, const Instruction &instruction) {
  uint8_t *at = locate(index, instruction, sizeof(uint32_t), Memory::Access::ReadWrite);
  uint32_t last = uint32_t(read(index, instruction.sources[0]));
  write(index, instruction.results[0], view->countUp(reinterpret_cast<uint64_t>(at), last));
}

void Block::addAtomically(int index, const Instruction &instruction) {
  size_t bytes = sizeOf(instruction.type);
  uint8_t *at = locate(index, instruction, bytes, Memory::Access::ReadWrite);
  uint64_t before = 0;
  std::memcpy(&before, at, bytes);
  uint64_t sum = before + read(index, instruction.sources[0]);
  std::memcpy(at, &sum, bytes);
  write(index, instruction.results[0], before);
}

// Nothing is there before the group is waited for; what lay there is gone.
void Block::issueCopy(int index, const Instruction &instruction) {
  Copy copy;
  copy.to = uint32_t(read(index, instruction.address) + instruction.offset);
  copy.from = read(index, instruction.copyFrom) + instruction.copyFromOffset;
  copy.size = uint32_t(read(index, instruction.sources[0]));
  copy.bytes = uint32_t(read(index, instruction.sources[1]));
  if (copy.bytes > copy.size)
    throw Error("a copy of " + std::to_string(copy.bytes) + " of " + std::to_string(copy.size) + " bytes");
  if (copy.bytes)
    memory.at(copy.from, copy.bytes, copy.size, Memory::Access::Read);
  std::memset(sharedAt(copy.to, copy.size), 0xff, copy.size);
  threads[index].copies.push_back(copy);
}

void Block::waitCopies(int index, size_t left) {
  Thread &thread = threads[index];
  while (thread.groups.size() > left) {
    for (const Copy &copy : thread.groups.front()) {
      uint8_t *to = shared.data() + copy.to;
      if (copy.bytes && view)
        view->load(copy.from, to, copy.bytes);
      else if (copy.bytes) // NOLINTNEXTLINE(performance-no-int-to-ptr)
        std::memcpy(to, reinterpret_cast<const void *>(copy.from), copy.bytes);
      std::memset(to + copy.bytes, 0, copy.size - copy.bytes);
      if (warpgroups)
        warpgroups->stored(index, copy.to, copy.size);
    }
    thread.groups.pop_front();
  }
}

// False for instructions of other kinds.
bool Block::multiplyAsync(int begin, const Instruction &instruction) {
  switch (instruction.action) {
  case Action::WarpgroupFence:
    warpgroups->fence(begin);
    return true;
  case Action::WarpgroupMultiply: {
    uint64_t descriptor = read(begin, instruction.sources.back());
    for (int lane = 1; lane < lanes; ++lane)
      if (read(begin + lane, instruction.sources.back()) != descriptor)
        throw Error("lanes describe different matrices");
    warpgroups->multiply(begin, instruction, descriptor, registers);
    return true;
  }
  case Action::WarpgroupCommit:
    warpgroups->commit(begin);
    return true;
  case Action::WarpgroupWait:
    warpgroups->wait(begin, read(begin, instruction.sources[0]));
    return true;
  default:
    return false;
  }
}

void Block::collective(int begin) {
  const Instruction &instruction = kernel.code[threads[begin].pc];
  if (multiplyAsync(begin, instruction))
    return;
  WarpValues sources(lanes), results(lanes);
  for (int lane = 0; lane < lanes; ++lane)
    for (const Operand &operand : instruction.sources)
      sources[lane].push_back(uint32_t(read(begin + lane, operand)));
  if (instruction.action == Action::Shuffle)
    shuffleXor(sources, results);
  else if (instruction.action == Action::Multiply)
    multiply(sources, results);
  else
    loadMatrices(
        [&](int lane) { return sharedAt(uint32_t(read(begin + lane, instruction.address) + instruction.offset), 16); },
        instruction.isTransposed, results);
  for (int lane = 0; lane < lanes; ++lane)
    for (size_t i = 0; i < instruction.results.size(); ++i)
      write(begin + lane, instruction.results[i], results[lane].at(i));
}

// Its blocks along z one after the other, from one point where all meet to the next.
static void runCluster(const std::vector<std::unique_ptr<Block>> &cluster, std::array<uint32_t, 3> at,
                       WarpOrder order) {
  for (size_t i = 0; i < cluster.size(); ++i)
    cluster[i]->begin({at[0], at[1], at[2] + uint32_t(i)}, cluster);
  for (size_t numDone = 0; numDone < cluster.size();) {
    numDone = 0;
    for (size_t i = 0; i < cluster.size(); ++i)
      numDone += cluster[order == WarpOrder::Ascending ? i : cluster.size() - 1 - i]->advance();
    if (numDone == cluster.size())
      return;
    if (numDone)
      throw Error("a block of the cluster ends while others wait for it");
    for (const std::unique_ptr<Block> &block : cluster)
      block->releaseCluster();
  }
}

void run(const Kernel &kernel, const Launch &launch, const void *const *arguments, Memory &memory, WarpOrder order) {
  std::vector<uint8_t> parameters(kernel.parameterBytes + 1);
  for (size_t i = 0; i < kernel.parameters.size(); ++i)
    std::memcpy(parameters.data() + kernel.parameters[i].offset, arguments[i], kernel.parameters[i].size);
  for (int axis = 0; axis < 3; ++axis)
    if (kernel.threads[axis] && launch.threads[axis] > kernel.threads[axis])
      throw Error(kernel.name + ": a block has more threads than .maxntid allows");
  if (launch.blocks[2] % kernel.cluster || (kernel.cluster > 1 && kernel.communicates))
    throw Error(kernel.name + ": a grid of no whole clusters, or clusters that tell others");
  BlockView view;
  std::vector<std::unique_ptr<Block>> cluster;
  for (uint32_t i = 0; i < kernel.cluster; ++i)
    cluster.push_back(std::make_unique<Block>(kernel, launch, parameters.data(), memory,
                                              kernel.communicates ? &view : nullptr, order));
  for (uint32_t z = 0; z < launch.blocks[2]; z += kernel.cluster)
    for (uint32_t y = 0; y < launch.blocks[1]; ++y)
      for (uint32_t x = 0; x < launch.blocks[0]; ++x) {
        view.beginBlock();
        runCluster(cluster, {x, y, z}, order);
      }
  view.endLaunch();
}

} // namespace heddle::ptx
