/* The C half of the plugin: what ONNX Runtime calls, and short cuts through its function tables.
 *
 * Every entry point does in C what needs no decision and hands the rest to one py_… callback. A
 * callback answers 0, or 1 with *status set; when Python could not even run it, cffi answers 1 and
 * the status is made here. _build.py puts the tables (struct OrtApi, OrtEpApi, …) in front.
 */

enum { EXECUTE_FAIL = 1, IMPLEMENTED_VERSION = 23, REQUIRED_API = 25, MAX_RANK = 64 };

#define EXPORT __attribute__((visibility("default")))
#define TRY(call)                   \
  do {                              \
    OrtStatus *status_ = (call);    \
    if (status_ != NULL) return status_; \
  } while (0)

int py_ready = 0;
static const OrtApi *api;
static const OrtEpApi *ep_api;

/* Trailing room: ONNX Runtime reads only the members of IMPLEMENTED_VERSION, which all exist. */
struct PyFactory { OrtEpFactory base; void *later[16]; void *self; const char *name, *vendor, *version; };
struct PyEp { OrtEp base; void *later[16]; void *self; const char *name; };
struct PyCompute { OrtNodeComputeInfo base; void *later[8]; void *self; size_t inputs, outputs; };

OrtStatus *create_status(const char *message) { return api->CreateStatus(EXECUTE_FAIL, message); }
const char *status_message(const OrtStatus *status) { return api->GetErrorMessage(status); }
void release_status(OrtStatus *status) { api->ReleaseStatus(status); }

static OrtStatus *outcome(int failed, OrtStatus *status) {
  if (failed && status == NULL) return create_status("ep_nnapi: the Python callback could not run");
  return status;
}

/* ---- session options and devices ---- */

OrtStatus *read_config(const OrtSessionOptions *options, OrtKeyValuePairs **pairs,
                       const char *const **keys, const char *const **values, size_t *count) {
  TRY(api->GetSessionOptionsConfigEntries(options, pairs));
  api->GetKeyValuePairs(*pairs, keys, values, count);
  return NULL;
}

void release_config(OrtKeyValuePairs *pairs) { api->ReleaseKeyValuePairs(pairs); }
int hardware_type(const OrtHardwareDevice *device) { return api->HardwareDevice_Type(device); }

OrtStatus *add_device(PyFactory *factory, const OrtHardwareDevice *hardware, OrtEpDevice **device) {
  return ep_api->CreateEpDevice(&factory->base, hardware, NULL, NULL, device);
}

/* ---- the graph ---- */

OrtStatus *read_graph(uintptr_t handle, GraphFacts *facts) {
  const OrtGraph *graph = (const OrtGraph *)handle;
  const OrtNode *parent = NULL;
  TRY(api->Graph_GetName(graph, &facts->name));
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
  if (facts->rank > MAX_RANK) return create_status("ep_nnapi: a tensor has more than 64 dimensions");
  TRY(api->GetDimensions(info, facts->dims, facts->rank));
  return api->GetSymbolicDimensions(info, facts->symbols, facts->rank);
}

