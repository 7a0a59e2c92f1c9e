// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX as data: what the emulator executes. The meaning of every instruction is that of NVIDIA's "Parallel Thread
// Execution ISA"; what is not in here is refused when it is read.
#ifndef HEDDLE_TEST_PTX_PROGRAM_H
#define HEDDLE_TEST_PTX_PROGRAM_H

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::ptx {

// What is no PTX that we know, or what a kernel must not do. The message names the line.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class SpecialRegister : uint8_t {
  ThreadX,
  ThreadY,
  ThreadZ,
  ThreadsX,
  ThreadsY,
  ThreadsZ,
  BlockX,
  BlockY,
  BlockZ,
  BlocksX,
  BlocksY,
  BlocksZ,
  Lane
};

struct Operand {
  enum class Kind : uint8_t { Register, Immediate, Special } kind = Kind::Immediate;
  uint64_t value = 0; // index of the register; the bits; SpecialRegister
};

// Types of values in registers.
enum class Type : uint8_t {
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F32,
  F64,
  BF16,
  BF16x2,
  F16x2
};
int sizeOf(Type type);
bool isSigned(Type type);

enum class Rounding : uint8_t { None, Nearest, Zero, Down, Up };

enum class Action : uint8_t {
  Compute, // result = compute(sources)
  Convert, // result = source as `type`, read as `from`
  Split,   // results = the parts of a source, the lowest first
  Load,
  Store, // results or sources from or to [address]
  AtomicAdd,
  CountUp, // result = [address], which becomes one more, and 0 where it is the source
  Fence,
  FenceProxy, // between what the thread wrote to shared memory and what warpgroups read
  Branch,
  Exit,
  Barrier,     // of the block
  ClusterWait, // of the cluster: what comes behind the arrival that stands before it
  CopyAsync,
  CommitCopies,
  WaitCopies,
  // Of a whole warp, which must execute them together.
  Shuffle,
  LoadMatrices,
  Multiply,
  // Of a whole warp, the same for the four of a warpgroup.
  WarpgroupFence,
  WarpgroupMultiply, // results += A in sources, by what the last source describes, in rows of K or transposed
  WarpgroupCommit,
  WarpgroupWait,
  Nothing, // that can be seen here: prefetches
};

enum class Space : uint8_t { Generic, Global, Shared, Cluster, Local, Parameters };
// An address in the shared memory of block `rank` of the cluster: its own with one more than that above these bits.
inline constexpr int clusterRankShift = 24;

using Compute = uint64_t (*)(uint64_t, uint64_t, uint64_t);

struct Instruction {
  Action action = Action::Nothing;
  int32_t guard = -1; // predicate register that it depends on
  bool isGuardNegated = false;
  bool flushesInputs = false, flushesResult = false; // .ftz: f32 numbers below 2^-126 are 0
  bool isTransposed = false;
  bool startsAtZero = false; // what it adds to does not count
  Space space = Space::Generic;
  Type type = Type::B32, from = Type::B32;
  Rounding rounding = Rounding::None;
  Compute compute = nullptr;
  std::vector<Operand> results, sources;
  Operand address, copyFrom; // bases of [base + offset]
  int64_t offset = 0, copyFromOffset = 0;
  uint32_t target = 0; // of a branch
  int line = 0;
};

struct Kernel {
  struct Parameter {
    uint32_t offset, size;
  };
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0, sharedBytes = 0, localBytes = 0; // shared: without what a launch adds behind it
  uint32_t threads[3] = {0, 0, 0};                              // .maxntid: what a block must not exceed; 0: unknown
  uint32_t cluster = 1;                                         // blocks along z that run at once
  std::vector<Instruction> code;
  int numRegisters = 0;
  bool communicates = false;  // blocks tell each other what they have stored
  bool hasWarpgroups = false; // that multiply
};

struct Module {
  std::string target; // sm_80
  std::map<std::string, Kernel, std::less<>> kernels;
};

// Throws Error.
Module parseModule(std::string_view text);

// The instruction without modifiers that change no bit: "add.s32" (Alu.cpp); null: not known. Sets how many sources it
// has.
Compute findCompute(const std::string &name, size_t &numSources);

} // namespace heddle::ptx

#endif
