/* Programs: see program.h. */
#define _POSIX_C_SOURCE 200809L
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
  ctx_compiled *chosen;            /* NULL: the device could not compile it */
  ctx_compiled *_Atomic fallback;  /* NULL until it is needed */
  pthread_mutex_t lock;            /* held while the fallback is compiled */
  ctx_error failure;               /* why the fallback runs */
};

/* Compiles for the fallback, once for all threads. `reason`: why it is needed. */
static ctx_compiled *fall_back(ctx_program *p, const ctx_error *reason, ctx_error *error) {
  ctx_compiled *compiled;
  pthread_mutex_lock(&p->lock);
  compiled = atomic_load(&p->fallback);
  if (compiled == NULL && p->options.fallback != NULL &&
      ctx_compile(&p->models, &p->ends, p->options.fallback, &p->options, &compiled, error)) {
    p->failure = *reason;
    atomic_store(&p->fallback, compiled);
  }
  pthread_mutex_unlock(&p->lock);
  return compiled;
}

static bool create(ctx_program *p, const ctx_nnapi *nnapi, const ctx_weights *weights,
                   ctx_error *error) {
  ctx_error second;
  if (!ctx_ends_make(&p->container, &p->ends, error)) return false;
  if (!ctx_models_build(nnapi, &p->container, weights, &p->models, error)) return false;
  if (p->options.fallback == p->options.device) p->options.fallback = NULL;
  if (ctx_compile(&p->models, &p->ends, p->options.device, &p->options, &p->chosen, error))
    return true;
  return fall_back(p, error, &second) != NULL;
}

bool ctx_program_create(const ctx_nnapi *nnapi, const ctx_container *container,
                        const ctx_weights *weights, const ctx_options *options, ctx_program **out,
                        ctx_error *error) {
  ctx_program *p = calloc(1, sizeof *p);
  if (p == NULL) return ctx_out_of_memory(error);
  p->container = *container;
  p->options = *options;
  pthread_mutex_init(&p->lock, NULL);
  atomic_init(&p->fallback, NULL);
  if (!create(p, nnapi, weights, error)) {
    ctx_program_free(p);
    return false;
  }
  *out = p;
  return true;
}

void ctx_program_free(ctx_program *p) {
  if (p == NULL) return;
  ctx_compiled_free(p->chosen);
  ctx_compiled_free(atomic_load(&p->fallback));
  ctx_models_free(&p->models);
  ctx_ends_free(&p->ends);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static bool is_transient(int code) {
  return code == NN_MISSED_DEADLINE_TRANSIENT || code == NN_RESOURCE_EXHAUSTED_TRANSIENT;
}

bool ctx_program_run(ctx_program *p, const void *const *inputs, void *const *outputs,
                     ctx_error *error) {
  static const struct timespec pause = {0, 20000000}; /* before a second try, as in Python */
  ctx_compiled *compiled = atomic_load(&p->fallback);
  ctx_error second;
  int code = NN_NO_ERROR;
  if (compiled == NULL) {
    if (ctx_execute(p->chosen, inputs, outputs, &code, error)) return true;
    if (is_transient(code)) {
      nanosleep(&pause, NULL);
      if (ctx_execute(p->chosen, inputs, outputs, &code, error)) return true;
    }
    compiled = fall_back(p, error, &second);
    if (compiled == NULL) return false;
  }
  return ctx_execute(compiled, inputs, outputs, &code, error);
}

const ctx_device *ctx_program_device(ctx_program *p) {
  const ctx_compiled *compiled = atomic_load(&p->fallback);
  return compiled != NULL ? compiled->device : p->options.device;
}

const char *ctx_program_failure(ctx_program *p) {
  return atomic_load(&p->fallback) != NULL ? p->failure.text : "";
}
