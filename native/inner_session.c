/* An ONNX alternative in a session of the host's ONNX Runtime on its CPU provider: see plugin.h. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

typedef struct {
  ctx_engine base;
  ctx_container container;
  OrtEnv *env;
  OrtMemoryInfo *memory;
  OrtSession *session;
  char **names; /* of the inputs, then of the outputs */
} onnx_engine;

enum { LOG_FATAL = 4, ARENA = 1 }; /* Source: OrtLoggingLevel, OrtAllocatorType */

static const char LOCATION[] = "weights"; /* docs/context.md */

static bool succeeded(OrtStatus *status, ctx_error *error) {
  if (status == NULL) return true;
  ctx_fail(error, "ONNX Runtime: %.400s", ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  return false;
}

static bool name_tensors(onnx_engine *e, ctx_error *error) {
  const ctx_container *c = &e->container;
  const uint32_t count = ctx_tensor_count(c);
  uint32_t i;
  e->names = calloc((size_t)count + 1, sizeof *e->names);
  if (e->names == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++) {
    const ctx_range name = ctx_tensor_at(c, i)->name;
    e->names[i] = strndup(c->text + name.first, name.count);
    if (e->names[i] == NULL) return ctx_out_of_memory(error);
  }
  return true;
}

/* `exact`: integer products of 8 bits saturate on no processor. */
static OrtStatus *create_session(onnx_engine *e, const ctx_weights *weights, bool exact,
                                 OrtSessionOptions *options) {
  const ctx_container *c = &e->container;
  const char *const names[] = {LOCATION};
  char *const contents[] = {(char *)(uintptr_t)weights->data};
  const size_t sizes[] = {(size_t)c->header->weights_size};
  ORT_TRY(ort->SetSessionLogSeverityLevel(options, LOG_FATAL));
  ORT_TRY(ort->AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
  if (exact) ORT_TRY(ort->AddSessionConfigEntry(options, "session.x64quantprecision", "1"));
  ORT_TRY(ort->AddExternalInitializersFromFilesInMemory(options, names, contents, sizes, 1));
  return ort->CreateSessionFromArray(e->env, c->packed + c->chosen->offset, (size_t)c->chosen->size,
                                     options, &e->session);
}

static OrtStatus *open_session(onnx_engine *e, const ctx_weights *weights, bool exact) {
  OrtSessionOptions *options = NULL;
  OrtStatus *status;
  ORT_TRY(ort->CreateSessionOptions(&options));
  status = create_session(e, weights, exact, options);
  ort->ReleaseSessionOptions(options);
  return status;
}

/* The environment is the process's own: ONNX Runtime has one, and counts who holds it. */
static bool open_all(onnx_engine *e, const ctx_weights *weights, ctx_error *error) {
  OrtStatus *status;
  TRY(name_tensors(e, error));
  TRY(succeeded(ort->CreateEnv(LOG_WARNING, EP_NAME, &e->env), error));
  TRY(succeeded(ort->CreateCpuMemoryInfo(ARENA, 0, &e->memory), error));
  status = open_session(e, weights, true);
  if (status == NULL) return true;
  ort->ReleaseStatus(status); /* products of two int8 tensors have no exact kernel */
  return succeeded(open_session(e, weights, false), error);
}

static void free_session(ctx_engine *base) {
  onnx_engine *e = (onnx_engine *)base;
  uint32_t i;
  if (e->session != NULL) ort->ReleaseSession(e->session);
  if (e->memory != NULL) ort->ReleaseMemoryInfo(e->memory);
  if (e->env != NULL) ort->ReleaseEnv(e->env);
  for (i = 0; e->names != NULL && i < ctx_tensor_count(&e->container); i++) free(e->names[i]);
  free(e->names);
  free(e);
}

static OrtStatus *make_values(const onnx_engine *e, void *const *tensors, OrtValue **values) {
  const ctx_container *c = &e->container;
  uint32_t i;
  for (i = 0; i < ctx_tensor_count(c); i++) {
    const ctx_crossing *crossing = ctx_tensor_at(c, i);
    ORT_TRY(ort->CreateTensorWithDataAsOrtValue(
        e->memory, tensors[i], ctx_tensor_bytes(c, crossing), c->sizes + crossing->shape.first,
        crossing->shape.count, crossing->element_type, &values[i]));
  }
  return NULL;
}

static bool run_session(ctx_engine *base, void *const *tensors, ctx_error *error) {
  const onnx_engine *e = (const onnx_engine *)base;
  const ctx_alternative *a = e->container.chosen;
  const uint32_t count = ctx_tensor_count(&e->container), in = a->inputs.count;
  OrtValue **values = calloc((size_t)count + 1, sizeof *values);
  OrtStatus *status;
  uint32_t i;
  if (values == NULL) return ctx_out_of_memory(error);
  status = make_values(e, tensors, values);
  if (status == NULL)
    status =
        ort->Run(e->session, NULL, (const char *const *)e->names, (const OrtValue *const *)values,
                 in, (const char *const *)e->names + in, a->outputs.count, values + in);
  for (i = 0; i < count; i++)
    if (values[i] != NULL) ort->ReleaseValue(values[i]);
  free(values);
  return succeeded(status, error);
}

bool ep_open_onnx(const ctx_container *c, const ctx_weights *weights, ctx_engine **out,
                  ctx_error *error) {
  onnx_engine *e = calloc(1, sizeof *e);
  if (e == NULL) return ctx_out_of_memory(error);
  e->base.run = run_session;
  e->base.free = free_session;
  e->container = *c;
  if (open_all(e, weights, error)) return *out = &e->base, true;
  free_session(&e->base);
  return false;
}
