/* A model compiled for one device, and its executions. */
#ifndef NNAPI_CONTEXT_EXECUTION_H
#define NNAPI_CONTEXT_EXECUTION_H

#include <pthread.h>

#include "model.h"
#include "program.h"

/* An input or output of an alternative's model. */
typedef struct {
  const ctx_operand *operand;
  size_t bytes;
  int64_t tensor;    /* the one that it reads or writes itself; -1: it has other bytes */
  uint32_t crossing; /* the last tensor of it */
} ctx_end;

/* Where the crossings of a container meet the operands of its first model: inputs, then outputs. */
typedef struct {
  const ctx_container *container;
  ctx_end *items;
  uint32_t input_count, count;
} ctx_ends;

typedef struct ctx_slot ctx_slot;

/* A compilation, with the executions that are not running. */
typedef struct {
  const ctx_nnapi *nnapi;
  const ctx_ends *ends;
  const ctx_device *device;
  ANeuralNetworksCompilation *compilation;
  uint64_t timeout; /* of an execution, in nanoseconds; 0: none */
  uint32_t users;   /* those who hold it: its program, and the runs that use it */
  pthread_mutex_t lock;
  ctx_slot *idle;
} ctx_compiled;

bool ctx_ends_make(const ctx_container *container, ctx_ends *out, ctx_error *error);
void ctx_ends_free(ctx_ends *ends);

bool ctx_compile(const ctx_models *models, const ctx_ends *ends, const ctx_device *device,
                 const ctx_options *options, ctx_compiled **out, ctx_error *error);
void ctx_compiled_free(ctx_compiled *compiled);

/* The burst of a compilation; NULL: there is none. It only saves time. */
ANeuralNetworksBurst *ctx_burst_of(const ctx_nnapi *nnapi, ANeuralNetworksCompilation *compilation);

/* Computes an execution. */
bool ctx_compute(const ctx_nnapi *nnapi, ANeuralNetworksExecution *execution,
                 ANeuralNetworksBurst *burst, ctx_error *error);

/* Runs it once. */
bool ctx_execute(ctx_compiled *compiled, void *const *tensors, ctx_error *error);

#endif
