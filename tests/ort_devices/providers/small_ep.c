/* A small execution provider, as somebody else's plugin library: Relu, and Add of equal shapes, of
 * float32, one node at a time. It counts its runs in small_ep_runs. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort_api.h"

#define EP_NAME "SmallExecutionProvider"
#define EXPORT __attribute__((visibility("default")))
#define TRY(call)                                \
  do {                                           \
    OrtStatus *status_ = (call);                 \
    if (status_ != NULL) return status_;         \
  } while (0)

enum { VERSION = 23, REQUIRED_API = 25, FLOAT = 1, CPU = 0, MOST_DIMS = 8, FAIL = 1 };

static const OrtApi *ort;
static const OrtEpApi *ort_ep;
EXPORT long small_ep_runs;

/* ONNX Runtime reads only the members of the version in `base`. */
typedef struct {
  OrtEp base;
  void *reserved[16];
} Ep;

/* One node: which inputs of the fused node its own are; a Relu has one. */
typedef struct {
  OrtNodeComputeInfo base;
  void *reserved[16];
  size_t inputs, input_of[2];
} Compute;

typedef struct {
  bool is_float;
  size_t rank;
  int64_t dims[MOST_DIMS];
} Shape;

static const char *name_of_ep(const OrtEp *ep) { return (void)ep, EP_NAME; }
static const char *name_of_factory(const OrtEpFactory *factory) { return (void)factory, EP_NAME; }
static const char *vendor(const OrtEpFactory *factory) { return (void)factory, "somebody"; }
static uint32_t vendor_id(const OrtEpFactory *factory) { return (void)factory, 0; }
static const char *version(const OrtEpFactory *factory) { return (void)factory, "0.1.0"; }

static OrtStatus *read_shape(const OrtValueInfo *value, Shape *shape) {
  const OrtTensorTypeAndShapeInfo *tensor = NULL;
  const OrtTypeInfo *type = NULL;
  int element = 0;
  memset(shape, 0, sizeof *shape);
  TRY(ort->GetValueInfoTypeInfo(value, &type));
  TRY(ort->CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == NULL) return NULL;
  TRY(ort->GetTensorElementType(tensor, &element));
  TRY(ort->GetDimensionsCount(tensor, &shape->rank));
  shape->is_float = element == FLOAT && shape->rank <= MOST_DIMS;
  return shape->is_float ? ort->GetDimensions(tensor, shape->dims, shape->rank) : NULL;
}

/* True if the provider has a kernel for the node. */
static OrtStatus *takes(const OrtNode *node, bool *taken) {
  const OrtValueInfo *inputs[2];
  const char *type = NULL, *domain = NULL;
  Shape shapes[2];
  size_t count = 0, i;
  *taken = false;
  TRY(ort->Node_GetOperatorType(node, &type));
  TRY(ort->Node_GetDomain(node, &domain));
  if (domain[0] != '\0' || (strcmp(type, "Relu") != 0 && strcmp(type, "Add") != 0)) return NULL;
  TRY(ort->Node_GetNumInputs(node, &count));
  TRY(ort->Node_GetInputs(node, inputs, count));
  for (i = 0; i < count; i++) TRY(read_shape(inputs[i], &shapes[i]));
  *taken = shapes[0].is_float;
  if (count == 2)
    *taken = *taken && memcmp(&shapes[0], &shapes[1], sizeof(Shape)) == 0;
  return NULL;
}

static OrtStatus *get_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  const OrtNodeFusionOptions options = {VERSION, 0};
  const OrtNode *nodes[256];
  size_t count = 0, i;
  bool taken;
  (void)ep;
  TRY(ort->Graph_GetNumNodes(graph, &count));
  if (count > sizeof nodes / sizeof *nodes) return NULL;
  TRY(ort->Graph_GetNodes(graph, nodes, count));
  for (i = 0; i < count; i++) {
    TRY(takes(nodes[i], &taken));
    if (taken) TRY(ort_ep->EpGraphSupportInfo_AddNodesToFuse(support, &nodes[i], 1, &options));
  }
  return NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  const Compute *node = (const Compute *)info;
  const OrtValue *values[2];
  const float *data[2] = {NULL, NULL};
  const int64_t *dims = NULL;
  OrtValue *result = NULL;
  void *out = NULL;
  size_t rank = 0, count = 1, i;
  int type = 0;
  (void)state;
  for (i = 0; i < node->inputs; i++) {
    TRY(ort->KernelContext_GetInput(context, node->input_of[i], &values[i]));
    TRY(ort->GetTensorData(values[i], (const void **)&data[i]));
  }
  TRY(ort->GetTensorElementTypeAndShapeDataReference(values[0], &type, &dims, &rank));
  TRY(ort->KernelContext_GetOutput(context, 0, dims, rank, &result));
  TRY(ort->GetTensorMutableData(result, &out));
  for (i = 0; i < rank; i++) count *= (size_t)dims[i];
  for (i = 0; i < count; i++)
    ((float *)out)[i] = data[1] ? data[0][i] + data[1][i] : data[0][i] > 0 ? data[0][i] : 0;
  __atomic_fetch_add(&small_ep_runs, 1, __ATOMIC_RELAXED);
  return NULL;
}

