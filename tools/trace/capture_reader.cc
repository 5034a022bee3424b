#include "tools/trace/capture_reader.h"

#include <pcap/pcap.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace verbena::trace {
namespace {

std::vector<uint8_t> to_ethernet(int link_type, const uint8_t* bytes, size_t count) {
  std::vector<uint8_t> frame;
  if (link_type == DLT_RAW) {
    const bool ipv6 = count > 0 && bytes[0] >> 4 == 6;
    frame.resize(12);
    frame.push_back(ipv6 ? 0x86 : 0x08);
    frame.push_back(ipv6 ? 0xDD : 0x00);
  }
  frame.insert(frame.end(), bytes, bytes + count);
  return frame;
}

Timestamp nanoseconds(const timeval& time) {
  // With nanosecond precision asked for, tv_usec holds nanoseconds.
  return static_cast<Timestamp>(time.tv_sec) * 1'000'000'000 + static_cast<Timestamp>(time.tv_usec);
}

}  // namespace

Capture read_capture(std::FILE* file) {
  Capture capture;
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> pcap(
      pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error),
      &pcap_close);
  if (pcap == nullptr) {
    std::fclose(file);
    capture.error = error;
    return capture;
  }
  const int link_type = pcap_datalink(pcap.get());
  if (link_type != DLT_EN10MB && link_type != DLT_RAW) {
    capture.error = "link type is neither Ethernet nor raw IP";
    return capture;
  }
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  int status;
  while ((status = pcap_next_ex(pcap.get(), &header, &bytes)) == 1) {
    capture.frames.push_back({nanoseconds(header->ts),
                              to_ethernet(link_type, bytes, header->caplen),
                              header->caplen < header->len});
  }
  if (status != PCAP_ERROR_BREAK) capture.error = pcap_geterr(pcap.get());
  return capture;
}

Capture read_capture(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file != nullptr) return read_capture(file);
  Capture capture;
  capture.error = path.string() + ": " + std::strerror(errno);
  return capture;
}

}  // namespace verbena::trace
