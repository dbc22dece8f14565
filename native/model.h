/* The NNAPI models of a container, built through the C API. */
#ifndef NNAPI_CONTEXT_MODEL_H
#define NNAPI_CONTEXT_MODEL_H

#include "container.h"
#include "nnapi.h"
#include "weights.h"

typedef struct {
  const ctx_nnapi *nnapi;
  ANeuralNetworksModel **items; /* by index among those of the chosen alternative */
  uint32_t count;
  ANeuralNetworksMemory *memory; /* of the weights' file; NULL if they are embedded or small */
} ctx_models;

/* Builds all models; constants stay where `weights` has them. */
bool ctx_models_build(const ctx_nnapi *nnapi, const ctx_container *container,
                      const ctx_weights *weights, ctx_models *out, ctx_error *error);
/* Fails with the operation that the device does not support; for devices of feature level 3 on. */
bool ctx_models_supported(const ctx_models *models, const ctx_container *container,
                          const ctx_device *device, ctx_error *error);
void ctx_models_free(ctx_models *models);

#endif
