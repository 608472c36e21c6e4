// SPDX-License-Identifier: Apache-2.0
// Programs and libraries into which an NCCL was linked.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>

#include "sdk/fd.h"
#include "tools/starling/run_inspect.h"

namespace sl::tools {
namespace {

// Of every version, called by every program.
constexpr const char* kFunctions[] = {"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank"};
// What remains of one in a file without symbols.
constexpr std::string_view kVersionText = "NCCL version ";

// A file of this machine's kind of ELF, mapped; reads outside it find nothing.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return;
    void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return;
    bytes_ = {static_cast<const char*>(data), static_cast<size_t>(info.st_size)};
    const auto* header = At<Elf64_Ehdr>(0);
    const bool is_ours = header != nullptr && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_shentsize == sizeof(Elf64_Shdr);
    for (uint64_t i = 0; is_ours && i < header->e_shnum; ++i) {
      if (const auto* section = At<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr))) Add(section);
    }
  }
  ~ElfFile() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  std::string_view bytes() const { return bytes_; }
  bool has_symbols() const { return symbols_ != nullptr; }
  // One of the functions that the file defines, in what is exported or in all its symbols; NULL: none.
  const Elf64_Sym* Find(bool exported) const {
    const Elf64_Shdr* table = exported ? exports_ : symbols_;
    const auto* names = table != nullptr ? At<Elf64_Shdr>(SectionAt(table->sh_link)) : nullptr;
    if (names == nullptr) return nullptr;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
      const auto* symbol = At<Elf64_Sym>(table->sh_offset + at);
      if (symbol == nullptr) return nullptr;
      if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) continue;
      const std::string_view name = TextAt(names->sh_offset + symbol->st_name);
      const auto is_it = [name](const char* function) { return name == function; };
      if (std::any_of(std::begin(kFunctions), std::end(kFunctions), is_it)) return symbol;
    }
    return nullptr;
  }
  // Its own definitions come first in its own calls.
  bool is_symbolic() const {
    if (dynamic_ == nullptr) return false;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic_->sh_size; at += sizeof(Elf64_Dyn)) {
      const auto* entry = At<Elf64_Dyn>(dynamic_->sh_offset + at);
      if (entry == nullptr || entry->d_tag == DT_NULL) return false;
      if (entry->d_tag == DT_SYMBOLIC) return true;
      if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_SYMBOLIC) != 0) return true;
    }
    return false;
  }

 private:
  template <typename T>
  const T* At(uint64_t offset) const {
    const bool is_inside =
        offset % alignof(T) == 0 && bytes_.size() >= sizeof(T) && offset <= bytes_.size() - sizeof(T);
    return is_inside ? reinterpret_cast<const T*>(bytes_.data() + offset) : nullptr;
  }
  std::string_view TextAt(uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    return bytes_.substr(offset, strnlen(bytes_.data() + offset, bytes_.size() - offset));
  }
  uint64_t SectionAt(uint64_t index) const { return At<Elf64_Ehdr>(0)->e_shoff + index * sizeof(Elf64_Shdr); }
  void Add(const Elf64_Shdr* section) {
    if (section->sh_type == SHT_DYNSYM) exports_ = section;
    if (section->sh_type == SHT_SYMTAB) symbols_ = section;
    if (section->sh_type == SHT_DYNAMIC) dynamic_ = section;
  }

  std::string_view bytes_;
  const Elf64_Shdr* exports_ = nullptr;
  const Elf64_Shdr* symbols_ = nullptr;
  const Elf64_Shdr* dynamic_ = nullptr;
};

}  // namespace

std::string WhyNcclInside(const std::string& path, bool is_program) {
  const ElfFile file(path);
  if (const Elf64_Sym* exported = file.Find(true); exported != nullptr) {
    const bool is_bound = is_program || file.is_symbolic() || ELF64_ST_VISIBILITY(exported->st_other) != STV_DEFAULT;
    return is_bound ? "it exports NCCL's functions, and its own calls are bound to them" : "";
  }
  if (file.Find(false) != nullptr) return "it defines NCCL's functions";
  const bool is_stripped = !file.bytes().empty() && !file.has_symbols();
  return is_stripped && file.bytes().find(kVersionText) != std::string_view::npos ? "it has the text of NCCL's version"
                                                                                  : "";
}

std::string FindNcclInside(pid_t pid, const std::string& library, std::set<std::string>* seen) {
  char program[4096] = "";
  const std::string process = "/proc/" + std::to_string(pid);
  if (readlink((process + "/exe").c_str(), program, sizeof program - 1) <= 0) return "";
  const std::string folder = library.substr(0, library.rfind('/'));
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos || line.find(" r-xp ") == std::string::npos) continue;
    const std::string path = line.substr(slash);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name.starts_with("libnccl") || path.starts_with(folder + "/") || !seen->insert(path).second) continue;
    if (const std::string why = WhyNcclInside(path, path == program); !why.empty()) return path + ": " + why;
  }
  return "";
}

}  // namespace sl::tools
