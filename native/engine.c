/* Engines: see engine.h. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow.h"
#include "litert.h"
#include "sha256.h"

/* An NNAPI program. */
static bool run_program(ctx_engine *e, void *const *tensors, ctx_error *error) {
  return ctx_program_run(e->program, tensors, error);
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
  uint32_t *tensors; /* of the alternative: those of the flatbuffer's inputs, then its outputs */
} litert_engine;

enum { FEW = 32, MOST = 2 * FEW };

static bool run_litert(ctx_engine *base, void *const *tensors, ctx_error *error) {
  const litert_engine *e = (const litert_engine *)base;
  void *own[MOST];
  uint32_t i;
  for (i = 0; i < e->inputs + e->outputs; i++) own[i] = tensors[e->tensors[i]];
  return ctx_litert_run(e->model, (const void *const *)own, own + e->inputs, error);
}

static void free_litert(ctx_engine *base) {
  litert_engine *e = (litert_engine *)base;
  if (e->model != NULL) ctx_litert_free(e->model);
  free(e->tensors);
  free(e);
}

static bool bind_litert(litert_engine *e, const ctx_container *c, ctx_error *error) {
  const ctx_litert_tensor *tensors = ctx_litert_tensors(e->model, &e->inputs, &e->outputs);
  bool right = e->inputs <= FEW && e->outputs <= FEW && e->outputs == c->chosen->outputs.count;
  uint32_t i;
  e->tensors = calloc((size_t)e->inputs + e->outputs + 1, sizeof *e->tensors);
  if (e->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; right && i < e->inputs + e->outputs; i++)
    right = ctx_find_tensor(c, i >= e->inputs, tensors[i].name, strlen(tensors[i].name),
                            &e->tensors[i]) &&
            ctx_tensor_bytes(c, ctx_tensor_at(c, e->tensors[i])) == tensors[i].bytes;
  return right || ctx_malformed(error, "a flatbuffer has other tensors than its alternative");
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
  uint32_t *tensors; /* numbers of its tensors in the whole */
} part;

typedef struct {
  ctx_engine base;
  ctx_named *tensors; /* all */
  uint32_t count, part_count;
  part whole, *parts; /* the partition itself, without an engine; its parts */
} partition_engine;

static void free_partition(ctx_engine *base) {
  partition_engine *e = (partition_engine *)base;
  uint32_t i;
  for (i = 0; e->parts != NULL && i < e->part_count; i++) {
    ctx_engine_free(e->parts[i].engine);
    free(e->parts[i].tensors);
  }
  free(e->parts);
  free(e->whole.tensors);
  free(e->tensors);
  free(e);
}

static bool run_part(const part *p, void *const *memory, ctx_error *error) {
  const uint32_t count = ctx_tensor_count(&p->container);
  void **own = calloc((size_t)count + 1, sizeof *own);
  uint32_t i;
  bool ran;
  if (own == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++) own[i] = memory[p->tensors[i]];
  ran = p->engine->run(p->engine, own, error);
  free(own);
  return ran;
}

static bool run_parts(const partition_engine *e, void **memory, ctx_error *error) {
  uint32_t i;
  for (i = 0; i < e->count; i++) {
    if (memory[i] != NULL) continue;
    memory[i] = ctx_aligned(ctx_tensor_bytes(&e->whole.container, e->tensors[i].crossing));
    if (memory[i] == NULL) return ctx_out_of_memory(error);
  }
  for (i = 0; i < e->part_count; i++) TRY(run_part(&e->parts[i], memory, error));
  return true;
}

static bool run_partition(ctx_engine *base, void *const *tensors, ctx_error *error) {
  const partition_engine *e = (const partition_engine *)base;
  const uint32_t given = ctx_tensor_count(&e->whole.container);
  void **memory = calloc((size_t)e->count + 1, sizeof *memory);
  uint32_t i;
  bool ran;
  if (memory == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < given; i++) memory[e->whole.tensors[i]] = tensors[i];
  ran = run_parts(e, memory, error);
  for (i = 0; i < given; i++) memory[e->whole.tensors[i]] = NULL;
  for (i = 0; i < e->count; i++) free(memory[i]);
  free(memory);
  return ran;
}

/* What a container says of the tensors was checked when it was read. */
static bool bind_part(const partition_engine *e, const ctx_container *c, part *p,
                      ctx_error *error) {
  uint32_t i;
  p->container = *c;
  p->tensors = calloc((size_t)ctx_tensor_count(c) + 1, sizeof *p->tensors);
  if (p->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < ctx_tensor_count(c); i++)
    p->tensors[i] =
        (uint32_t)(ctx_find_named(e->tensors, e->count, c, ctx_tensor_at(c, i)) - e->tensors);
  return true;
}

static bool open_parts(partition_engine *e, const ctx_place *place, const ctx_container *c,
                       ctx_weights *weights, ctx_error *error) {
  uint32_t i;
  e->part_count = c->chosen->parts.count;
  e->tensors = ctx_flow_of(c, &e->count);
  e->parts = calloc(e->part_count, sizeof *e->parts);
  if (e->tensors == NULL || e->parts == NULL) return ctx_out_of_memory(error);
  TRY(bind_part(e, c, &e->whole, error));
  for (i = 0; i < e->part_count; i++) {
    const ctx_container own = ctx_part(c, c->chosen->parts.first + i);
    part *p = &e->parts[i];
    TRY(bind_part(e, &own, p, error) &&
        ctx_engine_open(place, &p->container, weights, &p->engine, error));
  }
  return true;
}

static bool open_partition(const ctx_place *place, const ctx_container *c, ctx_weights *weights,
                           ctx_engine **out, ctx_error *error) {
  partition_engine *e = calloc(1, sizeof *e);
  if (e == NULL) return ctx_out_of_memory(error);
  e->base.run = run_partition;
  e->base.free = free_partition;
  if (open_parts(e, place, c, weights, error)) return *out = &e->base, true;
  free_partition(&e->base);
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
