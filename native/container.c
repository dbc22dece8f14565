/* Reader of containers: see container.h. ep_nnapi/epcontext/container.py calls it for Python,
 * whose writer is tables.py there. */
#include "container.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flow.h"
#include "inflate.h"
#include "sha256.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the tables of a container are little-endian"
#endif

static const char CORRUPT[] = "the context is corrupt or truncated; prepare the model again";

#ifndef CTX_SIZE_MAX /* tests have that of 32 bits */
#define CTX_SIZE_MAX SIZE_MAX
#endif

/* An operand takes less than 4 GB: lengths are 32-bit in the NDK. */
static const uint64_t MOST_BYTES = UINT32_MAX;

#define OPERAND(name, code, bytes, onnx) [code] = {bytes, onnx},
static const struct {
  uint8_t bytes, onnx;
} operand_types[] = {CTX_OPERAND_TYPES(OPERAND)};
#define ONNX(name, code, bytes, numpy) [code] = bytes,
static const uint8_t onnx_bytes[] = {CTX_ONNX_TYPES(ONNX)};
#define COUNT(table) (int32_t)(sizeof(table) / sizeof *(table))

size_t ctx_operand_element(int32_t type) {
  return type >= 0 && type < COUNT(operand_types) ? operand_types[type].bytes : 0;
}

/* The ONNX type of an operand's elements; 0 for scalars and models, which never cross. */
static int32_t onnx_type(int32_t operand_type) {
  return ctx_operand_element(operand_type) > 0 ? operand_types[operand_type].onnx : 0;
}

size_t ctx_onnx_element(int32_t type) {
  return type >= 0 && type < COUNT(onnx_bytes) ? onnx_bytes[type] : 0;
}

bool ctx_is_scalar(int32_t type) {
  return ctx_operand_element(type) > 0 && operand_types[type].onnx == 0;
}

bool ctx_text_is(const ctx_container *c, ctx_range name, const char *text) {
  return strlen(text) == name.count && memcmp(c->text + name.first, text, name.count) == 0;
}

const ctx_operand *ctx_operand_of(const ctx_container *c, const ctx_crossing *crossing,
                                  bool output) {
  const ctx_model *model = ctx_chosen_model(c);
  const ctx_range ends = output ? model->outputs : model->inputs;
  return &c->operands[model->operands.first + c->numbers[ends.first + crossing->operand]];
}

const ctx_model *ctx_chosen_model(const ctx_container *c) {
  return &c->models[c->chosen->models.first];
}

ctx_container ctx_part(const ctx_container *c, uint32_t index) {
  ctx_container other = *c;
  other.chosen = &c->alternatives[index];
  other.inputs = c->crossings + other.chosen->inputs.first;
  other.outputs = c->crossings + other.chosen->outputs.first;
  return other;
}

uint32_t ctx_tensor_count(const ctx_container *c) {
  return c->chosen->inputs.count + c->chosen->outputs.count;
}

const ctx_crossing *ctx_tensor_at(const ctx_container *c, uint32_t index) {
  const uint32_t inputs = c->chosen->inputs.count;
  return index < inputs ? &c->inputs[index] : &c->outputs[index - inputs];
}

bool ctx_find_tensor(const ctx_container *c, bool output, const char *name, size_t length,
                     uint32_t *index) {
  const uint32_t inputs = c->chosen->inputs.count, end = output ? ctx_tensor_count(c) : inputs;
  for (*index = output ? inputs : 0; *index < end; ++*index) {
    const ctx_range own = ctx_tensor_at(c, *index)->name;
    if (own.count == length && memcmp(c->text + own.first, name, length) == 0) return true;
  }
  return false;
}

size_t ctx_tensor_bytes(const ctx_container *c, const ctx_crossing *crossing) {
  size_t size = ctx_onnx_element(crossing->element_type);
  uint32_t i;
  for (i = 0; i < crossing->shape.count; i++) size *= (size_t)c->sizes[crossing->shape.first + i];
  return size;
}

void *ctx_aligned(size_t size) {
  void *made = NULL;
  if (posix_memalign(&made, CTX_ALIGNMENT, size > 0 ? size : 1) != 0) return NULL;
  return memset(made, 0, size);
}

