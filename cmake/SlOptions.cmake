# SPDX-License-Identifier: Apache-2.0
# Compiler and linker settings that hold for the whole tree.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archive")

# Libraries find each other beside themselves, programs find them in ../lib: a built tree may be moved.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

# Line tables are enough for a stack trace and keep 2-core builds quick.
set(sl_optimize -O2)
if(SL_SANITIZE)
  set(sl_optimize -O1)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${sl_optimize} -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${sl_optimize} -g1 -DNDEBUG")

# An option, since it would part the compiler caches of trees in different folders.
if(SL_REPRODUCIBLE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>")
endif()

find_program(SL_CCACHE ccache)
if(SL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${SL_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SL_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${SL_CCACHE}")
endif()

# Warnings reach only our C and C++ (CUDA's host code sees generated sources).
add_library(starling_options INTERFACE)
set(sl_warnings -Wall -Wextra -Wshadow -Wno-unused-parameter -Wcast-qual -Wvla -Wundef)
set(sl_cxx_warnings -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi)
if(SL_WERROR)
  list(APPEND sl_warnings -Werror)
endif()
include(SlCodegen)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 takes what the sanitizers add to <regex> for reads of uninitialised memory.
  if(SL_SANITIZE)
    list(APPEND sl_cxx_warnings -Wno-maybe-uninitialized)
  endif()
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND sl_cxx_warnings -Wthread-safety)
endif()
target_compile_options(starling_options INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:${sl_warnings};${sl_codegen}>"
  "$<$<COMPILE_LANGUAGE:CXX>:${sl_cxx_warnings};${sl_cxx_codegen}>")
add_library(Starling::options ALIAS starling_options)

if(SL_SANITIZE)
  set(sl_sanitize_flags "-fsanitize=${SL_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${sl_sanitize_flags}>")
  add_link_options("-fsanitize=${SL_SANITIZE}")
  add_compile_definitions(SL_SANITIZED=1)
  if(SL_SANITIZE MATCHES "thread")
    # gcc 12 warns that fences are not modelled; where one matters the code carries a note.
    add_compile_options("$<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-Wno-tsan>")
  endif()
endif()
