/* Reader of the container of a compiled cluster. docs/context.md specifies the format.
 *
 * The bytes are not trusted: a container that ctx_read accepts has every offset, count, index,
 * type and size within its limits, and a border that fits its model.
 */
#ifndef NNAPI_CONTEXT_CONTAINER_H
#define NNAPI_CONTEXT_CONTAINER_H

#include <stddef.h>

#include "error.h"
#include "format.h"

typedef struct {
  const uint8_t *data; /* kept by the caller as long as the container is used */
  const ctx_header *header;
  const ctx_alternative *alternatives;
  const ctx_model *models;
  const ctx_operand *operands;
  const ctx_operation *operations;
  const ctx_crossing *crossings;
  const uint32_t *numbers;
  const int64_t *sizes;
  const double *scales;
  const ctx_name *names;
  const char *text;
  const uint8_t *packed;
  const uint8_t *embedded; /* the embedded weights; NULL if they are in a file */
  uint64_t referenced;     /* elements of all ranges that were read */
  /* The alternative that is meant, the first one or that of ctx_part, and its tensors. */
  const ctx_alternative *chosen;
  const ctx_crossing *inputs, *outputs;
} ctx_container;

/* Reads a container of `size` bytes, which begin at an address that is a multiple of 8. */
bool ctx_read(const uint8_t *data, size_t size, ctx_container *out, ctx_error *error);

/* The same of a container whose border nobody uses; it need not fit the model. */
bool ctx_read_model(const uint8_t *data, size_t size, ctx_container *out, ctx_error *error);

/* The model of the chosen alternative, an NNAPI program. */
const ctx_model *ctx_chosen_model(const ctx_container *container);

/* The same container with a part of the first alternative, of that index among all. */
ctx_container ctx_part(const ctx_container *container, uint32_t index);

/* The container of an alternative: itself, or of a later one its own, which lies in *data then, to
 * be freed as long after it as it is used; else NULL. */
bool ctx_unpack(const ctx_container *container, uint32_t alternative, uint8_t **data,
                ctx_container *out, ctx_error *error);

/* The lowest NNAPI feature level at which the alternative of a container runs; 0: at any. */
uint32_t ctx_needed(const ctx_container *container, uint32_t alternative);

/* The tensors of the chosen alternative, its inputs and then its outputs: how many they are, one of
 * them, and where one of that name is on one side; false if none is. */
uint32_t ctx_tensor_count(const ctx_container *container);
const ctx_crossing *ctx_tensor_at(const ctx_container *container, uint32_t index);
bool ctx_find_tensor(const ctx_container *container, bool output, const char *name, size_t length,
                     uint32_t *index);

/* The operand of a tensor that enters or leaves the chosen alternative, an NNAPI program. */
const ctx_operand *ctx_operand_of(const ctx_container *container, const ctx_crossing *crossing,
                                  bool output);

/* True if two tensors, each of its container, have one element type and one shape. */
bool ctx_same_tensor(const ctx_container *c, const ctx_crossing *x, const ctx_container *other,
                     const ctx_crossing *y);

/* True if the name of a tensor or of the weights' file is `text`. */
bool ctx_text_is(const ctx_container *container, ctx_range name, const char *text);

/* Bytes of one element of an operand type; 0 for MODEL. */
size_t ctx_operand_element(int32_t type);

bool ctx_is_scalar(int32_t operand_type);

/* Bytes of one element of an ONNX type; 0 for types that do not cross the border. */
size_t ctx_onnx_element(int32_t type);

/* Bytes of an ONNX tensor that enters or leaves the cluster. */
size_t ctx_tensor_bytes(const ctx_container *container, const ctx_crossing *crossing);

/* Memory of that size, zeros, aligned as weights and tensors want it; NULL if there is none. */
void *ctx_aligned(size_t size);

/* Nanoseconds of a clock that nobody sets. */
uint64_t ctx_now(void);

/* The number of elements of an operand whose dimensions are all known. */
uint64_t ctx_operand_count(const ctx_container *container, const ctx_operand *operand);

#endif
