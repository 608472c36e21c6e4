// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/elf.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace sl::conform {
namespace {

// A copy of the file that checks every access: the file is not trusted yet.
class Image {
 public:
  explicit Image(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  template <typename T>
  bool Read(uint64_t at, T* out) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at, sizeof(T));
    return true;
  }
  // The text at `at`, up to its NUL.
  std::string Text(uint64_t at) const {
    if (at >= bytes_.size()) return "";
    return {bytes_.data() + at, strnlen(bytes_.data() + at, bytes_.size() - at)};
  }

 private:
  std::vector<char> bytes_;
};

bool IsExported(const Elf64_Sym& symbol) {
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  const bool is_global = binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE;
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  // Version nodes are absolute symbols.
  return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && is_global &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

}  // namespace

Result<std::vector<std::string>> ExportedSymbols(const std::string& path) {
  const Image image(path);
  Elf64_Ehdr header{};
  if (!image.Read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Status(SL_ERR_INVALID, path + " is no 64-bit ELF file");
  }
  std::vector<std::string> names;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{};
    Elf64_Shdr strings{};
    if (!image.Read(header.e_shoff + uint64_t{i} * sizeof(section), &section)) break;
    if (section.sh_type != SHT_DYNSYM) continue;
    if (!image.Read(header.e_shoff + uint64_t{section.sh_link} * sizeof(strings), &strings)) break;
    Elf64_Sym symbol{};
    for (uint64_t at = 0; at + sizeof(symbol) <= section.sh_size; at += sizeof(symbol)) {
      if (!image.Read(section.sh_offset + at, &symbol)) break;
      if (IsExported(symbol)) names.push_back(image.Text(strings.sh_offset + symbol.st_name));
    }
    return names;
  }
  return Status(SL_ERR_INVALID, path + " has no table of dynamic symbols");
}

}  // namespace sl::conform
