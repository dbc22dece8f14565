/* What Python sees of the C files. cffi reads this file without its preprocessor lines.
 *
 * Handles of ONNX Runtime's graph (graphs, nodes, value infos, attributes) travel as integers, so
 * that Python can list them in one call and use them as keys. They live for one callback.
 * A function that returns `OrtStatus *` returns NULL for success; the receiver releases it.
 */
#ifndef EP_NNAPI_ORT_NATIVE_H
#define EP_NNAPI_ORT_NATIVE_H

#include "ort_api.h"

typedef struct PyFactory PyFactory;
typedef struct PyEp PyEp;
typedef struct PyCompute PyCompute;
typedef struct PyProfiler PyProfiler;

typedef struct {
  size_t id;
  const char *name, *op_type, *domain, *claimed_by;
  int since;
  size_t inputs, outputs, implicit, attributes;
} NodeFacts;

typedef struct {
  const char *name;
  int dtype; /* ONNX Runtime's element type; 0: not a tensor */
  int has_shape;
  size_t rank;
  int64_t dims[64]; /* -1: not a fixed number; none are read of a higher rank */
  const char *symbols[64];
  int constant;
} ValueFacts;

typedef struct {
  int dtype;
  size_t rank;
  const int64_t *dims;
  const void *data;
  size_t bytes;
} Tensor;

typedef struct {
  const char *name;
  int type; /* OrtOpAttrType; 0: of a kind that cannot be read */
  size_t bytes;
} AttributeFacts;

/* One call of Compute: `inputs` has the fused node's inputs, `status` what went wrong. */
typedef struct {
  OrtKernelContext *context;
  OrtStatus *status;
  const Tensor *inputs;
  size_t outputs_made;
} Call;

/* A session on the CPU provider for a device; `env` is a reference of its own. `most`, `ns`: the
 * elements of the inputs of the run that had most, and how long that took. `held`: its threads wait
 * for `started`, a sem_t, if not NULL. */
typedef struct {
  OrtEnv *env;
  OrtSession *session;
  OrtMemoryInfo *memory;
  int64_t most, ns;
  void *started;
  int held;
} InnerSession;

typedef struct {
  const char *const *names;
  const Tensor *tensors;
  size_t count;
} NamedTensors;

/* Element types, as in ONNXTensorElementDataType. */
enum { INT32 = 6, INT64 = 7 };

/* An input or output of a fused node: its position, the only shape that it may have and, unless
 * NULL, the only contents. One that is `narrowed` is INT64, and INT32 in the session; one that is
 * `flat` has one axis there. `most`: unless 0, of the absolute values of an INT64 tensor. */
typedef struct {
  size_t position, rank;
  const int64_t *dims;
  int narrowed, flat;
  const void *contents;
  size_t bytes;
  int64_t most;
} DirectTensor;

/* Runs that needed no Python and ended well; `timed`: with the nanoseconds of all of them and of
 * the fastest one. Several threads may add to it. */
typedef struct {
  int64_t runs, total_ns, least_ns;
  int timed;
} DirectCounts;

enum { MOST_DIRECT_TENSORS = 64, MOST_DIRECT_RUNS = 8 };

/* A size of a fused node's input, or one of its contents, which are INT64 or INT32. */
typedef struct {
  size_t position, at;
  int contents;
} SizeSymbol;

/* Instructions of a stack machine for 64-bit integers; a number follows the first two. The others
 * take operands from the stack: a condition that does not hold, a division by 0 and an overflow end
 * the program. */
enum {
  SIZE_SYMBOL,
  SIZE_NUMBER,
  SIZE_ADD,
  SIZE_MULTIPLY,
  SIZE_DIVIDE,
  SIZE_ZERO,
  SIZE_NONZERO,
  SIZE_NOT_NEGATIVE,
  SIZE_STORE
};
enum { MOST_SYMBOLS = 64, MOST_SIZES = 512, MOST_OPERANDS = 64 };

/* Conditions on the sizes of a node's inputs, and the sizes of all its outputs one after another. */
typedef struct {
  const SizeSymbol *symbols;
  const int64_t *code;
  size_t symbol_count, length;
} SizeProgram;

/* Runs a compiled model of a device; returns 0 if it fails. */
typedef int (*DirectRunner)(void *model, const void *const *inputs, void *const *outputs);

