// SPDX-License-Identifier: Apache-2.0
//
// Settings as programs and sites give them: the environment, and behind it the files that NCCL reads: the one that
// NCCL_CONF_FILE names, else ~/.nccl.conf, then /etc/nccl.conf. The first that has a name counts. A program with raised
// privileges is given what is in /etc alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sl {

// A line "NAME=value" of such a file each; what is not one, or begins with '#', is passed over.
struct Setting {
  std::string name;
  std::string value;
};
std::vector<Setting> ParseSettings(std::string_view text);

// NULL: not set. What a file says stays valid; the files are read once. What the environment says is the C library's,
// which a program may change at any time: ask once, early, and keep a copy.   thread: [any]
const char* SettingText(const char* name);

// The files that were read and had settings: "/etc/nccl.conf (NCCL_DEBUG, NCCL_SOCKET_IFNAME)".
std::vector<std::string> SettingFiles();
// For tests, which change what is there; texts of files are gone.
void ForgetSettingFiles();

}  // namespace sl
