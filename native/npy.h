/* Arrays in files, as numpy.save writes them (.npy, versions 1 to 3, little-endian, C order). */
#ifndef NNAPI_CONTEXT_NPY_H
#define NNAPI_CONTEXT_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* Reads an array of this ONNX type and shape; its contents are written to `out`. */
bool ctx_npy_read(const char *path, int32_t type, const int64_t *shape, uint32_t rank, void *out,
                  size_t size, ctx_error *error);

bool ctx_npy_write(const char *path, int32_t type, const int64_t *shape, uint32_t rank,
                   const void *data, size_t size, ctx_error *error);

#endif
