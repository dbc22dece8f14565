/* ONNX Runtime's tables, statuses, and the tensors of a node that has a container: see plugin.h. The types of a graph are not trusted
 * either: ONNX Runtime allocates an output as the graph declares it, NNAPI writes what the container
 * says. Python's is ep_nnapi/provider/load_epcontext.py. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { KIND_TENSOR = 1, MOST_AXES = 64 }; /* Source: ONNXType; ctx_read refuses more axes */

const OrtApi *ort;
const OrtEpApi *ort_ep;

OrtStatus *ep_status(const char *sentence) { return ort->CreateStatus(ORT_FAIL, sentence); }

OrtStatus *ep_named_status(const char *node, const char *sentence) {
  ctx_error error;
  ctx_fail(&error, "%.100s: %.400s", node, sentence);
  return ep_status(error.text);
}

static const char NOT_ITS_TENSORS[] =
    "its tensors are not those of its context; prepare the model again";

/* True if these are the sizes of a crossing; `open`: those below 0 may be any. */
static bool has_sizes(const ctx_container *c, const ctx_crossing *crossing, const int64_t *sizes,
                      size_t rank, bool open) {
  uint32_t i;
  if (rank != crossing->shape.count) return false;
  for (i = 0; i < rank; i++)
    if (sizes[i] != c->sizes[crossing->shape.first + i] && !(open && sizes[i] < 0)) return false;
  return true;
}

/* True if the graph declares a value as the crossing has it. */
static OrtStatus *is_declared(const ctx_container *c, const OrtValueInfo *value,
                              const ctx_crossing *crossing, bool *out) {
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *tensor = NULL;
  int64_t sizes[MOST_AXES];
  int kind = 0, element = 0;
  size_t rank = 0;
  *out = false;
  ORT_TRY(ort->GetValueInfoTypeInfo(value, &type));
  if (type != NULL) ORT_TRY(ort->GetOnnxTypeFromTypeInfo(type, &kind));
  if (kind != KIND_TENSOR) return NULL;
  ORT_TRY(ort->CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == NULL) return NULL;
  ORT_TRY(ort->GetTensorElementType(tensor, &element));
  if (element != crossing->element_type) return NULL;
  if (!ort->TensorTypeAndShape_HasShape(tensor)) return *out = true, NULL;
  ORT_TRY(ort->GetDimensionsCount(tensor, &rank));
  if (rank > MOST_AXES) return NULL;
  ORT_TRY(ort->GetDimensions(tensor, sizes, rank));
  *out = has_sizes(c, crossing, sizes, rank, true);
  return NULL;
}

/* Finds a tensor among the node's values from one place on to another. */
static OrtStatus *bind_tensor(const ep_tensors *t, uint32_t index,
                              const OrtValueInfo *const *values, size_t count) {
  const ctx_crossing *crossing = ctx_tensor_at(t->container, index);
  bool bound = false;
  size_t i;
  for (i = 0; i < count && !bound; i++) {
    const char *name = NULL;
    if (values[i] == NULL) continue;
    ORT_TRY(ort->GetValueInfoName(values[i], &name));
    if (!ctx_text_is(t->container, crossing->name, name)) continue;
    t->places[index] = i;
    ORT_TRY(is_declared(t->container, values[i], crossing, &bound));
    break;
  }
  return bound ? NULL : ep_named_status(t->node, NOT_ITS_TENSORS);
}

static OrtStatus *bind_all(const ep_tensors *t, const OrtNode *fused, const OrtValueInfo **values,
                           size_t inputs, size_t outputs) {
  const ctx_alternative *chosen = t->container->chosen;
  uint32_t i;
  /* ctx_read has seen that the crossings' names differ */
  if (chosen->outputs.count != outputs) return ep_named_status(t->node, NOT_ITS_TENSORS);
  ORT_TRY(ort->Node_GetInputs(fused, values, inputs));
  ORT_TRY(ort->Node_GetOutputs(fused, values + inputs, outputs));
  for (i = 0; i < chosen->inputs.count; i++) ORT_TRY(bind_tensor(t, i, values, inputs));
  for (; i < ctx_tensor_count(t->container); i++)
    ORT_TRY(bind_tensor(t, i, values + inputs, outputs));
  return NULL;
}

OrtStatus *ep_bind(const ctx_container *c, const char *node, const OrtNode *fused,
                   ep_tensors *out) {
  const OrtValueInfo **values;
  size_t inputs = 0, outputs = 0;
  OrtStatus *status;
  out->container = c;
  out->node = node;
  ORT_TRY(ort->Node_GetNumInputs(fused, &inputs));
  ORT_TRY(ort->Node_GetNumOutputs(fused, &outputs));
  out->places = calloc((size_t)ctx_tensor_count(c) + 1, sizeof *out->places);
  values = calloc(inputs + outputs + 1, sizeof *values);
  if (out->places == NULL || values == NULL)
    status = ep_status("out of memory");
  else
    status = bind_all(out, fused, values, inputs, outputs);
  free(values);
  return status;
}

/* Fails unless a tensor has the crossing's element type and sizes. */
static OrtStatus *check_tensor(const ep_tensors *t, const OrtValue *value,
                               const ctx_crossing *crossing) {
  const ctx_container *c = t->container;
  const int64_t *sizes = NULL;
  size_t rank = 0;
  int type = 0;
  ctx_error error;
  ORT_TRY(ort->GetTensorElementTypeAndShapeDataReference(value, &type, &sizes, &rank));
  if (type == crossing->element_type && has_sizes(c, crossing, sizes, rank, false)) return NULL;
  ctx_fail(&error,
           "%.*s has another element type or other sizes than the model declares; declare them "
           "right, or not at all",
           (int)crossing->name.count, c->text + crossing->name.first);
  return ep_named_status(t->node, error.text);
}

OrtStatus *ep_contents(const ep_tensors *t, OrtKernelContext *context, uint32_t index, void **out) {
  const ctx_crossing *crossing = ctx_tensor_at(t->container, index);
  OrtValue *made = NULL;
  const OrtValue *given = NULL;
  if (index < t->container->chosen->inputs.count) {
    ORT_TRY(ort->KernelContext_GetInput(context, t->places[index], &given));
    if (given == NULL) return ep_named_status(t->node, "an input tensor is missing");
    ORT_TRY(check_tensor(t, given, crossing));
    return ort->GetTensorData(given, (const void **)out);
  }
  ORT_TRY(ort->KernelContext_GetOutput(context, t->places[index],
                                       t->container->sizes + crossing->shape.first,
                                       crossing->shape.count, &made));
  if (made == NULL) return ep_named_status(t->node, "an output tensor cannot be made");
  ORT_TRY(check_tensor(t, made, crossing));
  return ort->GetTensorMutableData(made, out);
}
