/* The weights of a container, mapped from their file or embedded, checked by their digest. */
#ifndef NNAPI_CONTEXT_WEIGHTS_H
#define NNAPI_CONTEXT_WEIGHTS_H

#include "container.h"

typedef struct {
  const uint8_t *data; /* the first of header->weights_size bytes */
  int descriptor;      /* of the file; -1 if the weights are embedded */
  uint64_t offset;     /* of the weights in the file */
  void *mapped;        /* what to unmap; NULL if the weights are embedded */
  size_t mapped_size;
} ctx_weights;

/* Opens and checks the weights, which may be in the folder of the model's file. `model` is the path
 * of that; NULL or empty if the model came from memory. */
bool ctx_weights_open(const ctx_container *container, const char *model, ctx_weights *out,
                      ctx_error *error);
void ctx_weights_close(ctx_weights *weights);

/* Checks the checksum that a model's file has of itself, if its containers say that it has one. */
bool ctx_check_model_file(const char *path, ctx_error *error);

#endif
