# SPDX-License-Identifier: Apache-2.0
# `cpack` in a build folder makes the Debian packages and a tarball that may be unpacked anywhere; scripts/package.sh
# does it with everything that makes two builds give the same bytes.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME starling)
set(CPACK_PACKAGE_VENDOR Starling)
set(CPACK_PACKAGE_CONTACT "The Starling maintainers <maintainers@starling.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "collective communication runtime made of modules")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/cmake/package_times.cmake")
set(CPACK_COMPONENTS_ALL runtime nccl dev)

# One tarball of everything.
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)

# Three packages. Dependencies are stated, not found: what is shipped needs glibc and libgcc_s alone (style.symbols).
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(sl_libc "libc6 (>= 2.34), libgcc-s1 (>= 3.3)")
set(sl_same "starling (= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME starling)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "${sl_libc}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libssl3, python3")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "The core, the modules, the starling command, profiles and pages.")

set(CPACK_DEBIAN_NCCL_PACKAGE_NAME starling-nccl)
set(CPACK_DEBIAN_NCCL_PACKAGE_DEPENDS "${sl_same}, ${sl_libc}")
set(CPACK_COMPONENT_NCCL_DESCRIPTION
  "libnccl.so.2 in a folder of its own, /usr/lib/starling/nccl, which no program searches\n by itself: it stands beside any other NCCL. `starling run` preloads it.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME starling-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${sl_same}")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "g++, cmake, ninja-build, pkgconf")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libgtest-dev")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers, sdk, CMake package and skeletons for authors of modules.")
include(CPack)
