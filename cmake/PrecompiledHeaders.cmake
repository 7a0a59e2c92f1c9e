# The headers of MLIR take three quarters of the time in which a source of the compiler compiles, that of FlatBuffers two thirds of a source's of the runtime,
# those of GoogleTest and the standard library a third of a unit test's, so they are parsed once for all libraries and programs that read them.
#
# heddle_parse_headers(H LIBRARY HEADER…)   H: a library that holds the parsed headers and nothing else; LIBRARY, which may be empty, has their flags and
#                                           folders. What is not the system's has the files that it is made of in HEDDLE_PARSED_SOURCES.
# heddle_precompile(H T…)                   lets T read them
function(heddle_parse_headers name library)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${library})
  target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  # Parsed headers name files of their build folder: those of another clone, out of a compiler cache, are of no use once that is gone.
  set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "")
  # A compiler cache may tell parsed headers apart by this sum (CCACHE_PCH_EXTSUM): the file that holds them has the name of its build folder in it, which would
  # keep a second clone from using the cache of the first.
  set(sources)
  foreach(file ${HEDDLE_PARSED_SOURCES})
    file(SHA256 ${file} content)
    string(APPEND sources "${content} ")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HEDDLE_PARSED_SOURCES})
  string(REPLACE "${CMAKE_SOURCE_DIR}" "" flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_COMPILER_TARGET}")
  string(SHA256 sum "${ARGN} ${sources}${CMAKE_CXX_COMPILER_VERSION} ${MLIR_PACKAGE_VERSION} ${LLVM_PACKAGE_VERSION} ${GTest_VERSION} ${flags} ${CMAKE_BUILD_TYPE} ${HEDDLE_SANITIZE} ${HEDDLE_FUZZ}")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.pch.sum "${sum}\n")
endfunction()

function(heddle_precompile headers)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -Xclang -fno-pch-timestamp)
    # Clang counts what is compiled for a position-independent executable, -fPIE, as another language.
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endforeach()
endfunction()
