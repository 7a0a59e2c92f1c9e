# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# find_package(Heddle COMPONENTS plugin): Heddle::plugin, for libraries of passes that `heddle compile --load-pass-plugin` loads. It has the
# headers of our dialect and passes and those of the MLIR that Heddle was built with; what they declare is in the tool that loads the library.
include(CMakeFindDependencyMacro)
find_dependency(MLIR 22.1 CONFIG)
if(NOT TARGET Heddle::plugin)
  add_library(Heddle::plugin INTERFACE IMPORTED GLOBAL)
  target_include_directories(Heddle::plugin SYSTEM INTERFACE ${Heddle_INCLUDE_DIR}/heddle-compiler ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_options(Heddle::plugin INTERFACE ${definitions} $<$<NOT:$<BOOL:${LLVM_ENABLE_RTTI}>>:-fno-rtti>)
  target_compile_features(Heddle::plugin INTERFACE cxx_std_17)
endif()
set(Heddle_plugin_FOUND TRUE)
