# SPDX-License-Identifier: Apache-2.0
# sl_frontend(<target> NAME <nccl> SOVERSION <2> MAP <file> SOURCES … [HEADERS …] [LIBS …])
#
# Builds build/lib/lib<NAME>.so.<SOVERSION> (and the link lib<NAME>.so), a drop-in library that is a client of
# libstarling.so, stays in memory once loaded and exports what MAP lists; plus <target>-objects for its unit tests.
# Programs link the alias <NAME>, which exists only when the front end does: if(TARGET nccl).
#
# It is installed to lib/starling/<NAME>/, a folder that no loader searches by itself: another library of that name
# stays what programs get, until they name this one. HEADERS go to include/starling/<NAME>/.
function(sl_frontend target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;SOVERSION;MAP" "SOURCES;HEADERS;LIBS")
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
    LINKER_LANGUAGE CXX BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN/../..")
  sl_version_script(${target} "${CMAKE_CURRENT_SOURCE_DIR}/${arg_MAP}")
  if(NOT TARGET ${arg_NAME})
    add_library(${arg_NAME} ALIAS ${target})
  endif()
  list(TRANSFORM arg_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(TARGET ${target} PROPERTY PUBLIC_HEADER "${arg_HEADERS}")
  set_property(TARGET ${target} PROPERTY SL_FRONTEND_NAME "${arg_NAME}")
  set_property(GLOBAL APPEND PROPERTY SL_FRONTENDS ${target})
endfunction()