OrtStatus *read_value(uintptr_t handle, ValueFacts *facts) {
  const OrtValueInfo *value = (const OrtValueInfo *)handle;
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *info = NULL;
  _Bool constant = 0;
  facts->dtype = 0;
  facts->has_shape = 0;
  facts->rank = 0;
  TRY(api->GetValueInfoName(value, &facts->name));
  TRY(api->ValueInfo_IsConstantInitializer(value, &constant));
  facts->constant = constant;
  TRY(api->GetValueInfoTypeInfo(value, &type));
  if (type == NULL) return NULL;
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

/* Reads the attribute into `data` when facts->bytes, its size, fits; graphs and tensors have 0. */
OrtStatus *read_attribute(uintptr_t handle, AttributeFacts *facts, void *data, size_t capacity) {
  const OrtOpAttr *attribute = (const OrtOpAttr *)handle;
  enum { GRAPH = 7, TENSOR = 8 };
  OrtStatus *status;
  facts->bytes = 0;
  TRY(api->OpAttr_GetName(attribute, &facts->name));
  TRY(api->OpAttr_GetType(attribute, &facts->type));
  if (facts->type == GRAPH || facts->type == TENSOR) return NULL;
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

OrtStatus *add_cluster(OrtEpGraphSupportInfo *support, const uintptr_t *nodes, size_t count) {
  OrtNodeFusionOptions options = {IMPLEMENTED_VERSION, 1};
  return ep_api->EpGraphSupportInfo_AddNodesToFuse(support, (const OrtNode *const *)nodes, count,
                                                   &options);
}

/* ---- computing ---- */

void *make_output(Call *call, size_t index, const int64_t *dims, size_t rank) {
  OrtValue *value = NULL;
  void *data = NULL;
  call->outputs_made++;
  call->status = api->KernelContext_GetOutput(call->context, index, dims, rank, &value);
  if (call->status == NULL) call->status = api->GetTensorMutableData(value, &data);
  return call->status == NULL ? data : NULL;
}

static OrtStatus *Compute_CreateState(OrtNodeComputeInfo *info, OrtNodeComputeContext *context,
                                      void **state) {
  (void)info;
  (void)context;
  *state = NULL;
  return NULL;
}

static OrtStatus *run(PyCompute *compute, OrtKernelContext *context, Tensor *inputs) {
  Call call = {context, NULL, inputs, 0};
  const OrtValue *value = NULL;
  size_t i;
  int failed;
  for (i = 0; i < compute->inputs; i++) {
    TRY(api->KernelContext_GetInput(context, i, &value));
    TRY(read_tensor(value, &inputs[i]));
  }
  failed = py_compute(compute->self, &call);
  if (!failed && call.outputs_made < compute->outputs)
    return create_status("ep_nnapi: a cluster did not compute all of its outputs");
  return outcome(failed, call.status);
}

static OrtStatus *Compute_Compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  PyCompute *compute = (PyCompute *)info;
  enum { FEW = 32 };
  Tensor few[FEW], *inputs = few;
  OrtStatus *status;
  (void)state;
  if (compute->inputs > FEW) inputs = malloc(compute->inputs * sizeof(Tensor));
  if (inputs == NULL) return create_status("ep_nnapi: out of memory");
  status = run(compute, context, inputs);
  if (inputs != few) free(inputs);
  return status;
}

static void Compute_ReleaseState(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

PyCompute *new_compute(void *self, size_t inputs, size_t outputs) {
  PyCompute *compute = calloc(1, sizeof(PyCompute));
  if (compute == NULL) return NULL;
  compute->base.ort_version_supported = IMPLEMENTED_VERSION;
  compute->base.CreateState = Compute_CreateState;
  compute->base.Compute = Compute_Compute;
  compute->base.ReleaseState = Compute_ReleaseState;
  compute->self = self;
  compute->inputs = inputs;
  compute->outputs = outputs;
  return compute;
}

void *compute_self(PyCompute *compute) { return compute->self; }
void free_compute(PyCompute *compute) { free(compute); }

/* ---- the provider ---- */

static const char *Ep_GetName(const OrtEp *ep) { return ((const PyEp *)ep)->name; }

static OrtStatus *Ep_GetCapability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  OrtStatus *status = NULL;
  int failed = py_get_capability(((PyEp *)ep)->self, (uintptr_t)graph, support, &status);
  return outcome(failed, status);
}

static OrtStatus *Ep_Compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                             OrtNodeComputeInfo **infos, OrtNode **context_nodes) {
  OrtStatus *status = NULL;
  int failed = py_compile(((PyEp *)ep)->self, (uintptr_t *)graphs, (uintptr_t *)fused, count,
                          (PyCompute **)infos, &status);
  (void)context_nodes;
  return outcome(failed, status);
}

static void Ep_ReleaseNodeComputeInfos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
  py_release_computes(((PyEp *)ep)->self, (PyCompute **)infos, count);
}

PyEp *new_ep(void *self, const char *name) {
  PyEp *ep = calloc(1, sizeof(PyEp));
  if (ep == NULL) return NULL;
  ep->base.ort_version_supported = IMPLEMENTED_VERSION;
  ep->base.GetName = Ep_GetName;
  ep->base.GetCapability = Ep_GetCapability;
  ep->base.Compile = Ep_Compile;
  ep->base.ReleaseNodeComputeInfos = Ep_ReleaseNodeComputeInfos;
  ep->self = self;
  ep->name = name;
  return ep;
}

