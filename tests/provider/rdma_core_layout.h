/* What rdma_core_layout.c finds in a real rdma-core tree: "struct" is a size, "struct.field" an
 * offset, both in bytes. Plain C, since rdma-core's private headers are. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct layout_entry {
  const char* name;
  size_t bytes;
};

extern const struct layout_entry rdma_core_layout[]; /* ends with a null name */
extern const size_t rdma_core_core_support_bit;
extern const size_t rdma_core_qp_ex_bit;

#ifdef __cplusplus
}
#endif
