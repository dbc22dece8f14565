/* Short cuts through ONNX Runtime's tables of functions, for Python and for callbacks.c.
 *
 * _build.py puts the tables (struct OrtApi, OrtEpApi, …) and native.h in front of this file.
 */

enum { EXECUTE_FAIL = 1, REQUIRED_API = 25, MAX_RANK = 64 };
/* The structs have all members of version NEWEST; those that are not filled are NULL.
 * FUSION_OPTIONS is the version whose OrtNodeFusionOptions is declared. */
enum { FUSION_OPTIONS = 23, INITIALIZATION_END = 27, NEWEST = 31 };


#define TRY(call)                   \
  do {                              \
    OrtStatus *status_ = (call);    \
    if (status_ != NULL) return status_; \
  } while (0)

/* ONNX Runtime reads only the members of `ort_version_supported`. Those that _build.py does not
 * declare are NULL: `undeclared` has room for them. */
enum { UNDECLARED = 16 };
struct PyEp { OrtEp base; void *undeclared[UNDECLARED], *self; const char *name; size_t clusters; };

static const OrtApi *api;
static const OrtEpApi *ep_api;
static const char *running; /* version of ONNX Runtime */
static uint32_t implemented; /* version of the structs that are given to the running ONNX Runtime */

/* Takes the API of the floor, and the version of the running ONNX Runtime, like "1.31.1". */
static int use_api(const OrtApiBase *base) {
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

OrtStatus *create_status(const char *message) { return api->CreateStatus(EXECUTE_FAIL, message); }
const char *status_message(const OrtStatus *status) { return api->GetErrorMessage(status); }
void release_status(OrtStatus *status) { api->ReleaseStatus(status); }

/* Of every callback that may fail: its status, and what it leaves to be raised. */
static OrtStatus *outcome(int failed, OrtStatus *status) {
  pass_on_interrupt();
  if (failed && status == NULL) return create_status("ep_nnapi: the Python callback could not run");
  return status;
}

OrtStatus *log_message(uintptr_t logger, int severity, const char *message) {
  return api->Logger_LogMessage((const OrtLogger *)logger, severity, message, "ep_nnapi", 0,
                                "NnapiPluginExecutionProvider");
}

int has_api(void) { return api != NULL; }
int has_initialization_end(void) { return implemented >= INITIALIZATION_END; }

OrtStatus *read_config(const OrtSessionOptions *options, OrtKeyValuePairs **pairs) {
  return api->GetSessionOptionsConfigEntries(options, pairs);
}

OrtStatus *read_environment(OrtKeyValuePairs **pairs) {
  return ep_api->GetEnvConfigEntries(pairs);
}

void list_pairs(const OrtKeyValuePairs *pairs, const char *const **keys,
                const char *const **values, size_t *count) {
  api->GetKeyValuePairs(pairs, keys, values, count);
}

OrtKeyValuePairs *new_pairs(const char *const *keys, const char *const *values, size_t count) {
  OrtKeyValuePairs *pairs = NULL;
  size_t i;
  api->CreateKeyValuePairs(&pairs);
  for (i = 0; i < count; i++) api->AddKeyValuePair(pairs, keys[i], values[i]);
  return pairs;
}

void release_pairs(OrtKeyValuePairs *pairs) { api->ReleaseKeyValuePairs(pairs); }
int hardware_type(const OrtHardwareDevice *device) { return api->HardwareDevice_Type(device); }

OrtStatus *new_hardware(int type, const char *vendor, const OrtKeyValuePairs *metadata,
                        OrtHardwareDevice **device) {
  return ep_api->CreateHardwareDevice(type, 0, 0, vendor, metadata, device);
}

OrtStatus *read_graph(uintptr_t handle, GraphFacts *facts) {
  const OrtGraph *graph = (const OrtGraph *)handle;
  const OrtNode *parent = NULL;
  TRY(api->Graph_GetName(graph, &facts->name));
  TRY(api->Graph_GetModelPath(graph, &facts->path));
  TRY(api->Graph_GetNumInputs(graph, &facts->inputs));
  TRY(api->Graph_GetNumOutputs(graph, &facts->outputs));
  TRY(api->Graph_GetNumNodes(graph, &facts->nodes));
  TRY(api->Graph_GetNumOperatorSets(graph, &facts->opsets));
  TRY(api->Graph_GetParentNode(graph, &parent));
  facts->parent = (uintptr_t)parent;
  return NULL;
}

/* `members`: first the inputs, then the outputs, then the nodes. */
OrtStatus *list_graph(uintptr_t handle, const GraphFacts *facts, uintptr_t *members,
                      const char **domains, int64_t *versions) {
  const OrtGraph *graph = (const OrtGraph *)handle;
  uintptr_t *outputs = members + facts->inputs, *nodes = outputs + facts->outputs;
  TRY(api->Graph_GetInputs(graph, (const OrtValueInfo **)members, facts->inputs));
  TRY(api->Graph_GetOutputs(graph, (const OrtValueInfo **)outputs, facts->outputs));
  TRY(api->Graph_GetNodes(graph, (const OrtNode **)nodes, facts->nodes));
  return api->Graph_GetOperatorSets(graph, domains, versions, facts->opsets);
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

OrtStatus *count_inner(uintptr_t node, size_t *graphs) {
  return api->Node_GetNumSubgraphs((const OrtNode *)node, graphs);
}

OrtStatus *list_inner(uintptr_t node, uintptr_t *graphs, const char **attributes, size_t count) {
  return api->Node_GetSubgraphs((const OrtNode *)node, (const OrtGraph **)graphs, count, attributes);
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

static OrtStatus *read_tensor(const OrtValue *value, Tensor *tensor) {
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

OrtStatus *read_initializer(uintptr_t value, Tensor *tensor) {
  const OrtValue *data = NULL;
  TRY(api->ValueInfo_GetInitializerValue((const OrtValueInfo *)value, &data));
  return read_tensor(data, tensor);
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

OrtStatus *read_tensor_attribute(uintptr_t attribute, OrtValue **value, Tensor *tensor) {
  TRY(api->OpAttr_GetTensorAttributeAsOrtValue((const OrtOpAttr *)attribute, value));
  return read_tensor(*value, tensor);
}

void release_value(OrtValue *value) { api->ReleaseValue(value); }

/* CreateNode takes over the attributes. */
OrtStatus *create_node(const char *op_type, const char *domain, const char *name,
                       const char *const *inputs, size_t input_count, const char *const *outputs,
                       size_t output_count, const NewAttribute *attributes, size_t attribute_count,
                       uintptr_t *node) {
  OrtOpAttr *made[8];
  size_t i;
  if (attribute_count > sizeof made / sizeof *made)
    return create_status("ep_nnapi: a node has too many attributes");
  for (i = 0; i < attribute_count; i++) {
    const NewAttribute *a = &attributes[i];
    OrtStatus *status = api->CreateOpAttr(a->name, a->data, a->bytes, a->type, &made[i]);
    if (status == NULL) continue;
    while (i > 0) api->ReleaseOpAttr(made[--i]);
    return status;
  }
  return api->GetModelEditorApi()->CreateNode(op_type, domain, name, inputs, input_count, outputs,
                                              output_count, made, attribute_count,
                                              (OrtNode **)node);
}

OrtStatus *add_cluster(OrtEpGraphSupportInfo *support, const uintptr_t *nodes, size_t count) {
  OrtNodeFusionOptions options = {FUSION_OPTIONS, 1};
  return ep_api->EpGraphSupportInfo_AddNodesToFuse(support, (const OrtNode *const *)nodes, count,
                                                   &options);
}
