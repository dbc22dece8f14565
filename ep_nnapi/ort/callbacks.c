/* What ONNX Runtime calls: the creation of the factory, and the factory, provider and fused nodes.
 *
 * Each does in C what needs no decision and hands the rest to one py_… callback, which answers a
 * status.
 */
#include <stdlib.h>

#include "parts.h"

struct PyFactory {
  OrtEpFactory base;
  void *undeclared[UNDECLARED], *self;
  const char *name, *vendor, *version;
};
struct PyCompute {
  OrtNodeComputeInfo base;
  void *undeclared[UNDECLARED], *self;
  size_t inputs, outputs;
  DirectSlot direct;
};

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

static OrtStatus *compute_tensors(PyCompute *compute, OrtKernelContext *context, Tensor *inputs) {
  Call call = {context, NULL, inputs, 0};
  const OrtValue *value = NULL;
  size_t i;
  OrtStatus *status;
  for (i = 0; i < compute->inputs; i++) {
    TRY(api->KernelContext_GetInput(context, i, &value));
    TRY(read_tensor(value, &inputs[i]));
  }
  status = returned(py_compute(compute->self, &call));
  if (status == NULL && call.outputs_made < compute->outputs)
    status = create_status("ep_nnapi: a cluster did not compute all of its outputs");
  return status;
}

static OrtStatus *Compute_Compute(OrtNodeComputeInfo *info, void *state,
                                  OrtKernelContext *context) {
  PyCompute *compute = (PyCompute *)info;
  enum { FEW = 32 };
  Tensor few[FEW], *inputs = few;
  OrtStatus *status = NULL;
  (void)state;
  if (run_directly(&compute->direct, context, &status)) return status;
  begin_compute();
  if (compute->inputs > FEW) inputs = malloc(compute->inputs * sizeof(Tensor));
  if (inputs == NULL) return create_status("ep_nnapi: out of memory");
  status = compute_tensors(compute, context, inputs);
  if (inputs != few) free(inputs);
  end_compute();
  return status;
}

static void Compute_ReleaseState(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

PyCompute *new_compute(void *self, size_t inputs, size_t outputs) {
  PyCompute *compute = calloc(1, sizeof(PyCompute));
  if (compute == NULL) return NULL;
  compute->base.ort_version_supported = ort_version();
  compute->base.CreateState = Compute_CreateState;
  compute->base.Compute = Compute_Compute;
  compute->base.ReleaseState = Compute_ReleaseState;
  compute->self = self;
  compute->inputs = inputs;
  compute->outputs = outputs;
  return compute;
}

int set_direct_run(PyCompute *compute, size_t index, const DirectRun *run) {
  DirectEntry *entry = &compute->direct.entries[index];
  atomic_store(&entry->run, run);
  return atomic_load(&entry->users) == 0;
}

int64_t last_direct_run(PyCompute *compute, size_t index) {
  return atomic_exchange(&compute->direct.entries[index].last, 0);
}

void free_compute(PyCompute *compute) { free(compute); }

static const char *Ep_GetName(const OrtEp *ep) { return ((const PyEp *)ep)->name; }

_Thread_local int planning;

static OrtStatus *Ep_GetCapability(OrtEp *ep, const OrtGraph *graph,
                                   OrtEpGraphSupportInfo *support) {
  OrtStatus *status;
  planning = 1;
  status = py_get_capability(((PyEp *)ep)->self, (uintptr_t)graph, support);
  planning = 0;
  return returned(status);
}

static OrtStatus *Ep_Compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused,
                             size_t count, OrtNodeComputeInfo **infos, OrtNode **context_nodes) {
  OrtStatus *status = py_compile(((PyEp *)ep)->self, (uintptr_t *)graphs, (uintptr_t *)fused, count,
                                 (PyCompute **)infos, (uintptr_t *)context_nodes);
  ((PyEp *)ep)->clusters += count;
  return returned(status);
}

static void Ep_ReleaseNodeComputeInfos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
  py_release_computes(((PyEp *)ep)->self, (PyCompute **)infos, count);
  pass_on_interrupt();
}

static OrtStatus *Ep_SetDynamicOptions(OrtEp *ep, const char *const *keys,
                                       const char *const *values, size_t count) {
  return returned(py_set_dynamic_options(((PyEp *)ep)->self, keys, values, count));
}

/* The string is the provider's and lives as long as it. */
static const char *Ep_GetCompiledModelCompatibilityInfo(OrtEp *ep, const OrtGraph *graph) {
  const char *info = py_compatibility_info(((PyEp *)ep)->self);
  (void)graph;
  pass_on_interrupt();
  return info;
}

static OrtStatus *Ep_OnSessionInitializationEnd(OrtEp *ep) {
  return returned(py_session_initialized(((PyEp *)ep)->self));
}

/* Source: OrtEpContextDataSupportFlags. */
static OrtStatus *Ep_GetEpContextDataSupport(const OrtEp *ep, uint32_t *flags) {
  enum { CAN_READ = 1, CAN_WRITE = 2 };
  (void)ep;
  *flags = CAN_READ | CAN_WRITE;
  return NULL;
}

