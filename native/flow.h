/* Tensors of alternatives by their names; part of the reader of containers. */
#ifndef NNAPI_CONTEXT_FLOW_H
#define NNAPI_CONTEXT_FLOW_H

#include "container.h"

/* The order of two tensors by their names, whose texts are those of their containers. */
int ctx_compare_names(const char *a, const ctx_crossing *x, const char *b, const ctx_crossing *y);

/* Checks one side of the chosen alternative: a tensor may enter NNAPI in two layouts, but is one;
 * one that leaves is written once. */
bool ctx_check_names(const ctx_container *container, bool output, ctx_error *error);

/* Checks the chosen alternative, a partition: each part reads what enters the partition or an
 * earlier part made, and what leaves the partition was made by a part. */
bool ctx_check_flow(ctx_container *container, ctx_error *error);

#endif
