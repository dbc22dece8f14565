/* Building of NNAPI models: see model.h. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What one model is built from. */
typedef struct {
  const ctx_models *models;
  const ctx_container *c;
  const ctx_weights *weights;
  ANeuralNetworksModel *model;
} builder;

static bool set_channels(const builder *b, int32_t index, const ctx_operand *operand,
                         ctx_error *error) {
  const ctx_range range = operand->channel_scales;
  ANeuralNetworksSymmPerChannelQuantParams params = {operand->channel_dimension, range.count, NULL};
  float *scales;
  uint32_t i;
  bool set;
  if (range.count == 0) return true;
  scales = malloc(range.count * sizeof *scales);
  if (scales == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < range.count; i++) scales[i] = (float)b->c->scales[range.first + i];
  params.scales = scales;
  set = NN_CALL(b->models->nnapi, Model_setOperandSymmPerChannelQuantParams, b->model, index,
                &params);
  free(scales);
  return set;
}

/* Small constants are copied by NNAPI; others stay in the file's memory or in the container. */
static bool set_constant(const builder *b, int32_t index, const ctx_operand *operand,
                         ctx_error *error) {
  const ctx_nnapi *nnapi = b->models->nnapi;
  const size_t size = (size_t)operand->size;
  if (size <= NN_COPIED_AT_ONCE || b->models->memory == NULL)
    return NN_CALL(nnapi, Model_setOperandValue, b->model, index,
                   b->weights->data + operand->offset, size);
  return NN_CALL(nnapi, Model_setOperandValueFromMemory, b->model, index, b->models->memory,
                 (size_t)(b->weights->offset + operand->offset), size);
}

static bool set_value(const builder *b, int32_t index, const ctx_operand *operand,
                      ctx_error *error) {
  const ctx_nnapi *nnapi = b->models->nnapi;
  switch (operand->value) {
    case CTX_VALUE_CONSTANT: return set_constant(b, index, operand, error);
    case CTX_VALUE_OMITTED: return NN_CALL(nnapi, Model_setOperandValue, b->model, index, NULL, 0);
    case CTX_VALUE_MODEL:
      return NN_CALL(nnapi, Model_setOperandValueFromModel, b->model, index,
                     b->models->items[operand->offset - b->c->chosen->models.first]);
    default: return true;
  }
}

static bool add_operand(const builder *b, uint32_t index, const ctx_operand *operand,
                        ctx_error *error) {
  const ANeuralNetworksOperandType type = {
      operand->type, operand->dimensions.count,
      operand->dimensions.count > 0 ? b->c->numbers + operand->dimensions.first : NULL,
      (float)operand->scale, operand->zero_point};
  TRY(NN_CALL(b->models->nnapi, Model_addOperand, b->model, &type));
  return set_channels(b, (int32_t)index, operand, error) &&
         set_value(b, (int32_t)index, operand, error);
}

static bool add_operation(const builder *b, const ctx_operation *op, ctx_error *error) {
  const uint32_t *numbers = b->c->numbers;
  return NN_CALL(b->models->nnapi, Model_addOperation, b->model, op->type, op->inputs.count,
                 numbers + op->inputs.first, op->outputs.count, numbers + op->outputs.first);
}

static bool finish(const builder *b, const ctx_model *model, ctx_error *error) {
  const ctx_nnapi *nnapi = b->models->nnapi;
  const uint32_t *numbers = b->c->numbers;
  TRY(NN_CALL(nnapi, Model_identifyInputsAndOutputs, b->model, model->inputs.count,
              numbers + model->inputs.first, model->outputs.count, numbers + model->outputs.first));
  if (model->relaxed && nnapi->Model_relaxComputationFloat32toFloat16 != NULL)
    TRY(NN_CALL(nnapi, Model_relaxComputationFloat32toFloat16, b->model, true));
  return NN_CALL(nnapi, Model_finish, b->model);
}

