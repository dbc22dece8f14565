/* A small NNAPI library for tests: it has the functions of every level, looks at every byte that it
 * is given, and "computes" outputs whose bytes are those of the inputs, one after the other.
 *
 * For sanitizers, for processors under emulation, and to measure what the client itself costs. With
 * STAND_IN_ABORTS=DEVICE in its environment it ends the process when that device is to compile, by
 * SIGABRT or the signal of the number STAND_IN_SIGNAL; with STAND_IN_ALIGNED it refuses tensors at
 * other addresses than multiples of 64. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nnapi_functions.h"

#define EXPORT __attribute__((visibility("default")))
#define OK NN_NO_ERROR

struct ANeuralNetworksDevice {
  const char *name;
  int32_t type;
};

struct ANeuralNetworksMemory {
  void *data;
  size_t size;
};

typedef struct {
  size_t size; /* bytes; 0 if unknown */
} operand;

struct ANeuralNetworksModel {
  operand *operands;
  uint32_t count, operations, inputs, outputs;
  uint32_t *ends; /* inputs, then outputs */
};

struct ANeuralNetworksCompilation {
  const ANeuralNetworksModel *model;
};

struct ANeuralNetworksExecution {
  const ANeuralNetworksModel *model;
  const uint8_t **inputs;
  uint8_t **outputs;
};

struct ANeuralNetworksBurst {
  int unused;
};

static const ANeuralNetworksDevice devices[] = {{"stand-in", NN_DEVICE_ACCELERATOR},
                                                {"nnapi-reference", NN_DEVICE_CPU}};
static volatile uint8_t seen; /* so that reads are not left out */

static void look(const void *data, size_t size) {
  const uint8_t *p = data;
  uint64_t all = 0, word;
  size_t i;
  for (i = 0; i + sizeof word <= size; i += sizeof word) {
    memcpy(&word, p + i, sizeof word);
    all ^= word;
  }
  for (; i < size; i++) all ^= p[i];
  seen = (uint8_t)all;
}

EXPORT int64_t ANeuralNetworks_getRuntimeFeatureLevel(void) { return 1000008; }
EXPORT int ANeuralNetworks_getDeviceCount(uint32_t *count) { return *count = 2, OK; }
EXPORT int ANeuralNetworks_getDevice(uint32_t index, ANeuralNetworksDevice **out) {
  return *out = (ANeuralNetworksDevice *)(uintptr_t)&devices[index], OK;
}
EXPORT int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice *d, const char **out) {
  return *out = d->name, OK;
}
EXPORT int ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice *d, const char **out) {
  return (void)d, *out = "1", OK;
}
EXPORT int ANeuralNetworksDevice_getType(const ANeuralNetworksDevice *d, int32_t *out) {
  return *out = d->type, OK;
}
EXPORT int ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice *d, int64_t *out) {
  return (void)d, *out = 1000008, OK;
}

