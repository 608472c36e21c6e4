# SPDX-License-Identifier: Apache-2.0
# GPU kernels are images: nvcc turns a module's .cu file into a fatbin, which is embedded as plain data, so that no
# module links the CUDA runtime. Without nvcc, or where SL_GPU_IMAGES is off, they are empty, of size 0. nvcc is looked for
# only when a module asks; build/cuda is what `./run build --cuda` fetched.

option(SL_GPU_IMAGES "Compile GPU kernels where there is nvcc" ON)
set(SL_CUDA_ARCHS "90" CACHE STRING "CUDA architectures of GPU images, separated by semicolons")

# Appends to <out_sources> one C file per CUDA source; k.cu becomes sl_image_k[] of sl_image_k_size bytes.
function(sl_cuda_images module out_sources)
  find_program(SL_NVCC nvcc HINTS ENV CUDA_HOME PATHS "${CMAKE_SOURCE_DIR}/build/cuda" /usr/local/cuda
    PATH_SUFFIXES bin)
  mark_as_advanced(SL_NVCC)
  if(NOT SL_NVCC OR NOT SL_GPU_IMAGES)
    set_property(GLOBAL APPEND PROPERTY SL_CUDA_LEFT_OUT "${module}")
    set(sources ${${out_sources}})
    foreach(source IN LISTS ARGN)
      cmake_path(GET source STEM stem)
      set(holder "${CMAKE_CURRENT_BINARY_DIR}/${stem}_image.c")
      configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/no_image.c.in" "${holder}" @ONLY)
      list(APPEND sources "${holder}")
    endforeach()
    set(${out_sources} "${sources}" PARENT_SCOPE)
    return()
  endif()
  set(gencode "")
  foreach(arch IN LISTS SL_CUDA_ARCHS)
    list(APPEND gencode -gencode "arch=compute_${arch},code=[sm_${arch},compute_${arch}]")
  endforeach()
  # Machine code takes a tenth of its room when it is compressed, too, as PTX is by itself. What nvcc of CUDA 13 packs
  # drivers before 550 cannot unpack.
  set(compression -Xfatbin=-compress-all)
  # Line tables are for profilers; they hold the names of this machine's folders.
  set(line_tables -lineinfo)
  if(SL_REPRODUCIBLE)
    set(line_tables "")
  endif()
  # In this tree, where objects are cached, images are, too.
  set(launcher "")
  if(SL_CCACHE AND EXISTS "${CMAKE_SOURCE_DIR}/scripts/cached_image.py")
    set(launcher python3 -B "${CMAKE_SOURCE_DIR}/scripts/cached_image.py")
  endif()
  set(sources ${${out_sources}})
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET source STEM stem)
    set(image "${CMAKE_CURRENT_BINARY_DIR}/${stem}.fatbin")
    add_custom_command(OUTPUT "${image}" DEPENDS "${source}" DEPFILE "${image}.d" VERBATIM COMMAND_EXPAND_LISTS
      COMMENT "Compiling GPU image ${module}/${stem}"
      COMMAND ${launcher} "${SL_NVCC}" -fatbin -std=c++20 -O3 ${compression} ${line_tables} ${gencode}
        "-I$<JOIN:$<TARGET_PROPERTY:Starling::sdk,INTERFACE_INCLUDE_DIRECTORIES>,;-I>"
        "-I$<JOIN:$<TARGET_PROPERTY:Starling::abi,INTERFACE_INCLUDE_DIRECTORIES>,;-I>"
        -MD -MF "${image}.d" -o "${image}" "${source}")
    set(holder "${CMAKE_CURRENT_BINARY_DIR}/${stem}_image.c")
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/image.c.in" "${holder}" @ONLY)
    set_source_files_properties("${holder}" PROPERTIES OBJECT_DEPENDS "${image}")
    list(APPEND sources "${holder}")
  endforeach()
  set(${out_sources} "${sources}" PARENT_SCOPE)
endfunction()

# Says once, in one line, what was left out.
function(sl_report_cuda)
  get_property(left_out GLOBAL PROPERTY SL_CUDA_LEFT_OUT)
  if(left_out)
    list(JOIN left_out ", " left_out)
    set(why "no CUDA compiler (nvcc) found")
    if(SL_NVCC)
      set(why "SL_GPU_IMAGES is off")
    endif()
    message(STATUS "starling: ${why}: GPU parts left out: ${left_out}")
  endif()
endfunction()
