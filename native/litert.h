/* Client of libLiteRt.so, which is loaded at run time: models as .tflite on its CPU, GPU or NPU.
 *
 * A library and its environments live as long as the process. */
#ifndef NNAPI_CONTEXT_LITERT_H
#define NNAPI_CONTEXT_LITERT_H

#include "joined.h"

/* Accelerators; a model is compiled for one of them. Source: LiteRtHwAccelerators. */
enum { CTX_LITERT_CPU = 1, CTX_LITERT_GPU = 2, CTX_LITERT_NPU = 4 };

/* Element types that this package writes. Source: LiteRtElementType. */
enum {
  CTX_LITERT_FLOAT32 = 1,
  CTX_LITERT_INT32 = 2,
  CTX_LITERT_UINT8 = 3,
  CTX_LITERT_INT64 = 4,
  CTX_LITERT_BOOL = 6,
  CTX_LITERT_INT16 = 7,
  CTX_LITERT_INT8 = 9,
  CTX_LITERT_FLOAT16 = 10,
  CTX_LITERT_FLOAT64 = 11
};

enum { CTX_LITERT_MOST_AXES = 8 };

typedef struct ctx_litert ctx_litert;
typedef struct ctx_litert_model ctx_litert_model;

typedef struct {
  int accelerator;
  int threads;              /* of one run on the CPU; 0: LiteRT's own choice, which is one */
  bool half;                /* the GPU may compute float32 as float16 */
  uint32_t instances;       /* compiled models at most, each of which one thread at a time runs and
                               which has packed weights of its own; 0: one */
  const char *weight_cache; /* path of a file that keeps the CPU's packed weights; NULL: none */
} ctx_litert_options;

/* An input or output; the name is the model's and lives as long as it. A size that runs give is -1,
 * and `bytes` is 0 then. */
typedef struct {
  const char *name;
  int32_t type;
  uint32_t rank;
  int32_t dims[8];
  size_t bytes;
} ctx_litert_tensor;

/* Opens the library at `path`; NULL: libLiteRt.so where the system's loader finds it. */
bool ctx_litert_open(const char *path, ctx_litert **out, ctx_error *error);

/* The accelerators that the library has, as a mask; whether they take a model is known when it is
 * compiled for them. */
bool ctx_litert_accelerators(ctx_litert *library, int *mask, ctx_error *error);

/* Compiles a .tflite for one accelerator, which takes all of it: what would be left to the CPU in
 * silence is refused. Its bytes are not checked but by LiteRT: their origin has to be. */
bool ctx_litert_compile(ctx_litert *library, const ctx_flatbuffer *flatbuffer,
                        const ctx_litert_options *options, ctx_litert_model **out,
                        ctx_error *error);
void ctx_litert_free(ctx_litert_model *model);

/* The inputs, then the outputs, of the model's only signature. */
const ctx_litert_tensor *ctx_litert_tensors(const ctx_litert_model *model, uint32_t *inputs,
                                            uint32_t *outputs);

/* Runs it once, on the caller's memory where the CPU computes and the address is a multiple of 64,
 * else on copies. Threads wait for a free instance. */
bool ctx_litert_run(ctx_litert_model *model, const void *const *inputs, void *const *outputs,
                    ctx_error *error);

/* The same with the sizes of this run, of all inputs, then all outputs, one after the other. A model
 * with open sizes, which only the CPU takes, is made ready for others than those of its last run. */
bool ctx_litert_run_sized(ctx_litert_model *model, const int32_t *sizes, const void *const *inputs,
                          void *const *outputs, ctx_error *error);

#endif