uint64_t ctx_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t ctx_operand_count(const ctx_container *c, const ctx_operand *operand) {
  uint64_t count = 1;
  uint32_t i;
  for (i = 0; i < operand->dimensions.count; i++)
    count *= c->numbers[operand->dimensions.first + i];
  return count;
}

/* True if `part` lies in a table of `count` elements. */
static bool within(ctx_range part, uint32_t count) {
  return part.first <= count && part.count <= count - part.first;
}

/* Ranges may overlap, but have no more elements together than the program has bytes, so that a
 * container is read in time in proportion to its size. */
static bool check_part(ctx_container *c, ctx_range part, uint32_t count, const char *table,
                       ctx_error *error) {
  c->referenced += part.count;
  if (c->referenced > c->header->program_size)
    return ctx_malformed(error, "ranges share elements of the table %s", table);
  if (within(part, count)) return true;
  return ctx_malformed(error, "a range of %u from %u lies outside of the table %s", part.count,
                       part.first, table);
}

static bool check_text(ctx_container *c, ctx_range name, ctx_error *error) {
  TRY(check_part(c, name, c->header->text.count, "text", error));
  if (name.count > 0 && memchr(c->text + name.first, '\0', name.count) != NULL)
    return ctx_malformed(error, "a name has a NUL");
  return ctx_is_utf8(c->text + name.first, name.count) ||
         ctx_malformed(error, "a name is not UTF-8");
}

/* True if a table of elements of `size` bytes lies in the program. */
static bool check_table(const ctx_container *c, ctx_range table, size_t size, const char *name,
                        ctx_error *error) {
  const uint64_t bytes = (uint64_t)table.count * size;
  if (table.first <= c->header->program_size && bytes <= c->header->program_size - table.first &&
      (size == 1 || table.first % 8 == 0))
    return true;
  return ctx_malformed(error, "the table %s lies outside of the context", name);
}

