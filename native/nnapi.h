/* Client of any NNAPI library, loaded at run time. */
#ifndef NNAPI_CONTEXT_NNAPI_H
#define NNAPI_CONTEXT_NNAPI_H

#include "error.h"
#include "nnapi_functions.h"

/* The functions of one library; NULL where it has none. */
typedef struct {
#define NN_MEMBER(returns, name, exported, level, parameters) returns(*name) parameters;
  NN_FUNCTIONS(NN_MEMBER)
#undef NN_MEMBER
  void *library;
  bool system;       /* it is that of the system */
  int feature_level; /* 1 to 8: of the functions that are there, and as the runtime reports it */
} ctx_nnapi;

typedef struct {
  const ANeuralNetworksDevice *handle; /* NULL: NNAPI's own choice, below feature level 3 */
  const char *name, *version;
  int32_t type; /* the NDK's DeviceTypeCode */
  int feature_level;
} ctx_device;

enum { CTX_MAX_DEVICES = 16 };

typedef struct {
  ctx_device items[CTX_MAX_DEVICES];
  uint32_t count;
} ctx_devices;

/* The name of the device that runs what another one could not. */
#define CTX_REFERENCE_DEVICE "nnapi-reference"

/* Loads the library at `path`, or the first that is found of `paths`, which NULL ends. Libraries
 * stay loaded as long as the process lives. */
bool ctx_nnapi_load(const char *const *paths, ctx_nnapi *out, ctx_error *error);

bool ctx_list_devices(const ctx_nnapi *nnapi, ctx_devices *out, ctx_error *error);

/* The device of that name, else the first of that type; NULL: the first that is not a CPU, else
 * the first. */
bool ctx_choose_device(const ctx_devices *devices, const char *name, const ctx_device **out,
                       ctx_error *error);

/* "CPU", "GPU", "ACCELERATOR", "OTHER" or "UNKNOWN". */
const char *ctx_device_type(int32_t type);

/* Fills the error for a result code of the function `name`; returns true for NO_ERROR. */
bool ctx_succeeded(int code, const char *name, ctx_error *error);

/* Fails if the library has no function `name`. */
bool ctx_has(bool there, const char *name, ctx_error *error);

/* Calls a function of the library, if it has it: a container may say of a lower level that it needs
 * no more. Fills `error` of the function that this stands in. */
#define NN_CALL(nnapi, name, ...)                  \
  (ctx_has((nnapi)->name != NULL, #name, error) && \
   ctx_succeeded((nnapi)->name(__VA_ARGS__), #name, error))

#endif
