/* Options of single runs, from the configuration entries of their OrtRunOptions.
 *
 * ONNX Runtime looks entries up by name and lists none, so each name that may be meant is asked for.
 */
#include "parts.h"

enum { MAX_NAMES = 64 };

static const char *const *option_names;
static size_t option_count;
_Thread_local int has_options;

void name_run_options(const char *const *names, size_t count) {
  option_names = names;
  option_count = count < MAX_NAMES ? count : MAX_NAMES;
}

/* On the thread that calls Run, which also computes unless the session executes in parallel. */
OrtStatus *Ep_OnRunStart(OrtEp *ep, const OrtRunOptions *options) {
  const char *keys[MAX_NAMES], *values[MAX_NAMES], *value;
  OrtStatus *status;
  size_t i, count = 0;
  if (((PyEp *)ep)->clusters == 0) return NULL; /* looking takes a microsecond */
  for (i = 0; i < option_count; i++) {
    value = api->GetRunConfigEntry(options, option_names[i]);
    if (value == NULL) continue;
    keys[count] = option_names[i];
    values[count++] = value;
  }
  if (count > 0) {
    status = returned(py_start_run(((PyEp *)ep)->self, keys, values, count));
    if (status != NULL) return status;
    has_options = 1;
  }
  run_options = options;
  return NULL;
}

OrtStatus *Ep_OnRunEnd(OrtEp *ep, const OrtRunOptions *options, _Bool sync) {
  (void)options;
  (void)sync;
  run_options = NULL;
  if (!has_options) return NULL;
  has_options = 0;
  py_end_run(((PyEp *)ep)->self);
  return returned(NULL);
}