/* A fused node whose tensors are those of a session, in the order of the session's names, or of a
 * `model` that `runner` runs where the session is NULL; `given` are inputs of the node that decide if the session fits: a negative size is any, and `sizes`, if it
 * is not NULL, has conditions and the sizes of the outputs. After a run of more than `long_ns`
 * nanoseconds the next one goes through Python, which can end it, and so does one that may take as
 * long for its sizes. */
typedef struct {
  InnerSession *session;
  const char *const *input_names, *const *output_names;
  DirectRunner runner;
  void *model;
  const DirectTensor *given, *inputs, *outputs;
  size_t given_count, input_count,
      output_count; /* of the latter at most MOST_DIRECT_TENSORS each */
  const SizeProgram *sizes;
  int64_t long_ns;
  DirectCounts *counts;
} DirectRun;

/* The address of the table of functions that the plugin library (library.c) calls. */
uintptr_t entry_points(void);

/* Has pass_on_interrupt act when the callback has returned to C. */
void interrupt_later(void);

/* Names the entries of run options that are read; the array and its at most 64 names stay. */
void name_run_options(const char *const *names, size_t count);

/* 1 when the run of this thread, if any, is to end: RunOptions.terminate is set. */
int run_terminated(void);

/* The tables of the ONNX Runtime that has loaded the plugin, NULL before; the version of the structs
 * that are given to it, and its own version, like "1.31.1". */
const OrtApi *ort_api(void);
const OrtEpApi *ort_ep_api(void);
uint32_t ort_version(void);
const char *running_version(void);

OrtStatus *create_status(const char *message);

OrtStatus *read_node(uintptr_t node, NodeFacts *facts, uintptr_t *members, size_t capacity);
OrtStatus *read_value(uintptr_t value, ValueFacts *facts);
OrtStatus *read_tensor(const OrtValue *value, Tensor *tensor);
OrtStatus *read_attribute(uintptr_t attribute, AttributeFacts *facts, void *data, size_t capacity);
void close_inner_session(InnerSession *session);

/* Has the threads of a session with these options wait for its first run, but that of a plan: from
 * their creation on they would take processors, for up to 40 ms. ONNX Runtime does not bind such
 * threads to processors. */
OrtStatus *hold_threads(InnerSession *session, OrtSessionOptions *options);

/* Runs on the caller's memory. An output without data is left in `results`, which has room for a
 * value of each output; the receiver releases all values, after an error too. */
OrtStatus *run_inner_session(InnerSession *session, const NamedTensors *inputs,
                             const NamedTensors *outputs, OrtRunOptions *options,
                             OrtValue **results);

/* A run that needs no Python, one of MOST_DIRECT_RUNS of `compute` from now on, or none for NULL.
 * Returns 1 if no thread uses an earlier one there any more: as long must each of them live. */
int set_direct_run(PyCompute *compute, size_t index, const DirectRun *run);
/* When the run there last began, in perf_counter_ns() time; 0 if not since the last call. */
int64_t last_direct_run(PyCompute *compute, size_t index);
/* While held, runs that begin go through Python. */
void hold_direct_runs(int hold);
int count_direct_runs(void);
/* There are none, and they are not held: in a forked child. */
void forget_direct_runs(void);

/* takes_constants: constant initializers stay inputs of the fused node. ONNX Runtime drops those that
 * nothing reads any more, which Loop and Scan of an .ort file still ask for, if their bodies did. */
OrtStatus *add_cluster(OrtEpGraphSupportInfo *support, const uintptr_t *nodes, size_t count,
                       int takes_constants);

/* The buffer of output `index`, made with this shape; NULL when empty or, with call->status set,
 * when it failed. */
void *make_output(Call *call, size_t index, const int64_t *dims, size_t rank);

/* Returns when ONNX Runtime called the fused node that runs on this thread, and has *ends set when
 * the node returns to it; in perf_counter_ns() time. */
int64_t time_compute(int64_t *ends);

PyFactory *new_factory(void *self, const char *name, const char *vendor, const char *version);
PyEp *new_ep(void *self, const char *name);
PyCompute *new_compute(void *self, size_t inputs, size_t outputs);
PyProfiler *new_profiler(void *self);
void free_ep(PyEp *ep);
void free_compute(PyCompute *compute);
void free_profiler(PyProfiler *profiler);

#endif
