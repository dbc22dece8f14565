/* Tensors of alternatives by their names; part of the reader of containers. */
#ifndef NNAPI_CONTEXT_FLOW_H
#define NNAPI_CONTEXT_FLOW_H
#include "container.h"

/* A tensor by its name, whose text begins there, and the parts that run before it is there. */
typedef struct {
  const char *text;
  const ctx_crossing *crossing;
  uint32_t since;
} ctx_named;

/* Checks one side of the chosen alternative: a tensor may enter NNAPI in two layouts, but is one;
 * one that leaves is written once. */
bool ctx_check_names(const ctx_container *container, bool output, ctx_error *error);

/* Checks the chosen alternative, a partition: each part reads what enters the partition or an
 * earlier part made, and what leaves the partition was made by a part. */
bool ctx_check_flow(ctx_container *container, ctx_error *error);

/* The tensors of the chosen alternative, a partition: those that enter it, and what its parts make,
 * in the order of their names; to be freed. NULL if memory is short. */
ctx_named *ctx_flow_of(const ctx_container *container, uint32_t *count);

/* Finds a tensor of the partition, or of one of its parts, among them; NULL if there is none. */
const ctx_named *ctx_find_named(const ctx_named *tensors, uint32_t count,
                                const ctx_container *container, const ctx_crossing *crossing);

#endif
