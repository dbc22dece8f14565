/* Programs: see program.h. */
#include "program.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "execution.h"

struct ctx_program {
  ctx_container container;
  ctx_options options;
  ctx_models models;
  ctx_ends ends;
  ctx_compiled *chosen;   /* for the device; NULL: it could not compile */
  ctx_compiled *fallback; /* NULL until it is needed */
  pthread_mutex_t lock;   /* of `chosen` and its users, and of the members below */
  atomic_bool left;       /* the device, for the fallback */
  ctx_error failure;      /* why */
  ctx_record record;
};

/* Returns true once, after a delay, if the NDK says that another try may succeed. As in Python:
 * ep_nnapi/provider/device_health.py. */
static bool try_again(const ctx_error *error, bool *tried) {
  static const struct timespec delay = {0, 20000000};
  if (*tried || (error->code != NN_MISSED_DEADLINE_TRANSIENT &&
                 error->code != NN_RESOURCE_EXHAUSTED_TRANSIENT && error->code != NN_DEAD_OBJECT))
    return false;
  nanosleep(&delay, NULL);
  return *tried = true;
}

static bool compile(ctx_program *p, const ctx_device *device, ctx_compiled **out,
                    ctx_error *error) {
  bool tried = false;
  while (!ctx_compile(&p->models, &p->ends, device, &p->options, out, error))
    if (!try_again(error, &tried)) return false;
  return true;
}

/* The program of the fallback, compiled once for all threads; NULL if there is none. */
static ctx_compiled *fallback_of(ctx_program *p) {
  ctx_compiled *found;
  ctx_error ignored;
  pthread_mutex_lock(&p->lock);
  if (p->fallback == NULL && p->options.fallback != NULL)
    (void)compile(p, p->options.fallback, &p->fallback, &ignored);
  found = p->fallback;
  pthread_mutex_unlock(&p->lock);
  return found;
}

/* Runs on the fallback from now on. `reason`: what the device failed with. */
static void leave_device(ctx_program *p, const ctx_error *reason) {
  pthread_mutex_lock(&p->lock);
  if (!atomic_load(&p->left)) p->failure = *reason;
  atomic_store(&p->left, true);
  pthread_mutex_unlock(&p->lock);
}

static ctx_compiled *use_chosen(ctx_program *p) {
  ctx_compiled *compiled;
  pthread_mutex_lock(&p->lock);
  compiled = p->chosen;
  compiled->users++;
  pthread_mutex_unlock(&p->lock);
  return compiled;
}

static void end_use(ctx_program *p, ctx_compiled *compiled) {
  bool last;
  pthread_mutex_lock(&p->lock);
  last = --compiled->users == 0;
  pthread_mutex_unlock(&p->lock);
  if (last) ctx_compiled_free(compiled);
}

/* Replaces the compilation of a driver that has died, once for all threads; runs that use it keep
 * it until they end. Returns false if the device does not compile again. */
static bool compile_again(ctx_program *p, ctx_compiled *dead) {
  ctx_compiled *made;
  ctx_error ignored;
  bool replaced = true;
  pthread_mutex_lock(&p->lock);
  if (p->chosen == dead) {
    replaced = compile(p, p->options.device, &made, &ignored);
    if (replaced) {
      p->chosen = made;
      dead->users--;
    }
  }
  pthread_mutex_unlock(&p->lock);
  return replaced;
}

static bool build(ctx_program *p, const ctx_nnapi *nnapi, const ctx_weights *weights,
                  ctx_error *error) {
  bool tried = false;
  while (!ctx_models_build(nnapi, &p->container, weights, &p->models, error))
    if (!try_again(error, &tried)) return false;
  return true;
}

