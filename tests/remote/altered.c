/* A library that is another NNAPI library but for what its environment says. It is linked to that
 * one, in which every other function is found.
 *
 * ALTERED=CALL:HOW,...  calls: model, supported, compile, compute; how: print, hang, die
 * WRONG, HANGS, DIES=OPERATION,...  operations by number: their float32 outputs are 1 too much; the
 * runs of models that have them do not end, or end the process. WRONG=all: every operation */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nnapi_functions.h"

#define EXPORT __attribute__((visibility("default")))
enum { MOST = 4096, FLOATS = 3 };

/* Models, compilations and executions: what each comes from, and of models the operations. */
typedef struct {
  const void *key, *of;
  int32_t types[MOST];  /* of operands */
  int32_t makers[MOST]; /* of operands: the operation that writes it */
  int32_t operations[MOST];
  uint32_t outputs[MOST];
  uint32_t operands, count, output_count;
} thing;
static thing *things[MOST];

static thing *find(const void *key) {
  int i;
  for (i = 0; i < MOST; i++)
    if (things[i] != NULL && things[i]->key == key) return things[i];
  return NULL;
}

static thing *add(const void *key, const void *of) {
  thing *made = find(key);
  int i;
  for (i = 0; made == NULL && i < MOST; i++)
    if (things[i] == NULL) made = things[i] = malloc(sizeof *made);
  if (made == NULL) abort();
  memset(made, 0, sizeof *made);
  made->key = key;
  made->of = of;
  return made;
}

static bool names(const char *variable, int32_t number) {
  const char *all = getenv(variable);
  char one[32];
  if (all == NULL) return false;
  snprintf(one, sizeof one, ",%d,", (int)number);
  return strcmp(all, "all") == 0 || strstr(all, one) != NULL;
}

static void act(const char *call) {
  const char *all = getenv("ALTERED");
  char one[32];
  printf("the driver says %s\n", call);
  fflush(stdout);
  if (all == NULL) return;
  snprintf(one, sizeof one, "%s:hang", call);
  while (strstr(all, one) != NULL) pause();
  snprintf(one, sizeof one, "%s:die", call);
  if (strstr(all, one) != NULL) raise(SIGSEGV);
}

#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

EXPORT int ANeuralNetworksModel_create(ANeuralNetworksModel **out) {
  const int code = REAL(ANeuralNetworksModel_create, ANeuralNetworksModel **)(out);
  act("model");
  add(*out, NULL);
  return code;
}
EXPORT int ANeuralNetworksModel_addOperand(ANeuralNetworksModel *m,
                                           const ANeuralNetworksOperandType *type) {
  thing *t = find(m);
  t->types[t->operands++] = type->type;
  return REAL(ANeuralNetworksModel_addOperand, void *, const void *)(m, type);
}
EXPORT int ANeuralNetworksModel_addOperation(ANeuralNetworksModel *m,
                                             ANeuralNetworksOperationType type, uint32_t inputs,
                                             const uint32_t *in, uint32_t outputs,
                                             const uint32_t *out) {
  thing *t = find(m);
  uint32_t i;
  t->operations[t->count++] = type;
  for (i = 0; i < outputs; i++) t->makers[out[i]] = type;
  return REAL(ANeuralNetworksModel_addOperation, void *, int32_t, uint32_t, const uint32_t *,
              uint32_t, const uint32_t *)(m, type, inputs, in, outputs, out);
}
EXPORT int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel *m, uint32_t inputs,
                                                         const uint32_t *in, uint32_t outputs,
                                                         const uint32_t *out) {
  thing *t = find(m);
  memcpy(t->outputs, out, outputs * sizeof *out);
  t->output_count = outputs;
  return REAL(ANeuralNetworksModel_identifyInputsAndOutputs, void *, uint32_t, const uint32_t *,
              uint32_t, const uint32_t *)(m, inputs, in, outputs, out);
}
EXPORT int ANeuralNetworksModel_getSupportedOperationsForDevices(
    const ANeuralNetworksModel *m, const ANeuralNetworksDevice *const *d, uint32_t count,
    bool *out) {
  act("supported");
  return REAL(ANeuralNetworksModel_getSupportedOperationsForDevices, const void *, const void *,
              uint32_t, bool *)(m, d, count, out);
}
EXPORT int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel *m,
                                                       const ANeuralNetworksDevice *const *d,
                                                       uint32_t count,
                                                       ANeuralNetworksCompilation **out) {
  const int code = REAL(ANeuralNetworksCompilation_createForDevices, void *, const void *,
                        uint32_t, ANeuralNetworksCompilation **)(m, d, count, out);
  act("compile");
  add(*out, m);
  return code;
}
EXPORT int ANeuralNetworksExecution_create(ANeuralNetworksCompilation *c,
                                           ANeuralNetworksExecution **out) {
  const int code =
      REAL(ANeuralNetworksExecution_create, void *, ANeuralNetworksExecution **)(c, out);
  add(*out, c);
  return code;
}

/* The outputs of executions, for what is added to them. */
static struct {
  const void *execution;
  float *data;
  size_t count;
} outputs[MOST];

EXPORT int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution *e, int32_t index,
                                              const ANeuralNetworksOperandType *type, void *data,
                                              size_t size) {
  const thing *m = find(find(find(e)->of)->of);
  const uint32_t operand = m->outputs[index];
  int i;
  for (i = 0; i < MOST && m->types[operand] == FLOATS && names("WRONG", m->makers[operand]); i++)
    if (outputs[i].execution == NULL || (outputs[i].execution == e && outputs[i].data == data)) {
      outputs[i].execution = e;
      outputs[i].data = data;
      outputs[i].count = size / sizeof(float);
      break;
    }
  return REAL(ANeuralNetworksExecution_setOutput, void *, int32_t, const void *, void *, size_t)(
      e, index, type, data, size);
}
EXPORT void ANeuralNetworksExecution_free(ANeuralNetworksExecution *e) {
  int i;
  for (i = 0; i < MOST; i++)
    if (outputs[i].execution == e) outputs[i].execution = NULL;
  ((void (*)(void *))dlsym(RTLD_NEXT, "ANeuralNetworksExecution_free"))(e);
}

static int computed(const ANeuralNetworksExecution *e, int code) {
  size_t i, k;
  for (i = 0; i < MOST; i++)
    for (k = 0; outputs[i].execution == e && k < outputs[i].count; k++) outputs[i].data[k] += 1;
  return code;
}

static void run(const ANeuralNetworksExecution *e) {
  const thing *m = find(find(find(e)->of)->of);
  uint32_t i;
  act("compute");
  for (i = 0; i < m->count; i++) {
    while (names("HANGS", m->operations[i])) pause();
    if (names("DIES", m->operations[i])) raise(SIGSEGV);
  }
}
EXPORT int ANeuralNetworksExecution_compute(ANeuralNetworksExecution *e) {
  run(e);
  return computed(e, REAL(ANeuralNetworksExecution_compute, void *)(e));
}
EXPORT int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution *e,
                                                 ANeuralNetworksBurst *burst) {
  run(e);
  return computed(e, REAL(ANeuralNetworksExecution_burstCompute, void *, void *)(e, burst));
}