static bool build(const builder *b, const ctx_model *model, ctx_error *error) {
  uint32_t i;
  for (i = 0; i < model->operands.count; i++)
    if (!add_operand(b, i, &b->c->operands[model->operands.first + i], error))
      return ctx_suffix(error, "operand", i);
  for (i = 0; i < model->operations.count; i++)
    if (!add_operation(b, &b->c->operations[model->operations.first + i], error))
      return ctx_suffix(error, "operation", i);
  return finish(b, model, error);
}

/* True if NNAPI does not copy a constant of the models when it is set. */
static bool has_large_constants(const ctx_container *c) {
  const ctx_range own = c->chosen->models;
  uint32_t k, i;
  for (k = 0; k < own.count; k++) {
    const ctx_range operands = c->models[own.first + k].operands;
    for (i = 0; i < operands.count; i++) {
      const ctx_operand *operand = &c->operands[operands.first + i];
      if (operand->value == CTX_VALUE_CONSTANT && operand->size > NN_COPIED_AT_ONCE) return true;
    }
  }
  return false;
}

/* The whole file: its offsets in it need not be multiples of a page. */
static bool map_memory(ctx_models *models, const ctx_container *c, const ctx_weights *weights,
                       ctx_error *error) {
  if (weights->descriptor < 0 || !has_large_constants(c)) return true;
  TRY(NN_CALL(models->nnapi, Memory_createFromFd, (size_t)c->header->weights_file_size, PROT_READ,
              weights->descriptor, 0, &models->memory));
  return models->memory != NULL || ctx_succeeded(NN_UNEXPECTED_NULL, "Memory_createFromFd", error);
}

static bool build_all(ctx_models *models, const ctx_container *c, const ctx_weights *weights,
                      ctx_error *error) {
  uint32_t index = models->count;
  TRY(map_memory(models, c, weights, error));
  while (index-- > 0) {
    builder b = {models, c, weights, NULL};
    TRY(NN_CALL(models->nnapi, Model_create, &models->items[index]));
    b.model = models->items[index];
    if (b.model == NULL) return ctx_succeeded(NN_UNEXPECTED_NULL, "Model_create", error);
    TRY(build(&b, &c->models[c->chosen->models.first + index], error));
  }
  return true;
}

bool ctx_models_build(const ctx_nnapi *nnapi, const ctx_container *c, const ctx_weights *weights,
                      ctx_models *out, ctx_error *error) {
  ctx_models models = {nnapi, NULL, c->chosen->models.count, NULL};
  models.items = calloc(models.count, sizeof *models.items);
  if (models.items == NULL) return ctx_out_of_memory(error);
  if (!build_all(&models, c, weights, error)) {
    ctx_models_free(&models);
    return false;
  }
  *out = models;
  return true;
}

bool ctx_models_supported(const ctx_models *models, const ctx_container *c,
                          const ctx_device *device, ctx_error *error) {
  const ctx_nnapi *nnapi = models->nnapi;
  const ctx_model *model = ctx_chosen_model(c);
  bool *answers, right;
  uint32_t i;
  if (device->handle == NULL || nnapi->Model_getSupportedOperationsForDevices == NULL) return true;
  answers = calloc((size_t)model->operations.count + 1, sizeof *answers);
  if (answers == NULL) return ctx_out_of_memory(error);
  right = NN_CALL(nnapi, Model_getSupportedOperationsForDevices, models->items[0], &device->handle,
                  1, answers);
  for (i = 0; right && i < model->operations.count; i++)
    if (!answers[i])
      right = ctx_fail(error, "%.100s declines operation %u, of type %d", device->name, i,
                       c->operations[model->operations.first + i].type);
  free(answers);
  return right;
}

void ctx_models_free(ctx_models *models) {
  uint32_t i;
  for (i = 0; i < models->count && models->items != NULL; i++)
    if (models->items[i] != NULL) models->nnapi->Model_free(models->items[i]);
  free(models->items);
  if (models->memory != NULL) models->nnapi->Memory_free(models->memory);
  models->items = NULL;
  models->memory = NULL;
}