EXPORT int ANeuralNetworksModel_create(ANeuralNetworksModel **out) {
  return *out = calloc(1, sizeof **out), *out != NULL ? OK : NN_OUT_OF_MEMORY;
}
EXPORT void ANeuralNetworksModel_free(ANeuralNetworksModel *m) {
  if (m == NULL) return;
  free(m->operands);
  free(m->ends);
  free(m);
}
EXPORT int ANeuralNetworksModel_finish(ANeuralNetworksModel *m) { return (void)m, OK; }
EXPORT int ANeuralNetworksModel_addOperand(ANeuralNetworksModel *m,
                                           const ANeuralNetworksOperandType *type) {
  static const uint8_t sizes[] = {4, 4, 4, 4, 4, 1, 1, 2, 2, 1, 2, 1, 2, 1, 1, 0};
  size_t size = type->type >= 0 && type->type < 16 ? sizes[type->type] : 0;
  operand *grown = realloc(m->operands, (m->count + 1) * sizeof *grown);
  uint32_t i;
  if (grown == NULL) return NN_OUT_OF_MEMORY;
  for (i = 0; i < type->dimensionCount; i++) size *= type->dimensions[i];
  m->operands = grown;
  m->operands[m->count++].size = size;
  return OK;
}
EXPORT int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel *m, int32_t index,
                                                const void *data, size_t size) {
  (void)m, (void)index;
  return look(data, data == NULL ? 0 : size), OK;
}
EXPORT int ANeuralNetworksModel_setOperandValueFromMemory(ANeuralNetworksModel *m, int32_t index,
                                                          const ANeuralNetworksMemory *memory,
                                                          size_t offset, size_t size) {
  (void)m, (void)index;
  if (offset > memory->size || size > memory->size - offset) return NN_BAD_DATA;
  return look((const uint8_t *)memory->data + offset, size), OK;
}
EXPORT int ANeuralNetworksModel_setOperandValueFromModel(ANeuralNetworksModel *m, int32_t index,
                                                         const ANeuralNetworksModel *value) {
  return (void)m, (void)index, value != NULL ? OK : NN_UNEXPECTED_NULL;
}
EXPORT int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(
    ANeuralNetworksModel *m, int32_t index,
    const ANeuralNetworksSymmPerChannelQuantParams *params) {
  (void)m, (void)index;
  return look(params->scales, params->scaleCount * sizeof(float)), OK;
}
EXPORT int ANeuralNetworksModel_addOperation(ANeuralNetworksModel *m,
                                             ANeuralNetworksOperationType type, uint32_t inputs,
                                             const uint32_t *in, uint32_t outputs,
                                             const uint32_t *out) {
  uint32_t i;
  (void)type;
  for (i = 0; i < inputs + outputs; i++)
    if ((i < inputs ? in[i] : out[i - inputs]) >= m->count) return NN_BAD_DATA;
  m->operations++;
  return OK;
}
EXPORT int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel *m, uint32_t inputs,
                                                         const uint32_t *in, uint32_t outputs,
                                                         const uint32_t *out) {
  uint32_t i;
  m->ends = calloc((size_t)inputs + outputs + 1, sizeof *m->ends);
  if (m->ends == NULL) return NN_OUT_OF_MEMORY;
  m->inputs = inputs;
  m->outputs = outputs;
  for (i = 0; i < inputs + outputs; i++) m->ends[i] = i < inputs ? in[i] : out[i - inputs];
  return OK;
}
EXPORT int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel *m,
                                                                 bool allow) {
  return (void)m, (void)allow, OK;
}
EXPORT int ANeuralNetworksModel_getSupportedOperationsForDevices(
    const ANeuralNetworksModel *m, const ANeuralNetworksDevice *const *d, uint32_t count,
    bool *out) {
  (void)d, (void)count;
  return memset(out, 1, m->operations), OK;
}

EXPORT int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel *m,
                                                       const ANeuralNetworksDevice *const *d,
                                                       uint32_t count,
                                                       ANeuralNetworksCompilation **out) {
  const char *aborts = getenv("STAND_IN_ABORTS"), *number = getenv("STAND_IN_SIGNAL");
  if (aborts != NULL && count > 0 && strcmp(d[0]->name, aborts) == 0)
    (void)raise(number != NULL ? atoi(number) : SIGABRT);
  *out = calloc(1, sizeof **out);
  if (*out == NULL) return NN_OUT_OF_MEMORY;
  return (*out)->model = m, OK;
}
EXPORT int ANeuralNetworksCompilation_create(ANeuralNetworksModel *m,
                                             ANeuralNetworksCompilation **out) {
  return ANeuralNetworksCompilation_createForDevices(m, NULL, 0, out);
}
EXPORT void ANeuralNetworksCompilation_free(ANeuralNetworksCompilation *c) { free(c); }
EXPORT int ANeuralNetworksCompilation_setPreference(ANeuralNetworksCompilation *c, int32_t what) {
  return (void)c, (void)what, OK;
}
EXPORT int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation *c) { return (void)c, OK; }

