/* A container's cluster, compiled for one device of an NNAPI library, and its runs. */
#ifndef NNAPI_CONTEXT_PROGRAM_H
#define NNAPI_CONTEXT_PROGRAM_H

#include "container.h"
#include "nnapi.h"
#include "weights.h"

typedef struct {
  const ctx_device *device;
  const ctx_device *fallback; /* runs what the device could not; NULL: nothing does */
  int32_t preference, priority;
  uint64_t compilation_timeout, execution_timeout; /* nanoseconds; 0: no limit */
} ctx_options;

typedef struct ctx_program ctx_program;

/* Builds and compiles the model of a container, which the program takes a copy of, and checks the
 * digest of the weights; `data` and the weights stay the caller's and must live as long as the
 * program. */
bool ctx_program_create(const ctx_nnapi *nnapi, const ctx_container *container,
                        ctx_weights *weights, const ctx_options *options, ctx_program **out,
                        ctx_error *error);
void ctx_program_free(ctx_program *program);

/* Runs the cluster: `inputs` and `outputs` are the contents of the ONNX tensors, in the order of the
 * container's tables. Threads may run one program at once. */
bool ctx_program_run(ctx_program *program, const void *const *inputs, void *const *outputs,
                     ctx_error *error);

/* The device that runs it now, and why it is another one than was asked for; "" if it is that. */
const ctx_device *ctx_program_device(ctx_program *program);
const char *ctx_program_failure(ctx_program *program);

#endif
