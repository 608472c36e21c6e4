# SPDX-License-Identifier: Apache-2.0
# sl_module(<name> <version> SOURCES … [CUDA …] [LIBS …])
#
# Builds build/lib/starling/<name>.so, which exports only sl_module_query, and the static library <name>-objects of the
# same code for the module's own unit tests. SL_MODULE_NAME and SL_MODULE_VERSION are defined as strings. This file is
# installed with the CMake package: a module is built alike in this tree and in a tree of its own.
function(sl_module name version)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;CUDA;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sl_module(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_CUDA)
    sl_cuda_images(${name} arg_SOURCES ${arg_CUDA})
  endif()
  add_library(${name}-objects STATIC ${arg_SOURCES})
  target_link_libraries(${name}-objects PRIVATE Starling::options)
  target_link_libraries(${name}-objects PUBLIC Starling::abi Starling::sdk ${arg_LIBS} Threads::Threads)
  target_compile_definitions(${name}-objects PRIVATE SL_MODULE_NAME="${name}" SL_MODULE_VERSION="${version}")
  set_target_properties(${name}-objects PROPERTIES POSITION_INDEPENDENT_CODE ON
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  add_library(${name} MODULE $<TARGET_OBJECTS:${name}-objects>)
  target_link_libraries(${name} PRIVATE Starling::abi Starling::sdk ${arg_LIBS} Threads::Threads Starling::shared)
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME "${name}" LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/starling")
  sl_version_script(${name} "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/module.map")
  set_property(GLOBAL APPEND PROPERTY SL_MODULES ${name})
endfunction()
