/* Engines: see engine.h. */
#define _POSIX_C_SOURCE 200809L
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow.h"
#include "litert.h"
#include "sha256.h"

/* An NNAPI program. */
static bool run_program(ctx_engine *e, const void *const *inputs, void *const *outputs,
                        ctx_error *error) {
  return ctx_program_run(e->program, inputs, outputs, error);
}

static void free_program(ctx_engine *e) {
  ctx_program_free(e->program);
  free(e);
}

static bool open_program(const ctx_place *place, const ctx_container *c, ctx_weights *weights,
                         ctx_engine **out, ctx_error *error) {
  ctx_engine *e = calloc(1, sizeof *e);
  if (e == NULL) return ctx_out_of_memory(error);
  e->run = run_program;
  e->free = free_program;
  if (place->nnapi == NULL)
    ctx_fail(error, "there is no NNAPI library");
  else if (ctx_program_create(place->nnapi, c, weights, &place->options, &e->program, error))
    return *out = e, true;
  free(e);
  return false;
}

/* A LiteRT flatbuffer, whose tensors go by their names. */
typedef struct {
  ctx_engine base;
  ctx_litert_model *model;
  uint32_t inputs, outputs;
  uint32_t *crossings; /* of the flatbuffer's inputs, then its outputs */
} litert_engine;

enum { FEW = 32 };

static bool run_litert(ctx_engine *base, const void *const *inputs, void *const *outputs,
                       ctx_error *error) {
  const litert_engine *e = (const litert_engine *)base;
  const void *in[FEW];
  void *leaving[FEW];
  uint32_t i;
  for (i = 0; i < e->inputs; i++) in[i] = inputs[e->crossings[i]];
  for (i = 0; i < e->outputs; i++) leaving[i] = outputs[e->crossings[e->inputs + i]];
  return ctx_litert_run(e->model, in, leaving, error);
}

static void free_litert(ctx_engine *base) {
  litert_engine *e = (litert_engine *)base;
  if (e->model != NULL) ctx_litert_free(e->model);
  free(e->crossings);
  free(e);
}

static bool find_crossing(const ctx_container *c, const ctx_litert_tensor *tensor, bool output,
                          uint32_t *out) {
  const ctx_crossing *crossings = output ? c->outputs : c->inputs;
  const uint32_t count = output ? c->chosen->outputs.count : c->chosen->inputs.count;
  for (*out = 0; *out < count; ++*out)
    if (ctx_text_is(c, crossings[*out].name, tensor->name))
      return ctx_tensor_bytes(c, &crossings[*out]) == tensor->bytes;
  return false;
}

static bool bind_litert(litert_engine *e, const ctx_container *c, ctx_error *error) {
  const ctx_litert_tensor *tensors = ctx_litert_tensors(e->model, &e->inputs, &e->outputs);
  uint32_t i;
  e->crossings = calloc((size_t)e->inputs + e->outputs + 1, sizeof *e->crossings);
  if (e->crossings == NULL) return ctx_out_of_memory(error);
  if (e->inputs > FEW || e->outputs > FEW || e->outputs != c->chosen->outputs.count)
    return ctx_malformed(error, "a flatbuffer has other tensors than its alternative");
  for (i = 0; i < e->inputs + e->outputs; i++)
    if (!find_crossing(c, &tensors[i], i >= e->inputs, &e->crossings[i]))
      return ctx_malformed(error, "a flatbuffer has other tensors than its alternative");
  return true;
}

/* The file of packed weights: LiteRT takes any, so that it is named after all that they are from. */
static bool packed_path(const char *folder, const ctx_container *c, const ctx_weights *weights,
                        char *out, size_t capacity) {
  uint8_t digest[SHA256_BYTES];
  char name[17];
  sha256 hash;
  if (folder == NULL) return false;
  sha256_begin(&hash);
  sha256_add(&hash, weights->digest, sizeof weights->digest);
  sha256_add(&hash, c->packed + c->chosen->offset, (size_t)c->chosen->size);
  sha256_end(&hash, digest);
  sha256_hex(digest, (sizeof name - 1) / 2, name);
  return (size_t)snprintf(out, capacity, "%s/ep-nnapi-%s.packed", folder, name) < capacity;
}

/* Compiles it. New packed weights get their name when they are complete: another process may be
 * starting, or this one end. */
