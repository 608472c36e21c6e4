# SPDX-License-Identifier: Apache-2.0
# Run by cpack between staging and packing: every file gets the time SOURCE_DATE_EPOCH, so that when a tree was checked
# out or built leaves no trace.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  file(GLOB_RECURSE staged LIST_DIRECTORIES true "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*")
  list(APPEND staged "${CPACK_TEMPORARY_INSTALL_DIRECTORY}")
  foreach(path IN LISTS staged)
    execute_process(COMMAND touch --no-dereference "--date=@$ENV{SOURCE_DATE_EPOCH}" "${path}" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endif()
