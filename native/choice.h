/* The choice among the alternatives of a container, for the system that it is made on.
 *
 * Those that the system could run are tried in the order of preference: compiled, then run once, by
 * the first run of the session, each with a deadline. What declines, fails or takes too long gives
 * way to the next one. Python's is ep_nnapi/provider/choice.py. */
#ifndef NNAPI_CONTEXT_CHOICE_H
#define NNAPI_CONTEXT_CHOICE_H

#include "engine.h"

/* The order of preference where none is chosen. */
#define CTX_PREFER "nnapi,litert-npu,litert-gpu,nnapi-cpu,litert-cpu,cpu"

typedef struct {
  const ctx_nnapi *nnapi;     /* NULL: there is no library */
  const ctx_devices *devices; /* of it */
  const ctx_device *device;   /* the one that was asked for; NULL: none was */
  const char *no_library;     /* why there is none */
  const char *prefer;         /* names of CTX_PREFER, separated by commas */
  const char *cache_dir;      /* folder in which trials are noted; NULL: none */
  uint64_t deadline;          /* of a trial, in nanoseconds */
  bool gives_way;             /* when a run fails after the trial */
  ctx_options options;        /* of NNAPI programs; the device is that of the candidate */
  ctx_open_onnx open_onnx;    /* NULL: there is no ONNX Runtime */
} ctx_system;

/* An alternative on a device that was tried before, and why it gave way. */
typedef struct {
  char name[160]; /* such as "nnapi:4 on gpu" */
  ctx_error reason;
  uint64_t runs; /* that ended well before */
} ctx_tried;

typedef struct ctx_choice ctx_choice;

/* Checks the option `prefer`. */
bool ctx_check_prefer(const char *names, ctx_error *error);

/* Chooses, and compiles what is chosen; container and weights live as long as the choice. If it
 * fails, *out is NULL, or what ctx_choice_free leaves as a driver hangs. */
bool ctx_choice_make(const ctx_system *system, const ctx_container *container, ctx_weights *weights,
                     ctx_choice **out, ctx_error *error);

/* Frees it; returns false if a driver hangs in it, so that container and weights have to stay. */
bool ctx_choice_free(ctx_choice *choice);

/* Runs what is chosen; `inputs` and `outputs` are the contents of the ONNX tensors, in the
 * order of the container's first alternative. Threads may run it at once. */
bool ctx_choice_run(ctx_choice *choice, const void *const *inputs, void *const *outputs,
                    ctx_error *error);

/* What is chosen now: such as "nnapi:4 on gpu"; and those that were tried before, in order. */
const char *ctx_choice_name(ctx_choice *choice);
const ctx_tried *ctx_choice_tried(ctx_choice *choice, uint32_t *count);

/* What became of it: its runs, those of alternatives before it, times of all if they are measured. */
ctx_record ctx_choice_record(ctx_choice *choice);

/* The container with the chosen alternative. */
ctx_container ctx_choice_container(const ctx_choice *choice);

#endif
