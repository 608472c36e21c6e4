# SPDX-License-Identifier: Apache-2.0
# Headers that are parsed once for many sources. A test takes 1.5 s to compile with them and without optimization, and
# 4 s otherwise. Sources still include what they use: lint and packages are compiled without precompiled headers
# (CMAKE_DISABLE_PRECOMPILE_HEADERS). ccache keeps objects made with them only with the CCACHE_SLOPPINESS that ./run sets.

# sl_precompile(<name> EXECUTABLE|OBJECT LIBS <target>… OPTIONS <flag>… HEADERS <header>…)
#
# Targets with the same libraries' definitions and the same options use them by
# sl_use_precompiled(); gcc takes none whose options differ, and says so.
function(sl_precompile name kind)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LIBS;OPTIONS;HEADERS")
  set(source "${CMAKE_BINARY_DIR}/obj/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "int main() { return 0; }\n")
  if(kind STREQUAL "EXECUTABLE")
    add_executable(${name} EXCLUDE_FROM_ALL "${source}")
  else()
    add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# sl_use_precompiled(<target> <name>)
function(sl_use_precompiled target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
  # gcc 12 warns of std::string's own insides where it comes out of a precompiled header.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()

if(SL_REPRODUCIBLE)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# gcc hands a precompiled header on to ccache only so.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
endif()

set(SL_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cstdint> <cstdio> <cstring> <functional> <map> <memory>
  <mutex> <optional> <string> <string_view> <thread> <utility> <vector>)

# Nobody measures a test, so it is compiled quickly; a sanitizer's checks are slow enough as they are.
set(SL_TEST_OPTIONS -O0)
if(SL_SANITIZE)
  set(SL_TEST_OPTIONS -O1)
endif()
if(SL_BUILD_TESTS)
  sl_precompile(sl_test_headers EXECUTABLE LIBS starling_options GTest::gtest Threads::Threads OPTIONS ${SL_TEST_OPTIONS}
    HEADERS <gtest/gtest.h> ${SL_STANDARD_HEADERS})
endif()
sl_precompile(sl_kernel_headers OBJECT LIBS starling_options sl_spdlog HEADERS <fmt/format.h> ${SL_STANDARD_HEADERS})
