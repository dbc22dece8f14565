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
  bool ask;                     /* a device that does not compile, which operation it declines */
  const char *litert;           /* path of the LiteRT library; NULL: it is found by its name */
  int litert_threads;           /* of one run on LiteRT's CPU; 0: one */
  bool litert_half;             /* LiteRT's GPU may compute float32 as float16 */
  const char *litert_cache_dir; /* where LiteRT's CPU keeps packed weights; NULL: nowhere */
  bool measure;                 /* count and time the runs */
} ctx_options;

/* What became of a program. */
typedef struct {
  const char *device, *fallback;       /* names; fallback: NULL unless it was left the runs */
  const char *reason;                  /* that it was; else NULL */
  bool compiled;                       /* by the device */
  uint64_t device_runs, fallback_runs; /* that ended well */
  uint64_t other_runs;                 /* by alternatives that gave way */
  uint64_t compile_time, total_time, least_time; /* nanoseconds; of runs: of all of these */
} ctx_record;

typedef struct ctx_program ctx_program;

/* Builds and compiles the model of a container, which the program takes a copy of, and checks the
 * digest of the weights; `data` and the weights stay the caller's and must live as long as the
 * program. */
bool ctx_program_create(const ctx_nnapi *nnapi, const ctx_container *container,
                        ctx_weights *weights, const ctx_options *options, ctx_program **out,
                        ctx_error *error);
void ctx_program_free(ctx_program *program);

/* Runs the cluster: `tensors` are the contents of the ONNX tensors, inputs and then outputs, in the
 * order of the container's tables. Threads may run one program at once. */
bool ctx_program_run(ctx_program *program, void *const *tensors, ctx_error *error);

/* The device that runs it now, and why it is another one than was asked for; "" if it is that. */
const ctx_device *ctx_program_device(ctx_program *program);
const char *ctx_program_failure(ctx_program *program);

/* What became of it so far; runs are there if its options have `measure`. */
ctx_record ctx_program_record(ctx_program *program);

#endif
