# SPDX-License-Identifier: Apache-2.0
# sl_test(<name> SOURCES … [LIBS …] [LABELS …] [TIMEOUT <seconds>] [ENV NAME=VALUE …] [ARGS …] [DEPENDS <target>…])
#
# One GoogleTest program, one ctest entry, always bounded in time (60 s unless told). Tests get the environment
# SL_TEST_BUILD_DIR, SL_TEST_SOURCE_DIR and STARLING_MODULE_PATH. The first folder (kernel, modules, …) becomes a label.
# Labels with a meaning: `tsan` runs under ThreadSanitizer (unit tests of kernel, sdk and modules do anyway), `no-tsan`
# and `no-asan` keep a test out of a sanitizer run, `serial` runs alone, `integration` has the whole stack under it and runs
# with the layer `checker` around every module, where that is built: a broken promise ends the test. `cross` runs
# emulated, too, where the build is for another processor, and gets ten times as long.
enable_testing()

function(sl_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBS;LABELS;ENV;ARGS;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sl_test(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT SL_BUILD_TESTS)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(SL_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 10")
    if(name MATCHES "${SL_CROSS_TESTS}")
      list(APPEND arg_LABELS cross)
      set_property(GLOBAL APPEND PROPERTY SL_CROSS_TARGETS ${name})
    endif()
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "/.*" "" folder "${folder}")
  if(NOT folder STREQUAL ".")
    list(APPEND arg_LABELS ${folder})
  endif()
  if(folder STREQUAL "modules")
    list(APPEND arg_LABELS tsan)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Starling::options Starling::abi Starling::sdk ${arg_LIBS} GTest::gtest
    GTest::gtest_main Threads::Threads)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests"
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  # CMake cannot give them to a program with C sources, such as GPU images.
  if(TARGET sl_test_headers AND NOT "${arg_SOURCES}" MATCHES "\\.c(;|$)")
    target_compile_options(${name} PRIVATE ${SL_TEST_OPTIONS})
    sl_use_precompiled(${name} sl_test_headers)
  endif()
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  sl_test_properties(${name} "${arg_TIMEOUT}" "${arg_LABELS}" "${arg_ENV}")
  if("tsan" IN_LIST arg_LABELS AND NOT "no-tsan" IN_LIST arg_LABELS)
    set_property(GLOBAL APPEND PROPERTY SL_TSAN_TARGETS ${name})
  endif()
endfunction()

function(sl_test_properties name timeout labels env)
  math(EXPR timeout "${timeout} * 3")  # it ends what hangs; a machine may have others to serve
  # LeakSanitizer does not look into the mappings in which the checker keeps what it has lent out.
  if("integration" IN_LIST labels AND NOT "${SL_SANITIZE}" MATCHES "address")
    list(APPEND env "$<$<TARGET_EXISTS:checker>:STARLING_LAYERS=checker,*>" "$<$<TARGET_EXISTS:checker>:STARLING_CHECKER_ON_VIOLATION=abort>")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT "${timeout}" LABELS "${labels}" ENVIRONMENT
    "SL_TEST_BUILD_DIR=${CMAKE_BINARY_DIR};SL_TEST_SOURCE_DIR=${CMAKE_SOURCE_DIR};STARLING_MODULE_PATH=${CMAKE_BINARY_DIR}/lib/starling;${env}")
  if("serial" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
