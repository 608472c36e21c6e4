# SPDX-License-Identifier: Apache-2.0
# sl_module(<name> <version> SOURCES … [CUDA …] [LIBS …])
#
# Builds build/lib/starling/<name>.so, which exports only sl_module_query, and the static library <name>-objects of the
# same code for the module's own unit tests. SL_MODULE_NAME and SL_MODULE_VERSION are defined as strings.
function(sl_module name version)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;CUDA;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sl_module(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_CUDA)
    sl_cuda_images(${name} arg_SOURCES ${arg_CUDA})
  endif()
  add_library(${name}-objects STATIC ${arg_SOURCES})
  target_link_libraries(${name}-objects PRIVATE starling_options)
  target_link_libraries(${name}-objects PUBLIC starling_abi starling_sdk ${arg_LIBS} Threads::Threads)
  target_compile_definitions(${name}-objects PRIVATE SL_MODULE_NAME="${name}" SL_MODULE_VERSION="${version}")
  add_library(${name} MODULE $<TARGET_OBJECTS:${name}-objects>)
  target_link_libraries(${name} PRIVATE starling_abi starling_sdk ${arg_LIBS} Threads::Threads)
  target_link_options(${name} PRIVATE ${SL_SHARED_LINK_OPTIONS})
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME "${name}" LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/starling")
  sl_version_script(${name} "${CMAKE_SOURCE_DIR}/cmake/module.map")
  set_property(GLOBAL APPEND PROPERTY SL_MODULES ${name})
endfunction()

# sl_frontend(<target> NAME <nccl> SOVERSION <2> MAP <file> SOURCES … [LIBS …])
#
# Builds build/lib/lib<NAME>.so.<SOVERSION> (and the link lib<NAME>.so), a drop-in library that is a client of
# libstarling.so, stays in memory once loaded and exports what MAP lists; plus <target>-objects for its unit tests.
# Programs link the alias <NAME>, which exists only when the front end does: if(TARGET nccl).
function(sl_frontend target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;SOVERSION;MAP" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sl_frontend(${target}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_library(${target}-objects STATIC ${arg_SOURCES})
  target_link_libraries(${target}-objects PRIVATE starling_options)
  target_link_libraries(${target}-objects PUBLIC starling starling_abi starling_sdk ${arg_LIBS} Threads::Threads)
  target_include_directories(${target}-objects PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
  add_library(${target} SHARED $<TARGET_OBJECTS:${target}-objects>)
  target_link_libraries(${target} PRIVATE starling starling_sdk ${arg_LIBS} Threads::Threads)
  target_include_directories(${target} INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_options(${target} PRIVATE ${SL_SHARED_LINK_OPTIONS} -Wl,-z,nodelete)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME "${arg_NAME}" SOVERSION "${arg_SOVERSION}"
    LINKER_LANGUAGE CXX BUILD_RPATH "$ORIGIN")
  sl_version_script(${target} "${CMAKE_CURRENT_SOURCE_DIR}/${arg_MAP}")
  if(NOT TARGET ${arg_NAME})
    add_library(${arg_NAME} ALIAS ${target})
  endif()
endfunction()
