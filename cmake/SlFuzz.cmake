# SPDX-License-Identifier: Apache-2.0
# sl_fuzz(<name> SOURCES … CORPUS <folder> [RUNS <count>])
#
# A libFuzzer program under AddressSanitizer and UBSan, build/fuzz/<name>, and the test fuzz.<name> that runs it briefly
# over its corpus and what it makes of it. Left out, with one line, where clang has no libFuzzer (it is among the packages
# of ./run lint). For longer: build/fuzz/<name> -max_total_time=3600 build/fuzz/<name>.found <corpus>
function(sl_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;RUNS" "SOURCES")
  if(NOT SL_BUILD_TESTS OR SL_SANITIZE)
    return()
  endif()
  sl_find_fuzzer()
  if(NOT SL_FUZZ_WORKS)
    return()
  endif()
  if(NOT arg_RUNS)
    set(arg_RUNS 30000)
  endif()
  set(sources ${arg_SOURCES})
  list(TRANSFORM sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" REGEX "^[^/]")
  # One command without a list of what it includes: any header of the folder or the sdk may be among it.
  file(GLOB headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.h" "${CMAKE_SOURCE_DIR}/sdk/*.h"
    "${CMAKE_SOURCE_DIR}/abi/*.h" "${CMAKE_SOURCE_DIR}/abi/draft/*.h")
  set(program "${CMAKE_BINARY_DIR}/fuzz/${name}")
  set(found "${program}.found")
  file(MAKE_DIRECTORY "${found}")
  add_custom_command(OUTPUT "${program}" DEPENDS ${sources} ${headers} VERBATIM
    COMMENT "Building the fuzzer ${name}"
    COMMAND "${SL_FUZZ_CXX}" -std=c++20 -O1 -g -Wall -Wextra -Wno-unused-parameter -fsanitize=fuzzer,address,undefined
      -fno-sanitize-recover=all -I "${CMAKE_SOURCE_DIR}" -I "${CMAKE_SOURCE_DIR}/abi" -I "${CMAKE_SOURCE_DIR}/abi/draft"
      ${sources} -o "${program}")
  add_custom_target(fuzz_${name} ALL DEPENDS "${program}")
  add_test(NAME fuzz.${name} COMMAND "${program}" -runs=${arg_RUNS} -max_total_time=20 -seed=1 -timeout=10
    -artifact_prefix=${found}/ "${found}" "${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS}")
  set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT 120 LABELS fuzz)
endfunction()

# SL_FUZZ_CXX and whether it links a fuzzer; looked for once.
function(sl_find_fuzzer)
  if(DEFINED CACHE{SL_FUZZ_WORKS})
    return()
  endif()
  find_program(SL_FUZZ_CXX clang++)
  mark_as_advanced(SL_FUZZ_CXX)
  set(works OFF)
  if(SL_FUZZ_CXX)
    set(probe "${CMAKE_BINARY_DIR}/fuzz/probe.cc")
    file(WRITE "${probe}" "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
    execute_process(COMMAND "${SL_FUZZ_CXX}" -fsanitize=fuzzer,address "${probe}" -o "${CMAKE_BINARY_DIR}/fuzz/probe"
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
      set(works ON)
    endif()
  endif()
  if(NOT works)
    message(STATUS "fuzzers are left out: clang++ with libFuzzer is not here")
  endif()
  set(SL_FUZZ_WORKS ${works} CACHE INTERNAL "clang++ links libFuzzer")
endfunction()
