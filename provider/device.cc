// Finding and opening a device, its attributes, and the table of verbs.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "provider/preload/preload_api.h"
#include "provider/provider.h"

namespace verbena::provider {

namespace {

// class/infiniband_verbs/uverbsN/abi_version, which the daemon writes.
constexpr uint32_t kDriverAbi = abi::kAbiVersion;
constexpr uint32_t kDriverUnknown = 0;            // RDMA_DRIVER_UNKNOWN
constexpr uint64_t kPageSizes = 0xFFFFF000;       // every power of two from 4 KiB
constexpr uint8_t kLocalCaAckDelay = 15;          // 4.096 us * 2^15: a software device may be late
constexpr uint64_t kTimestampClockKhz = 1000000;  // completion timestamps count nanoseconds

// ---- Discovery ----

// The daemon marks its devices with a file `verbena` in their sysfs directory.
bool match_device(rdma::SysfsDevice* device) {
  // `verbena run --device D` hides the others.
  const char* wanted = std::getenv("VERBENA_DEVICE");
  if (wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, device->ibdev_name) != 0) {
    return false;
  }
  char path[IBV_SYSFS_PATH_MAX + sizeof "/verbena"];
  std::snprintf(path, sizeof path, "%s/verbena", device->ibdev_path);
  return access(path, R_OK) == 0;
}

rdma::DeviceBase* alloc_device(rdma::SysfsDevice*) {
  void* memory = std::calloc(1, sizeof(rdma::DeviceBase));
  if (memory == nullptr) return nullptr;
  auto* device = new (memory) rdma::DeviceBase();
  device->core_support = rdma::kCoreSupportOptionalMrAccess;
  return device;
}

void uninit_device(rdma::DeviceBase* device) {
  std::free(device);
}

// ---- Opening ----

// fds[0] WorkerPage, [1] DoorbellPage: mapped and closed here.
int map_pages(Context& context, const int* fds) {
  const int worker_error =
      map_region(fds[0], sizeof(abi::WorkerPage), PROT_READ, context.worker_mapping);
  const int doorbell_error = map_region(fds[1], sizeof(abi::DoorbellPage), PROT_READ | PROT_WRITE,
                                        context.doorbell_mapping);
  context.worker = reinterpret_cast<const abi::WorkerPage*>(context.worker_mapping.base);
  context.doorbells = reinterpret_cast<abi::DoorbellPage*>(context.doorbell_mapping.base);
  return worker_error != 0 ? worker_error : doorbell_error;
}

int introduce(Context& context, const char* device_name) {
  abi::OpenDevice body{};
  std::snprintf(body.device_name, sizeof body.device_name, "%s", device_name);
  // The daemon reaches registered memory through this descriptor.
  const int memory_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory_fd < 0) {
    const int error = errno;
    std::fprintf(stderr,
                 "verbena: cannot open /proc/self/mem: %s (a program that changed its user id or "
                 "is not dumpable cannot use this device)\n",
                 strerror(error));
    return error;
  }
  abi::OpenDeviceReply reply;
  int fds[4];
  const int error = context.control.call(abi::Op::kOpenDevice, {&body, sizeof body, &memory_fd, 1},
                                         {&reply, sizeof reply, fds, 4});
  close(memory_fd);
  if (error != 0) {
    std::fprintf(stderr, "verbena: the daemon refused to open %s: %s%s\n", device_name,
                 strerror(error),
                 error == EPROTO ? " (daemon and provider are of different versions)" : "");
    return error;
  }
  context.limits = reply.limits;
  context.base.context.async_fd = fds[2];
  context.kick_fd = fds[3];
  return map_pages(context, fds);
}

int create_channel(void* opaque) {
  auto* context = static_cast<Context*>(opaque);
  abi::Handle reply;
  int fd;
  int error = call(context->control, abi::Op::kCreateChannel, abi::Empty{}, reply, &fd, 1);
  if (error != 0) return -error;
  error = context->channels.add(fd, reply.handle);
  if (error != 0) {
    close(fd);
    return -error;
  }
  return fd;
}

// Completion channels need the preload library; everything else works without it.
void register_with_preload(Context& context) {
  auto* add = reinterpret_cast<decltype(&verbena_preload_register)>(
      dlsym(RTLD_DEFAULT, "verbena_preload_register"));
  if (add == nullptr) return;
  context.preload_registered = add(context.base.context.cmd_fd, create_channel, &context) == 0;
}

