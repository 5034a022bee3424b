// Frames whose bytes this project did not make, and helpers to take them apart.
//
// Each golden packet is given from its IP header on, ICRC included. The first three and the RoCEv1
// pair are packets published in scapy's tests of its RoCE layer (captured on ConnectX-4 Lx, or
// computed there); the IPv6 ones with flow label 0x34567 are golden vectors of gem5's RoCEv2 codec.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stack/types.h"

namespace verbena::test {

using Bytes = std::vector<uint8_t>;

// Two hexadecimal digits a byte; blanks are ignored.
Bytes from_hex(std::string_view text);
Gid gid_from_hex(std::string_view text);

// `ip` behind an Ethernet header with the EtherType that its version says.
Bytes ethernet_frame(std::span<const uint8_t> ip);

// The same with an 802.1Q tag of VLAN 1.
Bytes vlan_frame(std::span<const uint8_t> ip);

// Recomputes the IPv4 header checksum of an Ethernet frame; nothing to do for IPv6.
void fix_ip_checksum(Bytes& frame);

struct GoldenPacket {
  std::string_view name;
  std::string_view hex;
};

// CNP, UC SEND Only over IPv4 and IPv6, RC SEND Only with a UDP checksum, ACK, RNR NAK and PSN NAK.
std::span<const GoldenPacket> golden_packets();

inline constexpr std::string_view kCnpHex =
    "45c2003c718c4000401191610a0011010a001201000012b700280000 8100ffff4000011800000000"
    "00000000000000000000000000000000 82fd002a";
inline constexpr std::string_view kUcSendIpv4Hex =
    "45010040047840004011b4d5c0a80007c0a80007 c00012b7002c0000 2460ffff000000d300cf1710"
    "4630818be28935d90e9a95505401be885e500000 78f353f3";
inline constexpr std::string_view kUcSendIpv6Hex =
    "6e21face002c11ff 20220000000000000000000000001023 20230000000000000000000000001024"
    "c00012b7002c0000 2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 3e5b743b";
inline constexpr std::string_view kSendUdpChecksumHex =
    "62a34567001c1140 20010db8000000000000000000000001 20010db8000000000000000000000002"
    "c56a12b7001c7f22 0410ffff0001020380112230 deadbe00 9a3d6dbb";
inline constexpr std::string_view kAckHex =
    "62a34567001c1140 20010db8000000000000000000000002 20010db8000000000000000000000001"
    "c56a12b7001c0000 1100ffff000a0b0c00112235 1f445566 5fa51a5f";
inline constexpr std::string_view kRnrNakHex =
    "62a34567001c1140 20010db8000000000000000000000002 20010db8000000000000000000000001"
    "c56a12b7001c0000 1100ffff000a0b0c00112233 39445566 1da00355";
inline constexpr std::string_view kPsnNakHex =
    "62a34567001c1140 20010db8000000000000000000000002 20010db8000000000000000000000001"
    "c56a12b7001c0000 1100ffff000a0b0c00112234 60445566 253c2651";

// RoCEv1, from the GRH on: WRITE Only of 5 bytes, and its acknowledgement.
inline constexpr std::string_view kRoceV1WriteHex =
    "6020000000281b4000000000000000000000ffff0f00000200000000000000000000ffff0f000002"
    "0a70ffff0000010a80a788bc 000055d4c0726000000047b300000005 0000000001000000 e3d856bb";
inline constexpr std::string_view kRoceV1AckHex =
    "6020000000141b4000000000000000000000ffff0f00000200000000000000000000ffff0f000002"
    "1140ffff0000010900a788c0 00000005 25f0c038";

}  // namespace verbena::test
