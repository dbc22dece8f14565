/* Tensors of alternatives by their names: see flow.h. */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
  const ctx_named *x = a, *y = b;
  const uint32_t m = x->crossing->name.count, n = y->crossing->name.count;
  const int order = memcmp(x->text, y->text, m < n ? m : n);
  return order != 0 ? order : (m > n) - (m < n);
}

static ctx_named named(const ctx_container *c, const ctx_crossing *crossing, uint32_t since) {
  return (ctx_named){c->text + crossing->name.first, crossing, since};
}

bool ctx_check_names(const ctx_container *c, bool output, ctx_error *error) {
  const ctx_crossing *crossings = output ? c->outputs : c->inputs;
  const uint32_t count = output ? c->chosen->outputs.count : c->chosen->inputs.count;
  const bool once = output || c->chosen->kind != CTX_KIND_NNAPI;
  ctx_named *tensors = calloc((size_t)count + 1, sizeof *tensors);
  bool right = true;
  uint32_t i;
  if (tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++) tensors[i] = named(c, &crossings[i], 0);
  qsort(tensors, count, sizeof *tensors, compare_names);
  for (i = 1; i < count && right; i++)
    right = compare_names(&tensors[i - 1], &tensors[i]) != 0 ||
            (!once && ctx_same_tensor(c, tensors[i - 1].crossing, c, tensors[i].crossing));
  free(tensors);
  return right || ctx_malformed(error, "two tensors at the border have one name");
}

static void add_all(const ctx_container *c, ctx_range crossings, uint32_t since, ctx_named *tensors,
                    uint32_t *count) {
  uint32_t i;
  for (i = 0; i < crossings.count; i++)
    tensors[(*count)++] = named(c, &c->crossings[crossings.first + i], since);
}

ctx_named *ctx_flow_of(const ctx_container *c, uint32_t *count) {
  const ctx_alternative *parts = c->alternatives + c->chosen->parts.first;
  size_t most = c->chosen->inputs.count;
  ctx_named *tensors;
  uint32_t i;
  for (i = 0; i < c->chosen->parts.count; i++) most += parts[i].outputs.count;
  tensors = calloc(most + 1, sizeof *tensors);
  *count = 0;
  if (tensors == NULL) return NULL;
  add_all(c, c->chosen->inputs, 0, tensors, count);
  for (i = 0; i < c->chosen->parts.count; i++) add_all(c, parts[i].outputs, i + 1, tensors, count);
  qsort(tensors, *count, sizeof *tensors, compare_names);
  return tensors;
}

const ctx_named *ctx_find_named(const ctx_named *tensors, uint32_t count, const ctx_container *c,
                                const ctx_crossing *crossing) {
  const ctx_named wanted = named(c, crossing, 0);
  return bsearch(&wanted, tensors, count, sizeof *tensors, compare_names);
}

/* True if the tensors are among those that are there after so many parts. */
static bool are_there(const ctx_container *c, ctx_range read, const ctx_named *tensors,
                      uint32_t count, uint32_t least, uint32_t parts) {
  uint32_t i;
  for (i = 0; i < read.count; i++) {
    const ctx_crossing *crossing = &c->crossings[read.first + i];
    const ctx_named *found = ctx_find_named(tensors, count, c, crossing);
    if (found == NULL || found->since < least || found->since > parts ||
        !ctx_same_tensor(c, found->crossing, c, crossing))
      return false;
  }
  return true;
}

bool ctx_check_flow(ctx_container *c, ctx_error *error) {
  const ctx_alternative *parts = c->alternatives + c->chosen->parts.first;
  const uint32_t part_count = c->chosen->parts.count;
  ctx_named *tensors;
  uint32_t i, count;
  bool right = true;
  c->referenced += c->chosen->inputs.count;
  for (i = 0; i < part_count; i++)
    c->referenced += (uint64_t)parts[i].inputs.count + parts[i].outputs.count;
  if (c->referenced > c->header->program_size)
    return ctx_malformed(error, "partitions share their parts");
  tensors = ctx_flow_of(c, &count);
  if (tensors == NULL) return ctx_out_of_memory(error);
  for (i = 1; i < count && right; i++) right = compare_names(&tensors[i - 1], &tensors[i]) != 0;
  if (!right) ctx_malformed(error, "a part makes a tensor that is there already");
  for (i = 0; i <= part_count && right; i++) {
    const ctx_range read = i < part_count ? parts[i].inputs : c->chosen->outputs;
    right = are_there(c, read, tensors, count, i == part_count, i) ||
            ctx_malformed(error, "a tensor is read before a part makes it so");
  }
  free(tensors);
  return right;
}
