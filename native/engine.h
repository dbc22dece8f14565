/* What computes one alternative of a container: NNAPI, LiteRT, ONNX Runtime, or parts of these. */
#ifndef NNAPI_CONTEXT_ENGINE_H
#define NNAPI_CONTEXT_ENGINE_H

#include "program.h"

typedef struct ctx_engine ctx_engine;

/* The first member of each kind of engine. Threads may run one at once. */
struct ctx_engine {
  /* `tensors`: the contents of the ONNX tensors, inputs and then outputs */
  bool (*run)(ctx_engine *engine, void *const *tensors, ctx_error *error);
  void (*free)(ctx_engine *engine);
  ctx_program *program; /* of an NNAPI program; else NULL */
};

/* Opens an ONNX alternative, which is the container's chosen one, on the host's ONNX Runtime. */
typedef bool (*ctx_open_onnx)(const ctx_container *container, const ctx_weights *weights,
                              ctx_engine **out, ctx_error *error);

/* What an alternative is opened for; the parts of a partition too. */
typedef struct {
  const ctx_nnapi *nnapi;  /* NULL: there is no library */
  ctx_options options;     /* with its device, for NNAPI */
  int accelerator;         /* for LiteRT */
  ctx_open_onnx open_onnx; /* NULL: there is no ONNX Runtime */
} ctx_place;

/* Opens the chosen alternative; container and weights live as long as the engine. */
bool ctx_engine_open(const ctx_place *place, const ctx_container *container, ctx_weights *weights,
                     ctx_engine **out, ctx_error *error);

/* Frees it; NULL: nothing. */
void ctx_engine_free(ctx_engine *engine);

#endif
