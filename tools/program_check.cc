#include "tools/program_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace verbena::tools {

namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "name this processor's ELF machine number"
#endif

constexpr size_t kMaxProgramHeaders = 256;
constexpr size_t kMaxLibraryBytes = 16 << 20;

// The kernel marks a program that gains rights, and the loader then drops LD_PRELOAD. It gains none
// on a mount without setuid, or in a process that gave the possibility up.
bool gains_rights(const std::string& path) {
  struct stat st {};
  struct statvfs mount {};
  if (::stat(path.c_str(), &st) != 0) return false;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return false;
  if (::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) return false;
  if ((st.st_mode & S_ISUID) != 0 && st.st_uid != ::getuid()) return true;
  if ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0 && st.st_gid != ::getgid()) {
    return true;
  }
  return ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// The interpreter of a script, or nothing.
std::string interpreter(std::string_view first_line) {
  if (!first_line.starts_with("#!")) return {};
  first_line.remove_prefix(2);
  first_line = first_line.substr(0, first_line.find('\n'));
  const size_t begin = first_line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  const size_t end = first_line.find_first_of(" \t", begin);
  return std::string(first_line.substr(begin, end == std::string_view::npos ? end : end - begin));
}

Reach elf_reach(std::ifstream& file, const Elf64_Ehdr& header) {
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return Reach::kOtherWord;
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return Reach::kReachable;  // exec will refuse it
  const size_t count = std::min<size_t>(header.e_phnum, kMaxProgramHeaders);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (size_t i = 0; i < count; ++i) {
    Elf64_Phdr segment{};
    // istream reads characters; the struct is plain data.
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) break;
    if (segment.p_type == PT_INTERP) return Reach::kReachable;
  }
  return Reach::kStatic;
}

// IBVERBS_PRIVATE_<n> is a version name in the library's symbol table.
int private_abi_of_file(const std::string& path) {
  constexpr std::string_view kMark = "IBVERBS_PRIVATE_";
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kMaxLibraryBytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  const size_t at = bytes.find(kMark);
  return at == std::string::npos ? 0 : std::atoi(bytes.c_str() + at + kMark.size());
}

}  // namespace

FoundProgram find_program(const std::string& command) {
  if (command.find('/') != std::string::npos) {
    if (::access(command.c_str(), F_OK) != 0) return {command, errno};
    std::error_code error;
    if (fs::is_directory(command, error) || ::access(command.c_str(), X_OK) != 0) {
      return {command, EACCES};
    }
    return {command, 0};
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  FoundProgram denied{command, ENOENT};
  while (!command.empty()) {
    const size_t end = rest.find(':');
    const std::string_view directory = rest.substr(0, end);
    const std::string candidate =
        directory.empty() ? "./" + command : std::string(directory) + '/' + command;
    struct stat st {};
    if (::stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode)) {
      if (::access(candidate.c_str(), X_OK) == 0) return {candidate, 0};
      denied = {candidate, EACCES};
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return denied;
}

bool is_elf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, SELFMAG> magic{};
  return file.read(magic.data(), magic.size()) && std::memcmp(magic.data(), ELFMAG, SELFMAG) == 0;
}

Reach check_reach(const std::string& path) {
  // One level of #! is enough: the kernel's own limit is about what it starts, which is that file.
  std::string target = path;
  for (int level = 0; level < 2; ++level) {
    if (gains_rights(target)) return Reach::kSetuid;
    std::ifstream file(target, std::ios::binary);
    std::array<char, 256> head{};
    file.read(head.data(), head.size());
    const size_t length = static_cast<size_t>(file.gcount());
    file.clear();
    if (length >= sizeof(Elf64_Ehdr) && std::memcmp(head.data(), ELFMAG, SELFMAG) == 0) {
      Elf64_Ehdr header{};
      std::memcpy(&header, head.data(), sizeof(header));
      return elf_reach(file, header);
    }
    target = interpreter(std::string_view(head.data(), length));
    if (target.empty()) break;
  }
  return Reach::kReachable;
}

std::optional<Libibverbs> find_libibverbs() {
  // Never closed: the process ends or becomes another one soon.
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Libibverbs found;
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    std::error_code error;
    found.path = map->l_name;
    const std::string file = fs::canonical(found.path, error).filename().string();
    constexpr std::string_view kPrefix = "libibverbs.so.";
    if (file.starts_with(kPrefix)) found.version = file.substr(kPrefix.size());
  }
  found.private_abi = ::dlsym(library, "verbs_register_driver_34") != nullptr
                          ? kPrivateAbi
                          : private_abi_of_file(found.path);
  return found;
}

}  // namespace verbena::tools
