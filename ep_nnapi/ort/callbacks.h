/* The functions in Python that the C files call; status: NULL, or NOT_RUN if Python could not even
 * begin. cffi reads this file without its preprocessor lines.
 */
#ifndef EP_NNAPI_ORT_CALLBACKS_H
#define EP_NNAPI_ORT_CALLBACKS_H

#include "native.h"

OrtStatus *py_create_factories(const char *, uintptr_t, PyFactory **, size_t, size_t *);
OrtStatus *py_supported_devices(void *, PyFactory *, const OrtHardwareDevice *const *, size_t,
                                OrtEpDevice **, size_t, size_t *);
OrtStatus *py_create_ep(void *, const OrtHardwareDevice *const *, size_t, const OrtSessionOptions *,
                        int, uintptr_t, PyEp **);
void py_release_ep(void *, void *, PyEp *);
OrtStatus *py_get_capability(void *, uintptr_t, OrtEpGraphSupportInfo *);
OrtStatus *py_session_initialized(void *);
OrtStatus *py_compile(void *, uintptr_t *, uintptr_t *, size_t, PyCompute **, uintptr_t *);
OrtStatus *py_set_dynamic_options(void *, const char *const *, const char *const *, size_t);
OrtStatus *py_create_profiler(void *, PyProfiler **);
OrtStatus *py_start_profiling(void *, int64_t);
OrtStatus *py_end_profiling(void *, uintptr_t);
void py_release_profiler(void *, PyProfiler *);
OrtStatus *py_start_run(void *, const char *const *, const char *const *, size_t);
void py_end_run(void *);
const char *py_compatibility_info(void *);
OrtStatus *py_validate_compatibility(void *, const OrtHardwareDevice *const *, size_t, const char *,
                                     int *);
void py_release_computes(void *, PyCompute **, size_t);
OrtStatus *py_compute(void *, Call *);

#endif
