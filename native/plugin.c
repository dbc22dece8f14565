/* libonnxruntime_providers_nnapi_context.so: ONNX Runtime's plugin execution provider for models
 * that ep-nnapi prepared. This file: the library's two exports and the factory. */
#include "plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

#ifndef NNAPI_CONTEXT_RELEASE
#define NNAPI_CONTEXT_RELEASE "0.0.0"
#endif
#define EXPORT __attribute__((visibility("default")))

/* Source: OrtHardwareDeviceType, OrtCompiledModelCompatibility. */
enum { HARDWARE_CPU, HARDWARE_GPU, HARDWARE_NPU };
enum { NOT_APPLICABLE, SUPPORTED_OPTIMAL, SUPPORTED_PREFER_RECOMPILATION, UNSUPPORTED };

/* The one factory of the process: sessions may outlive the library's registration and still call
 * it, for which the library is linked so that it is never unloaded. `system` has the system's runtime, as it was at the first registration. */
typedef struct {
  OrtEpFactory base;
  void *reserved[16];
  const char *onnxruntime; /* its version, and the minor number of that, which is its API's */
  uint32_t version;
  ctx_system system;
  OrtHardwareDevice *hardware[CTX_MAX_DEVICES]; /* made for devices that ONNX Runtime has not */
} Factory;

static Factory the_factory;

static const char *Factory_GetName(const OrtEpFactory *f) { return (void)f, EP_NAME; }
static const char *Factory_GetVendor(const OrtEpFactory *f) { return (void)f, "ep-nnapi"; }
static uint32_t Factory_GetVendorId(const OrtEpFactory *f) { return (void)f, 0; }
static const char *Factory_GetVersion(const OrtEpFactory *f) {
  return (void)f, NNAPI_CONTEXT_RELEASE;
}

static int hardware_type(int32_t device_type) {
  if (device_type == NN_DEVICE_CPU) return HARDWARE_CPU;
  return device_type == NN_DEVICE_GPU ? HARDWARE_GPU : HARDWARE_NPU;
}

/* ONNX Runtime's device of the type that NNAPI reports, or one made for it. */
static OrtStatus *find_hardware(Factory *f, uint32_t index, const OrtHardwareDevice *const *given,
                                size_t count, const OrtHardwareDevice **out) {
  const ctx_device *device = &f->system.devices.items[index];
  const int wanted = hardware_type(device->type);
  size_t i;
  for (i = 0; i < count; i++)
    if (ort->HardwareDevice_Type(given[i]) == wanted) return (*out = given[i], NULL);
  if (f->hardware[index] == NULL)
    ORT_TRY(
        ort_ep->CreateHardwareDevice(wanted, 0, index, device->name, NULL, &f->hardware[index]));
  *out = f->hardware[index];
  return NULL;
}

static OrtStatus *add_device(Factory *f, uint32_t index, const OrtHardwareDevice *hardware,
                             OrtEpDevice **out) {
  const ctx_device *device = &f->system.devices.items[index];
  OrtKeyValuePairs *facts = NULL;
  OrtStatus *status;
  char level[8];
  snprintf(level, sizeof level, "%d", device->feature_level);
  ort->CreateKeyValuePairs(&facts);
  ort->AddKeyValuePair(facts, "nnapi_device", device->name);
  ort->AddKeyValuePair(facts, "nnapi_type", ctx_device_type(device->type));
  ort->AddKeyValuePair(facts, "nnapi_version", device->version);
  ort->AddKeyValuePair(facts, "nnapi_feature_level", level);
  status = ort_ep->CreateEpDevice(&f->base, hardware, facts, NULL, out);
  ort->ReleaseKeyValuePairs(facts);
  return status;
}

/* One for each device of the system's NNAPI runtime. Without a runtime there is one on the CPU: a
 * session may name another library with the option `runtime`. */
