# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# heddle_compile(NAME MODEL path [EMIT exe|lib|object] [TARGET target] [OUTPUT path] [SYMBOL id] [FLAGS flag…])
#
# Compiles a model file or folder when the build needs it, and again when a file that it was read from changes.
#   exe     (default) target NAME is an executable; NAME_compile, which makes it, is part of `all`
#   lib     target NAME is a shared library to link with; it holds the runtime
#   object  target NAME is an object to link with; the runtime comes with it
# lib and object define `const heddle_model *heddle_model_<SYMBOL>(void)`, SYMBOL being NAME unless given, and bring heddle.h.
# OUTPUT defaults to NAME in the current binary folder, with the extension that EMIT implies. TARGET, several x86-64 CPUs with commas between them, or one, defaults to
# the CPU of this machine, and where CMake builds for another to the level that all CPUs of that kind have.
function(heddle_compile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODEL;EMIT;TARGET;OUTPUT;SYMBOL" "FLAGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_MODEL)
    message(FATAL_ERROR "heddle_compile(${name}): MODEL is needed, '${arg_UNPARSED_ARGUMENTS}' is not known")
  endif()
  if(NOT arg_EMIT)
    set(arg_EMIT exe)
  endif()
  set(extension_exe "")
  set(extension_lib ".so")
  set(extension_object ".o")
  if(NOT DEFINED extension_${arg_EMIT})
    message(FATAL_ERROR "heddle_compile(${name}): EMIT is exe, lib or object, not '${arg_EMIT}'")
  endif()
  if(NOT arg_SYMBOL)
    set(arg_SYMBOL ${name})
  endif()
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT ${name}${extension_${arg_EMIT}})
  endif()
  cmake_path(ABSOLUTE_PATH arg_OUTPUT BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} NORMALIZE)
  cmake_path(ABSOLUTE_PATH arg_MODEL BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)

  # Targets depend on the stamp: a dependency whose file name is that of a target would be taken for the target.
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/${name}.stamp)
  # The rule has to be the stamp's: a build tool that finds another takes what it has made for out of date.
  set(flags --emit=${arg_EMIT} --depfile=${arg_OUTPUT}.d --depfile-target=${stamp} --quiet ${arg_FLAGS})
  # The CPU of the build machine is nobody's guess of the one that a cross build is for.
  if(NOT arg_TARGET AND CMAKE_CROSSCOMPILING)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
      set(arg_TARGET aarch64)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
      set(arg_TARGET x86-64-v3)
    else()
      message(FATAL_ERROR "heddle_compile(${name}): no TARGET is known for CMAKE_SYSTEM_PROCESSOR '${CMAKE_SYSTEM_PROCESSOR}'")
    endif()
  endif()
  if(arg_TARGET)
    list(APPEND flags --target=${arg_TARGET})
  endif()
  set(outputs ${arg_OUTPUT})
  if("--sidecar" IN_LIST arg_FLAGS)
    list(APPEND outputs ${arg_OUTPUT}.weights)
  endif()
  if(NOT arg_EMIT STREQUAL exe)
    list(APPEND flags --name=${arg_SYMBOL})
  endif()
  add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${outputs} DEPENDS Heddle::heddle ${arg_MODEL} DEPFILE ${arg_OUTPUT}.d
    COMMAND Heddle::heddle compile ${arg_MODEL} -o ${arg_OUTPUT} ${flags}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    COMMENT "Compiling model ${name}" VERBATIM COMMAND_EXPAND_LISTS)

  # Imported targets, so that no rule of the build tool is named like the output; only executables are built unasked.
  if(arg_EMIT STREQUAL exe)
    add_custom_target(${name}_compile ALL DEPENDS ${stamp})
    add_executable(${name} IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${arg_OUTPUT})
  else()
    add_custom_target(${name}_compile DEPENDS ${stamp})
  endif()
  if(arg_EMIT STREQUAL lib)
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${arg_OUTPUT}
      INTERFACE_INCLUDE_DIRECTORIES ${Heddle_INCLUDE_DIR})
  elseif(arg_EMIT STREQUAL object)
    add_library(${name} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(${name} INTERFACE ${arg_OUTPUT} Heddle::runtime)
  endif()
  add_dependencies(${name} ${name}_compile)
endfunction()
