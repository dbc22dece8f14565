/* The records of a container. Generated from ep_nnapi/epcontext/layout.py:
 * python -m tests.epcontext.test_layout writes it. docs/context.md specifies it. */
#ifndef NNAPI_CONTEXT_FORMAT_H
#define NNAPI_CONTEXT_FORMAT_H

#include <stdint.h>

#define CTX_MAGIC "EP-NNAPI"
enum {
  CTX_VERSION = 5,
  CTX_ALIGNMENT = 64,
  CTX_MAX_DEPTH = 64,
  CTX_DICTIONARY = 32768,
  CTX_MOST_INFLATED = 256,
  CTX_TERMINATOR = 46,
  CTX_CHECKED_FROM = 48,
  CTX_MODEL_HAS_CHECKSUM = 1,
  CTX_VALUE_COMPUTED = 0,
  CTX_VALUE_CONSTANT = 1,
  CTX_VALUE_OMITTED = 2,
  CTX_VALUE_MODEL = 3,
  CTX_KIND_NNAPI = 0,
  CTX_KIND_LITERT = 1,
  CTX_KIND_ONNX = 2,
  CTX_KIND_PARTITION = 3,
};

/* X(name, code, bytes of an element, its ONNX type) for every OperandCode.
 * MODEL has no elements; scalars, which cross no border, have no ONNX type: 0. */
#define CTX_OPERAND_TYPES(X) \
  X(FLOAT32, 0, 4, 0) \
  X(INT32, 1, 4, 0) \
  X(UINT32, 2, 4, 0) \
  X(TENSOR_FLOAT32, 3, 4, 1) \
  X(TENSOR_INT32, 4, 4, 6) \
  X(TENSOR_QUANT8_ASYMM, 5, 1, 2) \
  X(BOOL, 6, 1, 0) \
  X(TENSOR_QUANT16_SYMM, 7, 2, 5) \
  X(TENSOR_FLOAT16, 8, 2, 10) \
  X(TENSOR_BOOL8, 9, 1, 9) \
  X(FLOAT16, 10, 2, 0) \
  X(TENSOR_QUANT8_SYMM_PER_CHANNEL, 11, 1, 3) \
  X(TENSOR_QUANT16_ASYMM, 12, 2, 4) \
  X(TENSOR_QUANT8_SYMM, 13, 1, 3) \
  X(TENSOR_QUANT8_ASYMM_SIGNED, 14, 1, 3) \
  X(MODEL, 15, 0, 0)

/* X(name, code, bytes of an element, numpy's name) for each TensorProto.DataType of
 * ONNX's that crosses the border. */
#define CTX_ONNX_TYPES(X) \
  X(FLOAT, 1, 4, "<f4") \
  X(UINT8, 2, 1, "|u1") \
  X(INT8, 3, 1, "|i1") \
  X(UINT16, 4, 2, "<u2") \
  X(INT16, 5, 2, "<i2") \
  X(INT32, 6, 4, "<i4") \
  X(INT64, 7, 8, "<i8") \
  X(BOOL, 9, 1, "|b1") \
  X(FLOAT16, 10, 2, "<f2") \
  X(DOUBLE, 11, 8, "<f8") \
  X(UINT32, 12, 4, "<u4") \
  X(UINT64, 13, 8, "<u8")

#define CTX_OPERAND(name, code, bytes, onnx) CTX_##name = code,
#define CTX_ONNX(name, code, bytes, numpy) CTX_ONNX_##name = code,
enum { CTX_OPERAND_TYPES(CTX_OPERAND) };
enum { CTX_ONNX_TYPES(CTX_ONNX) };

typedef struct {
  uint32_t first;
  uint32_t count;
} ctx_range;

/* A way to compute the cluster, or a part of an alternative that is a partition. */
typedef struct {
  uint32_t kind; /* what it is, an alternative kind */
  uint32_t feature_level; /* NNAPI, packed: the level that it needs, 1 to 8; else 0 */
  ctx_range name; /* its name, such as nnapi:4: bytes of `text` */
  ctx_range models; /* NNAPI: its model and those that it refers to, in `models` */
  ctx_range inputs; /* the tensors that enter it, in `crossings` */
  ctx_range outputs; /* the tensors that leave it, in `crossings` */
  ctx_range parts; /* partition: its parts in the order of their runs, in this table */
  ctx_range composites; /* NNAPI: its composites, JSON in `text`; may be empty */
  uint64_t offset; /* LiteRT, ONNX, packed: its first byte in `packed` */
  uint64_t size; /* LiteRT, ONNX, packed: its bytes; else 0 */
} ctx_alternative;
_Static_assert(sizeof(ctx_alternative) == 72, "alternative");