static OrtStatus *create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context,
                               void **state) {
  (void)info;
  (void)context;
  *state = NULL;
  return NULL;
}

static void release_state(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

/* A value that enters a node twice enters the fused node once. */
static OrtStatus *bind(const OrtNode *node, const OrtNode *fused, Compute *made) {
  const OrtValueInfo *own[2], *entering[2];
  const char *name = NULL, *other = NULL;
  size_t count = 0, i, k;
  TRY(ort->Node_GetNumInputs(node, &made->inputs));
  TRY(ort->Node_GetInputs(node, own, made->inputs));
  TRY(ort->Node_GetNumInputs(fused, &count));
  TRY(ort->Node_GetInputs(fused, entering, count));
  for (i = 0; i < made->inputs; i++) {
    TRY(ort->GetValueInfoName(own[i], &name));
    for (k = 0; k < count; k++) {
      TRY(ort->GetValueInfoName(entering[k], &other));
      if (strcmp(name, other) == 0) made->input_of[i] = k;
    }
  }
  return NULL;
}

static OrtStatus *compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **context_nodes) {
  const OrtNode *node = NULL;
  Compute *made;
  size_t i;
  (void)ep;
  (void)context_nodes;
  for (i = 0; i < count; i++) {
    made = calloc(1, sizeof *made);
    if (made == NULL) return ort->CreateStatus(FAIL, "out of memory");
    infos[i] = &made->base;
    made->base.ort_version_supported = VERSION;
    made->base.CreateState = create_state;
    made->base.Compute = compute;
    made->base.ReleaseState = release_state;
    TRY(ort->Graph_GetNodes(graphs[i], &node, 1));
    TRY(bind(node, fused[i], made));
  }
  return NULL;
}

static void release_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
  size_t i;
  (void)ep;
  for (i = 0; i < count; i++) free(infos[i]);
}

static OrtStatus *create_ep(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                            const OrtKeyValuePairs *const *metadata, size_t count,
                            const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **ep) {
  Ep *made = calloc(1, sizeof *made);
  (void)factory, (void)hardware, (void)metadata, (void)count, (void)options, (void)logger;
  if (made == NULL) return ort->CreateStatus(FAIL, "out of memory");
  made->base.ort_version_supported = VERSION;
  made->base.GetName = name_of_ep;
  made->base.GetCapability = get_capability;
  made->base.Compile = compile;
  made->base.ReleaseNodeComputeInfos = release_infos;
  *ep = &made->base;
  return NULL;
}

static void release_ep(OrtEpFactory *factory, OrtEp *ep) {
  (void)factory;
  free(ep);
}

static OrtStatus *supported_devices(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                    size_t hardware_count, OrtEpDevice **devices, size_t capacity,
                                    size_t *count) {
  size_t i;
  *count = 0;
  for (i = 0; i < hardware_count && *count == 0 && capacity > 0; i++)
    if (ort->HardwareDevice_Type(hardware[i]) == CPU) {
      TRY(ort_ep->CreateEpDevice(factory, hardware[i], NULL, NULL, devices));
      *count = 1;
    }
  return NULL;
}

static OrtStatus *no_data_transfer(OrtEpFactory *factory, OrtDataTransferImpl **transfer) {
  (void)factory;
  *transfer = NULL;
  return NULL;
}

static struct {
  OrtEpFactory base;
  void *reserved[16];
} the_factory = {.base = {.ort_version_supported = VERSION,
                          .GetName = name_of_factory,
                          .GetVendor = vendor,
                          .GetVendorId = vendor_id,
                          .GetVersion = version,
                          .GetSupportedDevices = supported_devices,
                          .CreateEp = create_ep,
                          .ReleaseEp = release_ep,
                          .CreateDataTransfer = no_data_transfer}};

EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count);
EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count) {
  (void)name, (void)logger;
  ort = base->GetApi(REQUIRED_API);
  if (ort == NULL || capacity < 1)
    return base->GetApi(1)->CreateStatus(FAIL, EP_NAME " needs onnxruntime 1.25 or newer");
  ort_ep = ort->GetEpApi();
  factories[0] = &the_factory.base;
  *count = 1;
  return NULL;
}

EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  (void)factory;
  return NULL;
}
