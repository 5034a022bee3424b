#include "tools/trace/capture_reader.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "stack/wire/ethernet.h"
#include "tools/trace/comments.h"

namespace verbena::trace {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kMacBytes = 6;

// What a link type puts before the network layer, and where in it the EtherType is.
struct LinkLayer {
  size_t header_bytes = 0;
  size_t ether_type_at = 0;
};

// https://www.tcpdump.org/linktypes: LINKTYPE_LINUX_SLL, LINKTYPE_LINUX_SLL2.
constexpr LinkLayer kCooked = {16, 14};
constexpr LinkLayer kCooked2 = {20, 0};

// Without addresses: at best one of them is known, and then of one direction only.
void append_ethernet(std::vector<uint8_t>& frame, Bytes ether_type) {
  frame.resize(2 * kMacBytes);
  frame.insert(frame.end(), ether_type.begin(), ether_type.end());
}

std::vector<uint8_t> from_raw_ip(Bytes bytes) {
  static constexpr uint8_t kIpv4[] = {0x08, 0x00};
  static constexpr uint8_t kIpv6[] = {0x86, 0xDD};
  std::vector<uint8_t> frame;
  append_ethernet(frame, !bytes.empty() && bytes[0] >> 4 == 6 ? kIpv6 : kIpv4);
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  return frame;
}

std::vector<uint8_t> from_cooked(const LinkLayer& link, Bytes bytes) {
  std::vector<uint8_t> frame;
  if (bytes.size() < link.header_bytes) return frame;
  append_ethernet(frame, bytes.subspan(link.ether_type_at, 2));
  frame.insert(frame.end(), bytes.begin() + static_cast<std::ptrdiff_t>(link.header_bytes),
               bytes.end());
  return frame;
}

std::vector<uint8_t> to_ethernet(int link_type, Bytes bytes) {
  switch (link_type) {
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
      return from_raw_ip(bytes);
    case DLT_LINUX_SLL:
      return from_cooked(kCooked, bytes);
    case DLT_LINUX_SLL2:
      return from_cooked(kCooked2, bytes);
    default:
      return {bytes.begin(), bytes.end()};
  }
}

bool supported(int link_type) {
  return link_type == DLT_EN10MB || link_type == DLT_RAW || link_type == DLT_IPV4 ||
         link_type == DLT_IPV6 || link_type == DLT_LINUX_SLL || link_type == DLT_LINUX_SLL2;
}

Timestamp nanoseconds(const timeval& time) {
  // With nanosecond precision asked for, tv_usec holds nanoseconds.
  return static_cast<Timestamp>(time.tv_sec) * 1'000'000'000 + static_cast<Timestamp>(time.tv_usec);
}

}  // namespace

Capture read_capture(std::FILE* file) {
  Capture capture;
  char error[PCAP_ERRBUF_SIZE] = "";
  std::vector<std::string> comments = read_comments(file);
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> pcap(
      pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error),
      &pcap_close);
  if (pcap == nullptr) {
    std::fclose(file);
    capture.error = error;
    return capture;
  }
  const int link_type = pcap_datalink(pcap.get());
  if (!supported(link_type)) {
    const char* name = pcap_datalink_val_to_description_or_dlt(link_type);
    capture.error = std::string("its link type is ") + name +
                    "; what can be read is Ethernet, raw IP and Linux cooked";
    return capture;
  }
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  int status;
  while ((status = pcap_next_ex(pcap.get(), &header, &bytes)) == 1) {
    CapturedFrame frame;
    frame.time = nanoseconds(header->ts);
    frame.bytes = to_ethernet(link_type, {bytes, header->caplen});
    frame.wire_bytes = std::max(header->len, header->caplen);
    frame.missing_bytes = frame.wire_bytes - header->caplen;
    if (capture.frames.size() < comments.size()) {
      frame.comment = std::move(comments[capture.frames.size()]);
    }
    capture.frames.push_back(std::move(frame));
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
