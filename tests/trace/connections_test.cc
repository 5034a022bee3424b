// Which flows are one connection, and who sends in them.
#include <gtest/gtest.h>

#include "tests/trace/scenario.h"

namespace verbena::trace::test {
namespace {

void expect_ends(const Connection& connection, Service service, Pairing pairing,
                 std::optional<Qpn> first, std::optional<Qpn> second) {
  EXPECT_EQ(connection.service, service);
  EXPECT_EQ(connection.pairing, pairing);
  EXPECT_EQ(connection.sides[0].qpn, first);
  EXPECT_EQ(connection.sides[1].qpn, second);
}

TEST(Connections, NothingInNothingOut) {
  Scenario scenario;
  const Trace& trace = scenario.analyse();
  EXPECT_TRUE(trace.packets.empty());
  EXPECT_TRUE(trace.connections.empty());
}

TEST(Connections, AnAckTellsBothQpns) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  s.send(9, kToA, Opcode::kAcknowledge, 7);
  s.analyse();
  expect_ends(s.connection_of(1), Service::kRc, Pairing::kPsns, 0x11, 0x22);
  EXPECT_EQ(s.packet(1).side, 0);
  EXPECT_EQ(s.packet(2).side, 1);
  EXPECT_EQ(s.packet(2).connection, s.packet(1).connection);
  EXPECT_EQ(s.connection_of(1).sides[0].gid, Gid::from_ipv4(kA.ip));
  EXPECT_EQ(s.connection_of(1).sides[1].mac.bytes[5], kB.mac);
}

TEST(Connections, TheAnswerCapturedFirstIsStillTheAnswer) {
  Scenario s;
  s.send(0, kToA, Opcode::kAcknowledge, 6);
  s.send(5, kToB, Opcode::kSendOnly, 7);
  s.send(9, kToA, Opcode::kAcknowledge, 7);
  s.analyse();
  expect_ends(s.connection_of(1), Service::kRc, Pairing::kPsns, 0x11, 0x22);
  EXPECT_EQ(s.packet(1).side, 1);
}

TEST(Connections, WithoutAnswerTheSenderIsUnknown) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  s.send(5, kToB, Opcode::kSendOnly, 8);
  s.analyse();
  expect_ends(s.connection_of(1), Service::kRc, Pairing::kOneSided, {}, 0x22);
}

TEST(Connections, OnlyAnswersCaptured) {
  Scenario s;
  s.send(0, kToA, Opcode::kAcknowledge, 7);
  s.analyse();
  // Who was answered asked first.
  expect_ends(s.connection_of(1), Service::kRc, Pairing::kOneSided, 0x11, {});
  EXPECT_EQ(s.packet(1).side, 1);
}

TEST(Connections, BothAskAtOnce) {
  Scenario s;
  for (uint32_t i = 0; i < 4; ++i) {
    s.send(10 * i, kToB, Opcode::kSendOnly, 0x100 + i);
    s.send(10 * i + 1, kToA, Opcode::kSendOnly, 0x900 + i);
    s.send(10 * i + 2, kToA, Opcode::kAcknowledge, 0x100 + i);
    s.send(10 * i + 3, kToB, Opcode::kAcknowledge, 0x900 + i);
  }
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 1U);
  expect_ends(trace.connections[0], Service::kRc, Pairing::kPsns, 0x11, 0x22);
  for (uint32_t i = 1; i <= 16; ++i) EXPECT_EQ(s.packet(i).place, Place::kNew);
}

// 40 connections between two hosts, counting from different PSNs.
TEST(Connections, ManyAreToldApartByPsns) {
  Scenario s;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < 40; ++i) {
      s.send(round * 1000 + i, {kA, kB, 0x200 + i}, Opcode::kSendOnly, i * 0x1000 + round);
    }
    for (uint32_t i = 0; i < 40; ++i) {
      s.send(round * 1000 + 500 + i, {kB, kA, 0x100 + i}, Opcode::kAcknowledge, i * 0x1000 + round);
    }
  }
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 40U);
  for (uint32_t i = 0; i < 40; ++i) {
    expect_ends(trace.connections[i], Service::kRc, Pairing::kPsns, 0x100 + i, 0x200 + i);
  }
}

