/* The weights of a container, mapped from their file or embedded, checked by their digest. */
#ifndef NNAPI_CONTEXT_WEIGHTS_H
#define NNAPI_CONTEXT_WEIGHTS_H

#include "container.h"

typedef struct ctx_check ctx_check;

typedef struct {
  const uint8_t *data; /* the first of header->weights_size bytes */
  int descriptor;      /* of the file; -1 if the weights are embedded */
  uint64_t offset;     /* of the weights in the file */
  void *mapped;        /* what to unmap; NULL if the weights are embedded */
  size_t mapped_size;
  const uint8_t *digest; /* in the container that they were opened for */
  ctx_check *check;      /* NULL: the digest was right before */
} ctx_weights;

/* Opens the weights, which may be in the folder of the model's file, and begins to compute their
 * digest. `model` is the path of that file; NULL or empty if the model came from memory. */
bool ctx_weights_open(const ctx_container *container, const char *model, ctx_weights *out,
                      ctx_error *error);

/* The same for weights in a file whose contents the caller has, and keeps as long. */
bool ctx_weights_use(const ctx_container *container, const void *contents, size_t size,
                     ctx_weights *out, ctx_error *error);

/* Waits for the digest; false if it is not the container's. */
bool ctx_weights_are_right(ctx_weights *weights, ctx_error *error);

void ctx_weights_close(ctx_weights *weights);

/* Checks the checksum that a model's file has of itself, if its containers say that it has one. */
bool ctx_check_model_file(const char *path, ctx_error *error);

#endif
