# SPDX-License-Identifier: Apache-2.0
# Adds every <folder>/*/CMakeLists.txt, so that a folder is added or deleted without editing a list. A folder that is a
# project of its own (examples/vendor-module) is not part of this build; tests/package builds it against an installation.
function(sl_add_folders folder)
  file(GLOB lists CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*/CMakeLists.txt")
  foreach(list IN LISTS lists)
    file(STRINGS "${list}" own_project REGEX "^project\\(")
    if(own_project)
      continue()
    endif()
    cmake_path(GET list PARENT_PATH dir)
    cmake_path(GET dir FILENAME name)
    add_subdirectory("${dir}" "${CMAKE_BINARY_DIR}/obj/${folder}/${name}")
  endforeach()
endfunction()

# Everything a ThreadSanitizer run needs: the modules and the tests labelled `tsan`.
function(sl_add_tsan_target)
  get_property(modules GLOBAL PROPERTY SL_MODULES)
  get_property(tests GLOBAL PROPERTY SL_TSAN_TARGETS)
  add_custom_target(sl_tsan)
  foreach(target IN ITEMS ${modules} ${tests})
    add_dependencies(sl_tsan ${target})
  endforeach()
endfunction()

# Everything `./run cross` needs: what is installed, and the tests labelled `cross`.
function(sl_add_cross_target)
  if(CMAKE_CROSSCOMPILING)
    get_property(modules GLOBAL PROPERTY SL_MODULES)
    get_property(tests GLOBAL PROPERTY SL_CROSS_TARGETS)
    add_custom_target(sl_cross)
    add_dependencies(sl_cross starling nccl starling_command ${modules} ${tests})
  endif()
endfunction()

# Everything `./run demo` runs: the command with all modules, and the example that trains.
function(sl_add_demo_target)
  get_property(modules GLOBAL PROPERTY SL_MODULES)
  add_custom_target(sl_demo)
  foreach(target IN ITEMS starling_command nccl digits ${modules})
    if(TARGET ${target})
      add_dependencies(sl_demo ${target})
    endif()
  endforeach()
endfunction()
