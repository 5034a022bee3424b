#include "stack/qp/qp_state.h"

namespace verbena {
namespace {

struct Transition {
  QpState from;
  QpState to;
  struct {
    uint32_t required;
    uint32_t optional;
  } rc, uc, ud;
};

constexpr uint32_t kInitRc = kAttrPkeyIndex | kAttrPort | kAttrAccessFlags;
constexpr uint32_t kInitUd = kAttrPkeyIndex | kAttrPort | kAttrQkey;
constexpr uint32_t kRtrUc = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
constexpr uint32_t kRtrRc = kRtrUc | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr uint32_t kRtrOptional = kAttrAltPath | kAttrAccessFlags | kAttrPkeyIndex;
constexpr uint32_t kRtsRc =
    kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
constexpr uint32_t kRtsOptionalUc =
    kAttrCurState | kAttrAltPath | kAttrAccessFlags | kAttrPathMigState;
constexpr uint32_t kRtsOptionalRc = kRtsOptionalUc | kAttrMinRnrTimer;
constexpr uint32_t kRtsOptionalUd = kAttrCurState | kAttrQkey;
constexpr uint32_t kSqdOptionalUc =
    kAttrAv | kAttrAltPath | kAttrAccessFlags | kAttrPkeyIndex | kAttrPathMigState;
constexpr uint32_t kSqdOptionalRc = kSqdOptionalUc | kAttrPort | kAttrTimeout | kAttrRetryCnt |
                                    kAttrRnrRetry | kAttrMaxQpRdAtomic | kAttrMaxDestRdAtomic |
                                    kAttrMinRnrTimer;
constexpr uint32_t kSqdOptionalUd = kAttrPkeyIndex | kAttrQkey;

// clang-format off
constexpr Transition kTransitions[] = {
    {QpState::kReset, QpState::kInit, {kInitRc, 0}, {kInitRc, 0}, {kInitUd, 0}},
    {QpState::kInit, QpState::kInit, {0, kInitRc}, {0, kInitRc}, {0, kInitUd}},
    {QpState::kInit, QpState::kRtr, {kRtrRc, kRtrOptional}, {kRtrUc, kRtrOptional}, {0, kSqdOptionalUd}},
    {QpState::kRtr, QpState::kRts, {kRtsRc, kRtsOptionalRc}, {kAttrSqPsn, kRtsOptionalUc}, {kAttrSqPsn, kRtsOptionalUd}},
    {QpState::kRts, QpState::kRts, {0, kRtsOptionalRc}, {0, kRtsOptionalUc}, {0, kRtsOptionalUd}},
    {QpState::kRts, QpState::kSqd, {0, kAttrEnSqdAsyncNotify}, {0, kAttrEnSqdAsyncNotify}, {0, kAttrEnSqdAsyncNotify}},
    {QpState::kSqd, QpState::kSqd, {0, kSqdOptionalRc}, {0, kSqdOptionalUc}, {0, kSqdOptionalUd}},
    {QpState::kSqd, QpState::kRts, {0, kRtsOptionalRc}, {0, kRtsOptionalUc}, {0, kRtsOptionalUd}},
    {QpState::kSqe, QpState::kRts, {0, 0}, {0, kAttrCurState | kAttrAccessFlags}, {0, kRtsOptionalUd}},
};
// clang-format on

constexpr bool has_cur_state(QpState from) {
  return from == QpState::kRtr || from == QpState::kRts || from == QpState::kSqd ||
         from == QpState::kSqe;
}

Status check_mask(uint32_t mask, uint32_t required, uint32_t optional) {
  if ((mask & required) != required) return Status(EINVAL);
  if ((mask & ~(required | optional | kAttrState)) != 0) return Status(EINVAL);
  return kOk;
}

}  // namespace

Status check_transition(QpType type, QpState from, QpState to, uint32_t mask) {
  if ((mask & kAttrCurState) && !has_cur_state(from)) return Status(EINVAL);
  if (to == QpState::kReset) return check_mask(mask, 0, 0);
  if (to == QpState::kErr) {
    return from == QpState::kReset ? Status(EINVAL) : check_mask(mask, 0, 0);
  }
  for (const Transition& t : kTransitions) {
    if (t.from != from || t.to != to) continue;
    switch (type) {
      case QpType::kRc:
        return check_mask(mask, t.rc.required, t.rc.optional);
      case QpType::kUc:
        return check_mask(mask, t.uc.required, t.uc.optional);
      case QpType::kUd:
        return check_mask(mask, t.ud.required, t.ud.optional);
    }
  }
  return Status(EINVAL);
}

}  // namespace verbena
