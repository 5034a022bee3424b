// Where a daemon lives: the instance directory with control.sock, verbenad.pid, verbenad.log and
// the virtual sysfs.
//
// The directory is, in this order: the one that a name given with --name selects, $VERBENA_DIR, or
// the instance `default`. Named instances lie in $XDG_RUNTIME_DIR/verbena, or in /tmp/verbena-UID
// when XDG_RUNTIME_DIR is not set or not usable by this user. Invariant: a directory that is used
// has been seen to be a directory (no symbolic link), owned by this user, and closed to everyone
// else: whoever could write there could pose as the daemon and be handed the memory of programs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tools {

struct RunDir {
  std::filesystem::path base;  // empty when VERBENA_DIR names the instance directory itself
  std::filesystem::path path;  // the instance directory, absolute
  std::string name;            // empty when VERBENA_DIR names it

  [[nodiscard]] std::filesystem::path socket() const { return path / "control.sock"; }
  [[nodiscard]] std::filesystem::path log() const { return path / "verbenad.log"; }
  [[nodiscard]] std::filesystem::path sysfs_devices() const {
    return path / "sysfs/class/infiniband";
  }
  // " --name N", or nothing for the default instance: for commands shown to the user.
  [[nodiscard]] std::string name_option() const;
};

// Neither creates nor checks anything on disk. Throws CommandError when the name, or the length of
// the path (a Unix socket has to fit), is not possible.
[[nodiscard]] RunDir find_run_dir(std::string_view name);

// Throws CommandError unless every directory of ours is safe to use. A missing one is an error too.
void check_run_dir(const RunDir& dir);

// Creates what is missing, then checks.
void create_run_dir(const RunDir& dir);

// Names of the instances whose directories exist beside this one.
[[nodiscard]] std::vector<std::string> instance_names(const RunDir& dir);

}  // namespace verbena::tools
