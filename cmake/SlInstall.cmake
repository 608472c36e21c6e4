# SPDX-License-Identifier: Apache-2.0
# What `cmake --install build --prefix P` lays out. Programs and libraries find each other relative to themselves, so P
# may be moved, and the folders below P are the same everywhere (lib, never lib64 or lib/<architecture>):
#
#   bin/starling                  lib/libstarling.so            lib/starling/*.so          share/starling/configs/
#   lib/starling/nccl/            the drop-in (SlFrontend.cmake says why there)
#   include/starling/             abi headers, sdk/ and nccl/   lib/libstarling_sdk.a      lib/cmake/Starling/
#   lib/pkgconfig/                share/doc/starling/           share/starling/examples/   modules to copy
#   lib/python3/dist-packages/    starling_plans
#
# Components: runtime, nccl (the drop-in), dev.
include(CMakePackageConfigHelpers)

set(sl_cmake_dir lib/cmake/Starling)
set(sl_doc_dir share/doc/starling)

install(TARGETS starling_command RUNTIME DESTINATION bin COMPONENT runtime)
install(TARGETS starling LIBRARY DESTINATION lib COMPONENT runtime)
install(DIRECTORY configs/ DESTINATION share/starling/configs COMPONENT runtime)
install(FILES README.md CHANGELOG.md LICENSE SECURITY.md DESTINATION ${sl_doc_dir} COMPONENT runtime)
install(FILES "${CMAKE_BINARY_DIR}/sbom.spdx.json" DESTINATION ${sl_doc_dir} COMPONENT runtime OPTIONAL)
install(DIRECTORY docs DESTINATION ${sl_doc_dir} COMPONENT runtime)

# Skeletons are for copying, not for loading; they are installed as sources.
get_property(sl_modules GLOBAL PROPERTY SL_MODULES)
list(FILTER sl_modules EXCLUDE REGEX "^null-")
if(sl_modules)
  install(TARGETS ${sl_modules} LIBRARY DESTINATION lib/starling COMPONENT runtime)
endif()

get_property(sl_frontends GLOBAL PROPERTY SL_FRONTENDS)
foreach(target IN LISTS sl_frontends)
  get_target_property(name ${target} SL_FRONTEND_NAME)
  install(TARGETS ${target}
    LIBRARY DESTINATION "lib/starling/${name}" COMPONENT ${name} NAMELINK_COMPONENT dev
    PUBLIC_HEADER DESTINATION "include/starling/${name}" COMPONENT dev)
endforeach()

install(DIRECTORY python/starling_plans DESTINATION lib/python3/dist-packages COMPONENT runtime
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN tests EXCLUDE PATTERN __pycache__ EXCLUDE)

# For module authors.
install(DIRECTORY abi/ DESTINATION include/starling COMPONENT dev FILES_MATCHING PATTERN "*.h")
install(DIRECTORY sdk DESTINATION include/starling COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh"
  PATTERN "*_test_util.h" EXCLUDE)
install(TARGETS starling_abi starling_sdk EXPORT Starling ARCHIVE DESTINATION lib COMPONENT dev)
install(EXPORT Starling NAMESPACE Starling:: FILE StarlingTargets.cmake DESTINATION ${sl_cmake_dir} COMPONENT dev)
configure_package_config_file(cmake/StarlingConfig.cmake.in "${CMAKE_BINARY_DIR}/StarlingConfig.cmake"
  INSTALL_DESTINATION ${sl_cmake_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Below 1.0 a minor version may change what is in draft.
write_basic_package_version_file("${CMAKE_BINARY_DIR}/StarlingConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/StarlingConfig.cmake" "${CMAKE_BINARY_DIR}/StarlingConfigVersion.cmake"
  cmake/SlCodegen.cmake cmake/SlCuda.cmake cmake/SlModule.cmake cmake/SlTest.cmake cmake/image.c.in cmake/no_image.c.in cmake/module.map
  DESTINATION ${sl_cmake_dir} COMPONENT dev)
foreach(name IN ITEMS starling starling-sdk)
  configure_file("cmake/${name}.pc.in" "${CMAKE_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/${name}.pc" DESTINATION lib/pkgconfig COMPONENT dev)
endforeach()
file(GLOB sl_copyable CONFIGURE_DEPENDS modules/null-* examples/vendor-module*)
install(DIRECTORY ${sl_copyable} DESTINATION share/starling/examples COMPONENT dev)
