/* Executions: see execution.h. */
#include "execution.h"

#include "border.h"

#include <stdlib.h>
#include <string.h>

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
  const uint32_t count = compiled->ends->input_count + compiled->ends->output_count;
  uint32_t i;
  if (slot->execution != NULL) compiled->nnapi->Execution_free(slot->execution);
  if (slot->burst != NULL) compiled->nnapi->Burst_free(slot->burst);
  for (i = 0; slot->staging != NULL && i < count; i++) free(slot->staging[i]);
  free(slot->staging);
  free(slot->buffers);
  free(slot->wanted);
  free(slot);
}

static bool allocate_staging(const ctx_ends *ends, ctx_slot *slot) {
  uint32_t i;
  for (i = 0; i < ends->input_count; i++) {
    if (ends->plain_inputs[ends->input_crossing[i]]) continue;
    slot->staging[i] = ctx_aligned(ends->input_bytes[i]);
    if (slot->staging[i] == NULL) return false;
  }
  for (i = 0; i < ends->output_count; i++) {
    if (ends->output_crossing[i] >= 0) continue;
    slot->staging[ends->input_count + i] = ctx_aligned(ends->output_bytes[i]);
    if (slot->staging[ends->input_count + i] == NULL) return false;
  }
  return true;
}

static ctx_slot *slot_make(const ctx_compiled *compiled, ctx_error *error) {
  const ctx_nnapi *nnapi = compiled->nnapi;
  const size_t count = compiled->ends->input_count + compiled->ends->output_count;
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
  if (made && nnapi->Burst_create != NULL && nnapi->Execution_burstCompute != NULL &&
      nnapi->Burst_free != NULL) {
    made = ctx_succeeded(nnapi->Burst_create(compiled->compilation, &slot->burst), "Burst_create",
                         error);
  }
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

#define CALL(name, ...) \
  TRY(ctx_succeeded(compiled->nnapi->name(__VA_ARGS__), #name, error))

static bool set_buffers(const ctx_compiled *compiled, ctx_slot *slot, ctx_error *error) {
  const ctx_ends *ends = compiled->ends;
  uint32_t i;
  for (i = 0; i < ends->input_count; i++)
    CALL(Execution_setInput, slot->execution, (int32_t)i, NULL, slot->wanted[i],
         ends->input_bytes[i]);
  for (i = 0; i < ends->output_count; i++)
    CALL(Execution_setOutput, slot->execution, (int32_t)i, NULL,
         slot->wanted[ends->input_count + i], ends->output_bytes[i]);
  return true;
}

static void drop_execution(const ctx_compiled *compiled, ctx_slot *slot) {
  if (slot->execution != NULL) compiled->nnapi->Execution_free(slot->execution);
  slot->execution = NULL;
}

/* Makes an execution with the wanted buffers, unless the last one has them and may be reused. */
static bool prepare(const ctx_compiled *compiled, ctx_slot *slot, ctx_error *error) {
  const ctx_nnapi *nnapi = compiled->nnapi;
  const size_t count = compiled->ends->input_count + compiled->ends->output_count;
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

static bool compute(const ctx_compiled *compiled, ctx_slot *slot, ctx_error *error) {
  ANeuralNetworksEvent *event = NULL;
  int code;
  if (slot->burst != NULL) {
    CALL(Execution_burstCompute, slot->execution, slot->burst);
    return true;
  }
  if (compiled->nnapi->Execution_compute != NULL) {
    CALL(Execution_compute, slot->execution);
    return true;
  }
  CALL(Execution_startCompute, slot->execution, &event);
  code = compiled->nnapi->Event_wait(event);
  compiled->nnapi->Event_free(event);
  return ctx_succeeded(code, "Event_wait", error);
}

/* Chooses each operand's buffer, the tensor itself where it has the same bytes; converts inputs. */
static void enter_all(const ctx_ends *ends, ctx_slot *slot, const void *const *inputs,
                      void *const *outputs) {
  const ctx_container *c = ends->container;
  uint32_t i;
  for (i = 0; i < ends->input_count; i++) {
    const uint32_t crossing = ends->input_crossing[i];
    if (slot->staging[i] == NULL) {
      slot->wanted[i] = (void *)(uintptr_t)inputs[crossing];
      continue;
    }
    ctx_enter(c, &c->inputs[crossing], ends->inputs[i], inputs[crossing], slot->staging[i]);
    slot->wanted[i] = slot->staging[i];
  }
  for (i = 0; i < ends->output_count; i++) {
    char *own = slot->staging[ends->input_count + i];
    slot->wanted[ends->input_count + i] = own != NULL ? own : outputs[ends->output_crossing[i]];
  }
}

static void leave_all(const ctx_ends *ends, const ctx_slot *slot, void *const *outputs) {
  const ctx_container *c = ends->container;
  uint32_t i;
  for (i = 0; i < c->header->outputs.count; i++) {
    const uint32_t operand = c->outputs[i].operand;
    if (ends->output_crossing[operand] != (int64_t)i)
      ctx_leave(c, &c->outputs[i], ends->outputs[operand],
                slot->wanted[ends->input_count + operand], outputs[i]);
  }
}

bool ctx_execute(ctx_compiled *compiled, const void *const *inputs, void *const *outputs,
                 ctx_error *error) {
  ctx_slot *slot = take_slot(compiled, error);
  if (slot == NULL) return false;
  enter_all(compiled->ends, slot, inputs, outputs);
  if (!prepare(compiled, slot, error) || !compute(compiled, slot, error)) {
    slot_free(compiled, slot);
    return false;
  }
  leave_all(compiled->ends, slot, outputs);
  if (compiled->nnapi->Execution_setReusable == NULL) drop_execution(compiled, slot);
  give_slot(compiled, slot);
  return true;
}

#undef CALL
#define CALL(name, ...) TRY(ctx_succeeded(nnapi->name(__VA_ARGS__), #name, error))

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
  if (nnapi->Compilation_setPriority != NULL) CALL(Compilation_setPriority, *out, options->priority);
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

static size_t bytes_of(const ctx_container *c, const ctx_operand *operand) {
  return (size_t)ctx_operand_count(c, operand) * ctx_operand_element(operand->type);
}

static bool allocate_ends(ctx_ends *ends, uint32_t input_crossings) {
  const size_t inputs = (size_t)ends->input_count + 1, outputs = (size_t)ends->output_count + 1;
  ends->inputs = calloc(inputs, sizeof *ends->inputs);
  ends->outputs = calloc(outputs, sizeof *ends->outputs);
  ends->input_bytes = calloc(inputs, sizeof *ends->input_bytes);
  ends->output_bytes = calloc(outputs, sizeof *ends->output_bytes);
  ends->input_crossing = calloc(inputs, sizeof *ends->input_crossing);
  ends->output_crossing = calloc(outputs, sizeof *ends->output_crossing);
  ends->plain_inputs = calloc((size_t)input_crossings + 1, sizeof *ends->plain_inputs);
  return ends->inputs && ends->outputs && ends->input_bytes && ends->output_bytes &&
         ends->input_crossing && ends->output_crossing && ends->plain_inputs;
}

bool ctx_ends_make(const ctx_container *c, ctx_ends *out, ctx_error *error) {
  ctx_ends ends = {.container = c,
                   .input_count = c->models[0].inputs.count,
                   .output_count = c->models[0].outputs.count};
  uint32_t i;
  if (!allocate_ends(&ends, c->header->inputs.count)) {
    ctx_ends_free(&ends);
    return ctx_out_of_memory(error);
  }
  for (i = 0; i < c->header->inputs.count; i++) {
    const ctx_crossing *crossing = &c->inputs[i];
    const ctx_operand *operand = ctx_operand_of(c, crossing, false);
    ends.inputs[crossing->operand] = operand;
    ends.input_bytes[crossing->operand] = bytes_of(c, operand);
    ends.input_crossing[crossing->operand] = i;
    ends.plain_inputs[i] = ctx_crossing_is_plain(c, crossing, operand);
  }
  for (i = 0; i < ends.output_count; i++) ends.output_crossing[i] = -1;
  for (i = 0; i < c->header->outputs.count; i++) {
    const ctx_crossing *crossing = &c->outputs[i];
    const ctx_operand *operand = ctx_operand_of(c, crossing, true);
    ends.outputs[crossing->operand] = operand;
    ends.output_bytes[crossing->operand] = bytes_of(c, operand);
    if (ends.output_crossing[crossing->operand] < 0 && ctx_crossing_is_plain(c, crossing, operand))
      ends.output_crossing[crossing->operand] = i;
  }
  *out = ends;
  return true;
}

void ctx_ends_free(ctx_ends *ends) {
  free(ends->inputs);
  free(ends->outputs);
  free(ends->input_bytes);
  free(ends->output_bytes);
  free(ends->input_crossing);
  free(ends->output_crossing);
  free(ends->plain_inputs);
}
