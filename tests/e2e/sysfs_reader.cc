// A program that looks for RDMA devices in /sys/class/infiniband itself, without any library, as
// exporters and launch scripts do. Prints one line per device.
#include <dirent.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unreadable";
}

}  // namespace

int main() {
  const std::string root = "/sys/class/infiniband";
  DIR* directory = opendir(root.c_str());
  if (directory == nullptr) {
    std::perror(root.c_str());
    return 1;
  }
  int devices = 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const std::string device = root + "/" + entry->d_name;
    std::printf("%s guid=%s type=%s state=%s link=%s gid0=%s gidtype0=%s\n", entry->d_name,
                first_line(device + "/node_guid").c_str(),
                first_line(device + "/node_type").c_str(),
                first_line(device + "/ports/1/state").c_str(),
                first_line(device + "/ports/1/link_layer").c_str(),
                first_line(device + "/ports/1/gids/0").c_str(),
                first_line(device + "/ports/1/gid_attrs/types/0").c_str());
    ++devices;
  }
  closedir(directory);
  return devices > 0 ? 0 : 1;
}
