# MLIR's headers take three quarters of the time in which a source of the compiler compiles, so they are parsed once, for every library
# and program that reads them.
#
# heddle_mlir_headers     the library that holds the parsed headers; nothing else is in it
# heddle_precompile(T…)   lets T read them
file(WRITE ${CMAKE_BINARY_DIR}/mlir-headers.cpp "")
add_library(heddle_mlir_headers OBJECT ${CMAKE_BINARY_DIR}/mlir-headers.cpp)
target_compile_options(heddle_mlir_headers PRIVATE -Xclang -fno-pch-timestamp)
target_precompile_headers(heddle_mlir_headers PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Bufferization/IR/Bufferization.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/ImplicitLocOpBuilder.h>
  <mlir/IR/Matchers.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Pass/PassManager.h>
  <mlir/Transforms/GreedyPatternRewriteDriver.h>)

# A compiler cache may tell parsed headers apart by this sum (CCACHE_PCH_EXTSUM): they are the installed MLIR's, and the file that holds
# them has the name of its build folder in it, which would keep a second clone from using the cache of the first.
get_target_property(headers heddle_mlir_headers PRECOMPILE_HEADERS)
string(SHA256 sum "${headers} ${CMAKE_CXX_COMPILER_VERSION} ${MLIR_PACKAGE_VERSION} ${LLVM_PACKAGE_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE} ${HEDDLE_SANITIZE} ${HEDDLE_FUZZ}")
file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/heddle_mlir_headers.dir/cmake_pch.hxx.pch.sum "${sum}\n")

function(heddle_precompile)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -Xclang -fno-pch-timestamp)
    # Clang counts what is compiled for a position-independent executable, -fPIE, as another language.
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
    target_precompile_headers(${target} REUSE_FROM heddle_mlir_headers)
  endforeach()
endfunction()
