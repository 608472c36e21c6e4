# SPDX-License-Identifier: Apache-2.0
# Toolchain: builds for Linux on AArch64 (every Grace machine) on an x86-64 machine with Debian's cross compiler, and runs
# what it built under qemu's user-mode emulation. `./run cross` uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(sl_cross_prefix aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${sl_cross_prefix}-gcc)
set(CMAKE_CXX_COMPILER ${sl_cross_prefix}-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/${sl_cross_prefix})

# The compiler searches /usr/include by itself, where libraries of headers lie. The one header that differs between
# architectures, OpenSSL's configuration, is the same on all with 64 bits: this machine's is taken after everything else.
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include/x86_64-linux-gnu")
set(CMAKE_CXX_FLAGS_INIT "-idirafter /usr/include/x86_64-linux-gnu")

# Programs are this machine's, libraries are not.
set(CMAKE_FIND_ROOT_PATH /usr/${sl_cross_prefix})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)

# The tests that emulation runs: those of the sdk, of links, engine and loader, of protocols whose ranks are threads, of the
# front-end, and whole collectives, transfers and shrinking over processes. Left out are tests that start programs, which
# this machine cannot, and what emulation lacks: notices of zero-copy (transport-tcp.transport_test waits for them for ever)
# and addresses that the system uses again (device_host.memory_test). The emulated machine has the memory order of this
# one: the tests prove what the compiler made of the code, and not that AArch64's weaker order suffices.
set(SL_CROSS_TESTS "^(sdk|kernel\\.(link|engine)|loader|algo_symmetric|transport-shm|frontend-nccl)\\.")
string(APPEND SL_CROSS_TESTS "|^transport-tcp\\.(wire|interface|socket|stream|process)_test$")
string(APPEND SL_CROSS_TESTS "|^device_host\\.(reduce|copy)_test$|^integration\\.(collectives|p2p|shrink)_test$")
