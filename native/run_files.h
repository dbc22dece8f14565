/* Files of nnapi_run: arrays as numpy.save writes them (.npy, versions 1 to 3, little-endian, C order),
 * and prepared models. */
#ifndef NNAPI_CONTEXT_RUN_FILES_H
#define NNAPI_CONTEXT_RUN_FILES_H

#include "container.h"

/* Reads an array of the type and sizes of this crossing; its contents are written to `out`. */
bool ctx_npy_read(const char *path, const ctx_container *container, const ctx_crossing *crossing,
                  void *out, ctx_error *error);

bool ctx_npy_write(const char *path, const ctx_container *container, const ctx_crossing *crossing,
                   const void *data, ctx_error *error);

/* The one cluster of a prepared ONNX model that one cluster covers. */
typedef struct {
  uint8_t *data; /* the container, at a multiple of 64; to be freed */
  size_t size;
  char *node; /* its name; to be freed */
} ctx_onnx;

/* Finds the container of the model's only node, and the name of that. */
bool ctx_onnx_read(const char *path, ctx_onnx *out, ctx_error *error);

#endif