void free_ep(PyEp *ep) { free(ep); }

/* ---- the factory ---- */

static const char *Factory_GetName(const OrtEpFactory *f) { return ((const PyFactory *)f)->name; }
static const char *Factory_GetVendor(const OrtEpFactory *f) { return ((const PyFactory *)f)->vendor; }
static const char *Factory_GetVersion(const OrtEpFactory *f) { return ((const PyFactory *)f)->version; }

static OrtStatus *Factory_GetSupportedDevices(OrtEpFactory *factory,
                                              const OrtHardwareDevice *const *hardware,
                                              size_t hardware_count, OrtEpDevice **devices,
                                              size_t capacity, size_t *count) {
  OrtStatus *status = NULL;
  int failed;
  *count = 0;
  failed = py_supported_devices((PyFactory *)factory, hardware, hardware_count, devices, capacity,
                                count, &status);
  return outcome(failed, status);
}

static OrtStatus *Factory_CreateEp(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                   const OrtKeyValuePairs *const *metadata, size_t count,
                                   const OrtSessionOptions *options, const OrtLogger *logger,
                                   OrtEp **ep) {
  OrtStatus *status = NULL;
  int failed = py_create_ep(((PyFactory *)factory)->self, options, (PyEp **)ep, &status);
  (void)hardware;
  (void)metadata;
  (void)count;
  (void)logger;
  return outcome(failed, status);
}

static void Factory_ReleaseEp(OrtEpFactory *factory, OrtEp *ep) {
  py_release_ep(((PyFactory *)factory)->self, ((PyEp *)ep)->self, (PyEp *)ep);
}

/* No PCI vendor. Called, without a check for NULL, when a device is selected by policy. */
static uint32_t Factory_GetVendorId(const OrtEpFactory *factory) {
  (void)factory;
  return 0;
}

/* The provider works in CPU memory: no copies between devices. */
static OrtStatus *Factory_CreateDataTransfer(OrtEpFactory *factory, OrtDataTransferImpl **transfer) {
  (void)factory;
  *transfer = NULL;
  return NULL;
}

PyFactory *new_factory(void *self, const char *name, const char *vendor, const char *version) {
  PyFactory *factory = calloc(1, sizeof(PyFactory));
  if (factory == NULL) return NULL;
  factory->base.ort_version_supported = IMPLEMENTED_VERSION;
  factory->base.GetName = Factory_GetName;
  factory->base.GetVendor = Factory_GetVendor;
  factory->base.GetVendorId = Factory_GetVendorId;
  factory->base.GetVersion = Factory_GetVersion;
  factory->base.GetSupportedDevices = Factory_GetSupportedDevices;
  factory->base.CreateEp = Factory_CreateEp;
  factory->base.ReleaseEp = Factory_ReleaseEp;
  factory->base.CreateDataTransfer = Factory_CreateDataTransfer;
  factory->self = self;
  factory->name = name;
  factory->vendor = vendor;
  factory->version = version;
  return factory;
}

/* ---- what ONNX Runtime looks up in the library ---- */

static OrtStatus *refuse(const OrtApiBase *base, const char *message) {
  return base->GetApi(1)->CreateStatus(EXECUTE_FAIL, message);
}

EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count) {
  const OrtApi *newest_needed = base->GetApi(REQUIRED_API);
  OrtStatus *status = NULL;
  int failed;
  (void)registered_name;
  (void)logger;
  *count = 0;
  if (newest_needed == NULL) return refuse(base, "ep_nnapi needs onnxruntime 1.25 or newer");
  if (!py_ready) return refuse(base, "import ep_nnapi first: its provider is written in Python");
  if (capacity < 1) return refuse(base, "ep_nnapi: there is no room for its factory");
  api = newest_needed;
  ep_api = api->GetEpApi();
  failed = py_create_factory((PyFactory **)factories, &status);
  if (!failed) *count = 1;
  return outcome(failed, status);
}

/* Sessions may outlive their library's registration and still call ReleaseEp on the factory, so it
 * stays; there is one for the life of the process. */
EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  (void)factory;
  return NULL;
}
