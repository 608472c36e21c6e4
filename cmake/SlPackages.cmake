# SPDX-License-Identifier: Apache-2.0
# Third-party packages, all from Debian 12, all linked statically or header-only into what we ship.
find_package(Threads REQUIRED)

function(sl_header_package target header package)
  find_path(${target}_include "${header}")
  mark_as_advanced(${target}_include)
  if(NOT ${target}_include)
    message(FATAL_ERROR "starling: header ${header} not found; install the Debian package ${package} or use ./run build")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  if(NOT ${target}_include STREQUAL "/usr/include")
    target_include_directories(${target} SYSTEM INTERFACE "${${target}_include}")
  endif()
endfunction()

# sl_toml: toml++. sl_spdlog: spdlog on fmt. All linked into what we ship, so that no foreign copy is ever bound.
sl_header_package(sl_toml toml++/toml.h libtomlplusplus-dev)
# Without exceptions everywhere: both kinds in one program would share names but not layouts.
target_compile_definitions(sl_toml INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)
sl_header_package(sl_fmt fmt/format.h libfmt-dev)
# Compiled once: header-only, it took two thirds of the time of each source that formats.
add_library(sl_fmt_formatting STATIC EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/cmake/fmt_formatting.cc")
target_link_libraries(sl_fmt_formatting PRIVATE starling_options)
target_link_libraries(sl_fmt INTERFACE sl_fmt_formatting)
sl_header_package(sl_spdlog spdlog/spdlog.h libspdlog-dev)
target_compile_definitions(sl_spdlog INTERFACE SPDLOG_FMT_EXTERNAL=1)
target_link_libraries(sl_spdlog INTERFACE sl_fmt Threads::Threads)

# sl_boost_dll: Boost.DLL over std::filesystem, so that nothing of Boost is linked.
sl_header_package(sl_boost_dll boost/dll/shared_library.hpp libboost-dev)
target_compile_definitions(sl_boost_dll INTERFACE BOOST_DLL_USE_STD_FS=1)
target_link_libraries(sl_boost_dll INTERFACE ${CMAKE_DL_LIBS})

# Tools and tests.
sl_header_package(sl_cli11 CLI/CLI.hpp libcli11-dev)
sl_header_package(sl_json nlohmann/json.hpp nlohmann-json3-dev)

# sl_hwy: Highway's headers with dynamic dispatch. Debian ships its runtime part only as a shared library, which a
# module must not need, so the two functions that dispatch calls are our own (cmake/hwy_targets.cc).
sl_header_package(sl_hwy hwy/highway.h libhwy-dev)
add_library(sl_hwy_targets STATIC EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/cmake/hwy_targets.cc")
target_link_libraries(sl_hwy_targets PRIVATE starling_options)
target_link_libraries(sl_hwy INTERFACE sl_hwy_targets)

if(SL_BUILD_TESTS AND CMAKE_CROSSCOMPILING)
  # Debian ships its sources with it, for such cases.
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest "${CMAKE_BINARY_DIR}/obj/googletest" EXCLUDE_FROM_ALL SYSTEM)
elseif(SL_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
