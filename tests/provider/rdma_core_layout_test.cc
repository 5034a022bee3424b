// Our declaration of libibverbs' private ABI against the headers of a real rdma-core tree.

#include "tests/provider/rdma_core_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "provider/rdma_core_abi.h"

namespace verbena::rdma {
namespace {

#define VERBENA_FIELD(theirs, their_field, ours, our_field) \
  { #theirs "." #their_field, offsetof(ours, our_field) }
#define VERBENA_OP(name) VERBENA_FIELD(verbs_context_ops, name, ContextOps, name)

#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // the structs with atomics

const std::map<std::string, size_t> kOurs = {
    {"verbs_match_ent", sizeof(MatchEntry)},
    VERBENA_FIELD(verbs_match_ent, driver_data, MatchEntry, driver_data),
    VERBENA_FIELD(verbs_match_ent, u, MatchEntry, u),
    VERBENA_FIELD(verbs_match_ent, vendor, MatchEntry, vendor),
    VERBENA_FIELD(verbs_match_ent, device, MatchEntry, device),
    VERBENA_FIELD(verbs_match_ent, kind, MatchEntry, kind),
    {"verbs_sysfs_dev", sizeof(SysfsDevice)},
    VERBENA_FIELD(verbs_sysfs_dev, match, SysfsDevice, match),
    VERBENA_FIELD(verbs_sysfs_dev, sysfs_name, SysfsDevice, sysfs_name),
    VERBENA_FIELD(verbs_sysfs_dev, sysfs_cdev, SysfsDevice, sysfs_cdev),
    VERBENA_FIELD(verbs_sysfs_dev, ibdev_name, SysfsDevice, ibdev_name),
    VERBENA_FIELD(verbs_sysfs_dev, ibdev_path, SysfsDevice, ibdev_path),
    VERBENA_FIELD(verbs_sysfs_dev, modalias, SysfsDevice, modalias),
    VERBENA_FIELD(verbs_sysfs_dev, node_guid, SysfsDevice, node_guid),
    VERBENA_FIELD(verbs_sysfs_dev, abi_ver, SysfsDevice, abi_ver),
    VERBENA_FIELD(verbs_sysfs_dev, time_created, SysfsDevice, time_created),
    {"verbs_device_ops", sizeof(DeviceOps)},
    VERBENA_FIELD(verbs_device_ops, name, DeviceOps, name),
    VERBENA_FIELD(verbs_device_ops, match_min_abi_version, DeviceOps, match_min_abi_version),
    VERBENA_FIELD(verbs_device_ops, match_max_abi_version, DeviceOps, match_max_abi_version),
    VERBENA_FIELD(verbs_device_ops, match_table, DeviceOps, match_table),
    VERBENA_FIELD(verbs_device_ops, static_providers, DeviceOps, static_providers),
    VERBENA_FIELD(verbs_device_ops, match_device, DeviceOps, match_device),
    VERBENA_FIELD(verbs_device_ops, alloc_context, DeviceOps, alloc_context),
    VERBENA_FIELD(verbs_device_ops, import_context, DeviceOps, import_context),
    VERBENA_FIELD(verbs_device_ops, alloc_device, DeviceOps, alloc_device),
    VERBENA_FIELD(verbs_device_ops, uninit_device, DeviceOps, uninit_device),
    {"verbs_device", sizeof(DeviceBase)},
    VERBENA_FIELD(verbs_device, device, DeviceBase, device),
    VERBENA_FIELD(verbs_device, ops, DeviceBase, ops),
    VERBENA_FIELD(verbs_device, refcount, DeviceBase, refcount),
    VERBENA_FIELD(verbs_device, entry, DeviceBase, entry),
    VERBENA_FIELD(verbs_device, sysfs, DeviceBase, sysfs),
    VERBENA_FIELD(verbs_device, core_support, DeviceBase, core_support),
    {"verbs_mr", sizeof(MrBase)},
    VERBENA_FIELD(verbs_mr, ibv_mr, MrBase, mr),
    VERBENA_FIELD(verbs_mr, mr_type, MrBase, type),
    VERBENA_FIELD(verbs_mr, access, MrBase, access),
    {"verbs_cq", sizeof(CqBase)},
    VERBENA_FIELD(ibv_cq_ex, start_poll, ibv_cq_ex, start_poll),
    VERBENA_FIELD(ibv_cq_ex, read_completion_ts, ibv_cq_ex, read_completion_ts),
    VERBENA_FIELD(ibv_qp_ex, wr_id, ibv_qp_ex, wr_id),
    VERBENA_FIELD(ibv_qp_ex, wr_abort, ibv_qp_ex, wr_abort),
    VERBENA_FIELD(verbs_context, context, verbs_context, context),
    {"verbs_context", sizeof(verbs_context)},
    {"verbs_context_ops", sizeof(ContextOps)},
    VERBENA_OP(alloc_pd),
    VERBENA_OP(async_event),
    VERBENA_OP(cq_event),
    VERBENA_OP(create_ah),
    VERBENA_OP(create_cq),
    VERBENA_OP(create_cq_ex),
    VERBENA_OP(create_qp),
    VERBENA_OP(create_srq),
    VERBENA_OP(create_qp_ex),
    VERBENA_OP(dealloc_pd),
    VERBENA_OP(dereg_mr),
    VERBENA_OP(destroy_ah),
    VERBENA_OP(destroy_cq),
    VERBENA_OP(destroy_qp),
    VERBENA_OP(destroy_srq),
    VERBENA_OP(free_context),
    VERBENA_OP(modify_qp),
    VERBENA_OP(modify_srq),
    VERBENA_OP(poll_cq),
    VERBENA_OP(post_recv),
    VERBENA_OP(post_send),
    VERBENA_OP(post_srq_recv),
    VERBENA_OP(query_device_ex),
    VERBENA_OP(query_port),
    VERBENA_OP(query_qp),
    VERBENA_OP(query_srq),
    VERBENA_OP(reg_mr),
    VERBENA_OP(req_notify_cq),
    VERBENA_OP(rereg_mr),
    VERBENA_OP(resize_cq),
    VERBENA_OP(unimport_pd),
};

TEST(RdmaCoreLayoutTest, EveryOffsetIsTheLibrarys) {
  size_t compared = 0;
  for (const layout_entry* entry = rdma_core_layout; entry->name != nullptr; ++entry) {
    const std::string name = entry->name;
    if (name == "verbs_qp.comp_mask") continue;
    ASSERT_TRUE(kOurs.contains(name)) << name;
    EXPECT_EQ(kOurs.at(name), entry->bytes) << name;
    ++compared;
  }
  EXPECT_EQ(compared, kOurs.size());
}

TEST(RdmaCoreLayoutTest, MaskBehindQpExIsOneOfOurThree) {
  for (const layout_entry* entry = rdma_core_layout; entry->name != nullptr; ++entry) {
    if (std::string(entry->name) != "verbs_qp.comp_mask") continue;
    const size_t first = offsetof(QpBase, tail.comp_mask);
    EXPECT_GE(entry->bytes, first);
    EXPECT_LE(entry->bytes, first + 2 * sizeof(uint64_t));
    EXPECT_EQ((entry->bytes - first) % sizeof(uint64_t), 0U);
    return;
  }
  FAIL() << "rdma_core_layout.c does not list verbs_qp.comp_mask";
}

TEST(RdmaCoreLayoutTest, BitsAreTheLibrarys) {
  EXPECT_EQ(kCoreSupportOptionalMrAccess, rdma_core_core_support_bit);
  EXPECT_EQ(kQpHasEx, rdma_core_qp_ex_bit);
}

}  // namespace
}  // namespace verbena::rdma
