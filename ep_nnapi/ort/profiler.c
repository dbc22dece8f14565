/* OrtEpProfilerImpl: ONNX Runtime asks the provider for its events when a profile ends.
 *
 * ONNX Runtime 1.25 and newer has it.
 */
#include <stdlib.h>

#include "parts.h"

struct OrtEpProfilerImpl {
  uint32_t ort_version_supported;
  void (*Release)(OrtEpProfilerImpl *);
  OrtStatus *(*StartProfiling)(OrtEpProfilerImpl *, int64_t);
  OrtStatus *(*StartEvent)(OrtEpProfilerImpl *, uint64_t);
  OrtStatus *(*StopEvent)(OrtEpProfilerImpl *, uint64_t, const OrtProfilingEvent *);
  OrtStatus *(*EndProfiling)(OrtEpProfilerImpl *, OrtProfilingEventsContainer *);
};
struct PyProfiler {
  OrtEpProfilerImpl base;
  void *undeclared[UNDECLARED], *self;
};

static _Thread_local int64_t compute_began, *compute_ends;

int64_t time_compute(int64_t *ends) {
  compute_ends = ends;
  return compute_began;
}

void begin_compute(void) { compute_began = now_ns(); }

void end_compute(void) {
  int64_t *ends = compute_ends;
  compute_ends = NULL;
  if (ends != NULL) *ends = now_ns();
}

/* `offset`: nanoseconds since ONNX Runtime began the profile, whose times count from there. */
static OrtStatus *Profiler_StartProfiling(OrtEpProfilerImpl *profiler, int64_t offset) {
  int64_t began = now_ns() - offset;
  return returned(py_start_profiling(((PyProfiler *)profiler)->self, began));
}

static OrtStatus *Profiler_EndProfiling(OrtEpProfilerImpl *profiler,
                                        OrtProfilingEventsContainer *events) {
  return returned(py_end_profiling(((PyProfiler *)profiler)->self, (uintptr_t)events));
}

static void Profiler_Release(OrtEpProfilerImpl *profiler) {
  py_release_profiler(((PyProfiler *)profiler)->self, (PyProfiler *)profiler);
  pass_on_interrupt();
}

PyProfiler *new_profiler(void *self) {
  PyProfiler *profiler = calloc(1, sizeof(PyProfiler));
  if (profiler == NULL) return NULL;
  profiler->base.ort_version_supported = ort_version();
  profiler->base.Release = Profiler_Release;
  profiler->base.StartProfiling = Profiler_StartProfiling;
  profiler->base.EndProfiling = Profiler_EndProfiling;
  profiler->self = self;
  return profiler;
}

void free_profiler(PyProfiler *profiler) { free(profiler); }

OrtStatus *Ep_CreateProfiler(OrtEp *ep, OrtEpProfilerImpl **profiler) {
  return returned(py_create_profiler(((PyEp *)ep)->self, (PyProfiler **)profiler));
}
