/* The functions in Python that the C files call; an int is 0, or 1 for failure. _build.py reads this
 * file.
 */
int py_create_factories(const char *, uintptr_t, PyFactory **, size_t, size_t *, OrtStatus **);
int py_supported_devices(PyFactory *, const OrtHardwareDevice *const *, size_t, OrtEpDevice **,
                         size_t, size_t *, OrtStatus **);
int py_create_ep(void *, const OrtHardwareDevice *const *, size_t, const OrtSessionOptions *, int,
                 uintptr_t, PyEp **, OrtStatus **);
void py_release_ep(void *, void *, PyEp *);
int py_get_capability(void *, uintptr_t, OrtEpGraphSupportInfo *, OrtStatus **);
int py_session_initialized(void *, OrtStatus **);
int py_compile(void *, uintptr_t *, uintptr_t *, size_t, PyCompute **, uintptr_t *, OrtStatus **);
int py_set_dynamic_options(void *, const char *const *, const char *const *, size_t, OrtStatus **);
int py_create_profiler(void *, PyProfiler **, OrtStatus **);
int py_start_profiling(void *, int64_t, OrtStatus **);
int py_end_profiling(void *, uintptr_t, OrtStatus **);
void py_release_profiler(void *, PyProfiler *);
int py_start_run(void *, const char *const *, const char *const *, size_t, OrtStatus **);
void py_end_run(void *);
const char *py_compatibility_info(void *);
int py_validate_compatibility(void *, const OrtHardwareDevice *const *, size_t, const char *, int *,
                              OrtStatus **);
void py_release_computes(void *, PyCompute **, size_t);
int py_compute(void *, Call *);
