/* A reader of the one cluster of a prepared ONNX model that one cluster covers. */
#ifndef NNAPI_CONTEXT_ONNX_FILE_H
#define NNAPI_CONTEXT_ONNX_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

typedef struct {
  uint8_t *data; /* the container, at a multiple of 64; to be freed */
  size_t size;
  char *node; /* its name; to be freed */
} ctx_onnx;

/* Finds the container of the model's only node, and the name of that. */
bool ctx_onnx_read(const char *path, ctx_onnx *out, ctx_error *error);

#endif