static bool compile_litert(const ctx_place *place, const ctx_container *c,
                           const ctx_weights *weights, ctx_litert *library, ctx_litert_model **out,
                           ctx_error *error) {
  enum { PATH = 4096, SUFFIX = 48 };
  static _Atomic uint32_t count;
  char path[PATH], partial[PATH + SUFFIX];
  const bool packs = place->accelerator == CTX_LITERT_CPU &&
                     packed_path(place->options.litert_cache_dir, c, weights, path, PATH);
  const bool is_new = packs && access(path, R_OK) != 0;
  const ctx_litert_options options = {
      .accelerator = place->accelerator,
      .threads = place->options.litert_threads,
      .half = place->options.litert_half,
      .weight_cache = is_new  ? partial
                      : packs ? path
                              : NULL,
  };
  const ctx_flatbuffer flatbuffer = {
      .model = c->packed + c->chosen->offset,
      .size = (size_t)c->chosen->size,
      .weights = weights->data,
      .weights_size = (size_t)c->header->weights_size,
      .mapped = weights->mapped != NULL,
  };
  bool compiled;
  if (is_new)
    snprintf(partial, sizeof partial, "%s.%ld-%u", path, (long)getpid(), (unsigned)count++);
  compiled = ctx_litert_compile(library, &flatbuffer, &options, out, error);
  if (is_new && !(compiled && rename(partial, path) == 0)) (void)unlink(partial);
  return compiled;
}

static bool open_litert(const ctx_place *place, const ctx_container *c, ctx_weights *weights,
                        ctx_engine **out, ctx_error *error) {
  litert_engine *e;
  ctx_litert *library;
  TRY(ctx_litert_open(place->options.litert, &library, error) &&
      ctx_weights_are_right(weights, error));
  e = calloc(1, sizeof *e);
  if (e == NULL) return ctx_out_of_memory(error);
  e->base.run = run_litert;
  e->base.free = free_litert;
  if (compile_litert(place, c, weights, library, &e->model, error) && bind_litert(e, c, error))
    return *out = &e->base, true;
  free_litert(&e->base);
  return false;
}

/* A partition: engines of its parts. Each tensor is one that enters or leaves it, or one between
 * parts, for which each run has memory. */
typedef struct {
  ctx_container container;
  ctx_engine *engine;
  uint32_t *inputs, *outputs; /* numbers of tensors */
} part;

typedef struct {
  const ctx_crossing *crossing;
  const char *name; /* its text begins there */
  size_t bytes;
  int64_t leaves; /* position among the outputs of the partition; -1: it is between parts */
} tensor;

typedef struct {
  ctx_engine base;
  uint32_t entering;          /* tensors that enter it, which are the first */
  tensor *tensors, **by_name; /* those in the order in which they are made, and of their names */
  uint32_t count;
  part *parts;
  uint32_t part_count;
} partition_engine;

static void free_partition(ctx_engine *base) {
  partition_engine *e = (partition_engine *)base;
  uint32_t i;
  for (i = 0; i < e->part_count; i++) {
    ctx_engine_free(e->parts[i].engine);
    free(e->parts[i].inputs);
    free(e->parts[i].outputs);
  }
  free(e->parts);
  free(e->by_name);
  free(e->tensors);
  free(e);
}

static bool allocate(const partition_engine *e, void **memory, ctx_error *error) {
  uint32_t i;
  for (i = e->entering; i < e->count; i++) {
    if (e->tensors[i].leaves >= 0) continue;
    memory[i] = ctx_aligned(e->tensors[i].bytes);
    if (memory[i] == NULL) return ctx_out_of_memory(error);
  }
  return true;
}

static bool run_part(const part *p, void **memory, ctx_error *error) {
  const ctx_alternative *a = p->container.chosen;
  void **given = calloc((size_t)a->inputs.count + a->outputs.count + 1, sizeof *given);
  uint32_t i;
  bool ran;
  if (given == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < a->inputs.count; i++) given[i] = memory[p->inputs[i]];
  for (i = 0; i < a->outputs.count; i++) given[a->inputs.count + i] = memory[p->outputs[i]];
  ran = p->engine->run(p->engine, (const void *const *)given, given + a->inputs.count, error);
  free(given);
  return ran;
}

static bool run_partition(ctx_engine *base, const void *const *inputs, void *const *outputs,
                          ctx_error *error) {
  const partition_engine *e = (const partition_engine *)base;
  void **memory = calloc((size_t)e->count + 1, sizeof *memory);
  bool ran = memory != NULL ? allocate(e, memory, error) : ctx_out_of_memory(error);
  uint32_t i;
  for (i = 0; ran && i < e->count; i++) {
    if (i < e->entering)
      memory[i] = (void *)(uintptr_t)inputs[i];
    else if (e->tensors[i].leaves >= 0)
      memory[i] = outputs[e->tensors[i].leaves];
  }
  for (i = 0; ran && i < e->part_count; i++) ran = run_part(&e->parts[i], memory, error);
  for (i = e->entering; memory != NULL && i < e->count; i++)
    if (e->tensors[i].leaves < 0) free(memory[i]);
  free(memory);
  return ran;
}

