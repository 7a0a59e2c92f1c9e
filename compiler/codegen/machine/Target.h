// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processors and devices that code is generated for.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_TARGET_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_TARGET_H

#include "compiler/codegen/machine/GpuTarget.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
} // namespace llvm

namespace heddle {

// Instructions that add up products of bf16 pairs and round f32 to bf16, of avx512bf16 and of AArch64's bf16.
enum class PairDot : uint8_t { None, Avx512, Neon };

// One CPU target. Kernels ask what it can do and never name a processor.
struct CpuTarget {
  std::string name;                  // as given to --target, "native" resolved
  std::string triple;                // x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu
  std::string cpu;                   // LLVM's name
  std::vector<std::string> features; // LLVM's names, "+avx512vnni" without the plus: required at run time as well
  std::string tune; // LLVM's name of the processor whose timing schedules are chosen for; empty: any with the features

  bool has(llvm::StringRef feature) const;
  bool isX86() const;
  bool isAArch64() const;
  bool hasAvx512() const { return has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq"); }
  // Sums of products of four bytes, unsigned with signed ones, in one instruction of the widest vectors.
  bool hasByteDot() const { return has(hasAvx512() ? "avx512vnni" : "avxvnni"); }
  // Sums of products of bf16 pairs in one instruction: of vectors, and of tiles (AMX).
  PairDot pairDot() const;
  bool hasBf16Dot() const { return pairDot() != PairDot::None; }
  bool hasBf16Tiles() const { return hasAvx512() && has("amx-tile") && has("amx-bf16"); }
  // f32 lanes of the widest vector register: 16, 8 or 4.
  unsigned vectorLanes() const;
  // Vector registers: 32 with AVX-512 and NEON, 16 with AVX2.
  unsigned vectorRegisters() const;

  std::unique_ptr<llvm::TargetMachine> createMachine() const;
};

// An x86-64 CPU, `cpu` by LLVM's name, that has `features` of those that kernels make use of: what a hypervisor hides of it is not among them.
CpuTarget x86Target(llvm::StringRef name, llvm::StringRef cpu, std::vector<std::string> features);

// `name` is native, aarch64, or LLVM's name of an x86-64 CPU with AVX2 or of a 64-bit ARM one. The error says so.
mlir::FailureOr<CpuTarget> parseCpuTarget(llvm::StringRef name, std::string &error);

enum class DeviceKind : uint8_t { None, OpenCl, Cuda };

// What a model is compiled for: the processor that the step function runs on, and the device that kernels run on, if they do not
// run on the processor as well.
struct Target {
  std::string name; // as given to --target
  CpuTarget cpu;
  DeviceKind device = DeviceKind::None;
  std::optional<GpuTarget> gpu; // of a CUDA device

  bool isDevice() const { return device != DeviceKind::None; }
};

// What runs beside a device what that has no kernels for, as graphs: an x86-64-v3, whatever enqueues kernels. A CPU itself.
Target graphTargetOf(const Target &target);

// A CPU target, or opencl or a GPU, with host code for any x86-64. The error lists them.
mlir::FailureOr<Target> parseTarget(llvm::StringRef name, std::string &error);

// The targets of --target: one, or several CPUs of one architecture, separated by commas. They come back in the order of what they can do, those with
// fewest features first and equals as they were given: the order of a package's variants. The error is one line.
mlir::FailureOr<std::vector<Target>> parseTargets(llvm::StringRef list, std::string &error);

} // namespace heddle

#endif