void unregister_from_preload(Context& context) {
  if (!context.preload_registered) return;
  auto* remove = reinterpret_cast<decltype(&verbena_preload_unregister)>(
      dlsym(RTLD_DEFAULT, "verbena_preload_unregister"));
  if (remove != nullptr) remove(context.base.context.cmd_fd);
}

void discard(Context* context) {
  unregister_from_preload(*context);
  // In a forked child the pages are not mapped: their addresses may be in other use.
  if (context->control.ours()) {
    unmap_region(context->worker_mapping);
    unmap_region(context->doorbell_mapping);
  }
  if (context->kick_fd >= 0) close(context->kick_fd);
  context->control.close();
  context->channels.~ChannelTable();
  pthread_mutex_destroy(&context->qp_mutex);
  verbs_uninit_context(&context->base);
  std::free(context);
}

// ---- Attributes ----

void fill_attributes(const abi::DeviceLimits& limits, ibv_device_attr& attr) {
  std::memcpy(attr.fw_ver, limits.fw_ver, sizeof attr.fw_ver);
  attr.fw_ver[sizeof attr.fw_ver - 1] = '\0';
  attr.node_guid = limits.node_guid;
  attr.sys_image_guid = limits.sys_image_guid;
  attr.max_mr_size = limits.max_mr_size;
  attr.page_size_cap = kPageSizes;
  attr.vendor_id = limits.vendor_id;
  attr.vendor_part_id = limits.vendor_part_id;
  attr.hw_ver = limits.hw_ver;
  attr.max_qp = static_cast<int>(limits.max_qp);
  attr.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
  attr.max_sge = static_cast<int>(limits.max_sge);
  attr.max_sge_rd = static_cast<int>(limits.max_sge);
  attr.max_cq = static_cast<int>(limits.max_cq);
  attr.max_cqe = static_cast<int>(limits.max_cqe);
  attr.max_mr = static_cast<int>(limits.max_mr);
  attr.max_pd = static_cast<int>(limits.max_pd);
  attr.max_qp_rd_atom = static_cast<int>(limits.max_qp_rd_atom);
  attr.max_res_rd_atom = static_cast<int>(limits.max_qp_rd_atom * limits.max_qp);
  attr.max_qp_init_rd_atom = static_cast<int>(limits.max_qp_init_rd_atom);
  attr.atomic_cap = IBV_ATOMIC_NONE;
  attr.max_ah = static_cast<int>(limits.max_ah);
  attr.max_srq = static_cast<int>(limits.max_srq);
  attr.max_srq_wr = static_cast<int>(limits.max_srq_wr);
  attr.max_srq_sge = static_cast<int>(limits.max_srq_sge);
  attr.max_pkeys = static_cast<uint16_t>(limits.max_pkeys);
  attr.local_ca_ack_delay = kLocalCaAckDelay;
  attr.phys_port_cnt = 1;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t attr_size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex all{};
  fill_attributes(to_context(context)->limits, all.orig_attr);
  all.completion_timestamp_mask = UINT64_MAX;
  all.hca_core_clock = kTimestampClockKhz;
  all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
  all.phys_port_cnt_ex = 1;
  // The caller may be older (a shorter struct) or newer (a longer one) than we are.
  std::memset(static_cast<void*>(attr), 0, attr_size);
  std::memcpy(static_cast<void*>(attr), &all, attr_size < sizeof all ? attr_size : sizeof all);
  return 0;
}

int query_port(ibv_context* context, uint8_t port_num, ibv_port_attr* attr) {
  if (port_num != 1) return EINVAL;
  abi::PortAttr port;
  const int error = call(to_context(context)->control, abi::Op::kQueryPort, abi::Empty{}, port);
  if (error != 0) return error;
  attr->state = static_cast<ibv_port_state>(port.state);
  attr->max_mtu = static_cast<ibv_mtu>(port.max_mtu);
  attr->active_mtu = static_cast<ibv_mtu>(port.active_mtu);
  attr->gid_tbl_len = static_cast<int>(port.gid_tbl_len);
  attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr->max_msg_sz = port.max_msg_sz;
  attr->bad_pkey_cntr = port.bad_pkey_cntr;
  attr->pkey_tbl_len = static_cast<uint16_t>(port.pkey_tbl_len);
  attr->max_vl_num = 1;
  attr->active_width = static_cast<uint8_t>(port.active_width);
  attr->active_speed = static_cast<uint8_t>(port.active_speed);
  attr->phys_state = static_cast<uint8_t>(port.phys_state);
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  attr->flags = IBV_QPF_GRH_REQUIRED;
  return 0;
}

void free_context(ibv_context* context) {
  discard(to_context(context));
}

