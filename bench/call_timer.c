/* A plugin library in front of another one, which times its calls of Compute: bench/prepared.py. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ort_api.h"

#define EXPORT __attribute__((visibility("default")))

enum { MOST = 1 << 16 };

/* The path of the other library, set before this one is registered. */
EXPORT const char *timed_library;
EXPORT int64_t timed_nanoseconds[MOST];
EXPORT int64_t timed_calls;

typedef OrtStatus *(*CreateFactories)(const char *, const OrtApiBase *, const OrtLogger *,
                                      OrtEpFactory **, size_t, size_t *);

static OrtStatus *(*create_ep)(OrtEpFactory *, const OrtHardwareDevice *const *,
                               const OrtKeyValuePairs *const *, size_t, const OrtSessionOptions *,
                               const OrtLogger *, OrtEp **);
static OrtStatus *(*compile)(OrtEp *, const OrtGraph **, const OrtNode **, size_t,
                             OrtNodeComputeInfo **, OrtNode **);
static OrtStatus *(*compute)(OrtNodeComputeInfo *, void *, OrtKernelContext *);

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static OrtStatus *timed_compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  const int64_t begin = now();
  OrtStatus *status = compute(info, state, context);
  timed_nanoseconds[timed_calls++ % MOST] = now() - begin;
  return status;
}

static OrtStatus *timed_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **nodes,
                                size_t count, OrtNodeComputeInfo **infos, OrtNode **contexts) {
  OrtStatus *status = compile(ep, graphs, nodes, count, infos, contexts);
  size_t i;
  for (i = 0; status == NULL && i < count; i++) {
    compute = infos[i]->Compute;
    infos[i]->Compute = timed_compute;
  }
  return status;
}

static OrtStatus *timed_create_ep(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                  const OrtKeyValuePairs *const *metadata, size_t count,
                                  const OrtSessionOptions *options, const OrtLogger *logger,
                                  OrtEp **ep) {
  OrtStatus *status = create_ep(factory, hardware, metadata, count, options, logger, ep);
  if (status != NULL) return status;
  compile = (*ep)->Compile;
  (*ep)->Compile = timed_compile;
  return NULL;
}

EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count) {
  void *library = dlopen(timed_library, RTLD_NOW | RTLD_LOCAL);
  void *found;
  CreateFactories create;
  OrtStatus *status;
  if (library == NULL) abort();
  found = dlsym(library, "CreateEpFactories");
  if (found == NULL) abort();
  memcpy(&create, &found, sizeof found);
  status = create(name, base, logger, factories, capacity, count);
  if (status != NULL) return status;
  create_ep = factories[0]->CreateEp;
  factories[0]->CreateEp = timed_create_ep;
  return NULL;
}

EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) { return (void)factory, NULL; }