static OrtStatus *add_devices(Factory *f, const OrtHardwareDevice *const *hardware,
                              size_t hardware_count, OrtEpDevice **devices, size_t capacity,
                              size_t *count) {
  uint32_t i;
  *count = 0;
  for (i = 0; i < f->system.devices.count && *count < capacity; i++) {
    const OrtHardwareDevice *found = NULL;
    ORT_TRY(find_hardware(f, i, hardware, hardware_count, &found));
    ORT_TRY(add_device(f, i, found, &devices[*count]));
    ++*count;
  }
  for (i = 0; *count == 0 && capacity > 0 && i < hardware_count; i++)
    if (ort->HardwareDevice_Type(hardware[i]) == HARDWARE_CPU) {
      ORT_TRY(ort_ep->CreateEpDevice(&f->base, hardware[i], NULL, NULL, &devices[0]));
      *count = 1;
    }
  return NULL;
}

static OrtStatus *Factory_GetSupportedDevices(OrtEpFactory *factory,
                                              const OrtHardwareDevice *const *hardware,
                                              size_t hardware_count, OrtEpDevice **devices,
                                              size_t capacity, size_t *count) {
  OrtStatus *status =
      add_devices((Factory *)factory, hardware, hardware_count, devices, capacity, count);
  while (status != NULL && *count > 0) ort_ep->ReleaseEpDevice(devices[--*count]);
  return status;
}

/* Sets the options of the session's configuration that are this provider's. */
static bool read_options(Ep *ep) {
  const char *const *keys, *const *values;
  const size_t prefix = strlen(EP_OPTION_PREFIX);
  size_t count, i;
  ort->GetKeyValuePairs(ep->entries, &keys, &values, &count);
  for (i = 0; i < count; i++)
    if (strncmp(keys[i], EP_OPTION_PREFIX, prefix) == 0 &&
        !ctx_set_option(&ep->system.settings, keys[i] + prefix, values[i], &ep->error))
      return false;
  return true;
}

/* What may be wrong here is said when a node is compiled: ONNX Runtime would go on without the
 * provider after an error in CreateEp, and then not know what an EPContext node is. */
static bool set_up(const Factory *f, Ep *ep) {
  ctx_system *s = &ep->system;
  *s = f->system;
  s->open_onnx = ep_open_onnx;
  s->settings.device = ep->device_name;
  TRY(read_options(ep));
  /* a runtime that hung would hang again */
  if (s->settings.runtime != NULL ||
      (!s->found && s->missing.code != NN_MISSED_DEADLINE_PERSISTENT))
    ctx_find_runtime(s);
  TRY(ctx_resolve(s, &ep->error));
  if (s->settings.receipt == NULL) return true;
  ep->receipt = ctx_receipt_begin(s->settings.receipt, &ep->error);
  return ep->receipt != NULL;
}

static void write_receipt(const Factory *f, Ep *ep) {
  OrtStatus *status;
  ctx_error error;
  if (ep->receipt == NULL || ctx_receipt_end(ep->receipt, f->onnxruntime, &error)) return;
  status =
      ort->Logger_LogMessage(ep->logger, LOG_WARNING, error.text, "plugin.c", __LINE__, EP_NAME);
  if (status != NULL) ort->ReleaseStatus(status);
}

static void Factory_ReleaseEp(OrtEpFactory *factory, OrtEp *base) {
  Ep *ep = (Ep *)base;
  write_receipt((const Factory *)factory, ep);
  if (ep->stuck) return;
  ep_close_context_data(ep);
  if (ep->entries != NULL) ort->ReleaseKeyValuePairs(ep->entries);
  free(ep->device_name);
  free(ep);
}

static OrtStatus *Factory_CreateEp(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                   const OrtKeyValuePairs *const *metadata, size_t count,
                                   const OrtSessionOptions *options, const OrtLogger *logger,
                                   OrtEp **out) {
  Ep *ep = calloc(1, sizeof *ep);
  const char *name;
  OrtStatus *status;
  (void)hardware;
  if (ep == NULL) return ep_status("out of memory");
  ep_init(ep, ((Factory *)factory)->version);
  status = ort->GetSessionOptionsConfigEntries(options, &ep->entries);
  if (status == NULL) status = ep_open_context_data(ep, options, ((Factory *)factory)->version);
  if (status != NULL) return Factory_ReleaseEp(factory, &ep->base), status;
  name = count == 1 && metadata[0] != NULL ? ort->GetKeyValue(metadata[0], "nnapi_device") : NULL;
  ep->device_name = name != NULL ? strdup(name) : NULL;
  ep->logger = logger;
  ep->usable = set_up((Factory *)factory, ep);
  *out = &ep->base;
  return NULL;
}

