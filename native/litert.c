/* LiteRT's library: see litert.h. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "litert_functions.h"

#define LIBRARY "libLiteRt.so"
#define CALL LITERT_CALL

pthread_mutex_t ctx_litert_lock = PTHREAD_MUTEX_INITIALIZER;
static ctx_litert *libraries;

bool ctx_litert_succeeded(int status, const char *name, ctx_error *error) {
  static const struct {
    int status;
    const char *meaning;
  } known[] = {{1, "an invalid argument"}, {2, "out of memory"},      {3, "a failure at run time"},
               {5, "unsupported"},         {501, "no valid .tflite"}, {504, "it does not compile"}};
  size_t i;
  if (status == 0) return true;
  for (i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].status == status) return ctx_fail(error, "LiteRt%s: %s", name, known[i].meaning);
  return ctx_fail(error, "LiteRt%s: status %d", name, status);
}

/* Versions differ by what they export: no function tells them. */
static bool bind(ctx_litert *l, const char *path, ctx_error *error) {
  const char *missing = NULL;
  void *found;
  if (dlsym(l->library, "LiteRtCreateEnvironment") == NULL)
    return ctx_fail(error, "%.300s is no LiteRT library: it lacks LiteRtCreateEnvironment", path);
  if (dlsym(l->library, "LiteRtCreateModelFromFd") == NULL)
    return ctx_fail(error, "%.300s is older than LiteRT 2.1.6; install 2.1.6 or newer", path);
  /* POSIX: dlsym's object pointer can be converted to a function pointer, as memcpy does. */
#define BIND(name, ...)                      \
  found = dlsym(l->library, "LiteRt" #name); \
  memcpy(&l->name, &found, sizeof found);    \
  if (found == NULL) missing = "LiteRt" #name;
  CTX_LITERT_FUNCTIONS(BIND)
  CTX_LITERT_DESTROYERS(BIND)
#undef BIND
  found = dlsym(l->library, "LiteRtCompiledModelIsNonCpuFullyAccelerated");
  memcpy(&l->IsNonCpuFullyAccelerated, &found, sizeof found);
  return missing == NULL ||
         ctx_fail(error, "%.300s is of another version of LiteRT: it lacks %s", path, missing);
}

/* "" where the loader found the library by its name and does not say where. */
static char *folder_of(const ctx_litert *l) {
  const void *symbol = dlsym(l->library, "LiteRtCreateEnvironment");
  const char *slash;
  Dl_info found;
  if (dladdr(symbol, &found) == 0 || found.dli_fname == NULL) return strdup("");
  slash = strrchr(found.dli_fname, '/');
  return slash == NULL ? strdup("") : strndup(found.dli_fname, (size_t)(slash - found.dli_fname));
}

static ctx_litert *load(const char *path, ctx_error *error) {
  const char *name = path != NULL ? path : LIBRARY;
  ctx_litert *l = calloc(1, sizeof *l);
  if (l == NULL) return (void)ctx_out_of_memory(error), NULL;
  l->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (l->library == NULL) {
    const char *why = dlerror();
    ctx_fail(error, "LiteRT: %.400s", why != NULL ? why : "the library cannot be loaded");
  } else if (bind(l, name, error)) {
    l->path = path != NULL ? strdup(path) : NULL;
    l->folder = folder_of(l);
    if (l->folder != NULL && (path == NULL || l->path != NULL)) return l;
    ctx_out_of_memory(error);
  }
  free(l->path);
  free(l->folder);
  free(l);
  return NULL;
}

static bool is_at(const ctx_litert *l, const char *path) {
  return path == NULL || l->path == NULL ? path == l->path : strcmp(path, l->path) == 0;
}

bool ctx_litert_open(const char *path, ctx_litert **out, ctx_error *error) {
  ctx_litert *l;
  pthread_mutex_lock(&ctx_litert_lock);
  for (l = libraries; l != NULL && !is_at(l, path);) l = l->next;
  if (l == NULL && (l = load(path, error)) != NULL) {
    l->next = libraries;
    libraries = l;
  }
  pthread_mutex_unlock(&ctx_litert_lock);
  *out = l;
  return l != NULL;
}

static ctx_litert_env_option text_option(int32_t tag, const char *text) {
  const ctx_litert_env_option made = {tag, {CTX_LITERT_ANY_TEXT, {.text = text}}};
  return made;
}

static ctx_litert_env_option integer_option(int32_t tag, int64_t integer) {
  const ctx_litert_env_option made = {tag, {CTX_LITERT_ANY_INTEGER, {.integer = integer}}};
  return made;
}

bool ctx_litert_environment(ctx_litert *l, int accelerator, ctx_litert_handle *out,
                            ctx_error *error) {
  ctx_litert_handle *made = accelerator == CTX_LITERT_CPU ? &l->cpu : &l->all;
  ctx_litert_env_option options[4];
  int count = 0;
  bool found;
  options[count++] = integer_option(CTX_LITERT_LEAST_LOG, CTX_LITERT_LOG_SILENT);
  if (accelerator == CTX_LITERT_CPU) {
    options[count++] = integer_option(CTX_LITERT_REGISTERED, CTX_LITERT_CPU);
  } else if (l->folder[0] != '\0') {
    options[count++] = text_option(CTX_LITERT_GPU_LIBRARIES, l->folder);
    options[count++] = text_option(CTX_LITERT_DISPATCH, l->folder);
    options[count++] = text_option(CTX_LITERT_COMPILER_PLUGINS, l->folder);
  }
  pthread_mutex_lock(&ctx_litert_lock);
  found = *made != NULL || CALL(l, CreateEnvironment, count, options, made);
  *out = *made;
  pthread_mutex_unlock(&ctx_litert_lock);
  return found;
}

bool ctx_litert_accelerators(ctx_litert *l, int *mask, ctx_error *error) {
  size_t count = 0, i;
  ctx_litert_handle env, found;
  int one;
  *mask = 0;
  TRY(ctx_litert_environment(l, ~CTX_LITERT_CPU, &env, error));
  TRY(CALL(l, GetNumAccelerators, env, &count));
  for (i = 0; i < count; i++) {
    TRY(CALL(l, GetAccelerator, env, i, &found));
    TRY(CALL(l, GetAcceleratorHardwareSupport, found, &one));
    *mask |= one;
  }
  return true;
}