// All count from PSN 0, as programs do that set PSNs themselves: the ports tell them apart.
TEST(Connections, AlikePsnsAreToldApartByPorts) {
  Scenario s;
  for (uint32_t i = 0; i < 6; ++i) {
    const auto port = static_cast<uint16_t>(0xC100 + i);
    s.send(i, {kA, kB, 0x200 + i, port}, Opcode::kSendOnly, 0);
    s.send(100 + i, {kB, kA, 0x10F - i, port}, Opcode::kAcknowledge, 0);
  }
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 6U);
  for (uint32_t i = 0; i < 6; ++i) {
    expect_ends(trace.connections[i], Service::kRc, Pairing::kPsns, 0x10F - i, 0x200 + i);
  }
}

TEST(Connections, UcHasNoAnswersButPorts) {
  Scenario s;
  for (uint32_t i = 0; i < 2; ++i) {
    const auto port = static_cast<uint16_t>(0xC100 + i);
    s.send(i, {kA, kB, 0x200 + i, port}, Opcode{0x24}, 5);
    s.send(10 + i, {kB, kA, 0x100 + i, port}, Opcode{0x24}, 0x80000);
  }
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 2U);
  expect_ends(trace.connections[0], Service::kUc, Pairing::kPorts, 0x100, 0x200);
  expect_ends(trace.connections[1], Service::kUc, Pairing::kPorts, 0x101, 0x201);
}

TEST(Connections, TwoLoneFlowsBelongTogether) {
  Scenario s;
  s.send(0, {kA, kB, 0x22, 0xC001}, Opcode{0x24}, 5);
  s.send(1, {kB, kA, 0x11, 0xC002}, Opcode{0x24}, 0x80000);
  s.analyse();
  expect_ends(s.connection_of(1), Service::kUc, Pairing::kOnlyOnes, 0x11, 0x22);
}

// Both queue pairs on one host: the addresses say nothing about the direction.
TEST(Connections, Loopback) {
  Scenario s;
  for (uint32_t i = 0; i < 3; ++i) {
    s.send(10 * i, {kA, kA, 0x22}, Opcode::kSendOnly, 0x500 + i);
    s.send(10 * i + 5, {kA, kA, 0x11}, Opcode::kAcknowledge, 0x500 + i);
  }
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 1U);
  expect_ends(trace.connections[0], Service::kRc, Pairing::kPsns, 0x11, 0x22);
  EXPECT_EQ(s.packet(1).side, 0);
  EXPECT_EQ(s.packet(2).side, 1);
}

TEST(Connections, AQueuePairConnectedToItself) {
  Scenario s;
  s.send(0, {kA, kA, 0x11}, Opcode::kSendOnly, 0x500);
  s.send(5, {kA, kA, 0x11}, Opcode::kAcknowledge, 0x500);
  s.analyse();
  expect_ends(s.connection_of(1), Service::kRc, Pairing::kPsns, 0x11, 0x11);
  EXPECT_EQ(s.packet(1).side, 0);
  EXPECT_EQ(s.packet(2).side, 1);
}

TEST(Connections, DatagramsHoldBothQpns) {
  Scenario s;
  s.send(0, {kA, kB, 0x22}, Opcode::kUdSendOnly, 0, {.source_qpn = 0x11});
  s.send(1, {kB, kA, 0x11}, Opcode::kUdSendOnly, 9, {.source_qpn = 0x22});
  s.send(2, {kB, kA, 0x11}, Opcode::kUdSendOnly, 3, {.source_qpn = 0x23});
  s.send(3, {kA, kB, 1}, Opcode::kUdSendOnly, 3, {.source_qpn = 1});
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 3U);
  expect_ends(trace.connections[0], Service::kUd, Pairing::kHeaders, 0x11, 0x22);
  expect_ends(trace.connections[1], Service::kUd, Pairing::kHeaders, 0x23, 0x11);
  expect_ends(trace.connections[2], Service::kGsi, Pairing::kHeaders, 1, 1);
  EXPECT_EQ(s.packet(2).side, 1);
  EXPECT_EQ(s.packet(2).place, Place::kUnordered);
}

TEST(Connections, ACnpComesFromTheOtherSide) {
  Scenario s;
  s.send(0, kToA, Opcode::kCnp, 0);
  s.send(1, kToB, Opcode::kSendOnly, 7);
  s.send(2, kToA, Opcode::kAcknowledge, 7);
  s.send(3, {kB, kA, 0x99}, Opcode::kCnp, 0);
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.connections.size(), 2U);
  EXPECT_EQ(s.packet(1).connection, s.packet(2).connection);
  EXPECT_EQ(s.packet(1).side, 1);
  expect_ends(s.connection_of(4), Service::kUnknown, Pairing::kOneSided, 0x99, {});
}

