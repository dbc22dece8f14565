/* Options: see options.h. Names and values are those of ep_nnapi/options/table.py. */
#include "options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choice.h"
#include "trial.h"

#define LIBRARY "libneuralnetworks.so"
#if UINTPTR_MAX > UINT32_MAX
#define BITS "64"
#else
#define BITS ""
#endif

typedef struct {
  const char *name;
  int32_t code;
} choice;

ctx_settings ctx_default_settings(void) {
  const ctx_settings settings = {.fallback = true,
                                 .prefer = CTX_PREFER,
                                 .trial_timeout = 30000000000,
                                 .options.preference = NN_PREFERENCE_FAST_SINGLE_ANSWER,
                                 .options.priority = NN_PRIORITY_MEDIUM};
  return settings;
}

static bool choose(const char *key, const char *value, const choice *choices, int32_t *out,
                   ctx_error *error) {
  char names[128] = "";
  size_t used = 0;
  int i;
  for (i = 0; choices[i].name != NULL; i++) {
    if (strcmp(choices[i].name, value) == 0) return (*out = choices[i].code, true);
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                             choices[i].name);
  }
  return ctx_fail(error, "%s is '%.100s'; it must be one of %s", key, value, names);
}

/* Seconds with an optional fraction, as "1.5", in nanoseconds; in no locale but C's. */
static bool parse_seconds(const char *key, const char *value, uint64_t *out, ctx_error *error) {
  uint64_t whole = 0, fraction = 0, unit = 1000000000;
  const char *p = value;
  for (; *p >= '0' && *p <= '9' && whole < 1000000000; p++)
    whole = whole * 10 + (uint64_t)(*p - '0');
  if (p > value && *p == '.')
    for (p++; *p >= '0' && *p <= '9'; p++)
      if (unit > 1) fraction += (uint64_t)(*p - '0') * (unit /= 10);
  *out = whole * 1000000000 + fraction;
  if (*p != '\0' || *out == 0)
    return ctx_fail(error, "%s is '%.100s'; it must be a number of seconds above 0", key, value);
  return true;
}

static bool parse_threads(const char *key, const char *value, int *out, ctx_error *error) {
  char *end;
  const long threads = strtol(value, &end, 10);
  if (*end != '\0' || end == value || threads < 1 || threads > 1024)
    return ctx_fail(error, "%s is '%.100s'; it must be 1 to 1024", key, value);
  *out = (int)threads;
  return true;
}

bool ctx_set_option(ctx_settings *settings, const char *key, const char *value, ctx_error *error) {
  static const choice preferences[] = {{"low_power", NN_PREFERENCE_LOW_POWER},
                                       {"fast_single_answer", NN_PREFERENCE_FAST_SINGLE_ANSWER},
                                       {"sustained_speed", NN_PREFERENCE_SUSTAINED_SPEED},
                                       {NULL, 0}};
  static const choice priorities[] = {{"low", NN_PRIORITY_LOW},
                                      {"medium", NN_PRIORITY_MEDIUM},
                                      {"high", NN_PRIORITY_HIGH},
                                      {NULL, 0}};
  static const choice fallbacks[] = {{"reference", 1}, {"none", 0}, {NULL, 0}};
  static const choice precisions[] = {{"float32", 0}, {"float16", 1}, {NULL, 0}};
  int32_t code = 0;
  if (strcmp(key, "runtime") == 0) return (settings->runtime = value, true);
  if (strcmp(key, "receipt") == 0) return (settings->receipt = value, true);
  if (strcmp(key, "device") == 0) return (settings->device = value, true);
  if (strcmp(key, "cache_dir") == 0) return (settings->cache_dir = value, true);
  if (strcmp(key, "litert") == 0) return (settings->options.litert = value, true);
  if (strcmp(key, "litert_threads") == 0)
    return parse_threads(key, value, &settings->options.litert_threads, error);
  if (strcmp(key, "litert_cache_dir") == 0)
    return (settings->options.litert_cache_dir = value, true);
  if (strcmp(key, "litert_precision") == 0) {
    TRY(choose(key, value, precisions, &code, error));
    return settings->options.litert_half = code != 0, true;
  }
  if (strcmp(key, "prefer") == 0) return settings->prefer = value, ctx_check_prefer(value, error);
  if (strcmp(key, "trial_timeout") == 0)
    return parse_seconds(key, value, &settings->trial_timeout, error);
  if (strcmp(key, "preference") == 0)
    return choose(key, value, preferences, &settings->options.preference, error);
  if (strcmp(key, "priority") == 0)
    return choose(key, value, priorities, &settings->options.priority, error);
  if (strcmp(key, "compilation_timeout") == 0)
    return parse_seconds(key, value, &settings->options.compilation_timeout, error);
  if (strcmp(key, "execution_timeout") == 0)
    return parse_seconds(key, value, &settings->options.execution_timeout, error);
  if (strcmp(key, "fallback") == 0) {
    if (!choose(key, value, fallbacks, &code, error)) return false;
    settings->fallback = code != 0;
    return true;
  }
  return ctx_fail(error,
                  "option '%.100s' is unknown; there are runtime, device, preference, priority, "
                  "compilation_timeout, execution_timeout, fallback, receipt, prefer, cache_dir, "
                  "trial_timeout, litert, litert_threads, litert_cache_dir, litert_precision",
                  key);
}

