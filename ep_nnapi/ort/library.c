/* The plugin library that ONNX Runtime loads, in a Python process or in any other program.
 *
 * interpreter.c stands in front of this file. callbacks.c has what the two exports call.
 */
typedef struct OrtStatus OrtStatus;
typedef struct OrtLogger OrtLogger;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct {
  OrtStatus *(*CreateStatus)(int, const char *);
} OrtApi; /* its first member */
typedef struct {
  const OrtApi *(*GetApi)(uint32_t);
} OrtApiBase;

typedef OrtStatus *(*create_factories)(const char *, const OrtApiBase *, const OrtLogger *,
                                       OrtEpFactory **, size_t, size_t *);
typedef OrtStatus *(*release_factory)(OrtEpFactory *);

enum { CREATE, RELEASE, EXECUTE_FAIL = 1 };

static OrtStatus *failed(const OrtApiBase *base, const char *reason) {
  char message[NN_LINE + 40];
  snprintf(message, sizeof message, "libonnxruntime_providers_nnapi.so: %s", reason);
  return base->GetApi(1)->CreateStatus(EXECUTE_FAIL, message);
}

NN_EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base,
                                       const OrtLogger *logger, OrtEpFactory **factories,
                                       size_t capacity, size_t *count) {
  char reason[NN_LINE];
  const nn_table *table = nn_connect_first(reason);
  *count = 0;
  if (table == NULL) return failed(base, reason[0] != '\0' ? reason : "interrupted by Ctrl-C");
  return ((create_factories)table->functions[CREATE])(registered_name, base, logger, factories,
                                                      capacity, count);
}

/* ONNX Runtime may release the factory while Python is shut down: no interpreter is needed. */
NN_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  const nn_table *table = atomic_load_explicit(&nn_connected, memory_order_acquire);
  return table == NULL ? NULL : ((release_factory)table->functions[RELEASE])(factory);
}
