/* Loading of an NNAPI library: see nnapi.h. Python's client is ep_nnapi/nnapi/library. */
#include "nnapi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *code_name(int code) {
  switch (code) {
#define NAMED(name) \
  case NN_##name: return "ANEURALNETWORKS_" #name;
    NN_RESULTS(NAMED)
#undef NAMED
    default: return NULL;
  }
}

bool ctx_succeeded(int code, const char *name, ctx_error *error) {
  const char *known = code_name(code);
  if (code == NN_NO_ERROR) return true;
  if (known != NULL)
    ctx_fail(error, "ANeuralNetworks%s: %s", name, known);
  else
    ctx_fail(error, "ANeuralNetworks%s: result code %d, which NNAPI does not define", name, code);
  error->code = code;
  return false;
}

bool ctx_has(bool there, const char *name, ctx_error *error) {
  return there || ctx_fail(error, "the runtime has no function ANeuralNetworks%s", name);
}

/* The feature level of a value of getFeatureLevel: levels 1 to 5 were Android API levels. */
static int level_of_code(int64_t code) {
  const int64_t level = code > 1000000 ? code - 1000000 : code - 26 > 5 ? 5 : code - 26;
  return level < 0 ? 0 : level > 8 ? 8 : (int)level;
}

/* The highest level of which, and below which, no needed function is missing; 0 for none. */
static int level_of_functions(const ctx_nnapi *nnapi) {
  int lacking = 9;
#define LOOK(returns, name, exported, level, parameters) \
  if (nnapi->name == NULL && lacking > (level)) lacking = (level);
  NN_FUNCTIONS(LOOK)
#undef LOOK
  return lacking - 1;
}

static void bind(ctx_nnapi *nnapi) {
  void *found;
  /* POSIX: dlsym's object pointer can be converted to a function pointer, as memcpy does. */
#define BIND(returns, name, exported, level, parameters) \
  found = dlsym(nnapi->library, #exported);              \
  memcpy(&nnapi->name, &found, sizeof found);
  NN_FUNCTIONS(BIND)
#undef BIND
}

bool ctx_nnapi_load(const char *const *paths, ctx_nnapi *out, ctx_error *error) {
  ctx_nnapi nnapi = {0};
  const char *first = *paths;
  for (; *paths != NULL && nnapi.library == NULL; paths++) {
    nnapi.library = dlopen(*paths, RTLD_NOW | RTLD_LOCAL);
    if (nnapi.library == NULL && *paths == first) {
      const char *why = dlerror();
      ctx_fail(error, "runtime: %.400s", why != NULL ? why : "the library cannot be loaded");
    }
  }
  if (nnapi.library == NULL) return false;
  bind(&nnapi);
  nnapi.feature_level = level_of_functions(&nnapi);
  if (nnapi.feature_level == 0)
    return ctx_fail(error, "runtime %.200s is no NNAPI library: it lacks functions of NNAPI 1.0",
                    paths[-1]);
  if (nnapi.feature_level >= 5) {
    const int reported = level_of_code(nnapi.getRuntimeFeatureLevel());
    nnapi.feature_level = reported < 1 ? 1 : reported;
  }
  *out = nnapi;
  return true;
}

const char *ctx_device_type(int32_t type) {
  static const char *const names[] = {"UNKNOWN", "OTHER", "CPU", "GPU", "ACCELERATOR"};
  return type >= 0 && type < 5 ? names[type] : names[0];
}

static bool describe(const ctx_nnapi *nnapi, ctx_device *device, ctx_error *error) {
  int64_t level = 0;
  TRY(NN_CALL(nnapi, Device_getName, device->handle, &device->name));
  TRY(NN_CALL(nnapi, Device_getVersion, device->handle, &device->version));
  TRY(NN_CALL(nnapi, Device_getType, device->handle, &device->type));
  TRY(NN_CALL(nnapi, Device_getFeatureLevel, device->handle, &level));
  device->feature_level = level_of_code(level);
  if (device->feature_level > nnapi->feature_level) device->feature_level = nnapi->feature_level;
  return (device->name != NULL && device->version != NULL) ||
         ctx_succeeded(NN_UNEXPECTED_NULL, "Device_getName", error);
}

bool ctx_list_devices(const ctx_nnapi *nnapi, ctx_devices *out, ctx_error *error) {
  uint32_t count = 0, i;
  memset(out, 0, sizeof *out);
  if (nnapi->feature_level < 3) {
    const ctx_device choice = {NULL, "default", "", NN_DEVICE_UNKNOWN, nnapi->feature_level};
    out->items[out->count++] = choice;
    return true;
  }
  if (!ctx_succeeded(nnapi->getDeviceCount(&count), "_getDeviceCount", error)) return false;
  for (i = 0; i < count && out->count < CTX_MAX_DEVICES; i++) {
    ctx_device device = {0};
    ANeuralNetworksDevice *handle = NULL;
    if (!ctx_succeeded(nnapi->getDevice(i, &handle), "_getDevice", error)) return false;
    device.handle = handle;
    if (handle == NULL) return ctx_succeeded(NN_UNEXPECTED_NULL, "_getDevice", error);
    if (!describe(nnapi, &device, error)) return false;
    if (device.feature_level >= 1) out->items[out->count++] = device;
  }
  return out->count > 0 || ctx_fail(error, "the runtime has no device");
}

static bool unknown_device(const ctx_devices *devices, const char *name, ctx_error *error) {
  char names[256] = "";
  size_t used = 0;
  uint32_t i;
  for (i = 0; i < devices->count && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                             devices->items[i].name);
  return ctx_fail(error, "device '%.100s' is unknown; there are %s", name, names);
}

bool ctx_choose_device(const ctx_devices *devices, const char *name, const ctx_device **out,
                       ctx_error *error) {
  uint32_t i;
  for (i = 0; name != NULL && i < devices->count; i++)
    if (strcmp(devices->items[i].name, name) == 0) return (*out = &devices->items[i], true);
  for (i = 0; i < devices->count; i++) {
    const ctx_device *device = &devices->items[i];
    if (name != NULL ? strcasecmp(ctx_device_type(device->type), name) == 0
                     : device->type != NN_DEVICE_CPU)
      return (*out = device, true);
  }
  if (name != NULL) return unknown_device(devices, name, error);
  *out = &devices->items[0];
  return devices->count > 0 || ctx_fail(error, "the runtime has no device");
}
