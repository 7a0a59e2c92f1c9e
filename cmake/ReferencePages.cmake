# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reference pages, from the descriptions beside the code: build/docs/NAME.md. test/docs runs their examples.
add_custom_target(heddle-docs ALL)

# heddle_add_reference_page(NAME SOURCE.td GENERATOR…): GENERATOR are the flags of mlir-tblgen.
function(heddle_add_reference_page name source)
  set(page ${PROJECT_BINARY_DIR}/docs/${name}.md)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
  add_custom_command(OUTPUT ${page}
    COMMAND ${MLIR_TABLEGEN_EXE} ${ARGN} -I ${PROJECT_SOURCE_DIR} -I ${MLIR_INCLUDE_DIRS}
      ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${page} -d ${page}.d
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${page}.d
    COMMENT "Writing docs/${name}.md" VERBATIM)
  add_custom_target(heddle-docs-${name} DEPENDS ${page})
  add_dependencies(heddle-docs heddle-docs-${name})
endfunction()
