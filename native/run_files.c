/* Files of nnapi_run: see run_files.h. Those that are read are not trusted.
 *
 * Source: numpy.lib.format; onnx.proto; Protocol Buffers, encoding. */
#include "run_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container.h"
#include "whole_file.h"

enum { MOST_HEADER = 4096, PRELUDE = 10, ALIGNMENT = 64 };

static const char *numpy_type(int32_t type) {
#define NUMPY(name, code, bytes, numpy) [code] = numpy,
  static const char *const names[] = {CTX_ONNX_TYPES(NUMPY)};
#undef NUMPY
  return names[type];
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

bool ctx_npy_read(const char *path, const ctx_container *c, const ctx_crossing *crossing, void *out,
                  ctx_error *error) {
  const size_t size = ctx_tensor_bytes(c, crossing);
  FILE *file = fopen(path, "rb");
  bool read;
  if (file == NULL) return ctx_fail(error, "%.300s: %s", path, strerror(errno));
  read = check_header(file, crossing->element_type, c->sizes + crossing->shape.first,
                      crossing->shape.count, error);
  if (read && (fread(out, 1, size, file) != size || fgetc(file) != EOF))
    read = ctx_fail(error, "it has not the bytes of its shape");
  fclose(file);
  return read || ctx_prefix(error, path);
}

bool ctx_npy_write(const char *path, const ctx_container *c, const ctx_crossing *crossing,
                   const void *data, ctx_error *error) {
  char text[MOST_HEADER], described[1024];
  ctx_file file;
  size_t length;
  describe_shape(described, sizeof described, c->sizes + crossing->shape.first,
                 crossing->shape.count);
  length = (size_t)snprintf(text, sizeof text - ALIGNMENT,
                            "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                            numpy_type(crossing->element_type), described);
  while ((length + PRELUDE + 1) % ALIGNMENT != 0) text[length++] = ' ';
  text[length++] = '\n';
  if (!ctx_file_open(path, &file, error)) return false;
  fwrite("\x93NUMPY\x01\x00", 1, 8, file.stream);
  fputc((int)(length & 255), file.stream);
  fputc((int)(length >> 8), file.stream);
  fwrite(text, 1, length, file.stream);
  fwrite(data, 1, ctx_tensor_bytes(c, crossing), file.stream);
  return ctx_file_close(&file, true, error);
}

/* Field numbers of onnx.proto. */
enum {
  MODEL_GRAPH = 7,
  GRAPH_NODE = 1,
  NODE_NAME = 3,
  NODE_OP_TYPE = 4,
  NODE_ATTRIBUTE = 5,
  NODE_DOMAIN = 7,
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_STRING = 4
};

typedef struct {
  const uint8_t *at, *end;
} span;

/* One field of a message; `body` is empty for numbers. */
typedef struct {
  uint64_t number;
  span body;
} field;

static bool read_varint(span *message, uint64_t *out) {
  int shift;
  *out = 0;
  for (shift = 0; shift < 64 && message->at < message->end; shift += 7) {
    const uint8_t byte = *message->at++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

static bool skip(span *message, uint64_t bytes) {
  if (bytes > (uint64_t)(message->end - message->at)) return false;
  message->at += bytes;
  return true;
}

/* Reads the next field; false at the end, or where the message is malformed. */
static bool next_field(span *message, field *out) {
  enum { VARINT, FIXED_64, BYTES, FIXED_32 = 5 };
  uint64_t tag, length = 0;
  if (message->at == message->end || !read_varint(message, &tag)) return false;
  out->number = tag >> 3;
  out->body.at = out->body.end = message->at;
  switch (tag & 7) {
    case VARINT: return read_varint(message, &length);
    case FIXED_64: return skip(message, 8);
    case FIXED_32: return skip(message, 4);
    case BYTES:
      if (!read_varint(message, &length)) return false;
      out->body.at = message->at;
      if (!skip(message, length)) return false;
      out->body.end = message->at;
      return true;
    default: return false;
  }
}

/* The first field of that number; an empty one if there is none. */
static span find(span message, uint64_t number) {
  const span none = {message.end, message.end};
  field found;
  while (next_field(&message, &found))
    if (found.number == number) return found.body;
  return none;
}

static bool is_text(span body, const char *text) {
  return (size_t)(body.end - body.at) == strlen(text) && memcmp(body.at, text, strlen(text)) == 0;
}

/* The value of a node's string attribute. */
static span attribute(span node, const char *name) {
  const span none = {node.end, node.end};
  field found;
  while (next_field(&node, &found))
    if (found.number == NODE_ATTRIBUTE && is_text(find(found.body, ATTRIBUTE_NAME), name))
      return find(found.body, ATTRIBUTE_STRING);
  return none;
}

static bool find_container(span model, span *name, span *out, ctx_error *error) {
  span graph = find(model, MODEL_GRAPH), node = {NULL, NULL};
  uint32_t nodes = 0;
  field found;
  while (next_field(&graph, &found)) {
    if (found.number != GRAPH_NODE) continue;
    node = found.body;
    nodes++;
  }
  if (nodes == 0) return ctx_fail(error, "it is no ONNX model, or has no nodes");
  if (nodes > 1 || !is_text(find(node, NODE_OP_TYPE), "EPContext") ||
      !is_text(find(node, NODE_DOMAIN), "com.microsoft"))
    return ctx_fail(error,
                    "the model is not one cluster (%u nodes); run it with ONNX Runtime and the "
                    "plugin, or prepare it with ep-nnapi prepare --format context",
                    nodes);
  *name = find(node, NODE_NAME);
  *out = attribute(node, "ep_cache_context");
  return out->at != out->end || ctx_fail(error, "its node has no ep_cache_context");
}

static bool copy_container(span model, ctx_onnx *out, ctx_error *error) {
  span container = model, name = model;
  if (!find_container(model, &name, &container, error)) return false;
  out->node = strndup((const char *)name.at, (size_t)(name.end - name.at));
  out->size = (size_t)(container.end - container.at);
  out->data = ctx_aligned(out->size);
  if (out->data == NULL || out->node == NULL) return ctx_out_of_memory(error);
  memcpy(out->data, container.at, out->size);
  return true;
}

bool ctx_onnx_read(const char *path, ctx_onnx *out, ctx_error *error) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* or a FIFO would wait */
  struct stat facts = {0};
  span model;
  void *data;
  bool read;
  if (descriptor < 0) return ctx_fail(error, "%s", strerror(errno));
  if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size <= 0 ||
      (uint64_t)facts.st_size > SIZE_MAX) {
    close(descriptor);
    return ctx_fail(error, "it is no ONNX model");
  }
  data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (data == MAP_FAILED) return ctx_fail(error, "%s", strerror(errno));
  model.at = data;
  model.end = model.at + facts.st_size;
  read = copy_container(model, out, error);
  munmap(data, (size_t)facts.st_size);
  return read;
}
