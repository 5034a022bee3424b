// Calls every path entry of libc on one directory, which must hold the file "fw_ver" ("1.0.0\n"),
// the symbolic link "link" to it, and nothing else, and checks what each gives.
//
//   path_probe DIR found      every entry finds the file and gives its data
//   path_probe DIR missing    every entry fails with ENOENT
//
// The same program serves for a virtual directory and for a plain one, with the library active,
// inactive, or not loaded.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/preload/probe.h"

extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dir_fd, const char* path, int flags);
int __openat64_2(int dir_fd, const char* path, int flags);
char* __realpath_chk(const char* path, char* resolved, size_t size);
ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t buffer_size);
ssize_t __readlinkat_chk(int dir_fd, const char* path, char* buffer, size_t size,
                         size_t buffer_size);
}

namespace {

constexpr char kContent[] = "1.0.0\n";
constexpr off_t kContentSize = sizeof(kContent) - 1;

std::string dir;
std::string file;
std::string link_path;

struct Entry {
  const char* name;
  std::function<bool()> finds;  // errno says why not
};

bool reads_content(int fd) {
  if (fd < 0) return false;
  char text[64] = {};
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  return size == kContentSize && std::strcmp(text, kContent) == 0;
}

bool reads_content(FILE* stream) {
  if (stream == nullptr) return false;
  char text[64] = {};
  const bool same = std::fgets(text, sizeof(text), stream) && std::strcmp(text, kContent) == 0;
  std::fclose(stream);
  return same;
}

template <typename Reopen>
bool reopens(Reopen reopen) {
  FILE* stream = std::tmpfile();
  FILE* again = reopen(file.c_str(), "r", stream);
  return reads_content(again);
}

template <typename Dirent>
bool lists(int count, Dirent** list) {
  if (count < 0) return false;
  bool seen = false;
  for (int i = 0; i < count; ++i) {
    seen |= std::strcmp(list[i]->d_name, "fw_ver") == 0;
    std::free(list[i]);
  }
  std::free(list);
  return seen;
}

bool opendir_lists() {
  DIR* stream = opendir(dir.c_str());
  if (stream == nullptr) return false;
  bool seen = false;
  while (const dirent* entry = readdir(stream)) seen |= std::strcmp(entry->d_name, "fw_ver") == 0;
  closedir(stream);
  return seen;
}

bool is_file(int result, const struct stat& status) {
  return result == 0 && S_ISREG(status.st_mode) && status.st_size == kContentSize;
}

// The names of glibc before 2.33 cannot be linked against; programs of that time find them so.
template <typename Function>
Function* old_name(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool old_stat(const char* name) {
  struct stat status = {};
  return is_file(old_name<int(int, const char*, struct stat*)>(name)(1, file.c_str(), &status),
                 status);
}

bool old_fstatat(const char* name) {
  struct stat status = {};
  auto* call = old_name<int(int, int, const char*, struct stat*, int)>(name);
  return is_file(call(1, AT_FDCWD, file.c_str(), &status, 0), status);
}

template <typename Call>
bool stats(Call call) {
  struct stat status = {};
  return is_file(call(&status), status);
}

template <typename Call>
bool links(Call call) {
  char target[64] = {};
  return call(target, sizeof(target)) == 6 && std::strcmp(target, "fw_ver") == 0;
}

// A resolved name must be one that can be opened, and lead back through "..".
bool resolves(char* resolved) {
  if (resolved == nullptr) return false;
  const std::string name = resolved;
  const std::string again =
      name.substr(0, name.rfind('/')) + "/../" + dir.substr(dir.rfind('/') + 1) + "/fw_ver";
  return reads_content(open(name.c_str(), O_RDONLY)) &&
         reads_content(open(again.c_str(), O_RDONLY));
}

bool resolves_freed(char* resolved) {
  const bool good = resolves(resolved);
  std::free(resolved);
  return good;
}

bool globs() {
  std::string pattern;
  for (const char character : dir) {
    if (std::strchr("[]*?\\", character) != nullptr) pattern += '\\';
    pattern += character;
  }
  pattern += "/fw_*";
  glob_t result = {};
  const int status = glob(pattern.c_str(), 0, nullptr, &result);
  const bool good = status == 0 && result.gl_pathc == 1 && file == result.gl_pathv[0];
  if (status == GLOB_NOMATCH) errno = ENOENT;
  globfree(&result);
  return good;
}

int walked_files = 0;
int see_file(const char* path, const struct stat* status, int type) {
  if (type == FTW_F && file == path && status->st_size == kContentSize) ++walked_files;
  return 0;
}
int see_file_with_position(const char* path, const struct stat* status, int type, FTW* position) {
  if (std::strcmp(path + position->base, "fw_ver") != 0 || position->level != 1) return 0;
  return see_file(path, status, type);
}

template <typename WalkFunction>
bool walks(WalkFunction walk) {
  walked_files = 0;
  return walk() == 0 && walked_files == 1;
}

bool fts_finds() {
  char* paths[] = {dir.data(), nullptr};
  FTS* walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
  if (walk == nullptr) return false;
  bool seen = false;
  int error = 0;
  while (const FTSENT* entry = fts_read(walk)) {
    if (entry->fts_info == FTS_NS) error = entry->fts_errno;
    seen |= entry->fts_info == FTS_F && std::strcmp(entry->fts_name, "fw_ver") == 0;
  }
  fts_close(walk);
  errno = error;
  return seen;
}

bool changes_into() {
  const int before = open(".", O_RDONLY | O_DIRECTORY);
  const bool good = chdir(dir.c_str()) == 0 && reads_content(open("fw_ver", O_RDONLY));
  const int error = errno;
  if (fchdir(before) != 0) return false;
  close(before);
  errno = error;
  return good;
}

bool watches() {
  const int fd = inotify_init1(IN_CLOEXEC);
  const bool good = inotify_add_watch(fd, dir.c_str(), IN_MODIFY) >= 0;
  const int error = errno;
  close(fd);
  errno = error;
  return good;
}

// The file has no such attribute: whatever says so has found the file.
bool knows_no_attribute(ssize_t result) {
  return result >= 0 || errno == ENODATA || errno == EOPNOTSUPP;
}

std::vector<Entry> open_entries() {
  const char* path = file.c_str();
  return {
      {"open", [=] { return reads_content(open(path, O_RDONLY)); }},
      {"open64", [=] { return reads_content(open64(path, O_RDONLY)); }},
      {"openat", [=] { return reads_content(openat(AT_FDCWD, path, O_RDONLY)); }},
      {"openat64", [=] { return reads_content(openat64(AT_FDCWD, path, O_RDONLY)); }},
      {"__open_2", [=] { return reads_content(__open_2(path, O_RDONLY)); }},
      {"__open64_2", [=] { return reads_content(__open64_2(path, O_RDONLY)); }},
      {"__openat_2", [=] { return reads_content(__openat_2(AT_FDCWD, path, O_RDONLY)); }},
      {"__openat64_2", [=] { return reads_content(__openat64_2(AT_FDCWD, path, O_RDONLY)); }},
      {"fopen", [=] { return reads_content(fopen(path, "r")); }},
      {"fopen64", [=] { return reads_content(fopen64(path, "r")); }},
      {"freopen", [] { return reopens(freopen); }},
      {"freopen64", [] { return reopens(freopen64); }},
      {"chdir", changes_into},
      {"inotify_add_watch", watches},
  };
}

std::vector<Entry> stat_entries() {
  const char* path = file.c_str();
  return {
      {"stat", [=] { return stats([=](auto* s) { return stat(path, s); }); }},
      {"lstat", [=] { return stats([=](auto* s) { return lstat(path, s); }); }},
      {"fstatat", [=] { return stats([=](auto* s) { return fstatat(AT_FDCWD, path, s, 0); }); }},
      {"stat64",
       [] {
         return old_name<int(const char*, struct stat*)>("stat64") && stats([](auto* s) {
                  return old_name<int(const char*, struct stat*)>("stat64")(file.c_str(), s);
                });
       }},
      {"__xstat", [] { return old_stat("__xstat"); }},
      {"__xstat64", [] { return old_stat("__xstat64"); }},
      {"__lxstat", [] { return old_stat("__lxstat"); }},
      {"__lxstat64", [] { return old_stat("__lxstat64"); }},
      {"__fxstatat", [] { return old_fstatat("__fxstatat"); }},
      {"__fxstatat64", [] { return old_fstatat("__fxstatat64"); }},
      {"statx",
       [=] {
         struct statx status = {};
         return statx(AT_FDCWD, path, 0, STATX_SIZE, &status) == 0 &&
                status.stx_size == static_cast<unsigned>(kContentSize);
       }},
      {"access", [=] { return access(path, R_OK) == 0; }},
      {"faccessat", [=] { return faccessat(AT_FDCWD, path, R_OK, 0) == 0; }},
      {"euidaccess", [=] { return euidaccess(path, R_OK) == 0; }},
      {"eaccess", [=] { return eaccess(path, R_OK) == 0; }},
      {"getxattr", [=] { return knows_no_attribute(getxattr(path, "user.none", nullptr, 0)); }},
      {"lgetxattr", [=] { return knows_no_attribute(lgetxattr(path, "user.none", nullptr, 0)); }},
      {"listxattr", [=] { return knows_no_attribute(listxattr(path, nullptr, 0)); }},
      {"llistxattr", [=] { return knows_no_attribute(llistxattr(path, nullptr, 0)); }},
  };
}

std::vector<Entry> link_entries() {
  const char* path = link_path.c_str();
  return {
      {"readlink", [=] { return links([=](char* b, size_t n) { return readlink(path, b, n); }); }},
      {"readlinkat",
       [=] { return links([=](char* b, size_t n) { return readlinkat(AT_FDCWD, path, b, n); }); }},
      {"__readlink_chk",
       [=] { return links([=](char* b, size_t n) { return __readlink_chk(path, b, n, n); }); }},
      {"__readlinkat_chk",
       [=] {
         return links([=](char* b, size_t n) { return __readlinkat_chk(AT_FDCWD, path, b, n, n); });
       }},
      {"realpath", [=] { return resolves_freed(realpath(path, nullptr)); }},
      {"realpath into a buffer",
       [=] {
         char buffer[PATH_MAX];
         return resolves(realpath(path, buffer));
       }},
      {"__realpath_chk",
       [=] {
         char buffer[PATH_MAX];
         return resolves(__realpath_chk(path, buffer, sizeof(buffer)));
       }},
      {"canonicalize_file_name", [=] { return resolves_freed(canonicalize_file_name(path)); }},
  };
}

std::vector<Entry> walk_entries() {
  const char* path = dir.c_str();
  return {
      {"opendir", opendir_lists},
      {"scandir",
       [=] {
         dirent** list = nullptr;
         const int count = scandir(path, &list, nullptr, alphasort);
         return lists(count, list);
       }},
      {"scandir64",
       [=] {
         dirent64** list = nullptr;
         const int count = scandir64(path, &list, nullptr, alphasort64);
         return lists(count, list);
       }},
      {"scandirat",
       [=] {
         dirent** list = nullptr;
         const int count = scandirat(AT_FDCWD, path, &list, nullptr, alphasort);
         return lists(count, list);
       }},
      {"glob", globs},
      {"ftw", [=] { return walks([=] { return ftw(path, see_file, 8); }); }},
      {"nftw",
       [=] { return walks([=] { return nftw(path, see_file_with_position, 8, FTW_PHYS); }); }},
      {"fts_open", fts_finds},
  };
}

void check(const std::vector<Entry>& entries, bool must_find) {
  for (const Entry& entry : entries) {
    errno = 0;
    const bool found = entry.finds();
    verbena::probe::expect(must_find ? found : !found && errno == ENOENT, entry.name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s DIR found|missing\n", argv[0]);
    return 2;
  }
  dir = argv[1];
  file = dir + "/fw_ver";
  link_path = dir + "/link";
  const bool must_find = std::strcmp(argv[2], "found") == 0;
  check(open_entries(), must_find);
  check(stat_entries(), must_find);
  check(link_entries(), must_find);
  check(walk_entries(), must_find);
  return verbena::probe::finish();
}
