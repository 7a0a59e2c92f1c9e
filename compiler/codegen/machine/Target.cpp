// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/Target.h"

#include "runtime/model/CpuFeatures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace heddle;

// Features that kernels make use of; a binary requires those of its target and no others.
static const char *const knownFeatures[] = {"avx2",     "fma",      "f16c",       "avxvnni",    "avx512f",  "avx512bw",
                                            "avx512vl", "avx512dq", "avx512vnni", "avx512bf16", "amx-tile", "amx-int8",
                                            "amx-bf16", "neon",     "dotprod",    "fullfp16",   "i8mm",     "bf16"};

bool CpuTarget::has(llvm::StringRef feature) const {
  return llvm::is_contained(features, feature);
}
bool CpuTarget::isX86() const {
  return llvm::StringRef(triple).starts_with("x86_64");
}
bool CpuTarget::isAArch64() const {
  return llvm::StringRef(triple).starts_with("aarch64");
}
PairDot CpuTarget::pairDot() const {
  if (isAArch64())
    return has("bf16") ? PairDot::Neon : PairDot::None;
  return hasAvx512() && has("avx512bf16") ? PairDot::Avx512 : PairDot::None;
}
unsigned CpuTarget::vectorLanes() const {
  return hasAvx512() ? 16 : isX86() ? 8 : 4;
}
unsigned CpuTarget::vectorRegisters() const {
  return isX86() && !hasAvx512() ? 16 : 32;
}

// Servers of Golden Cove and its successors.
static bool isGoldenCove(llvm::StringRef cpu) {
  return llvm::is_contained({"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids"},
                            cpu);
}

// Processors whose timing schedules know: Zen 4 has the instructions of Zen 5, Zen 1 and 2 those of Zen 3. All of Golden Cove's are one.
static std::string tuneOf(llvm::StringRef cpu) {
  if (isGoldenCove(cpu))
    return "sapphirerapids";
  return llvm::is_contained({"znver1", "znver2", "znver4"}, cpu) ? cpu.str() : "";
}

// Golden Cove and its successors leave products of bf16 to AMX: vdpbf16ps makes half as many of them as multiply-adds make of f32 (165 and 335
// GFLOP/s on two cores of an Emerald Rapids, heddle-peaks). Where a hypervisor hides AMX, kernels take f32 and bytes.
static void dropSlowBf16(llvm::StringRef cpu, std::vector<std::string> &features) {
  if (isGoldenCove(cpu) && !llvm::is_contained(features, "amx-bf16"))
    llvm::erase(features, "avx512bf16");
}

// As for ARM, code is for a generic CPU with those features.
CpuTarget heddle::x86Target(llvm::StringRef name, llvm::StringRef cpu, std::vector<std::string> features) {
  dropSlowBf16(cpu, features);
  const char *generic = llvm::is_contained(features, "avx512vl") ? "x86-64-v4"
                        : llvm::is_contained(features, "avx2")   ? "x86-64-v3"
                                                                 : "x86-64";
  return {name.str(), "x86_64-unknown-linux-gnu", generic, std::move(features), tuneOf(cpu)};
}

// The CPU's name stays generic: of what LLVM knows of one, kernels use a part, and a binary asks for no more.
static CpuTarget armTarget(llvm::StringRef name, std::vector<std::string> features) {
  return {name.str(), "aarch64-unknown-linux-gnu", "generic", std::move(features), ""};
}

// Those that kernels make use of.
static std::vector<std::string> known(llvm::function_ref<bool(const char *feature)> has) {
  std::vector<std::string> features;
  for (llvm::StringRef feature : knownFeatures)
    if (has(feature.data()))
      features.push_back(feature.str());
  // AVX-512 has these products of its own.
  if (llvm::is_contained(features, "avx512vnni"))
    llvm::erase(features, "avxvnni");
  return features;
}

#if !defined(__aarch64__)
// By LLVM's name. A hypervisor may show the number of an older processor and features that it never had: vectors of half precision came with Golden
// Cove's servers.
static llvm::StringRef hostProcessor() {
  llvm::StringRef cpu = llvm::sys::getHostCPUName();
  return hasCpuFeature("avx512fp16") && !cpu.starts_with("znver") ? "sapphirerapids" : cpu;
}
#endif

static CpuTarget hostTarget() {
  // The runtime's own question, so that what is compiled for this machine runs on it: a CPU with AMX is none where the
  // operating system does not permit its state.
  std::vector<std::string> features = known([](const char *feature) { return hasCpuFeature(feature); });
#if defined(__aarch64__)
  return armTarget("native", std::move(features));
#else
  // A hypervisor may hide features that the name would imply; timing is the processor's, whatever is hidden of it.
  return x86Target("native", hostProcessor(), std::move(features));
#endif
}

