#include "tests/support/pair.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbena::test {

Fabric::Fabric() {
  on_fault = [](const std::string& what) { ADD_FAILURE() << what; };
}

void Fabric::drive() {
  EXPECT_TRUE(drive_bounded(3'600'000'000'000)) << "not idle after an hour";
}

size_t Fabric::count(const Expect& expected) const {
  return static_cast<size_t>(std::count_if(sent.begin(), sent.end(), [&](const auto& frame) {
    return mismatch(expected, *parse_good(frame)).empty();
  }));
}

Pair::Pair(const ConnectOptions& connect, const QpOptions& options)
    : a(add(small_config(1))),
      b(add(small_config(2))),
      qa(a.add_qp(options)),
      qb(b.add_qp(options)) {
  ConnectOptions back = connect;
  back.sq_psn = connect.rq_psn;
  back.rq_psn = connect.sq_psn;
  a.connect(qa, b.device.config().gids[0], qb.qpn(), connect, now);
  b.connect(qb, a.device.config().gids[0], qa.qpn(), back, now);
}

}  // namespace verbena::test