static bool find_tables(ctx_container *c, ctx_error *error) {
#define FIND(table)                                                       \
  TRY(check_table(c, c->header->table, sizeof *c->table, #table, error)); \
  c->table = (const void *)(c->data + c->header->table.first)
  FIND(alternatives);
  FIND(models);
  FIND(operands);
  FIND(operations);
  FIND(crossings);
  FIND(numbers);
  FIND(sizes);
  FIND(scales);
  FIND(names);
  FIND(text);
  FIND(packed);
#undef FIND
  return true;
}

static bool check_dimensions(ctx_container *c, const ctx_operand *operand, ctx_error *error) {
  uint64_t bytes = ctx_operand_element(operand->type);
  uint32_t i;
  TRY(check_part(c, operand->dimensions, c->header->numbers.count, "numbers", error));
  if ((ctx_is_scalar(operand->type) || operand->type == CTX_MODEL) && operand->dimensions.count > 0)
    return ctx_malformed(error, "a scalar has dimensions");
  for (i = 0; i < operand->dimensions.count; i++) {
    const uint32_t size = c->numbers[operand->dimensions.first + i];
    if (size > 0) bytes *= size;
    if (bytes > MOST_BYTES) return ctx_malformed(error, "an operand takes more than 4 GB");
  }
  return true;
}

/* True for 0, and for numbers that are finite and other than 0 when they are rounded to float. */
static bool is_float(double scale) {
  return scale == 0 || (scale >= -FLT_MAX && scale <= FLT_MAX && (float)scale != 0);
}

static bool check_channels(ctx_container *c, const ctx_operand *operand, ctx_error *error) {
  const ctx_range scales = operand->channel_scales;
  uint32_t i;
  TRY(check_part(c, scales, c->header->scales.count, "scales", error));
  if ((operand->type == CTX_TENSOR_QUANT8_SYMM_PER_CHANNEL) != (scales.count > 0))
    return ctx_malformed(error, "scales per channel do not go with the operand's type");
  if (scales.count == 0) return true;
  for (i = 0; i < scales.count; i++)
    if (!is_float(c->scales[scales.first + i])) return ctx_malformed(error, "a scale is no float");
  if (operand->channel_dimension >= operand->dimensions.count ||
      c->numbers[operand->dimensions.first + operand->channel_dimension] != scales.count)
    return ctx_malformed(error, "there is not one scale for each channel");
  return true;
}

static bool check_value(const ctx_container *c, const ctx_operand *operand, uint32_t model,
                        ctx_error *error) {
  const ctx_range own = c->chosen->models;
  const uint64_t weights = c->header->weights_size;
  if ((operand->value == CTX_VALUE_MODEL) != (operand->type == CTX_MODEL))
    return ctx_malformed(error, "models, and only models, are values of MODEL operands");
  switch (operand->value) {
    case CTX_VALUE_COMPUTED:
    case CTX_VALUE_OMITTED: return true;
    case CTX_VALUE_CONSTANT:
      if (operand->offset > weights || operand->size > weights - operand->offset)
        return ctx_malformed(error, "a constant lies outside of the weights");
      if (operand->size != ctx_operand_count(c, operand) * ctx_operand_element(operand->type) ||
          operand->size == 0 || (operand->dimensions.count == 0 && !ctx_is_scalar(operand->type)))
        return ctx_malformed(error, "a constant has not the bytes of its type and dimensions");
      return true;
    case CTX_VALUE_MODEL:
      if (operand->offset <= model || operand->offset - own.first >= own.count)
        return ctx_malformed(error, "model %u refers to an earlier one, to itself or to none",
                             model);
      return true;
    default: return ctx_malformed(error, "an operand's value is of kind %u", operand->value);
  }
}

static bool check_operand(ctx_container *c, const ctx_operand *operand, uint32_t model,
                          ctx_error *error) {
  if (operand->type < 0 || operand->type > CTX_MODEL)
    return ctx_malformed(error, "%d is no operand type", operand->type);
  if (!is_float(operand->scale)) return ctx_malformed(error, "a scale is no float");
  return check_dimensions(c, operand, error) && check_channels(c, operand, error) &&
         check_value(c, operand, model, error);
}

/* A range of `numbers` that are indexes of the model's operands. */
static bool check_indexes(ctx_container *c, ctx_range part, const ctx_model *model,
                          ctx_error *error) {
  uint32_t i;
  TRY(check_part(c, part, c->header->numbers.count, "numbers", error));
  for (i = 0; i < part.count; i++)
    if (c->numbers[part.first + i] >= model->operands.count)
      return ctx_malformed(error, "operand %u of %u is named", c->numbers[part.first + i],
                           model->operands.count);
  return true;
}

static bool check_operation(ctx_container *c, const ctx_operation *operation,
                            const ctx_model *model, ctx_error *error) {
  uint32_t i;
  TRY(check_indexes(c, operation->inputs, model, error));
  TRY(check_indexes(c, operation->outputs, model, error));
  TRY(check_part(c, operation->origin, c->header->names.count, "names", error));
  for (i = 0; i < operation->origin.count; i++)
    TRY(check_text(c, c->names[operation->origin.first + i].text, error));
  return true;
}

static bool check_model(ctx_container *c, uint32_t index, ctx_error *error) {
  const ctx_model *model = &c->models[index];
  uint32_t i;
  TRY(check_part(c, model->operands, c->header->operands.count, "operands", error));
  TRY(check_part(c, model->operations, c->header->operations.count, "operations", error));
  if (model->relaxed > 1) return ctx_malformed(error, "relaxed is %u", model->relaxed);
  for (i = 0; i < model->operands.count; i++)
    TRY(check_operand(c, &c->operands[model->operands.first + i], index, error));
  for (i = 0; i < model->operations.count; i++)
    TRY(check_operation(c, &c->operations[model->operations.first + i], model, error));
  return check_indexes(c, model->inputs, model, error) &&
         check_indexes(c, model->outputs, model, error);
}

/* Models refer to later ones only, so depths are known when they are computed from the last one. */
static bool check_depths(const ctx_container *c, ctx_error *error) {
  const ctx_range own = c->chosen->models;
  uint8_t *depths = calloc(own.count, 1);
  uint32_t index = own.count, i;
  bool right = true;
  if (depths == NULL) return ctx_out_of_memory(error);
  while (right && index-- > 0) {
    const ctx_model *model = &c->models[own.first + index];
    for (i = 0; i < model->operands.count; i++) {
      const ctx_operand *operand = &c->operands[model->operands.first + i];
      if (operand->value == CTX_VALUE_MODEL && depths[operand->offset - own.first] >= depths[index])
        depths[index] = (uint8_t)(depths[operand->offset - own.first] + 1);
    }
    right = depths[index] <= CTX_MAX_DEPTH;
  }
  free(depths);
  return right || ctx_malformed(error, "models are nested more than %d deep", CTX_MAX_DEPTH);
}

static bool check_models(ctx_container *c, ctx_error *error) {
  const ctx_range own = c->chosen->models;
  uint32_t i;
  TRY(check_part(c, own, c->header->models.count, "models", error));
  for (i = 0; i < own.count; i++) TRY(check_model(c, own.first + i, error));
  return check_depths(c, error);
}

static bool is_permutation(const uint32_t *axes, uint32_t rank) {
  uint64_t seen = 0;
  uint32_t i;
  for (i = 0; i < rank; i++) {
    if (axes[i] >= rank || (seen & (uint64_t)1 << axes[i]) != 0) return false;
    seen |= (uint64_t)1 << axes[i];
  }
  return true;
}

/* The number of elements of an ONNX tensor; 0 if it is none of an alternative. */
static uint64_t tensor_count(const ctx_container *c, const ctx_crossing *crossing) {
  enum { MOST_AXES = 64 };
  const size_t element = ctx_onnx_element(crossing->element_type);
  uint64_t count = 1;
  uint32_t i;
  if (crossing->shape.count > MOST_AXES || element == 0) return 0;
  for (i = 0; i < crossing->shape.count; i++) {
    const int64_t size = c->sizes[crossing->shape.first + i];
    if (size < 1 || (uint64_t)size > MOST_BYTES / count) return 0;
    count *= (uint64_t)size;
  }
  return count <= CTX_SIZE_MAX / element ? count : 0;
}

static bool fits(const ctx_container *c, const ctx_crossing *crossing, const ctx_operand *operand) {
  const int32_t inside = onnx_type(operand->type), outside = crossing->element_type;
  const uint64_t count = tensor_count(c, crossing);
  if (inside == 0 || operand->dimensions.count == 0) return false;
  if (inside != outside && !(outside == CTX_ONNX_INT8 && inside == CTX_ONNX_UINT8) &&
      !(outside == CTX_ONNX_INT64 && inside == CTX_ONNX_INT32))
    return false;
  if (count == 0 || count != ctx_operand_count(c, operand)) return false;
  return crossing->permutation.count == 0 ||
         (crossing->permutation.count == crossing->shape.count &&
          is_permutation(c->numbers + crossing->permutation.first, crossing->shape.count));
}

/* True for an alternative without NNAPI whose tensor of this position is as the crossing says. */
static bool is_tensor(const ctx_container *c, const ctx_crossing *crossing, uint32_t position) {
  return crossing->operand == position && crossing->permutation.count == 0 &&
         tensor_count(c, crossing) > 0;
}

bool ctx_same_tensor(const ctx_container *c, const ctx_crossing *x, const ctx_container *other,
                     const ctx_crossing *y) {
  return x->element_type == y->element_type && x->shape.count == y->shape.count &&
         memcmp(c->sizes + x->shape.first, other->sizes + y->shape.first,
                x->shape.count * sizeof *c->sizes) == 0;
}

/* The operands of a program's model on one side; those of others are the tensors themselves. */
static uint32_t end_count(const ctx_container *c, bool output) {
  const ctx_model *model;
  if (c->chosen->kind != CTX_KIND_NNAPI)
    return output ? c->chosen->outputs.count : c->chosen->inputs.count;
  model = ctx_chosen_model(c);
  return output ? model->outputs.count : model->inputs.count;
}

/* The tensors of one side: each fits its operand, and each operand has one (at least one: out). */
static bool check_side(ctx_container *c, bool output, ctx_error *error) {
  const ctx_range own = output ? c->chosen->outputs : c->chosen->inputs;
  const ctx_crossing *crossings = output ? c->outputs : c->inputs;
  const uint32_t ends = end_count(c, output);
  uint8_t *met = calloc((size_t)ends + 1, 1);
  uint32_t i, met_count = 0;
  bool right = met != NULL || ctx_out_of_memory(error);
  for (i = 0; right && i < own.count; i++) {
    const ctx_crossing *crossing = &crossings[i];
    right = check_text(c, crossing->name, error) &&
            check_part(c, crossing->shape, c->header->sizes.count, "sizes", error) &&
            check_part(c, crossing->permutation, c->header->numbers.count, "numbers", error);
    if (!right) break;
    if (c->chosen->kind == CTX_KIND_NNAPI
            ? crossing->operand >= ends || !fits(c, crossing, ctx_operand_of(c, crossing, output))
            : !is_tensor(c, crossing, i)) {
      right = ctx_malformed(error, "%.*s does not fit its operand", (int)crossing->name.count,
                            c->text + crossing->name.first);
      break;
    }
    if (!met[crossing->operand]) met_count++;
    met[crossing->operand] = 1;
  }
  free(met);
  if (right && (met_count != ends || (!output && own.count != ends)))
    return ctx_malformed(error, "the border does not fit the model");
  return right;
}

/* Its place in the table `packed`. */
static bool check_bytes(ctx_container *c, const ctx_alternative *a, ctx_error *error) {
  const uint32_t count = c->header->packed.count;
  const ctx_range part = {(uint32_t)a->offset, (uint32_t)a->size};
  if (a->offset > count || a->size > count)
    return ctx_malformed(error, "an alternative lies outside of the table packed");
  return check_part(c, part, count, "packed", error);
}

/* A later alternative, of which nothing but its name is read before it is used. */
static bool check_packed(ctx_container *c, uint32_t index, ctx_error *error) {
  static const ctx_range none[5];
  const ctx_alternative *a = &c->alternatives[index];
  _Static_assert(
      offsetof(ctx_alternative, offset) - offsetof(ctx_alternative, models) == sizeof none,
      "the ranges that it has not");
  if (a->kind > CTX_KIND_PARTITION || a->feature_level > 8 || a->size == 0 ||
      memcmp(&a->models, none, sizeof none) != 0)
    return ctx_malformed(error, "alternative %u is not packed", index);
  return check_text(c, a->name, error) && check_bytes(c, a, error);
}

/* What an alternative has is what its kind has; its parts come after it and are no partitions. */
static bool check_kind(ctx_container *c, uint32_t index, ctx_error *error) {
  const ctx_alternative *a = &c->alternatives[index];
  const bool nnapi = a->kind == CTX_KIND_NNAPI, parts = a->kind == CTX_KIND_PARTITION;
  const uint32_t least = index < c->header->choices ? c->header->choices : index + 1;
  uint32_t i;
  if (a->kind > CTX_KIND_PARTITION || a->feature_level > 8 || nnapi != (a->feature_level > 0) ||
      nnapi != (a->models.count > 0) || (a->composites.count > 0 && !nnapi) ||
      parts != (a->parts.count > 0) || (a->size > 0) != (!nnapi && !parts) ||
      (a->offset > 0 && a->size == 0))
    return ctx_malformed(error, "alternative %u is not what its kind %u has", index, a->kind);
  if (!nnapi && !parts) TRY(check_bytes(c, a, error));
  if (parts && (a->parts.first < least || !within(a->parts, c->header->alternatives.count)))
    return ctx_malformed(error, "the parts of alternative %u are none", index);
  for (i = 0; i < a->parts.count; i++)
    if (c->alternatives[a->parts.first + i].kind == CTX_KIND_PARTITION)
      return ctx_malformed(error, "a partition is part of another");
  return true;
}

static bool check_alternative(ctx_container *c, uint32_t index, bool border, ctx_error *error) {
  const ctx_alternative *a = &c->alternatives[index];
  TRY(check_part(c, a->inputs, c->header->crossings.count, "crossings", error));
  TRY(check_part(c, a->outputs, c->header->crossings.count, "crossings", error));
  TRY(check_text(c, a->name, error) && check_text(c, a->composites, error));
  TRY(check_kind(c, index, error));
  c->referenced += a->parts.count;
  *c = ctx_part(c, index);
  if (a->kind == CTX_KIND_NNAPI) TRY(check_models(c, error));
  if (!border) return true;
  TRY(check_side(c, false, error) && check_side(c, true, error));
  TRY(ctx_check_names(c, false, error) && ctx_check_names(c, true, error));
  return a->kind != CTX_KIND_PARTITION || ctx_check_flow(c, error);
}

static bool check_alternatives(ctx_container *c, bool border, ctx_error *error) {
  const uint32_t count = c->header->alternatives.count;
  uint32_t index;
  if (c->header->choices < 1 || c->header->choices > count)
    return ctx_malformed(error, "%u of %u alternatives compute it", c->header->choices, count);
  for (index = count; index-- > 0;)
    TRY(index > 0 && index < c->header->choices ? check_packed(c, index, error)
                                                : check_alternative(c, index, border, error));
  return true;
}

static bool check_header(ctx_container *c, ctx_error *error) {
  const ctx_header *h = c->header;
  TRY(check_text(c, h->weights_file, error));
  if (h->reserved != 0 || h->flags > CTX_MODEL_HAS_CHECKSUM)
    return ctx_malformed(error, "it sets bits that have no meaning");
  if (h->weights_file.count == 0 && (h->weights_offset != 0 || h->weights_file_size != 0))
    return ctx_malformed(error, "its weights are embedded and in a file");
  if (h->weights_offset > h->weights_file_size ||
      (h->weights_file.count > 0 && h->weights_size > h->weights_file_size - h->weights_offset))
    return ctx_malformed(error, "its weights lie outside of their file");
  return true;
}

/* Magic, version and sizes. */
static bool check_program(const uint8_t *data, size_t size, ctx_error *error) {
  const ctx_header *header = (const ctx_header *)(const void *)data;
  if (size < 12 || memcmp(data, CTX_MAGIC, sizeof header->magic) != 0)
    return ctx_fail(error,
                    "the data is not an ep-nnapi context, or is corrupt; prepare the model again");
  if (size < sizeof *header) return ctx_fail(error, "%s", CORRUPT);
  if (header->version != CTX_VERSION)
    return ctx_fail(error, "the context has format %u, this version reads %d; %s", header->version,
                    CTX_VERSION,
                    header->version > CTX_VERSION ? "upgrade ep-nnapi or prepare the model again"
                                                  : "prepare the model again");
  if (header->program_size < sizeof *header || header->program_size > size ||
      header->program_size > UINT32_MAX)
    return ctx_fail(error, "%s", CORRUPT);
  return true;
}

static bool check_digest(const ctx_container *c, ctx_error *error) {
  const size_t size = (size_t)c->header->program_size;
  uint8_t digest[SHA256_BYTES];
  sha256_of(c->data + CTX_CHECKED_FROM, size - CTX_CHECKED_FROM, digest);
  return memcmp(digest, c->header->sha256, sizeof digest) == 0 || ctx_fail(error, "%s", CORRUPT);
}

/* What follows the program: the embedded weights, if any, and the end. */
static bool find_embedded(ctx_container *c, size_t size, ctx_error *error) {
  const uint64_t rest = size - c->header->program_size;
  const uint64_t weights = c->header->weights_file.count > 0 ? 0 : c->header->weights_size;
  if (rest < 1 || c->data[size - 1] != CTX_TERMINATOR)
    return ctx_fail(error, "the context is truncated; prepare the model again");
  if (rest - 1 != weights)
    return ctx_fail(error, "the context's weights are truncated; prepare the model again");
  c->embedded = c->header->weights_file.count > 0 ? NULL : c->data + c->header->program_size;
  return true;
}

/* A packed alternative's own program is for the same weights. It has no digests, as that of the
 * program around it has its bytes and the weights'. */
static bool fits_into(const ctx_container *c, size_t size, const ctx_container *around,
                      ctx_error *error) {
  static const uint8_t none[SHA256_BYTES];
  const ctx_header *h = c->header, *other = around->header;
  const ctx_range name = h->weights_file, other_name = other->weights_file;
  return (h->program_size == size && h->choices == 1 && memcmp(h->sha256, none, sizeof none) == 0 &&
          memcmp(h->weights_sha256, none, sizeof none) == 0 &&
          h->weights_offset == other->weights_offset && h->weights_size == other->weights_size &&
          h->weights_file_size == other->weights_file_size && name.count == other_name.count &&
          memcmp(c->text + name.first, around->text + other_name.first, name.count) == 0) ||
         ctx_malformed(error, "a packed alternative has other weights or choices");
}

/* `around`: the container that it is packed in; else NULL. */
static bool read_container(const uint8_t *data, size_t size, bool border,
                           const ctx_container *around, ctx_container *out, ctx_error *error) {
  ctx_container c = {.data = data, .header = (const ctx_header *)(const void *)data};
  TRY(check_program(data, size, error));
  TRY(around != NULL || check_digest(&c, error));
  TRY(find_tables(&c, error));
  TRY(check_header(&c, error));
  TRY(around == NULL ? find_embedded(&c, size, error) : fits_into(&c, size, around, error));
  TRY(check_alternatives(&c, border, error)); /* from the last to the first, which is chosen then */
  *out = c;
  return true;
}

bool ctx_read(const uint8_t *data, size_t size, ctx_container *out, ctx_error *error) {
  return read_container(data, size, true, NULL, out, error);
}

bool ctx_read_model(const uint8_t *data, size_t size, ctx_container *out, ctx_error *error) {
  TRY(read_container(data, size, false, NULL, out, error));
  return out->chosen->kind == CTX_KIND_NNAPI || ctx_malformed(error, "it has no NNAPI model first");
}

uint32_t ctx_needed(const ctx_container *c, uint32_t alternative) {
  const ctx_alternative *a = &c->alternatives[alternative];
  uint32_t level = a->feature_level, i;
  for (i = 0; i < a->parts.count; i++)
    if (c->alternatives[a->parts.first + i].feature_level > level)
      level = c->alternatives[a->parts.first + i].feature_level;
  return level;
}

/* What packed alternatives were deflated with: from the table of models to the end of that of text. */
static ctx_bytes before_packed(const ctx_container *c) {
  const size_t first = c->header->models.first;
  const size_t end = (size_t)c->header->text.first + c->header->text.count;
  const size_t size = end < first ? 0 : end - first;
  const size_t used = size < CTX_DICTIONARY ? size : CTX_DICTIONARY;
  return (ctx_bytes){c->data + end - used, used};
}

static bool read_packed(const ctx_container *c, const ctx_alternative *a, uint8_t *data,
                        size_t size, ctx_container *out, ctx_error *error) {
  const size_t length = sizeof(uint32_t); /* of the size */
  const ctx_bytes packed = {c->packed + a->offset + length, (size_t)a->size - length};
  if (!ctx_inflate(packed, before_packed(c), data, size))
    return ctx_malformed(error, "a packed alternative is corrupt");
  TRY(read_container(data, size, true, c, out, error));
  return (out->chosen->kind == a->kind && ctx_needed(out, 0) == a->feature_level) ||
         ctx_malformed(error, "a packed alternative is another one");
}

bool ctx_unpack(const ctx_container *c, uint32_t alternative, uint8_t **data, ctx_container *out,
                ctx_error *error) {
  const ctx_alternative *a = &c->alternatives[alternative];
  uint32_t size = 0;
  *data = NULL;
  *out = *c;
  if (alternative == 0) return true;
  if (a->size > sizeof size) memcpy(&size, c->packed + a->offset, sizeof size);
  if (size == 0 || size > CTX_MOST_INFLATED * a->size)
    return ctx_malformed(error, "a packed alternative is corrupt");
  *data = ctx_aligned(size);
  if (*data == NULL) return ctx_out_of_memory(error);
  if (read_packed(c, a, *data, size, out, error)) return true;
  free(*data);
  *data = NULL;
  return false;
}
