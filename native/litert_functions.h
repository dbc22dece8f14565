/* LiteRT's functions and structs, declared here as they are from 2.1.6 on; what litert.c and
 * litert_model.c share. */
#ifndef NNAPI_CONTEXT_LITERT_FUNCTIONS_H
#define NNAPI_CONTEXT_LITERT_FUNCTIONS_H

#include <pthread.h>

#include "litert.h"

/* Source: LiteRtAny, LiteRtEnvOption. */
typedef struct {
  int32_t type;
  union {
    int64_t integer;
    const char *text;
  } value;
} ctx_litert_any;
enum { CTX_LITERT_ANY_INTEGER = 2, CTX_LITERT_ANY_TEXT = 8 };

typedef struct {
  int32_t tag;
  ctx_litert_any value;
} ctx_litert_env_option;
enum {
  CTX_LITERT_COMPILER_PLUGINS = 0,
  CTX_LITERT_DISPATCH = 1,
  CTX_LITERT_GPU_LIBRARIES = 22,
  CTX_LITERT_REGISTERED = 24,
  CTX_LITERT_LEAST_LOG = 25
};
enum { CTX_LITERT_LOG_SILENT = 4 };

/* Source: LiteRtLayout. */
typedef struct {
  uint32_t rank : 7;
  uint32_t has_strides : 1;
  int32_t dims[CTX_LITERT_MOST_AXES];
  uint32_t strides[CTX_LITERT_MOST_AXES];
} ctx_litert_layout;
_Static_assert(sizeof(ctx_litert_layout) == 68, "LiteRtLayout");

/* Source: LiteRtRankedTensorType. */
typedef struct {
  int32_t element;
  ctx_litert_layout layout;
} ctx_litert_type;
_Static_assert(sizeof(ctx_litert_type) == 72, "LiteRtRankedTensorType");

typedef void *ctx_litert_handle;

/* X(name after "LiteRt", parameters); all return a status, 0 for success. */
#define CTX_LITERT_FUNCTIONS(X)                                                               \
  X(CreateEnvironment, (int, const ctx_litert_env_option *, ctx_litert_handle *))             \
  X(GetNumAccelerators, (ctx_litert_handle, size_t *))                                        \
  X(GetAccelerator, (ctx_litert_handle, size_t, ctx_litert_handle *))                         \
  X(GetAcceleratorHardwareSupport, (ctx_litert_handle, int *))                                \
  X(CreateModelFromBuffer, (ctx_litert_handle, const void *, size_t, ctx_litert_handle *))    \
  X(GetNumModelSignatures, (ctx_litert_handle, size_t *))                                     \
  X(GetModelSignature, (ctx_litert_handle, size_t, ctx_litert_handle *))                      \
  X(GetNumSignatureInputs, (ctx_litert_handle, size_t *))                                     \
  X(GetNumSignatureOutputs, (ctx_litert_handle, size_t *))                                    \
  X(GetSignatureInputName, (ctx_litert_handle, size_t, const char **))                        \
  X(GetSignatureOutputName, (ctx_litert_handle, size_t, const char **))                       \
  X(GetSignatureInputTensorByIndex, (ctx_litert_handle, size_t, ctx_litert_handle *))         \
  X(GetSignatureOutputTensorByIndex, (ctx_litert_handle, size_t, ctx_litert_handle *))        \
  X(GetRankedTensorType, (ctx_litert_handle, ctx_litert_type *))                              \
  X(CreateOptions, (ctx_litert_handle *))                                                     \
  X(SetOptionsHardwareAccelerators, (ctx_litert_handle, int))                                 \
  X(CreateOpaqueOptions, (const char *, void *, void (*)(void *), ctx_litert_handle *))       \
  X(AddOpaqueOptions, (ctx_litert_handle, ctx_litert_handle))                                 \
  X(CreateCompiledModel,                                                                      \
    (ctx_litert_handle, ctx_litert_handle, ctx_litert_handle, ctx_litert_handle *))           \
  X(GetCompiledModelInputBufferRequirements,                                                  \
    (ctx_litert_handle, size_t, size_t, ctx_litert_handle *))                                 \
  X(GetCompiledModelOutputBufferRequirements,                                                 \
    (ctx_litert_handle, size_t, size_t, ctx_litert_handle *))                                 \
  X(GetTensorBufferRequirementsBufferSize, (ctx_litert_handle, size_t *))                     \
  X(CreateTensorBufferFromHostMemory,                                                         \
    (const ctx_litert_type *, void *, size_t, void (*)(void *), ctx_litert_handle *))         \
  X(CreateManagedTensorBufferFromRequirements,                                                \
    (ctx_litert_handle, const ctx_litert_type *, ctx_litert_handle, ctx_litert_handle *))     \
  X(LockTensorBuffer, (ctx_litert_handle, void **, int))                                      \
  X(UnlockTensorBuffer, (ctx_litert_handle))                                                  \
  X(CompiledModelResizeInputTensor, (ctx_litert_handle, size_t, size_t, const int *, size_t)) \
  X(GetCompiledModelOutputTensorLayouts,                                                      \
    (ctx_litert_handle, size_t, size_t, ctx_litert_layout *, bool))                           \
  X(RunCompiledModel,                                                                         \
    (ctx_litert_handle, size_t, size_t, ctx_litert_handle *, size_t, ctx_litert_handle *))

#define CTX_LITERT_DESTROYERS(X) \
  X(DestroyTensorBuffer)         \
  X(DestroyCompiledModel)        \
  X(DestroyOptions)              \
  X(DestroyOpaqueOptions)        \
  X(DestroyModel)

struct ctx_litert {
  ctx_litert *next;
  void *library;
  char *path;   /* as it was asked for; NULL: by its name */
  char *folder; /* of the library */
#define MEMBER(name, parameters) int(*name) parameters;
  CTX_LITERT_FUNCTIONS(MEMBER)
#undef MEMBER
#define MEMBER(name) void (*name)(ctx_litert_handle);
  CTX_LITERT_DESTROYERS(MEMBER)
#undef MEMBER
  int (*IsNonCpuFullyAccelerated)(ctx_litert_handle, bool *); /* NULL before 2.3.0 */
  ctx_litert_handle cpu,
      all; /* environments without and with a look for other accelerators; NULL: not yet */
};

/* Held while libraries, their environments and the list of models change, and by forks. */
extern pthread_mutex_t ctx_litert_lock;

/* The environment for an accelerator: that of the CPU looks for no library of another one. */
bool ctx_litert_environment(ctx_litert *library, int accelerator, ctx_litert_handle *out,
                            ctx_error *error);

/* Fills the error for the status of a function; true for success. */
bool ctx_litert_succeeded(int status, const char *name, ctx_error *error);

/* Calls a function of the library; fills `error` of the function that this stands in. */
#define LITERT_CALL(library, name, ...) \
  ctx_litert_succeeded((library)->name(__VA_ARGS__), #name, error)

#endif