PyEp *new_ep(void *self, const char *name) {
  PyEp *ep = calloc(1, sizeof(PyEp));
  if (ep == NULL) return NULL;
  ep->base.ort_version_supported = ort_version();
  ep->base.GetName = Ep_GetName;
  ep->base.GetCapability = Ep_GetCapability;
  ep->base.Compile = Ep_Compile;
  ep->base.ReleaseNodeComputeInfos = Ep_ReleaseNodeComputeInfos;
  ep->base.SetDynamicOptions = Ep_SetDynamicOptions;
  ep->base.OnRunStart = Ep_OnRunStart;
  ep->base.OnRunEnd = Ep_OnRunEnd;
  ep->base.CreateProfiler = Ep_CreateProfiler;
  ep->base.GetCompiledModelCompatibilityInfo = Ep_GetCompiledModelCompatibilityInfo;
  ep->base.GetEpContextDataSupport = Ep_GetEpContextDataSupport;
  ep->base.OnSessionInitializationEnd = Ep_OnSessionInitializationEnd;
  ep->self = self;
  ep->name = name;
  return ep;
}

void free_ep(PyEp *ep) { free(ep); }

static const char *Factory_GetName(const OrtEpFactory *f) { return ((const PyFactory *)f)->name; }
static const char *Factory_GetVendor(const OrtEpFactory *f) {
  return ((const PyFactory *)f)->vendor;
}
static const char *Factory_GetVersion(const OrtEpFactory *f) {
  return ((const PyFactory *)f)->version;
}

static OrtStatus *Factory_GetSupportedDevices(OrtEpFactory *factory,
                                              const OrtHardwareDevice *const *hardware,
                                              size_t hardware_count, OrtEpDevice **devices,
                                              size_t capacity, size_t *count) {
  *count = 0;
  return returned(py_supported_devices(((PyFactory *)factory)->self, (PyFactory *)factory, hardware,
                                       hardware_count, devices, capacity, count));
}

static OrtStatus *Factory_CreateEp(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                   const OrtKeyValuePairs *const *metadata, size_t count,
                                   const OrtSessionOptions *options, const OrtLogger *logger,
                                   OrtEp **ep) {
  int by_policy;
  if (probing) return create_status("ep_nnapi: this session only asks for the selection policy");
  by_policy = selected_by_policy(options);
  (void)metadata;
  return returned(py_create_ep(((PyFactory *)factory)->self, hardware, count, options, by_policy,
                               (uintptr_t)logger, (PyEp **)ep));
}

static void Factory_ReleaseEp(OrtEpFactory *factory, OrtEp *ep) {
  py_release_ep(((PyFactory *)factory)->self, ((PyEp *)ep)->self, (PyEp *)ep);
  pass_on_interrupt();
}

/* The provider works in CPU memory: no copies between devices. */
static OrtStatus *Factory_CreateDataTransfer(OrtEpFactory *factory,
                                             OrtDataTransferImpl **transfer) {
  (void)factory;
  *transfer = NULL;
  return NULL;
}

static OrtStatus *Factory_ValidateCompiledModelCompatibilityInfo(
    OrtEpFactory *factory, const OrtHardwareDevice *const *hardware, size_t count, const char *info,
    int *answer) {
  return returned(
      py_validate_compatibility(((PyFactory *)factory)->self, hardware, count, info, answer));
}

PyFactory *new_factory(void *self, const char *name, const char *vendor, const char *version) {
  PyFactory *factory = calloc(1, sizeof(PyFactory));
  if (factory == NULL) return NULL;
  factory->base.ort_version_supported = ort_version();
  factory->base.GetName = Factory_GetName;
  factory->base.GetVendor = Factory_GetVendor;
  factory->base.GetVendorId = Factory_GetVendorId;
  factory->base.GetVersion = Factory_GetVersion;
  factory->base.GetSupportedDevices = Factory_GetSupportedDevices;
  factory->base.CreateEp = Factory_CreateEp;
  factory->base.ReleaseEp = Factory_ReleaseEp;
  factory->base.ValidateCompiledModelCompatibilityInfo =
      Factory_ValidateCompiledModelCompatibilityInfo;
  factory->base.CreateDataTransfer = Factory_CreateDataTransfer;
  factory->self = self;
  factory->name = name;
  factory->vendor = vendor;
  factory->version = version;
  return factory;
}

static OrtStatus *refuse(const OrtApiBase *base, const char *message) {
  return base->GetApi(1)->CreateStatus(EXECUTE_FAIL, message);
}

static OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count) {
  *count = 0;
  if (!use_api(base)) return refuse(base, "ep_nnapi needs onnxruntime 1.25 or newer");
  if (capacity < 1) return refuse(base, "ep_nnapi: there is no room for its factory");
  return returned(py_create_factories(registered_name, (uintptr_t)logger, (PyFactory **)factories,
                                      capacity, count));
}

/* Sessions may outlive their library's registration and still call ReleaseEp on the factory, so it
 * stays; the next registration gets the same one. */
static OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  (void)factory;
  return NULL;
}

static struct {
  uint32_t identity;
  void (*functions[2])(void);
} entry_table = {IDENTITY, {(void (*)(void))CreateEpFactories, (void (*)(void))ReleaseEpFactory}};

uintptr_t entry_points(void) { return (uintptr_t)&entry_table; }