static bool create(ctx_program *p, const ctx_nnapi *nnapi, const ctx_weights *weights,
                   ctx_error *error) {
  const uint32_t level = p->container.chosen->feature_level;
  if (level > (uint32_t)nnapi->feature_level)
    return ctx_fail(error,
                    "the context needs feature level %u, the runtime offers %d; prepare the model "
                    "for that level",
                    level, nnapi->feature_level);
  if (!ctx_ends_make(&p->container, &p->ends, error)) return false;
  if (!build(p, nnapi, weights, error)) return false;
  if (p->options.fallback == p->options.device) p->options.fallback = NULL;
  p->record.compile_time = ctx_now();
  p->record.compiled = compile(p, p->options.device, &p->chosen, error);
  p->record.compile_time = ctx_now() - p->record.compile_time;
  if (p->record.compiled) return true;
  if (p->options.ask) { /* only now: a device that compiles need not be asked */
    ctx_error reason;
    if (!ctx_models_supported(&p->models, &p->container, p->options.device, &reason) &&
        reason.code == NN_NO_ERROR)
      *error = reason;
  }
  if (fallback_of(p) == NULL) return false;
  leave_device(p, error);
  return true;
}

bool ctx_program_create(const ctx_nnapi *nnapi, const ctx_container *container,
                        ctx_weights *weights, const ctx_options *options, ctx_program **out,
                        ctx_error *error) {
  ctx_program *p = calloc(1, sizeof *p);
  bool created;
  if (p == NULL) return ctx_out_of_memory(error);
  p->container = *container;
  p->options = *options;
  pthread_mutex_init(&p->lock, NULL);
  atomic_init(&p->left, false);
  created = create(p, nnapi, weights, error);
  /* first: what NNAPI says of wrong weights means nothing */
  if (!ctx_weights_are_right(weights, error) || !created) {
    ctx_program_free(p);
    return false;
  }
  *out = p;
  return true;
}

void ctx_program_free(ctx_program *p) {
  if (p == NULL) return;
  ctx_compiled_free(p->chosen);
  ctx_compiled_free(p->fallback);
  ctx_models_free(&p->models);
  ctx_ends_free(&p->ends);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static bool run_on_chosen(ctx_program *p, void *const *tensors, ctx_error *error) {
  bool tried = false;
  for (;;) {
    ctx_compiled *compiled = use_chosen(p);
    const bool ran = ctx_execute(compiled, tensors, error);
    const bool dead = !ran && !tried && error->code == NN_DEAD_OBJECT;
    const bool lost = dead && !compile_again(p, compiled);
    end_use(p, compiled);
    if (ran || lost || !try_again(error, &tried)) return ran;
  }
}

/* A device is left only if the fallback computes the run that it failed at: others fail at any. */
static bool run(ctx_program *p, void *const *tensors, bool *on_device, ctx_error *error) {
  ctx_compiled *fallback;
  ctx_error ignored;
  *on_device = false;
  if (atomic_load(&p->left)) return ctx_execute(p->fallback, tensors, error);
  if (run_on_chosen(p, tensors, error)) return *on_device = true;
  fallback = fallback_of(p);
  if (fallback == NULL || !ctx_execute(fallback, tensors, &ignored)) return false;
  leave_device(p, error);
  return true;
}

bool ctx_program_run(ctx_program *p, void *const *tensors, ctx_error *error) {
  const uint64_t begin = p->options.measure ? ctx_now() : 0;
  uint64_t time;
  bool on_device;
  if (!run(p, tensors, &on_device, error)) return false;
  if (!p->options.measure) return true;
  time = ctx_now() - begin;
  pthread_mutex_lock(&p->lock);
  if (p->record.total_time == 0 || time < p->record.least_time) p->record.least_time = time;
  p->record.total_time += time;
  ++*(on_device ? &p->record.device_runs : &p->record.fallback_runs);
  pthread_mutex_unlock(&p->lock);
  return true;
}

ctx_record ctx_program_record(ctx_program *p) {
  ctx_record record;
  pthread_mutex_lock(&p->lock);
  record = p->record;
  record.device = p->options.device->name;
  if (atomic_load(&p->left)) {
    record.fallback = p->options.fallback->name;
    record.reason = p->failure.text;
  }
  pthread_mutex_unlock(&p->lock);
  return record;
}

const ctx_device *ctx_program_device(ctx_program *p) {
  return atomic_load(&p->left) ? p->options.fallback : p->options.device;
}

const char *ctx_program_failure(ctx_program *p) {
  return atomic_load(&p->left) ? p->failure.text : "";
}