EXPORT int ANeuralNetworksExecution_create(ANeuralNetworksCompilation *c,
                                           ANeuralNetworksExecution **out) {
  ANeuralNetworksExecution *e = *out = calloc(1, sizeof **out);
  if (e == NULL) return NN_OUT_OF_MEMORY;
  e->model = c->model;
  e->inputs = calloc((size_t)c->model->inputs + 1, sizeof *e->inputs);
  e->outputs = calloc((size_t)c->model->outputs + 1, sizeof *e->outputs);
  return e->inputs != NULL && e->outputs != NULL ? OK : NN_OUT_OF_MEMORY;
}
EXPORT void ANeuralNetworksExecution_free(ANeuralNetworksExecution *e) {
  if (e == NULL) return;
  free(e->inputs);
  free(e->outputs);
  free(e);
}
static bool misplaced(const void *data) {
  return getenv("STAND_IN_ALIGNED") != NULL && (uintptr_t)data % 64 != 0;
}
static size_t size_of(const ANeuralNetworksExecution *e, uint32_t end) {
  return e->model->operands[e->model->ends[end]].size;
}
EXPORT int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution *e, int32_t index,
                                             const ANeuralNetworksOperandType *type,
                                             const void *data, size_t size) {
  (void)type;
  if (size != size_of(e, (uint32_t)index) || misplaced(data)) return NN_BAD_DATA;
  return e->inputs[index] = data, OK;
}
EXPORT int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution *e, int32_t index,
                                              const ANeuralNetworksOperandType *type, void *data,
                                              size_t size) {
  (void)type;
  if (size != size_of(e, e->model->inputs + (uint32_t)index) || misplaced(data)) return NN_BAD_DATA;
  return e->outputs[index] = data, OK;
}
EXPORT int ANeuralNetworksExecution_setReusable(ANeuralNetworksExecution *e, bool reusable) {
  return (void)e, (void)reusable, OK;
}

/* Fills the outputs with the inputs' bytes, over and over. */
EXPORT int ANeuralNetworksExecution_compute(ANeuralNetworksExecution *e) {
  uint32_t in = 0, out;
  size_t at = 0, i;
  for (out = 0; out < e->model->outputs; out++) {
    const size_t size = size_of(e, e->model->inputs + out);
    for (i = 0; i < size; i++) {
      if (e->model->inputs > 0 && at == size_of(e, in)) {
        in = (in + 1) % e->model->inputs;
        at = 0;
      }
      e->outputs[out][i] = e->model->inputs > 0 ? e->inputs[in][at++] : 0;
    }
  }
  return OK;
}
EXPORT int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution *e,
                                                 ANeuralNetworksBurst *burst) {
  return (void)burst, ANeuralNetworksExecution_compute(e);
}
EXPORT int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution *e,
                                                 ANeuralNetworksEvent **out) {
  return *out = NULL, ANeuralNetworksExecution_compute(e);
}
EXPORT int ANeuralNetworksEvent_wait(ANeuralNetworksEvent *event) { return (void)event, OK; }
EXPORT void ANeuralNetworksEvent_free(ANeuralNetworksEvent *event) { (void)event; }
EXPORT int ANeuralNetworksExecution_getOutputOperandRank(ANeuralNetworksExecution *e, int32_t i,
                                                         uint32_t *rank) {
  return (void)e, (void)i, (void)rank, NN_BAD_STATE;
}
EXPORT int ANeuralNetworksExecution_getOutputOperandDimensions(ANeuralNetworksExecution *e,
                                                               int32_t i, uint32_t *sizes) {
  return (void)e, (void)i, (void)sizes, NN_BAD_STATE;
}
EXPORT int ANeuralNetworksBurst_create(ANeuralNetworksCompilation *c, ANeuralNetworksBurst **out) {
  return (void)c, *out = calloc(1, sizeof **out), *out != NULL ? OK : NN_OUT_OF_MEMORY;
}
EXPORT void ANeuralNetworksBurst_free(ANeuralNetworksBurst *burst) { free(burst); }

EXPORT int ANeuralNetworksMemory_createFromFd(size_t size, int protect, int fd, size_t offset,
                                              ANeuralNetworksMemory **out) {
  ANeuralNetworksMemory *memory = *out = calloc(1, sizeof **out);
  if (memory == NULL) return NN_OUT_OF_MEMORY;
  memory->data = mmap(NULL, size, protect, MAP_SHARED, fd, (off_t)offset);
  memory->size = size;
  if (memory->data != MAP_FAILED) return OK;
  free(memory);
  return *out = NULL, NN_UNMAPPABLE;
}
EXPORT void ANeuralNetworksMemory_free(ANeuralNetworksMemory *memory) {
  if (memory == NULL) return;
  munmap(memory->data, memory->size);
  free(memory);
}