// A frame whose QPN was hit is none of a connection that does not exist.
TEST(Connections, ABrokenFrameMakesNoConnection) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  s.send(1, kToA, Opcode::kAcknowledge, 7);
  const uint32_t broken = s.send(2, {kA, kB, 0x32}, Opcode::kSendOnly, 8);
  const uint32_t payload = s.send(3, kToB, Opcode::kSendOnly, 9, {.payload_bytes = 8});
  s.frame(broken).back() ^= 1;
  s.frame(payload)[s.frame(payload).size() - 6] ^= 1;
  const Trace& trace = s.analyse();
  EXPECT_EQ(trace.connections.size(), 1U);
  EXPECT_EQ(s.packet(broken).drop, DropReason::kBadIcrc);
  EXPECT_EQ(s.packet(broken).connection, kNoIndex);
  EXPECT_EQ(s.packet(payload).drop, DropReason::kBadIcrc);
  EXPECT_EQ(s.packet(payload).connection, s.packet(1).connection);
}

TEST(Connections, WhatIsNoRoceIsCounted) {
  Scenario s;
  s.raw(0, {});
  s.raw(1, std::vector<uint8_t>(60, 0));
  std::vector<uint8_t> arp(42, 0);
  arp[12] = 0x08;
  arp[13] = 0x06;
  s.raw(2, arp);
  std::vector<uint8_t> version1(80, 0);
  version1[12] = 0x89;
  version1[13] = 0x15;
  s.raw(3, version1);
  s.send(4, kToB, Opcode::kSendOnly, 7);
  const Trace& trace = s.analyse();
  ASSERT_EQ(trace.packets.size(), 1U);
  EXPECT_EQ(trace.packets[0].number, 5U);
  EXPECT_EQ(trace.other_frames, 3U);
  EXPECT_EQ(trace.rocev1_frames, 1U);
}

TEST(Connections, AnUnreadableRoceFrameSaysWhy) {
  Scenario s;
  const uint32_t number = s.send(0, kToB, Opcode::kSendOnly, 7);
  s.frame(number)[42] = 0x1F;  // an opcode of nothing
  s.analyse();
  EXPECT_FALSE(s.packet(number).packet);
  EXPECT_EQ(s.packet(number).drop, DropReason::kUnknownOpcode);
  EXPECT_EQ(s.packet(number).connection, kNoIndex);
}

// tcpdump -s 96: the payload's end and the ICRC are missing.
TEST(Connections, ACutFrameIsReadAsFarAsItGoes) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendFirst, 7, {.payload_bytes = 1024});
  const uint32_t number = s.send(0, kToB, Opcode::kSendLast, 8, {.payload_bytes = 500});
  s.cut(number, 96);
  s.analyse();
  const TracedPacket& cut = s.packet(number);
  EXPECT_TRUE(cut.cut);
  EXPECT_TRUE(cut.good());
  EXPECT_EQ(cut.payload_bytes, 500U);
  EXPECT_EQ(cut.packet->payload.size(), 96U - 54);
  EXPECT_EQ(cut.place, Place::kNew);
}

TEST(Connections, ACutThroughTheHeadersLeavesNothing) {
  Scenario s;
  const uint32_t number = s.send(0, kToB, Opcode::kReadRequest, 8, {.dma_length = 4});
  s.cut(number, 60);
  s.analyse();
  EXPECT_FALSE(s.packet(number).packet);
  EXPECT_EQ(s.packet(number).drop, DropReason::kTooShort);
}

TEST(Connections, ThePathMtuIsThatOfAFirstPacket) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendFirst, 7, {.payload_bytes = 256});
  s.analyse();
  EXPECT_TRUE(s.connection_of(1).path_mtu_known);
  EXPECT_EQ(s.connection_of(1).path_mtu, 256U);
}

// No packet is full, but the PSNs that a READ took tell.
TEST(Connections, ThePathMtuFollowsFromTheDistanceOfReads) {
  Scenario s;
  s.send(0, kToB, Opcode::kReadRequest, 7, {.dma_length = 8192});
  s.send(1, kToB, Opcode::kReadRequest, 11, {.dma_length = 8192});
  s.analyse();
  EXPECT_TRUE(s.connection_of(1).path_mtu_known);
  EXPECT_EQ(s.connection_of(1).path_mtu, 2048U);
  EXPECT_EQ(s.packet(1).psn_count, 4U);
  EXPECT_EQ(s.packet(2).missing, 0U);
}

}  // namespace
}  // namespace verbena::trace::test
