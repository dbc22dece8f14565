/* Provider options of the plugin, and arguments of nnapi_run: the same names and values. */
#ifndef NNAPI_CONTEXT_OPTIONS_H
#define NNAPI_CONTEXT_OPTIONS_H

#include "engine.h"

/* The order of preference where none is chosen. */
#define CTX_PREFER "nnapi,litert-npu,litert-gpu,nnapi-cpu,litert-cpu,cpu"

typedef struct {
  const char *runtime;   /* path of the NNAPI library; NULL: the system's, or the one beside this */
  const char *device;    /* name or type; NULL: NNAPI's first that is not a CPU, else its first */
  const char *receipt;   /* path of the file that says what ran where; NULL: none */
  const char *prefer;    /* order of alternatives */
  const char *cache_dir; /* folder in which trials of alternatives are noted; NULL: none */
  uint64_t trial_timeout; /* nanoseconds for a trial of an alternative */
  bool fallback;
  ctx_options options; /* their devices are those of no runtime yet */
} ctx_settings;

/* Defaults. */
ctx_settings ctx_default_settings(void);

/* Sets one option; the strings are kept, not copied. */
bool ctx_set_option(ctx_settings *settings, const char *key, const char *value, ctx_error *error);

/* What sessions run on: their settings, and the NNAPI library with its devices. */
typedef struct {
  ctx_settings settings;
  bool found;        /* the library, */
  ctx_error missing; /* or why it was not */
  ctx_nnapi nnapi;
  ctx_devices devices;
  ctx_options options;     /* of programs; the device is that of the settings, if it was found */
  ctx_open_onnx open_onnx; /* NULL: there is no ONNX Runtime */
} ctx_system;

/* Loads the runtime of the settings. */
bool ctx_open_runtime(const ctx_settings *settings, ctx_nnapi *out, ctx_error *error);

/* The same, and its devices, within the deadline of a trial; noted in the folder `cache_dir`, so that
 * a library that ends the process or hangs does so once. The error of one that hangs has the code
 * NN_MISSED_DEADLINE_PERSISTENT. */
void ctx_find_runtime(ctx_system *system);

/* "system", or the path of the runtime that was opened; to be freed; NULL if memory is short. */
char *ctx_runtime_name(const ctx_system *system);

/* True if a container has alternatives, among which there is a choice. */
bool ctx_has_choice(const ctx_container *container);

/* Sets the options for the settings and the devices, if there are any. */
bool ctx_resolve(ctx_system *system, ctx_error *error);

#endif