// A target that kernels can be made for, or a line that says what it lacks.
static mlir::FailureOr<CpuTarget> checked(CpuTarget target, std::string &error) {
  for (const char *needed : {"avx2", "fma", "f16c"})
    if (target.isX86() && !target.has(needed)) {
      error = "target '" + target.name + "' has no " + needed +
              ": kernels need AVX2, FMA and F16C (x86-64-v3, which haswell and znver1 have)";
      return mlir::failure();
    }
  return target;
}

mlir::FailureOr<CpuTarget> heddle::parseCpuTarget(llvm::StringRef name, std::string &error) {
  if (name == "native")
    return checked(hostTarget(), error);
  if (name == "aarch64")
    return armTarget(name, {"neon", "dotprod", "fullfp16"});
  if (std::optional<llvm::AArch64::CpuInfo> cpu = llvm::AArch64::parseCpu(name)) {
    std::vector<llvm::StringRef> extensions;
    llvm::AArch64::getExtensionFeatures(cpu->getImpliedExtensions(), extensions);
    return armTarget(name, known([&](const char *feature) {
                       return llvm::is_contained(extensions, ("+" + llvm::StringRef(feature)).str());
                     }));
  }
  if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None) {
    error =
        "unknown target '" + name.str() +
        "'; known: native, x86-64-v3, x86-64-v4, aarch64, CPUs by LLVM's names (haswell, alderlake, icelake-server, "
        "znver5, sapphirerapids, neoverse-v1, apple-m2), opencl, cuda:sm_80, cuda:sm_90a";
    return mlir::failure();
  }
  llvm::SmallVector<llvm::StringRef> features;
  llvm::X86::getFeaturesForCPU(name, features);
  llvm::StringMap<bool> implied; // and those that the table leaves out, as others imply them
  for (llvm::StringRef feature : features) {
    implied[feature] = true;
    llvm::X86::updateImpliedFeatures(feature, true, implied);
  }
  return checked(x86Target(name, name, known([&](llvm::StringRef feature) { return implied.lookup(feature); })), error);
}

Target heddle::graphTargetOf(const Target &target) {
  std::string error;
  return target.isDevice() ? *parseTarget("x86-64-v3", error) : target;
}

mlir::FailureOr<Target> heddle::parseTarget(llvm::StringRef name, std::string &error) {
  if (name == "opencl")
    return Target{name.str(), x86Target(name, "x86-64", {}), DeviceKind::OpenCl, std::nullopt};
  if (isGpuTargetName(name)) {
    mlir::FailureOr<GpuTarget> gpu = parseGpuTarget(name, error);
    if (mlir::failed(gpu))
      return mlir::failure();
    return Target{name.str(), x86Target(name, "x86-64", {}), DeviceKind::Cuda, *gpu};
  }
  mlir::FailureOr<CpuTarget> cpu = parseCpuTarget(name, error);
  if (mlir::failed(cpu))
    return mlir::failure();
  return Target{name.str(), *cpu, DeviceKind::None, std::nullopt};
}

mlir::FailureOr<std::vector<Target>> heddle::parseTargets(llvm::StringRef list, std::string &error) {
  llvm::SmallVector<llvm::StringRef> names;
  list.split(names, ',');
  std::vector<Target> targets;
  auto fail = [&](const llvm::Twine &message) {
    error = message.str();
    return mlir::failure();
  };
  for (llvm::StringRef name : names) {
    if (name.empty() && names.size() > 1)
      return fail("--target=" + list + ": an item of the list is empty");
    mlir::FailureOr<Target> target = parseTarget(name, error);
    if (mlir::failed(target))
      return mlir::failure();
    if (names.size() > 1 && target->isDevice())
      return fail("--target=" + list + ": several targets in one file are CPUs, and " + name + " is none");
    if (!targets.empty() && target->cpu.triple != targets.front().cpu.triple)
      return fail("--target=" + list + ": " + name + " and " + targets.front().name +
                  " have no instructions in common");
    if (llvm::any_of(targets, [&](const Target &other) { return other.name == name; }))
      return fail("--target=" + list + ": " + name + " is there twice");
    targets.push_back(std::move(*target));
  }
  llvm::stable_sort(targets,
                    [](const Target &a, const Target &b) { return a.cpu.features.size() < b.cpu.features.size(); });
  return targets;
}

std::unique_ptr<llvm::TargetMachine> CpuTarget::createMachine() const {
  static bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
    return true;
  }();
  (void)initialized;
  std::string error, attributes;
  llvm::Triple parsed(triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!target)
    return nullptr;
  for (const std::string &feature : features)
    attributes += (attributes.empty() ? "+" : ",+") + feature;
  if (hasAvx512())
    attributes += ",-prefer-256-bit";
  // Else LLVM splits chains of products of words into a product and a sum each, for their latency, which tiles of rows hide.
  if (isX86() && hasByteDot())
    attributes += ",+fast-dpwssd";
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      parsed, cpu, attributes, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}
