# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests of the tools: .mlir files through heddle-opt, .test files through anything. %heddle-opt and %heddle are the tools of
# the build, %tools scripts that tests share, run by %python; FileCheck, not and the rest of LLVM's test tools are on the path.
import glob
import os
import shutil
import sys

import lit.formats

config.name = "Heddle"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "bad", "unit"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.heddle_binary_dir, "test")

bin_dir = os.path.join(config.heddle_binary_dir, "bin")
# The longer name first: lit replaces them in this order.
for tool in ["heddle-opt", "heddle-lsp-server", "heddle-reduce", "heddle"]:
    path = os.path.join(bin_dir, tool)
    config.substitutions.append(("%" + tool + r"\b", path))
    if os.path.exists(path):
        config.available_features.add(tool)
# The browser that `./dev setup` installs: it views the report.
browser = shutil.which("chromium-headless-shell")
if browser:
    config.substitutions.append(("%browser", browser))
    config.available_features.add("browser")
config.substitutions.append(("%tools", os.path.join(config.test_source_root, "tools")))
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%build", config.heddle_binary_dir))
config.substitutions.append(("%source", os.path.dirname(config.test_source_root)))
config.substitutions.append(("%cmake", config.cmake_command))
config.substitutions.append(("%ninja", config.ninja))
config.substitutions.append(("%mlir_dir", config.mlir_dir))
# PoCL is the OpenCL device of the tests, also where there is a GPU. It compiles a kernel once for all tests, whose models often share one: that is most of
# what its tests cost.
pocl = "/etc/OpenCL/vendors/pocl.icd"
if os.path.exists(pocl):
    config.available_features.add("pocl")
config.substitutions.append(("%on-pocl", f"env OCL_ICD_VENDORS={pocl} POCL_CACHE_DIR={os.path.join(config.test_exec_root, 'pocl')}"))
# Models whose every kernel is like one of another test's, on emulated devices: minutes that only the long run has.
if os.environ.get("HEDDLE_NIGHTLY"):
    config.available_features.add("nightly")
# Tests share what the compiler makes of kernels, which is most of what it does for tiny models; a test of the cache names a folder of its own, as does one of
# OpenCL's programs, which PoCL keeps by itself.
config.environment["HEDDLE_NO_CACHE"] = "opencl"
config.environment["HEDDLE_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
# The emulated CUDA driver of test/ptx, also where there is a GPU.
driver = os.path.join(config.heddle_binary_dir, "test", "ptx")
if os.path.exists(os.path.join(driver, "libcuda.so.1")):
    config.available_features.add("emulated-cuda")
if os.path.exists(os.path.join(config.heddle_binary_dir, "bin", "heddle-gpu-bench")):
    config.available_features.add("gpu-runs")
config.substitutions.append(("%on-cuda", f"env LD_LIBRARY_PATH={driver}"))
# The passes that move weights and activations to high addresses.
config.substitutions.append(("%spread-offsets", os.path.join(config.heddle_binary_dir, "test", "large", "spread-offsets.so")))
# Real models, if ./dev has fetched them.
smollm2 = glob.glob(os.path.join(os.path.dirname(config.test_source_root), ".setup", "smollm2", "*.gguf"))
if smollm2:
    config.available_features.add("smollm2")
    config.substitutions.append(("%smollm2", smollm2[0]))
whisper = os.path.join(os.path.dirname(config.test_source_root), ".setup", "whisper")
if os.path.exists(os.path.join(whisper, "model.bin")):
    config.available_features.add("whisper")
    config.substitutions.append(("%whisper", whisper))
# The assembler of an installed CUDA toolkit, else the one that ./dev setup takes from PyPI.
config.ptxas = shutil.which("ptxas") or os.path.join(os.path.dirname(config.test_source_root), ".setup", "cuda", "bin", "ptxas")
if os.path.exists(config.ptxas):
    config.available_features.add("ptxas")
config.substitutions.append((r"%ptxas\b", config.ptxas))
config.environment["PATH"] = os.pathsep.join([config.llvm_tools_dir, config.environment.get("PATH", os.defpath)])
