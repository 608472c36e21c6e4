# SPDX-License-Identifier: Apache-2.0
# starling_sdk: include root and, when there are sources, one static library that each user links a hidden copy of.
file(GLOB_RECURSE sdk_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/sdk/*.cc")
set(sdk_tests ${sdk_sources})
list(FILTER sdk_sources EXCLUDE REGEX "_test\\.cc$")
list(FILTER sdk_tests INCLUDE REGEX "_test\\.cc$")

if(sdk_sources)
  add_library(starling_sdk STATIC ${sdk_sources})
  target_link_libraries(starling_sdk PRIVATE $<BUILD_INTERFACE:starling_options>)
  target_link_libraries(starling_sdk PUBLIC starling_abi)
  target_include_directories(starling_sdk PUBLIC 
    "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include/starling>")
else()
  add_library(starling_sdk INTERFACE)
  target_link_libraries(starling_sdk INTERFACE starling_abi)
  target_include_directories(starling_sdk INTERFACE
    "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include/starling>")
endif()
set_property(TARGET starling_sdk PROPERTY EXPORT_NAME sdk)
add_library(Starling::sdk ALIAS starling_sdk)

foreach(test IN LISTS sdk_tests)
  cmake_path(GET test STEM stem)
  sl_test(sdk.${stem} SOURCES ${test} LABELS sdk tsan)
endforeach()
