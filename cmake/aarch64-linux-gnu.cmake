# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Toolchain for the runtime on AArch64 (Armv8-A): clang, with Debian's cross packages for the C library and what ./dev setup
# unpacked into .setup/aarch64 for the rest. Atomics are inline, so that nothing of libgcc's start-up code is needed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER clang-22)
set(CMAKE_CXX_COMPILER clang++-22)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_ASM_COMPILER_TARGET aarch64-linux-gnu)

cmake_path(SET heddle_aarch64 NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../.setup/aarch64)
set(CMAKE_C_FLAGS_INIT "-mno-outline-atomics -isystem ${heddle_aarch64}/include")
set(CMAKE_CXX_FLAGS_INIT "-mno-outline-atomics -isystem ${heddle_aarch64}/include")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fuse-ld=lld")
set(CMAKE_LIBRARY_PATH ${heddle_aarch64}/lib)
set(CMAKE_INCLUDE_PATH ${heddle_aarch64}/include)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
