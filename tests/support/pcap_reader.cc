#include "tests/support/pcap_reader.h"

#include <pcap/pcap.h>

#include <memory>

namespace verbena::test {
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

}  // namespace

Capture read_capture(const std::filesystem::path& file) {
  Capture capture;
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> pcap(pcap_open_offline(file.c_str(), error),
                                                            &pcap_close);
  if (pcap == nullptr) {
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
    capture.frames.push_back(to_ethernet(link_type, bytes, header->caplen));
  }
  if (status != PCAP_ERROR_BREAK) capture.error = pcap_geterr(pcap.get());
  return capture;
}

}  // namespace verbena::test
