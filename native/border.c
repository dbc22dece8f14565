/* Conversions at the border: see border.h. Python's are ep_nnapi/lowering/border.py. */
#include "border.h"

#include <string.h>

enum { MOST_AXES = 64 };

/* A walk over an ONNX tensor in the order of the operand's elements. */
typedef struct {
  uint32_t rank;
  size_t sizes[MOST_AXES];   /* of the operand's axes */
  size_t strides[MOST_AXES]; /* elements of the tensor from one index of an axis to the next */
} walk;

typedef enum { COPY_1, COPY_2, COPY_4, CHANGE_SIGN, NARROW, WIDEN } conversion;

/* Merges axes of size 1 and axes that follow one another in the tensor too. */
static void add_axis(walk *w, size_t size, size_t stride) {
  if (size == 1) return;
  if (w->rank > 0 && w->strides[w->rank - 1] == stride * size) {
    w->sizes[w->rank - 1] *= size;
    w->strides[w->rank - 1] = stride;
    return;
  }
  w->sizes[w->rank] = size;
  w->strides[w->rank] = stride;
  w->rank++;
}

static walk walk_of(const ctx_container *c, const ctx_crossing *crossing) {
  const int64_t *shape = c->sizes + crossing->shape.first;
  const uint32_t rank = crossing->shape.count;
  size_t strides[MOST_AXES], stride = 1;
  walk w = {0};
  uint32_t i;
  for (i = rank; i-- > 0; stride *= (size_t)shape[i]) strides[i] = stride;
  for (i = 0; i < rank; i++) {
    const uint32_t axis =
        crossing->permutation.count > 0 ? c->numbers[crossing->permutation.first + i] : i;
    add_axis(&w, (size_t)shape[axis], strides[axis]);
  }
  if (w.rank == 0) w.sizes[w.rank++] = 1;
  return w;
}

/* One row: `count` elements, of the operand one after the other, of the tensor by a stride. */
#define ROW(type, from_tensor)                                                  \
  do {                                                                          \
    size_t i_;                                                                  \
    if (stride == 1 && from_tensor)                                             \
      memcpy(contents, tensor, count * sizeof(type));                           \
    else if (stride == 1)                                                       \
      memcpy(tensor, contents, count * sizeof(type));                           \
    else if (from_tensor)                                                       \
      for (i_ = 0; i_ < count; i_++)                                            \
        memcpy((char *)contents + i_ * sizeof(type),                            \
               (const char *)tensor + i_ * stride * sizeof(type), sizeof(type)); \
    else                                                                        \
      for (i_ = 0; i_ < count; i_++)                                            \
        memcpy((char *)tensor + i_ * stride * sizeof(type),                     \
               (const char *)contents + i_ * sizeof(type), sizeof(type));       \
  } while (0)

static void change_signs(const uint8_t *from, size_t from_stride, uint8_t *to, size_t to_stride,
                         size_t count) {
  size_t i;
  for (i = 0; i < count; i++) to[i * to_stride] = from[i * from_stride] ^ 0x80;
}

static void narrow(const char *tensor, size_t stride, char *contents, size_t count) {
  size_t i;
  for (i = 0; i < count; i++) {
    int64_t wide;
    uint32_t low;
    memcpy(&wide, tensor + i * stride * sizeof wide, sizeof wide);
    low = (uint32_t)((uint64_t)wide & UINT32_MAX);
    memcpy(contents + i * sizeof low, &low, sizeof low);
  }
}

static void widen(const char *contents, char *tensor, size_t stride, size_t count) {
  size_t i;
  for (i = 0; i < count; i++) {
    int32_t narrow_value;
    int64_t wide;
    memcpy(&narrow_value, contents + i * sizeof narrow_value, sizeof narrow_value);
    wide = narrow_value;
    memcpy(tensor + i * stride * sizeof wide, &wide, sizeof wide);
  }
}

static void row(conversion how, bool entering, char *tensor, size_t stride, char *contents,
                size_t count) {
  switch (how) {
    case COPY_1: ROW(uint8_t, entering); break;
    case COPY_2: ROW(uint16_t, entering); break;
    case COPY_4: ROW(uint32_t, entering); break;
    case NARROW: narrow(tensor, stride, contents, count); break;
    case WIDEN: widen(contents, tensor, stride, count); break;
    case CHANGE_SIGN:
      if (entering)
        change_signs((const uint8_t *)tensor, stride, (uint8_t *)contents, 1, count);
      else
        change_signs((const uint8_t *)contents, 1, (uint8_t *)tensor, stride, count);
  }
}

static conversion conversion_of(const ctx_crossing *crossing, const ctx_operand *operand,
                                bool entering) {
  if (crossing->element_type == CTX_ONNX_INT8 && operand->type == CTX_TENSOR_QUANT8_ASYMM)
    return CHANGE_SIGN;
  if (crossing->element_type == CTX_ONNX_INT64) return entering ? NARROW : WIDEN;
  switch (ctx_operand_element(operand->type)) {
    case 1: return COPY_1;
    case 2: return COPY_2;
    default: return COPY_4;
  }
}

bool ctx_crossing_is_plain(const ctx_container *c, const ctx_crossing *crossing,
                           const ctx_operand *operand) {
  const walk w = walk_of(c, crossing);
  return crossing->element_type != CTX_ONNX_INT64 &&
         conversion_of(crossing, operand, true) != CHANGE_SIGN && w.rank == 1 && w.strides[0] <= 1;
}

/* Rows are the walk's last axis; the axes above count like an odometer. */
static void convert(const ctx_container *c, const ctx_crossing *crossing,
                    const ctx_operand *operand, bool entering, char *tensor, char *contents) {
  const walk w = walk_of(c, crossing);
  const conversion how = conversion_of(crossing, operand, entering);
  const size_t outside = ctx_onnx_element(crossing->element_type);
  const size_t inside = ctx_operand_element(operand->type);
  const uint32_t last = w.rank - 1;
  size_t at[MOST_AXES] = {0}, offset = 0;
  for (;;) {
    uint32_t axis = last;
    row(how, entering, tensor + offset * outside, w.strides[last], contents, w.sizes[last]);
    contents += w.sizes[last] * inside;
    while (axis > 0 && at[axis - 1] + 1 == w.sizes[axis - 1]) {
      axis--;
      offset -= at[axis] * w.strides[axis];
      at[axis] = 0;
    }
    if (axis == 0) return;
    at[axis - 1]++;
    offset += w.strides[axis - 1];
  }
}

void ctx_enter(const ctx_container *c, const ctx_crossing *crossing, const ctx_operand *operand,
               const void *tensor, void *contents) {
  convert(c, crossing, operand, true, (char *)(uintptr_t)tensor, contents);
}

void ctx_leave(const ctx_container *c, const ctx_crossing *crossing, const ctx_operand *operand,
               const void *contents, void *tensor) {
  convert(c, crossing, operand, false, tensor, (char *)(uintptr_t)contents);
}
