/* Executions, and the conversions at a cluster's border: see execution.h. Python's are
 * ep_nnapi/lowering/border.py. */
#include "execution.h"

#include <stdlib.h>
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
#define ROW(type, from_tensor)                                                   \
  do {                                                                           \
    size_t i_;                                                                   \
    if (stride == 1 && from_tensor)                                              \
      memcpy(contents, tensor, count * sizeof(type));                            \
    else if (stride == 1)                                                        \
      memcpy(tensor, contents, count * sizeof(type));                            \
    else if (from_tensor)                                                        \
      for (i_ = 0; i_ < count; i_++)                                             \
        memcpy((char *)contents + i_ * sizeof(type),                             \
               (const char *)tensor + i_ * stride * sizeof(type), sizeof(type)); \
    else                                                                         \
      for (i_ = 0; i_ < count; i_++)                                             \
        memcpy((char *)tensor + i_ * stride * sizeof(type),                      \
               (const char *)contents + i_ * sizeof(type), sizeof(type));        \
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

/* True if the operand has the same bytes as the ONNX tensor. */
static bool is_plain(const ctx_container *c, const ctx_crossing *crossing,
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

/* What one run at a time uses. A driver keeps its resources between the runs of a burst, and an
 * execution that may be reused is, while the tensors stay where they were. */
struct ctx_slot {
  ctx_slot *next;
  ANeuralNetworksBurst *burst;
  ANeuralNetworksExecution *execution;
  void **buffers; /* of inputs, then outputs, as the execution has them */
  void **wanted;  /* the same for the run that begins */
  char **staging; /* own buffers of operands that have other bytes than their tensors */
};

static void slot_free(const ctx_compiled *compiled, ctx_slot *slot) {
  uint32_t i;
  if (slot->execution != NULL) compiled->nnapi->Execution_free(slot->execution);
  if (slot->burst != NULL) compiled->nnapi->Burst_free(slot->burst);
  for (i = 0; slot->staging != NULL && i < compiled->ends->count; i++) free(slot->staging[i]);
  free(slot->staging);
  free(slot->buffers);
  free(slot->wanted);
  free(slot);
}

static bool allocate_staging(const ctx_ends *ends, ctx_slot *slot) {
  uint32_t i;
  for (i = 0; i < ends->count; i++) {
    if (ends->items[i].tensor >= 0) continue;
    slot->staging[i] = ctx_aligned(ends->items[i].bytes);
    if (slot->staging[i] == NULL) return false;
  }
  return true;
}

static ctx_slot *slot_make(const ctx_compiled *compiled, ctx_error *error) {
  const size_t count = compiled->ends->count;
  ctx_slot *slot = calloc(1, sizeof *slot);
  bool made = slot != NULL;
  if (made) {
    slot->buffers = calloc(count, sizeof *slot->buffers);
    slot->wanted = calloc(count, sizeof *slot->wanted);
    slot->staging = calloc(count, sizeof *slot->staging);
    made = slot->buffers != NULL && slot->wanted != NULL && slot->staging != NULL &&
           allocate_staging(compiled->ends, slot);
  }
  if (!made) ctx_out_of_memory(error);
  if (made) slot->burst = ctx_burst_of(compiled->nnapi, compiled->compilation);
  if (made) return slot;
  if (slot != NULL) slot_free(compiled, slot);
  return NULL;
}

static ctx_slot *take_slot(ctx_compiled *compiled, ctx_error *error) {
  ctx_slot *slot;
  pthread_mutex_lock(&compiled->lock);
  slot = compiled->idle;
  if (slot != NULL) compiled->idle = slot->next;
  pthread_mutex_unlock(&compiled->lock);
  return slot != NULL ? slot : slot_make(compiled, error);
}

static void give_slot(ctx_compiled *compiled, ctx_slot *slot) {
  pthread_mutex_lock(&compiled->lock);
  slot->next = compiled->idle;
  compiled->idle = slot;
  pthread_mutex_unlock(&compiled->lock);
}

#define CALL(...) TRY(NN_CALL(nnapi, __VA_ARGS__))

static bool set_buffers(const ctx_compiled *compiled, ctx_slot *slot, ctx_error *error) {
  const ctx_nnapi *nnapi = compiled->nnapi;
  const ctx_ends *ends = compiled->ends;
  uint32_t i;
  for (i = 0; i < ends->input_count; i++)
    CALL(Execution_setInput, slot->execution, (int32_t)i, NULL, slot->wanted[i],
         ends->items[i].bytes);
  for (; i < ends->count; i++)
    CALL(Execution_setOutput, slot->execution, (int32_t)(i - ends->input_count), NULL,
         slot->wanted[i], ends->items[i].bytes);
  return true;
}

static void drop_execution(const ctx_compiled *compiled, ctx_slot *slot) {
  if (slot->execution != NULL) compiled->nnapi->Execution_free(slot->execution);
  slot->execution = NULL;
}

/* Makes an execution with the wanted buffers, unless the last one has them and may be reused. */
static bool prepare(const ctx_compiled *compiled, ctx_slot *slot, ctx_error *error) {
  const ctx_nnapi *nnapi = compiled->nnapi;
  const size_t count = compiled->ends->count;
  if (slot->execution != NULL &&
      memcmp(slot->buffers, slot->wanted, count * sizeof *slot->buffers) == 0)
    return true;
  drop_execution(compiled, slot);
  CALL(Execution_create, compiled->compilation, &slot->execution);
  if (slot->execution == NULL) return ctx_succeeded(NN_UNEXPECTED_NULL, "Execution_create", error);
  if (compiled->timeout > 0 && nnapi->Execution_setTimeout != NULL)
    CALL(Execution_setTimeout, slot->execution, compiled->timeout);
  TRY(set_buffers(compiled, slot, error));
  if (nnapi->Execution_setReusable != NULL) CALL(Execution_setReusable, slot->execution, true);
  memcpy(slot->buffers, slot->wanted, count * sizeof *slot->buffers);
  return true;
}

ANeuralNetworksBurst *ctx_burst_of(const ctx_nnapi *nnapi,
                                   ANeuralNetworksCompilation *compilation) {
  ANeuralNetworksBurst *burst = NULL;
  if (nnapi->Burst_create == NULL || nnapi->Execution_burstCompute == NULL ||
      nnapi->Burst_free == NULL || nnapi->Burst_create(compilation, &burst) != NN_NO_ERROR)
    return NULL;
  return burst;
}

bool ctx_compute(const ctx_nnapi *nnapi, ANeuralNetworksExecution *execution,
                 ANeuralNetworksBurst *burst, ctx_error *error) {
  ANeuralNetworksEvent *event = NULL;
  int code;
  if (burst != NULL) return NN_CALL(nnapi, Execution_burstCompute, execution, burst);
  if (nnapi->Execution_compute != NULL) return NN_CALL(nnapi, Execution_compute, execution);
  CALL(Execution_startCompute, execution, &event);
  code = nnapi->Event_wait(event);
  nnapi->Event_free(event);
  return ctx_succeeded(code, "Event_wait", error);
}

/* Chooses each operand's buffer, the tensor itself where it has the same bytes; converts inputs. */
static void enter_all(const ctx_ends *ends, ctx_slot *slot, void *const *tensors) {
  const ctx_container *c = ends->container;
  uint32_t i;
  for (i = 0; i < ends->count; i++) {
    const ctx_end *end = &ends->items[i];
    slot->wanted[i] = end->tensor >= 0 ? tensors[end->tensor] : slot->staging[i];
    if (end->tensor < 0 && i < ends->input_count)
      convert(c, ctx_tensor_at(c, end->crossing), end->operand, true, tensors[end->crossing],
              slot->staging[i]);
  }
}

static void leave_all(const ctx_ends *ends, const ctx_slot *slot, void *const *tensors) {
  const ctx_container *c = ends->container;
  uint32_t i;
  for (i = c->chosen->inputs.count; i < ctx_tensor_count(c); i++) {
    const ctx_crossing *crossing = ctx_tensor_at(c, i);
    const uint32_t index = ends->input_count + crossing->operand;
    if (ends->items[index].tensor != (int64_t)i)
      convert(c, crossing, ends->items[index].operand, false, tensors[i], slot->wanted[index]);
  }
}

bool ctx_execute(ctx_compiled *compiled, void *const *tensors, ctx_error *error) {
  ctx_slot *slot = take_slot(compiled, error);
  if (slot == NULL) return false;
  enter_all(compiled->ends, slot, tensors);
  if (!prepare(compiled, slot, error) ||
      !ctx_compute(compiled->nnapi, slot->execution, slot->burst, error)) {
    slot_free(compiled, slot);
    return false;
  }
  leave_all(compiled->ends, slot, tensors);
  if (compiled->nnapi->Execution_setReusable == NULL) drop_execution(compiled, slot);
  give_slot(compiled, slot);
  return true;
}

static bool compile(const ctx_nnapi *nnapi, const ctx_models *models, ctx_compiled *compiled,
                    const ctx_options *options, ctx_error *error) {
  ANeuralNetworksCompilation **out = &compiled->compilation;
  const ANeuralNetworksDevice *device = compiled->device->handle;
  if (device == NULL)
    CALL(Compilation_create, models->items[0], out);
  else
    CALL(Compilation_createForDevices, models->items[0], &device, 1, out);
  if (*out == NULL) return ctx_succeeded(NN_UNEXPECTED_NULL, "Compilation_create", error);
  CALL(Compilation_setPreference, *out, options->preference);
  if (nnapi->Compilation_setPriority != NULL)
    CALL(Compilation_setPriority, *out, options->priority);
  if (options->compilation_timeout > 0 && device != NULL && nnapi->Compilation_setTimeout != NULL)
    CALL(Compilation_setTimeout, *out, options->compilation_timeout);
  CALL(Compilation_finish, *out);
  return true;
}

bool ctx_compile(const ctx_models *models, const ctx_ends *ends, const ctx_device *device,
                 const ctx_options *options, ctx_compiled **out, ctx_error *error) {
  ctx_compiled *compiled = calloc(1, sizeof *compiled);
  if (compiled == NULL) return ctx_out_of_memory(error);
  compiled->nnapi = models->nnapi;
  compiled->ends = ends;
  compiled->device = device;
  compiled->users = 1;
  compiled->timeout = device->handle != NULL ? options->execution_timeout : 0;
  pthread_mutex_init(&compiled->lock, NULL);
  if (!compile(models->nnapi, models, compiled, options, error)) {
    ctx_compiled_free(compiled);
    return false;
  }
  *out = compiled;
  return true;
}

void ctx_compiled_free(ctx_compiled *compiled) {
  if (compiled == NULL) return;
  while (compiled->idle != NULL) {
    ctx_slot *slot = compiled->idle;
    compiled->idle = slot->next;
    slot_free(compiled, slot);
  }
  if (compiled->compilation != NULL) compiled->nnapi->Compilation_free(compiled->compilation);
  pthread_mutex_destroy(&compiled->lock);
  free(compiled);
}

static void add_end(ctx_ends *ends, uint32_t index) {
  const ctx_container *c = ends->container;
  const ctx_crossing *crossing = ctx_tensor_at(c, index);
  const bool output = index >= c->chosen->inputs.count;
  const ctx_operand *operand = ctx_operand_of(c, crossing, output);
  ctx_end *end = &ends->items[crossing->operand + (output ? ends->input_count : 0)];
  if (end->operand == NULL) end->tensor = -1;
  if (end->tensor < 0 && is_plain(c, crossing, operand)) end->tensor = index;
  end->operand = operand;
  end->bytes = (size_t)ctx_operand_count(c, operand) * ctx_operand_element(operand->type);
  end->crossing = index;
}

bool ctx_ends_make(const ctx_container *c, ctx_ends *out, ctx_error *error) {
  const ctx_model *model = ctx_chosen_model(c);
  ctx_ends ends = {.container = c, .input_count = model->inputs.count};
  uint32_t i;
  ends.count = ends.input_count + model->outputs.count;
  ends.items = calloc((size_t)ends.count + 1, sizeof *ends.items);
  if (ends.items == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < ctx_tensor_count(c); i++) add_end(&ends, i);
  *out = ends;
  return true;
}

void ctx_ends_free(ctx_ends *ends) { free(ends->items); }