/* An NNAPI model. The first of an alternative computes it; others are values of operands. */
typedef struct {
  ctx_range operands; /* its operands, in `operands` */
  ctx_range operations; /* its operations, in `operations` */
  ctx_range inputs; /* its inputs, by index among its operands, in `numbers` */
  ctx_range outputs; /* its outputs, by index among its operands, in `numbers` */
  uint32_t relaxed; /* 1 if float32 may be computed as float16, else 0 */
} ctx_model;
_Static_assert(sizeof(ctx_model) == 36, "model");

/* An operand of a model. */
typedef struct {
  int32_t type; /* the NDK's OperandCode */
  uint32_t value; /* source of the value, a value kind */
  double scale; /* scale, for NNAPI rounded to float; 0 if there is none */
  int32_t zero_point; /* zero point; 0 if there is none */
  uint32_t channel_dimension; /* dimension of the scales per channel; 0 without them */
  ctx_range dimensions; /* sizes, in `numbers`; 0 for an unknown one */
  ctx_range channel_scales; /* scales per channel, in `scales`; none for other types */
  uint64_t offset; /* constant: first byte in the weights; model: its index in `models` */
  uint64_t size; /* constant: number of bytes; else 0 */
} ctx_operand;
_Static_assert(sizeof(ctx_operand) == 56, "operand");

/* An operation of a model. */
typedef struct {
  int32_t type; /* the NDK's OperationCode */
  ctx_range inputs; /* operands of the model, by index in it, in `numbers` */
  ctx_range outputs; /* operands of the model, by index in it, in `numbers` */
  ctx_range origin; /* names of the ONNX nodes it was lowered from, in `names` */
} ctx_operation;
_Static_assert(sizeof(ctx_operation) == 28, "operation");

/* An ONNX tensor at the cluster's border, and the operand that it becomes or comes from. */
typedef struct {
  ctx_range name; /* the tensor's name: bytes of `text` */
  int32_t element_type; /* ONNX's TensorProto.DataType of the tensor */
  uint32_t operand; /* position among the model's inputs or outputs */
  ctx_range shape; /* the tensor's sizes, in `sizes` */
  ctx_range permutation; /* axis i of the operand is this axis; none: same layout */
} ctx_crossing;
_Static_assert(sizeof(ctx_crossing) == 32, "crossing");

/* A name. */
typedef struct {
  ctx_range text; /* its bytes in `text`, UTF-8 */
} ctx_name;
_Static_assert(sizeof(ctx_name) == 8, "name");

/* The first record of a container. */
typedef struct {
  uint8_t magic[8]; /* `EP-NNAPI` */
  uint32_t version; /* format version, 5 */
  uint32_t reserved; /* 0 */
  uint8_t sha256[32]; /* SHA-256 of all bytes of the program after this field; if packed: 0 */
  uint64_t program_size; /* bytes of header and tables, a multiple of 64 */
  uint8_t weights_sha256[32]; /* SHA-256 of the weights; if packed: 0 */
  uint64_t weights_offset; /* first byte of the weights in their file; 0 if embedded */
  uint64_t weights_size; /* bytes of the weights */
  uint64_t weights_file_size; /* bytes of the whole file of weights; 0 if embedded */
  ctx_range weights_file; /* name of that file: bytes of `text`; empty if embedded */
  uint32_t choices; /* so many alternatives, the first, compute the cluster; at least 1 */
  uint32_t flags; /* 1: the model's file has a checksum of itself; else 0 */
  ctx_range alternatives; /* the table `alternatives`: its offset, and its count */
  ctx_range models; /* the table `models`: its offset, and its count */
  ctx_range operands; /* the table `operands`: its offset, and its count */
  ctx_range operations; /* the table `operations`: its offset, and its count */
  ctx_range crossings; /* the table `crossings`: its offset, and its count */
  ctx_range numbers; /* the table `numbers`: its offset, and its count */
  ctx_range sizes; /* the table `sizes`: its offset, and its count */
  ctx_range scales; /* the table `scales`: its offset, and its count */
  ctx_range names; /* the table `names`: its offset, and its count */
  ctx_range text; /* the table `text`: its offset, and its count */
  ctx_range packed; /* the table `packed`: its offset, and its count */
} ctx_header;
_Static_assert(sizeof(ctx_header) == 216, "header");

#endif
