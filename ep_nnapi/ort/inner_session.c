/* Sessions on the CPU provider for devices that compute NNAPI models in ONNX Runtime itself.
 *
 * They belong to the ONNX Runtime that has loaded the plugin. Fused nodes run in them without Python:
 * see direct_run.c.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "parts.h"

int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void close_inner_session(InnerSession *session) {
  if (session->session != NULL) api->ReleaseSession(session->session);
  if (session->memory != NULL) api->ReleaseMemoryInfo(session->memory);
  if (session->env != NULL) api->ReleaseEnv(session->env);
  if (session->started != NULL) (void)sem_destroy(session->started);
  free(session->started);
}

typedef struct {
  pthread_t thread;
  InnerSession *session;
  OrtThreadWorkerFn work;
  void *argument;
} HeldThread;

static void *wait_and_work(void *held) {
  HeldThread *self = held;
  while (sem_wait(self->session->started) != 0) continue; /* a signal came */
  (void)sem_post(self->session->started);                 /* for the next one */
  self->work(self->argument);
  return NULL;
}

static OrtCustomHandleType *create_held(void *session, OrtThreadWorkerFn work, void *argument) {
  HeldThread *made = malloc(sizeof *made);
  if (made == NULL) return NULL;
  made->session = session, made->work = work, made->argument = argument;
  if (pthread_create(&made->thread, NULL, wait_and_work, made) == 0)
    return (OrtCustomHandleType *)made;
  free(made);
  return NULL;
}

static void join_held(OrtCustomHandleType *thread) {
  HeldThread *held = (HeldThread *)thread;
  start_threads(held->session);
  (void)pthread_join(held->thread, NULL);
  free(held);
}

OrtStatus *hold_threads(InnerSession *session, OrtSessionOptions *options) {
  session->started = calloc(1, sizeof(sem_t));
  if (session->started == NULL) return create_status("ep_nnapi: out of memory");
  (void)sem_init(session->started, 0, 0);
  session->held = 1;
  TRY(api->SessionOptionsSetCustomThreadCreationOptions(options, session));
  TRY(api->SessionOptionsSetCustomCreateThreadFn(options, create_held));
  return api->SessionOptionsSetCustomJoinThreadFn(options, join_held);
}

void start_threads(InnerSession *session) {
  if (__atomic_load_n(&session->held, __ATOMIC_RELAXED) &&
      __atomic_exchange_n(&session->held, 0, __ATOMIC_RELAXED))
    (void)sem_post(session->started);
}

OrtStatus *tensor_over(const InnerSession *session, const Tensor *tensor, OrtValue **value) {
  return api->CreateTensorWithDataAsOrtValue(session->memory, (void *)tensor->data, tensor->bytes,
                                             tensor->dims, tensor->rank, tensor->dtype, value);
}

int64_t count_elements(const int64_t *dims, size_t rank) {
  int64_t count = 1;
  size_t i;
  for (i = 0; i < rank; i++) count *= dims[i];
  return count;
}

/* Of two runs at once either may stay. */
void note_run(InnerSession *session, int64_t elements, int64_t ns) {
  if (elements < __atomic_load_n(&session->most, __ATOMIC_RELAXED)) return;
  __atomic_store_n(&session->most, elements, __ATOMIC_RELAXED);
  __atomic_store_n(&session->ns, ns, __ATOMIC_RELAXED);
}

/* Estimates the time as proportional to the elements. That is too much after small runs, of which most
 * is overhead, and too little for attention, whose time grows with the square of a length. */
int may_grow_long(const InnerSession *session, int64_t elements, int64_t long_ns) {
  int64_t most = __atomic_load_n(&session->most, __ATOMIC_RELAXED);
  double growth = most > 0 ? (double)elements / (double)most : 1;
  double ns = (double)__atomic_load_n(&session->ns, __ATOMIC_RELAXED);
  return growth > 1 && ns * growth > (double)long_ns;
}

/* Creates values over the tensors; those without data stay NULL. Returns the first error. */
static OrtStatus *tensors_over(const InnerSession *session, const Tensor *tensors, size_t count,
                               OrtValue **values) {
  size_t i;
  memset(values, 0, count * sizeof *values);
  for (i = 0; i < count; i++)
    if (tensors[i].data != NULL) TRY(tensor_over(session, &tensors[i], &values[i]));
  return NULL;
}

static void release_values(OrtValue **values, size_t count) {
  size_t i;
  for (i = 0; i < count; i++)
    if (values[i] != NULL) api->ReleaseValue(values[i]);
}

OrtStatus *run_inner_session(InnerSession *session, const NamedTensors *inputs,
                             const NamedTensors *outputs, OrtRunOptions *options,
                             OrtValue **results) {
  OrtValue **given = calloc(inputs->count + 1, sizeof(OrtValue *));
  OrtStatus *status;
  int64_t elements = 0, start = now_ns();
  size_t i;
  if (given == NULL) return create_status("ep_nnapi: out of memory");
  if (!planning) start_threads(session);
  status = tensors_over(session, inputs->tensors, inputs->count, given);
  if (status == NULL) status = tensors_over(session, outputs->tensors, outputs->count, results);
  if (status == NULL)
    status = api->Run(session->session, options, inputs->names, (const OrtValue *const *)given,
                      inputs->count, outputs->names, outputs->count, results);
  for (i = 0; i < inputs->count; i++)
    elements += count_elements(inputs->tensors[i].dims, inputs->tensors[i].rank);
  if (status == NULL) note_run(session, elements, now_ns() - start);
  release_values(given, inputs->count);
  free(given);
  return status;
}
