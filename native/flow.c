/* Tensors of alternatives by their names: see flow.h. */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *text;
  const ctx_crossing *crossing;
  uint32_t since; /* parts that run before it is there */
} end;

int ctx_compare_names(const char *a, const ctx_crossing *x, const char *b, const ctx_crossing *y) {
  const uint32_t m = x->name.count, n = y->name.count;
  const int order = memcmp(a, b, m < n ? m : n);
  return order != 0 ? order : (m > n) - (m < n);
}

static int compare_names(const void *a, const void *b) {
  const end *x = a, *y = b;
  return ctx_compare_names(x->text, x->crossing, y->text, y->crossing);
}

bool ctx_check_names(const ctx_container *c, bool output, ctx_error *error) {
  const ctx_crossing *crossings = output ? c->outputs : c->inputs;
  const uint32_t count = output ? c->chosen->outputs.count : c->chosen->inputs.count;
  const bool once = output || c->chosen->kind != CTX_KIND_NNAPI;
  end *ends = calloc((size_t)count + 1, sizeof *ends);
  bool right = true;
  uint32_t i;
  if (ends == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++) {
    ends[i].text = c->text + crossings[i].name.first;
    ends[i].crossing = &crossings[i];
  }
  qsort(ends, count, sizeof *ends, compare_names);
  for (i = 1; i < count && right; i++)
    right = compare_names(&ends[i - 1], &ends[i]) != 0 ||
            (!once && ctx_same_tensor(c, ends[i - 1].crossing, c, ends[i].crossing));
  free(ends);
  return right || ctx_malformed(error, "two tensors at the border have one name");
}

static void add_ends(const ctx_container *c, ctx_range crossings, uint32_t since, end *ends,
                     uint32_t *count) {
  uint32_t i;
  for (i = 0; i < crossings.count; i++) {
    const ctx_crossing *crossing = &c->crossings[crossings.first + i];
    ends[(*count)++] = (end){c->text + crossing->name.first, crossing, since};
  }
}

/* True if the tensors are among those that are there after so many parts. */
static bool are_there(const ctx_container *c, ctx_range read, const end *ends, uint32_t count,
                      uint32_t least, uint32_t parts) {
  uint32_t i;
  for (i = 0; i < read.count; i++) {
    const ctx_crossing *crossing = &c->crossings[read.first + i];
    const end wanted = {c->text + crossing->name.first, crossing, 0};
    const end *found = bsearch(&wanted, ends, count, sizeof *ends, compare_names);
    if (found == NULL || found->since < least || found->since > parts ||
        !ctx_same_tensor(c, found->crossing, c, crossing))
      return false;
  }
  return true;
}

bool ctx_check_flow(ctx_container *c, ctx_error *error) {
  const ctx_alternative *parts = c->alternatives + c->chosen->parts.first;
  const uint32_t part_count = c->chosen->parts.count;
  uint64_t most = c->chosen->inputs.count;
  uint32_t i, count = 0;
  bool right = true;
  end *ends;
  for (i = 0; i < part_count; i++) most += (uint64_t)parts[i].inputs.count + parts[i].outputs.count;
  c->referenced += most;
  if (c->referenced > c->header->program_size)
    return ctx_malformed(error, "partitions share their parts");
  ends = calloc((size_t)most + 1, sizeof *ends);
  if (ends == NULL) return ctx_out_of_memory(error);
  add_ends(c, c->chosen->inputs, 0, ends, &count);
  for (i = 0; i < part_count; i++) add_ends(c, parts[i].outputs, i + 1, ends, &count);
  qsort(ends, count, sizeof *ends, compare_names);
  for (i = 1; i < count && right; i++) right = compare_names(&ends[i - 1], &ends[i]) != 0;
  if (!right) ctx_malformed(error, "a part makes a tensor that is there already");
  for (i = 0; i <= part_count && right; i++) {
    const ctx_range read = i < part_count ? parts[i].inputs : c->chosen->outputs;
    right = are_there(c, read, ends, count, i == part_count, i) ||
            ctx_malformed(error, "a tensor is read before a part makes it so");
  }
  free(ends);
  return right;
}
