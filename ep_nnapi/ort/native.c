/* ONNX Runtime's tables of functions, and what Python reads of graphs by one call for each node. */
#include <stdio.h>

#include "parts.h"

enum { REQUIRED_API = 25, MAX_RANK = 64 };
/* The structs have all members of version NEWEST; those that are not filled are NULL.
 * FUSION_OPTIONS is the version whose OrtNodeFusionOptions is declared. */
enum { FUSION_OPTIONS = 23, NEWEST = 31 };

#define NOT_RUN ((OrtStatus *)1) /* plugin.py has it too */

const OrtApi *api;
const OrtEpApi *ep_api;
static const char *running;  /* version of ONNX Runtime */
static uint32_t implemented; /* version of the structs that are given to the running ONNX Runtime */

/* Takes the API of the floor, and the version of the running ONNX Runtime, like "1.31.1". */
int use_api(const OrtApiBase *base) {
  unsigned minor = REQUIRED_API;
  api = base->GetApi(REQUIRED_API);
  if (api == NULL) return 0;
  ep_api = api->GetEpApi();
  running = base->GetVersionString();
  (void)sscanf(running, "1.%u", &minor);
  implemented = minor < NEWEST ? minor : NEWEST;
  return 1;
}

const char *running_version(void) { return running; }

const OrtApi *ort_api(void) { return api; }
const OrtEpApi *ort_ep_api(void) { return ep_api; }
uint32_t ort_version(void) { return implemented; }

OrtStatus *create_status(const char *message) { return api->CreateStatus(EXECUTE_FAIL, message); }

/* Of every callback that may fail: its status, and what it leaves to be raised. */
OrtStatus *returned(OrtStatus *status) {
  pass_on_interrupt();
  if (status == NOT_RUN) return create_status("ep_nnapi: the Python callback could not run");
  return status;
}

static OrtStatus *list_node(const OrtNode *node, const NodeFacts *facts, uintptr_t *members) {
  uintptr_t *outputs = members + facts->inputs, *implicit = outputs + facts->outputs;
  uintptr_t *attributes = implicit + facts->implicit;
  TRY(api->Node_GetInputs(node, (const OrtValueInfo **)members, facts->inputs));
  TRY(api->Node_GetOutputs(node, (const OrtValueInfo **)outputs, facts->outputs));
  TRY(api->Node_GetImplicitInputs(node, (const OrtValueInfo **)implicit, facts->implicit));
  return api->Node_GetAttributes(node, (const OrtOpAttr **)attributes, facts->attributes);
}

/* `members`: inputs, outputs, implicit inputs, attributes; left alone when `capacity` is short. */
OrtStatus *read_node(uintptr_t handle, NodeFacts *facts, uintptr_t *members, size_t capacity) {
  const OrtNode *node = (const OrtNode *)handle;
  TRY(api->Node_GetId(node, &facts->id));
  TRY(api->Node_GetName(node, &facts->name));
  TRY(api->Node_GetOperatorType(node, &facts->op_type));
  TRY(api->Node_GetDomain(node, &facts->domain));
  TRY(api->Node_GetEpName(node, &facts->claimed_by));
  TRY(api->Node_GetSinceVersion(node, &facts->since));
  TRY(api->Node_GetNumInputs(node, &facts->inputs));
  TRY(api->Node_GetNumOutputs(node, &facts->outputs));
  TRY(api->Node_GetNumImplicitInputs(node, &facts->implicit));
  TRY(api->Node_GetNumAttributes(node, &facts->attributes));
  if (facts->inputs + facts->outputs + facts->implicit + facts->attributes > capacity) return NULL;
  return list_node(node, facts, members);
}

static OrtStatus *read_shape(const OrtTensorTypeAndShapeInfo *info, ValueFacts *facts) {
  TRY(api->GetTensorElementType(info, &facts->dtype));
  facts->has_shape = api->TensorTypeAndShape_HasShape(info);
  if (!facts->has_shape) return NULL;
  TRY(api->GetDimensionsCount(info, &facts->rank));
  if (facts->rank > MAX_RANK) return NULL;
  TRY(api->GetDimensions(info, facts->dims, facts->rank));
  return api->GetSymbolicDimensions(info, facts->symbols, facts->rank);
}

OrtStatus *read_value(uintptr_t handle, ValueFacts *facts) {
  const OrtValueInfo *value = (const OrtValueInfo *)handle;
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *info = NULL;
  enum { KIND_TENSOR = 1 }; /* of OrtTypeInfo; a sparse one can be cast to tensors, too */
  _Bool constant = 0;
  int kind = 0;
  facts->dtype = 0;
  facts->has_shape = 0;
  facts->rank = 0;
  TRY(api->GetValueInfoName(value, &facts->name));
  TRY(api->ValueInfo_IsConstantInitializer(value, &constant));
  facts->constant = constant;
  TRY(api->GetValueInfoTypeInfo(value, &type));
  if (type != NULL) TRY(api->GetOnnxTypeFromTypeInfo(type, &kind));
  if (kind != KIND_TENSOR) return NULL;
  TRY(api->CastTypeInfoToTensorInfo(type, &info));
  return info == NULL ? NULL : read_shape(info, facts);
}

OrtStatus *read_tensor(const OrtValue *value, Tensor *tensor) {
  enum { STRING = 8 }; /* has no contiguous data */
  if (value == NULL) return create_status("ep_nnapi: an input tensor is missing");
  tensor->data = NULL;
  tensor->bytes = 0;
  TRY(api->GetTensorElementTypeAndShapeDataReference(value, &tensor->dtype, &tensor->dims,
                                                     &tensor->rank));
  if (tensor->dtype == STRING) return NULL;
  TRY(api->GetTensorSizeInBytes(value, &tensor->bytes));
  return api->GetTensorData(value, &tensor->data);
}

/* Reads the attribute into `data` when facts->bytes, its size, fits; graphs, tensors and what is UNREAD have 0. */
OrtStatus *read_attribute(uintptr_t handle, AttributeFacts *facts, void *data, size_t capacity) {
  const OrtOpAttr *attribute = (const OrtOpAttr *)handle;
  enum { UNREAD = 0, GRAPH = 7, TENSOR = 8 };
  OrtStatus *status;
  facts->bytes = 0;
  TRY(api->OpAttr_GetName(attribute, &facts->name));
  status = api->OpAttr_GetType(attribute, &facts->type);
  if (status != NULL) { /* a type, a sparse tensor or a list of such: the C API has none of them */
    api->ReleaseStatus(status);
    facts->type = UNREAD;
  }
  if (facts->type == UNREAD || facts->type == GRAPH || facts->type == TENSOR) return NULL;
  status = api->ReadOpAttr(attribute, facts->type, data, capacity, &facts->bytes);
  if (status == NULL || facts->bytes <= capacity) return status;
  api->ReleaseStatus(status);
  return NULL;
}

OrtStatus *add_cluster(OrtEpGraphSupportInfo *support, const uintptr_t *nodes, size_t count,
                       int takes_constants) {
  OrtNodeFusionOptions options = {FUSION_OPTIONS, !takes_constants};
  return ep_api->EpGraphSupportInfo_AddNodesToFuse(support, (const OrtNode *const *)nodes, count,
                                                   &options);
}