static int compare_tensors(const void *a, const void *b) {
  const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
  return ctx_compare_names(x->name, x->crossing, y->name, y->crossing);
}

/* The tensor of the same name, which a part made or which entered. */
static tensor *find_tensor(const partition_engine *e, const ctx_container *c,
                           const ctx_crossing *crossing) {
  const tensor wanted = {crossing, c->text + crossing->name.first, 0, -1}, *key = &wanted;
  return *(tensor **)bsearch(&key, e->by_name, e->count, sizeof *e->by_name, compare_tensors);
}

static uint32_t add_tensor(partition_engine *e, const ctx_container *c,
                           const ctx_crossing *crossing) {
  const char *name = c->text + crossing->name.first;
  e->by_name[e->count] = &e->tensors[e->count];
  e->tensors[e->count] = (tensor){crossing, name, ctx_tensor_bytes(c, crossing), -1};
  return e->count++;
}

static bool bind_outputs(partition_engine *e, part *p, ctx_error *error) {
  const ctx_container *c = &p->container;
  uint32_t i;
  p->inputs = calloc((size_t)c->chosen->inputs.count + 1, sizeof *p->inputs);
  p->outputs = calloc((size_t)c->chosen->outputs.count + 1, sizeof *p->outputs);
  if (p->inputs == NULL || p->outputs == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < c->chosen->outputs.count; i++) p->outputs[i] = add_tensor(e, c, &c->outputs[i]);
  return true;
}

static void bind_inputs(const partition_engine *e, part *p) {
  const ctx_container *c = &p->container;
  uint32_t i;
  for (i = 0; i < c->chosen->inputs.count; i++)
    p->inputs[i] = (uint32_t)(find_tensor(e, c, &c->inputs[i]) - e->tensors);
}

/* What a container says of the tensors was checked when it was read. */
static bool bind_partition(partition_engine *e, const ctx_container *c, ctx_error *error) {
  uint32_t i;
  for (i = 0; i < c->chosen->inputs.count; i++) add_tensor(e, c, &c->inputs[i]);
  e->entering = e->count;
  for (i = 0; i < e->part_count; i++) {
    e->parts[i].container = ctx_part(c, c->chosen->parts.first + i);
    TRY(bind_outputs(e, &e->parts[i], error));
  }
  qsort(e->by_name, e->count, sizeof *e->by_name, compare_tensors);
  for (i = 0; i < e->part_count; i++) bind_inputs(e, &e->parts[i]);
  for (i = 0; i < c->chosen->outputs.count; i++) find_tensor(e, c, &c->outputs[i])->leaves = i;
  return true;
}

static bool open_partition(const ctx_place *place, const ctx_container *c, ctx_weights *weights,
                           ctx_engine **out, ctx_error *error) {
  const uint32_t part_count = c->chosen->parts.count;
  partition_engine *e = calloc(1, sizeof *e);
  size_t tensors = c->chosen->inputs.count;
  bool opened = e != NULL;
  uint32_t i;
  for (i = 0; i < part_count; i++)
    tensors += c->alternatives[c->chosen->parts.first + i].outputs.count;
  if (opened) {
    e->base.run = run_partition;
    e->base.free = free_partition;
    e->tensors = calloc(tensors + 1, sizeof *e->tensors);
    e->by_name = calloc(tensors + 1, sizeof *e->by_name);
    e->parts = calloc(part_count, sizeof *e->parts);
    opened = e->tensors != NULL && e->by_name != NULL && e->parts != NULL;
  }
  if (!opened) ctx_out_of_memory(error);
  if (opened) {
    e->part_count = part_count;
    opened = bind_partition(e, c, error);
  }
  for (i = 0; opened && i < part_count; i++)
    opened = ctx_engine_open(place, &e->parts[i].container, weights, &e->parts[i].engine, error);
  if (opened) return *out = &e->base, true;
  if (e != NULL) free_partition(&e->base);
  return false;
}

bool ctx_engine_open(const ctx_place *place, const ctx_container *c, ctx_weights *weights,
                     ctx_engine **out, ctx_error *error) {
  switch (c->chosen->kind) {
    case CTX_KIND_NNAPI: return open_program(place, c, weights, out, error);
    case CTX_KIND_LITERT: return open_litert(place, c, weights, out, error);
    case CTX_KIND_PARTITION: return open_partition(place, c, weights, out, error);
    default:
      if (place->open_onnx == NULL)
        return ctx_fail(error, "it runs in ONNX Runtime alone, with the plugin");
      return ctx_weights_are_right(weights, error) && place->open_onnx(c, weights, out, error);
  }
}

void ctx_engine_free(ctx_engine *engine) {
  if (engine != NULL) engine->free(engine);
}