rdma::ContextOps context_ops() {
  rdma::ContextOps ops{};
  ops.alloc_pd = alloc_pd;
  ops.create_ah = create_ah;
  ops.create_cq = create_cq;
  ops.create_cq_ex = create_cq_ex;
  ops.create_qp = create_qp;
  ops.create_qp_ex = create_qp_ex;
  ops.create_srq = create_srq;
  ops.dealloc_pd = dealloc_pd;
  ops.dereg_mr = dereg_mr;
  ops.destroy_ah = destroy_ah;
  ops.destroy_cq = destroy_cq;
  ops.destroy_qp = destroy_qp;
  ops.destroy_srq = destroy_srq;
  ops.free_context = free_context;
  ops.modify_qp = modify_qp;
  ops.modify_srq = modify_srq;
  ops.poll_cq = poll_cq;
  ops.post_recv = post_recv;
  ops.post_send = post_send;
  ops.post_srq_recv = post_srq_recv;
  ops.query_device_ex = query_device_ex;
  ops.query_port = query_port;
  ops.query_qp = query_qp;
  ops.query_srq = query_srq;
  ops.reg_mr = reg_mr;
  ops.req_notify_cq = req_notify_cq;
  ops.rereg_mr = rereg_mr;
  ops.resize_cq = resize_cq;
  return ops;
}

verbs_context* alloc_context(ibv_device* device, int cmd_fd, void*) {
  static_assert(offsetof(Context, base) == 0);
  void* memory =
      _verbs_init_and_alloc_context(device, cmd_fd, sizeof(Context), nullptr, kDriverUnknown);
  if (memory == nullptr) return nullptr;
  auto* context = static_cast<Context*>(memory);
  new (&context->control) ControlClient;
  new (&context->channels) ChannelTable;
  pthread_mutex_init(&context->qp_mutex, nullptr);
  context->kick_fd = -1;
  context->base.context.num_comp_vectors = 1;

  int error = context->control.open();
  if (error == 0) error = introduce(*context, device->name);
  if (error != 0) {
    discard(context);
    return fail(error);
  }
  register_with_preload(*context);
  const rdma::ContextOps ops = context_ops();
  verbs_set_ops(&context->base, &ops);
  return &context->base;
}

const rdma::MatchEntry kNoMatches[] = {{nullptr, {nullptr}, 0, 0, rdma::kMatchSentinel}};

const rdma::DeviceOps kDeviceOps = {
    .name = "verbena",
    .match_min_abi_version = kDriverAbi,
    .match_max_abi_version = kDriverAbi,
    .match_table = kNoMatches,
    .static_providers = nullptr,
    .match_device = match_device,
    .alloc_context = alloc_context,
    .import_context = nullptr,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

__attribute__((constructor)) void register_provider() {
  verbs_register_driver_34(&kDeviceOps);
}

}  // namespace

int map_region(int fd, size_t bytes, int protection, Mapping& mapping) {
  void* base = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  const int error = base == MAP_FAILED ? errno : 0;
  close(fd);
  if (error != 0) return error;
  // A child that wrote to the rings would speak for its parent.
  madvise(base, bytes, MADV_DONTFORK);
  mapping = {static_cast<uint8_t*>(base), bytes};
  return 0;
}

void unmap_region(Mapping& mapping) {
  if (mapping.base != nullptr) munmap(mapping.base, mapping.bytes);
  mapping = {};
}

ChannelTable::~ChannelTable() {
  std::free(entries_);
}

int ChannelTable::add(int fd, uint32_t handle) {
  pthread_mutex_lock(&mutex_);
  int error = 0;
  size_t i = 0;
  while (i < count_ && entries_[i].fd != fd) ++i;
  if (i == capacity_) {
    const size_t capacity = capacity_ == 0 ? 8 : capacity_ * 2;
    auto* entries = static_cast<Entry*>(std::realloc(entries_, capacity * sizeof(Entry)));
    if (entries == nullptr) {
      error = ENOMEM;
    } else {
      entries_ = entries;
      capacity_ = capacity;
    }
  }
  if (error == 0) {
    entries_[i] = {fd, handle};
    if (i == count_) ++count_;
  }
  pthread_mutex_unlock(&mutex_);
  return error;
}

uint32_t ChannelTable::find(int fd) {
  pthread_mutex_lock(&mutex_);
  uint32_t handle = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (entries_[i].fd == fd) handle = entries_[i].handle;
  }
  pthread_mutex_unlock(&mutex_);
  return handle;
}

}  // namespace verbena::provider
