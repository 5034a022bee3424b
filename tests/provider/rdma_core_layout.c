/* The layouts of rdma-core's private structures, taken from its own headers. */

/* driver.h needs nothing from these two but the names of structs that it points to. */
#define KERN_ABI_H
#define __INFINIBAND_VERBS_IOCTL_H
#include <assert.h>
#include <infiniband/driver.h>
#include <stddef.h>

#include "rdma_core_layout.h"

#define FIELD(type, field) {#type "." #field, offsetof(struct type, field)}
#define SIZE(type) {#type, sizeof(struct type)}

const struct layout_entry rdma_core_layout[] = {
    SIZE(verbs_match_ent),
    FIELD(verbs_match_ent, driver_data),
    FIELD(verbs_match_ent, u),
    FIELD(verbs_match_ent, vendor),
    FIELD(verbs_match_ent, device),
    FIELD(verbs_match_ent, kind),
    SIZE(verbs_sysfs_dev),
    FIELD(verbs_sysfs_dev, match),
    FIELD(verbs_sysfs_dev, sysfs_name),
    FIELD(verbs_sysfs_dev, sysfs_cdev),
    FIELD(verbs_sysfs_dev, ibdev_name),
    FIELD(verbs_sysfs_dev, ibdev_path),
    FIELD(verbs_sysfs_dev, modalias),
    FIELD(verbs_sysfs_dev, node_guid),
    FIELD(verbs_sysfs_dev, abi_ver),
    FIELD(verbs_sysfs_dev, time_created),
    SIZE(verbs_device_ops),
    FIELD(verbs_device_ops, name),
    FIELD(verbs_device_ops, match_min_abi_version),
    FIELD(verbs_device_ops, match_max_abi_version),
    FIELD(verbs_device_ops, match_table),
    FIELD(verbs_device_ops, static_providers),
    FIELD(verbs_device_ops, match_device),
    FIELD(verbs_device_ops, alloc_context),
    FIELD(verbs_device_ops, import_context),
    FIELD(verbs_device_ops, alloc_device),
    FIELD(verbs_device_ops, uninit_device),
    SIZE(verbs_device),
    FIELD(verbs_device, device),
    FIELD(verbs_device, ops),
    FIELD(verbs_device, refcount),
    FIELD(verbs_device, entry),
    FIELD(verbs_device, sysfs),
    FIELD(verbs_device, core_support),
    SIZE(verbs_mr),
    FIELD(verbs_mr, ibv_mr),
    FIELD(verbs_mr, mr_type),
    FIELD(verbs_mr, access),
    FIELD(verbs_qp, comp_mask),
    SIZE(verbs_cq),
    FIELD(ibv_cq_ex, start_poll),
    FIELD(ibv_cq_ex, read_completion_ts),
    FIELD(ibv_qp_ex, wr_id),
    FIELD(ibv_qp_ex, wr_abort),
    FIELD(verbs_context, context),
    SIZE(verbs_context),
    SIZE(verbs_context_ops),
    FIELD(verbs_context_ops, alloc_pd),
    FIELD(verbs_context_ops, async_event),
    FIELD(verbs_context_ops, cq_event),
    FIELD(verbs_context_ops, create_ah),
    FIELD(verbs_context_ops, create_cq),
    FIELD(verbs_context_ops, create_cq_ex),
    FIELD(verbs_context_ops, create_qp),
    FIELD(verbs_context_ops, create_srq),
    FIELD(verbs_context_ops, create_qp_ex),
    FIELD(verbs_context_ops, dealloc_pd),
    FIELD(verbs_context_ops, dereg_mr),
    FIELD(verbs_context_ops, destroy_ah),
    FIELD(verbs_context_ops, destroy_cq),
    FIELD(verbs_context_ops, destroy_qp),
    FIELD(verbs_context_ops, destroy_srq),
    FIELD(verbs_context_ops, free_context),
    FIELD(verbs_context_ops, modify_qp),
    FIELD(verbs_context_ops, modify_srq),
    FIELD(verbs_context_ops, poll_cq),
    FIELD(verbs_context_ops, post_recv),
    FIELD(verbs_context_ops, post_send),
    FIELD(verbs_context_ops, post_srq_recv),
    FIELD(verbs_context_ops, query_device_ex),
    FIELD(verbs_context_ops, query_port),
    FIELD(verbs_context_ops, query_qp),
    FIELD(verbs_context_ops, query_srq),
    FIELD(verbs_context_ops, reg_mr),
    FIELD(verbs_context_ops, req_notify_cq),
    FIELD(verbs_context_ops, rereg_mr),
    FIELD(verbs_context_ops, resize_cq),
    FIELD(verbs_context_ops, unimport_pd),
    {NULL, 0},
};

const size_t rdma_core_core_support_bit = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
const size_t rdma_core_qp_ex_bit = VERBS_QP_EX;