/* The provider works in CPU memory: no copies between devices. */
static OrtStatus *Factory_CreateDataTransfer(OrtEpFactory *f, OrtDataTransferImpl **transfer) {
  (void)f;
  *transfer = NULL;
  return NULL;
}

/* True if a list of alternatives has one of NNAPI's for this level or a lower one. */
static bool has_level(const char *names, int highest) {
  for (; (names = strstr(names, "nnapi:")) != NULL; names++)
    if (atoi(names + 6) <= highest) return true;
  return false;
}

/* `info` is the model's metadata entry ep_compatibility_info.NnapiContextExecutionProvider, as
 * ep_nnapi/preparation/write_epcontext.py writes it. */
static OrtStatus *Factory_ValidateCompatibility(OrtEpFactory *factory,
                                                const OrtHardwareDevice *const *hardware,
                                                size_t count, const char *info, int *out) {
  const Factory *f = (const Factory *)factory;
  int format = 0, level = 0, highest = f->system.found ? 0 : 8;
  const char *names;
  uint32_t i;
  (void)hardware;
  (void)count;
  *out = NOT_APPLICABLE;
  if (info == NULL || sscanf(info, "format=%9d feature_level=%9d", &format, &level) != 2)
    return NULL;
  for (i = 0; i < f->system.devices.count; i++)
    if (f->system.devices.items[i].feature_level > highest)
      highest = f->system.devices.items[i].feature_level;
  *out = format == CTX_VERSION && level <= highest ? SUPPORTED_OPTIMAL : UNSUPPORTED;
  names = strstr(info, " alternatives=");
  if (*out == SUPPORTED_OPTIMAL && names != NULL && !has_level(names, highest))
    *out = SUPPORTED_PREFER_RECOMPILATION; /* it runs, without NNAPI */
  return NULL;
}

static void init_factory(Factory *f) {
  f->base.ort_version_supported = IMPLEMENTED_VERSION;
  f->base.GetName = Factory_GetName;
  f->base.GetVendor = Factory_GetVendor;
  f->base.GetVendorId = Factory_GetVendorId;
  f->base.GetVersion = Factory_GetVersion;
  f->base.GetSupportedDevices = Factory_GetSupportedDevices;
  f->base.CreateEp = Factory_CreateEp;
  f->base.ReleaseEp = Factory_ReleaseEp;
  f->base.CreateDataTransfer = Factory_CreateDataTransfer;
  f->base.ValidateCompiledModelCompatibilityInfo = Factory_ValidateCompatibility;
  f->system.settings = ctx_default_settings();
  ctx_find_runtime(&f->system);
}

EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count);
EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories,
                                    size_t capacity, size_t *count) {
  const OrtApi *needed = base->GetApi(REQUIRED_API);
  (void)registered_name;
  (void)logger;
  *count = 0;
  if (needed == NULL)
    return base->GetApi(1)->CreateStatus(ORT_FAIL, EP_NAME " needs onnxruntime 1.25 or newer");
  ort = needed;
  ort_ep = ort->GetEpApi();
  if (capacity < 1) return ep_status(EP_NAME ": there is no room for its factory");
  if (the_factory.base.GetName == NULL) init_factory(&the_factory);
  the_factory.onnxruntime = base->GetVersionString();
  (void)sscanf(the_factory.onnxruntime, "1.%9" SCNu32, &the_factory.version);
  factories[0] = &the_factory.base;
  *count = 1;
  return NULL;
}

EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  (void)factory;
  ctx_end_trials();
  return NULL;
}
