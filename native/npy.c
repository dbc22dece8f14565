/* .npy files: see npy.h. Source: numpy.lib.format. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64 /* on 32 bits, files may have more than 2 GB */
#include "npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "whole_file.h"

enum { MOST_HEADER = 4096, PRELUDE = 10, ALIGNMENT = 64 };

static const char *numpy_type(int32_t type) {
  switch (type) {
    case CTX_ONNX_FLOAT: return "<f4";
    case CTX_ONNX_UINT8: return "|u1";
    case CTX_ONNX_INT8: return "|i1";
    case CTX_ONNX_UINT16: return "<u2";
    case CTX_ONNX_INT16: return "<i2";
    case CTX_ONNX_INT32: return "<i4";
    case CTX_ONNX_INT64: return "<i8";
    case CTX_ONNX_BOOL: return "|b1";
    case CTX_ONNX_FLOAT16: return "<f2";
    default: return "";
  }
}

/* "(1, 10)" as Python writes it. */
static void describe_shape(char *out, size_t capacity, const int64_t *shape, uint32_t rank) {
  size_t used = (size_t)snprintf(out, capacity, "(");
  uint32_t i;
  for (i = 0; i < rank && used < capacity; i++)
    used += (size_t)snprintf(out + used, capacity - used, i > 0 ? ", %lld" : "%lld",
                             (long long)shape[i]);
  if (used < capacity) snprintf(out + used, capacity - used, rank == 1 ? ",)" : ")");
}

/* Reads the header's text; false if the file is no .npy file. */
static bool read_header(FILE *file, char text[MOST_HEADER]) {
  uint8_t prelude[12];
  size_t length;
  if (fread(prelude, 1, PRELUDE, file) != PRELUDE || memcmp(prelude, "\x93NUMPY", 6) != 0)
    return false;
  length = (size_t)prelude[8] | (size_t)prelude[9] << 8;
  if (prelude[6] > 1) {
    if (fread(prelude + PRELUDE, 1, 2, file) != 2) return false;
    length |= (size_t)prelude[10] << 16 | (size_t)prelude[11] << 24;
  }
  if (prelude[6] < 1 || prelude[6] > 3 || length >= MOST_HEADER) return false;
  text[length] = '\0';
  return fread(text, 1, length, file) == length;
}

/* True if the header has `key` with this value. */
static bool has(const char *header, const char *key, const char *value) {
  const char *found = strstr(header, key);
  return found != NULL && strncmp(found + strlen(key), value, strlen(value)) == 0;
}

static bool check_header(FILE *file, int32_t type, const int64_t *shape, uint32_t rank,
                         ctx_error *error) {
  char text[MOST_HEADER], wanted[1024], kind[16];
  describe_shape(wanted, sizeof wanted, shape, rank);
  snprintf(kind, sizeof kind, "'%s'", numpy_type(type));
  if (!read_header(file, text)) return ctx_fail(error, "it is no .npy file");
  if (!has(text, "'descr': ", kind) || !has(text, "'fortran_order': ", "False") ||
      !has(text, "'shape': ", wanted))
    return ctx_fail(error, "it is %.200s, where the model takes %s of shape %s in C order", text,
                    kind, wanted);
  return true;
}

bool ctx_npy_read(const char *path, int32_t type, const int64_t *shape, uint32_t rank, void *out,
                  size_t size, ctx_error *error) {
  FILE *file = fopen(path, "rb");
  bool read;
  if (file == NULL) return ctx_fail(error, "%.300s: %s", path, strerror(errno));
  read = check_header(file, type, shape, rank, error);
  if (read && (fread(out, 1, size, file) != size || fgetc(file) != EOF))
    read = ctx_fail(error, "it has not the bytes of its shape");
  fclose(file);
  return read || ctx_prefix(error, path);
}

bool ctx_npy_write(const char *path, int32_t type, const int64_t *shape, uint32_t rank,
                   const void *data, size_t size, ctx_error *error) {
  char text[MOST_HEADER], described[1024];
  ctx_file file;
  size_t length;
  describe_shape(described, sizeof described, shape, rank);
  length = (size_t)snprintf(text, sizeof text - ALIGNMENT,
                            "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                            numpy_type(type), described);
  while ((length + PRELUDE + 1) % ALIGNMENT != 0) text[length++] = ' ';
  text[length++] = '\n';
  if (!ctx_file_open(path, &file, error)) return false;
  fwrite("\x93NUMPY\x01\x00", 1, 8, file.stream);
  fputc((int)(length & 255), file.stream);
  fputc((int)(length >> 8), file.stream);
  fwrite(text, 1, length, file.stream);
  fwrite(data, 1, size, file.stream);
  return ctx_file_close(&file, true, error);
}