/* The path of an NNAPI library in the folder of the library or program that this is part of. */
static bool beside(char *path, size_t capacity) {
  static const char anchor = 0;
  const char *slash;
  Dl_info found;
  if (dladdr(&anchor, &found) == 0 || found.dli_fname == NULL) return false;
  slash = strrchr(found.dli_fname, '/');
  return slash != NULL && snprintf(path, capacity, "%.*s/%s", (int)(slash - found.dli_fname),
                                   found.dli_fname, LIBRARY) < (int)capacity;
}

bool ctx_open_runtime(const ctx_settings *settings, ctx_nnapi *out, ctx_error *error) {
  char own[4096];
  const char *named[] = {settings->runtime, NULL}, *last[] = {own, NULL};
  const char *systems[] = {LIBRARY, "/apex/com.android.neuralnetworks/lib" BITS "/" LIBRARY,
                           "/system/lib" BITS "/" LIBRARY, NULL};
  ctx_error ignored;
  if (settings->runtime != NULL) return ctx_nnapi_load(named, out, error);
  if (ctx_nnapi_load(systems, out, error)) return out->system = true;
  return beside(own, sizeof own) && ctx_nnapi_load(last, out, &ignored);
}

/* A search for the runtime, which may hang in the library. */
typedef struct {
  ctx_system system;
  char runtime[4096]; /* the settings' */
} search;

static void look(void *given) {
  ctx_system *s = &((search *)given)->system;
  s->found = ctx_open_runtime(&s->settings, &s->nnapi, &s->missing) &&
             ctx_list_devices(&s->nnapi, &s->devices, &s->missing);
}

static bool find_runtime(ctx_system *system, ctx_error *error) {
  const ctx_settings settings = system->settings;
  const char *name = settings.runtime != NULL ? settings.runtime : "system";
  const uint8_t nothing[1] = {0};
  ctx_note note = ctx_note_of(settings.cache_dir, nothing, 0, 'r', name, nothing, 0);
  search *s;
  if (!ctx_note_is_free(&note, false, error)) return ctx_prefix(error, "runtime");
  s = calloc(1, sizeof *s);
  if (s == NULL) return ctx_out_of_memory(error);
  s->system = *system;
  if (settings.runtime != NULL) {
    snprintf(s->runtime, sizeof s->runtime, "%s", settings.runtime);
    s->system.settings.runtime = s->runtime;
  }
  ctx_note_begin(&note, name);
  if (!ctx_within(&note, settings.trial_timeout, look, free, s, "list its devices", error))
    return ctx_prefix(error, "runtime");
  *system = s->system;
  system->settings = settings;
  free(s);
  return system->found;
}

void ctx_find_runtime(ctx_system *system) {
  system->found = find_runtime(system, &system->missing);
  if (!system->found) system->devices.count = 0;
}

char *ctx_runtime_name(const ctx_system *s) {
  char own[4096];
  if (s->settings.runtime != NULL) return strdup(s->settings.runtime);
  return strdup(!s->nnapi.system && beside(own, sizeof own) ? own : "system");
}

bool ctx_has_choice(const ctx_container *c) {
  return c->header->choices > 1 || c->chosen->kind != CTX_KIND_NNAPI;
}

bool ctx_resolve(ctx_system *s, ctx_error *error) {
  uint32_t i;
  s->options = s->settings.options;
  s->options.measure = s->settings.receipt != NULL;
  if (!s->found) return true;
  TRY(ctx_choose_device(&s->devices, s->settings.device, &s->options.device, error));
  for (i = 0; s->settings.fallback && i < s->devices.count; i++)
    if (strcmp(s->devices.items[i].name, CTX_REFERENCE_DEVICE) == 0)
      s->options.fallback = &s->devices.items[i];
  return true;
}
