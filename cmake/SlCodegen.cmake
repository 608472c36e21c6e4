# SPDX-License-Identifier: Apache-2.0
# How a module is compiled and linked, here and in a tree of its own; installed with the CMake package.

# A unique symbol would pin a module in memory for ever; sections let the linker drop unused library code.
set(sl_codegen -ffunction-sections -fdata-sections)
set(sl_cxx_codegen "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND sl_codegen -fno-semantic-interposition)
  set(sl_cxx_codegen -fno-gnu-unique)
endif()

# What every shared object is linked with. A sanitizer's runtime must stay one per process, hence shared.
set(SL_SHARED_LINK_OPTIONS -Wl,-z,relro -Wl,-z,now -Wl,-Bsymbolic -Wl,--gc-sections -Wl,--as-needed)
if(NOT SL_SANITIZE)
  list(APPEND SL_SHARED_LINK_OPTIONS -Wl,--no-undefined -static-libstdc++ -shared-libgcc)
endif()

if(NOT TARGET Starling::shared)
  add_library(Starling::shared INTERFACE IMPORTED)
  target_link_options(Starling::shared INTERFACE ${SL_SHARED_LINK_OPTIONS})
endif()

# Links a version script into a shared library and relinks when the script changes.
function(sl_version_script target script)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
endfunction()
