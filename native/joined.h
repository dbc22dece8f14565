/* Memory with a flatbuffer, and the weights that it counts as behind it. */
#ifndef NNAPI_CONTEXT_JOINED_H
#define NNAPI_CONTEXT_JOINED_H

#include "error.h"

/* A .tflite; its weights, if there are any, follow at the next multiple of 64 bytes. */
typedef struct {
  const void *model, *weights;
  size_t size, weights_size;
  bool mapped; /* the weights are in a shared mapping of a file */
} ctx_flatbuffer;

typedef struct {
  void *start; /* NULL: there is none */
  size_t size;
  const void *data; /* of the flatbuffer, at a multiple of 64 bytes */
  size_t data_size; /* with the weights */
} ctx_joined;

/* Joins them: weights of a file are mapped once more, so that they stay one copy; others are copied. */
bool ctx_join(const ctx_flatbuffer *flatbuffer, ctx_joined *out, ctx_error *error);

void ctx_joined_free(ctx_joined *joined);

#endif
