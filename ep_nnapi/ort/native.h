/* What Python sees of native.c and callbacks.c. cffi reads this file as it is: no preprocessor lines.
 * The types of ONNX Runtime are those of native/ort_api.h.
 *
 * Handles of ONNX Runtime's graph (graphs, nodes, value infos, attributes) travel as integers, so
 * that Python can list them in one call and use them as keys. They live for one callback.
 * A function that returns `OrtStatus *` returns NULL for success; the receiver releases it.
 */
typedef struct PyFactory PyFactory;
typedef struct PyEp PyEp;
typedef struct PyCompute PyCompute;
typedef struct PyProfiler PyProfiler;

typedef struct {
  const char *name;
  const char *path;
  size_t inputs, outputs, nodes, opsets;
  uintptr_t parent; /* the node that holds this inner graph, or 0 */
} GraphFacts;

typedef struct {
  size_t id;
  const char *name, *op_type, *domain, *claimed_by;
  int since;
  size_t inputs, outputs, implicit, attributes;
} NodeFacts;

typedef struct {
  const char *name;
  int dtype; /* ONNX Runtime's element type; 0: not a tensor */
  int has_shape;
  size_t rank;
  int64_t dims[64]; /* -1: not a fixed number; none are read of a higher rank */
  const char *symbols[64];
  int constant;
} ValueFacts;

typedef struct {
  int dtype;
  size_t rank;
  const int64_t *dims;
  const void *data;
  size_t bytes;
} Tensor;

typedef struct {
  const char *name;
  int type; /* OrtOpAttrType; 0: of a kind that cannot be read */
  size_t bytes;
} AttributeFacts;

/* An attribute of a new node: OrtOpAttrType; `data` is an int64_t, or the characters of a string. */
typedef struct {
  const char *name;
  int type;
  const void *data;
  int bytes;
} NewAttribute;

/* An event of a profile: times in microseconds from its beginning, `count` keys and values. */
typedef struct {
  int32_t process, thread;
  const char *name;
  int64_t start, duration;
  const char *const *keys, *const *values;
  size_t count;
} NewEvent;

/* Callbacks for the external data of EPContext nodes; NULL where the application has none. */
typedef struct {
  OrtEpContextConfig *config;
  OrtStatus *(*read)(void *, const char *, OrtAllocator *, void **, size_t *);
  OrtStatus *(*write)(void *, const char *, const void *, size_t);
  void *read_state, *write_state;
} ContextData;

/* One call of Compute: `inputs` has the fused node's inputs, `status` what went wrong. */
typedef struct {
  OrtKernelContext *context;
  OrtStatus *status;
  const Tensor *inputs;
  size_t outputs_made;
} Call;

/* A session on the CPU provider for a device; `env` is a reference of its own. */
typedef struct {
  OrtEnv *env;
  OrtSession *session;
  OrtMemoryInfo *memory;
  int threads;
} InnerSession;

typedef struct {
  const char *key, *value;
} SessionSetting;

typedef struct {
  const char *const *names;
  const Tensor *tensors;
  size_t count;
} NamedTensors;

/* An ONNX model. Its inputs are those named, and after them the weights, which are no inputs of
 * the session: it reads them for as long as it lives. */
typedef struct {
  const void *content;
  size_t bytes;
  const char *const *inputs;
  size_t input_count;
  const NamedTensors *weights;
} InnerModel;

/* An input or output of a fused node: its position, the only shape that it may have and, unless
 * NULL, the only contents. One that is `narrowed` is INT64, and INT32 in the session; a scalar
 * has one axis there. */
typedef struct {
  size_t position, rank;
  const int64_t *dims;
  int narrowed;
  const void *contents;
  size_t bytes;
} DirectTensor;

/* Runs that needed no Python and ended well; `timed`: with the nanoseconds of all of them and of
 * the fastest one. Several threads may add to it. */
typedef struct {
  int64_t runs, total_ns, least_ns;
  int timed;
} DirectCounts;

enum { MOST_DIRECT_TENSORS = 16, MOST_DIRECT_RUNS = 8 };

/* A fused node whose tensors are those of a session, in the order of the session's names; `given`
 * are inputs of the node that decide if the session fits. After a run of more than `long_ns`
 * nanoseconds the next one goes through Python, which can end it. */
typedef struct {
  const InnerSession *session;
  const char *const *input_names, *const *output_names;
  const DirectTensor *given, *inputs, *outputs;
  size_t given_count, input_count, output_count; /* of the latter at most MOST_DIRECT_TENSORS each */
  int64_t long_ns;
  DirectCounts *counts;
} DirectRun;

/* The address of the table of functions that the plugin library (library.c) calls. */
uintptr_t entry_points(void);

/* Has pass_on_interrupt act when the callback has returned to C. */
static void interrupt_later(void);

/* Names the entries of run options that are read; the array and its at most 64 names stay. */
void name_run_options(const char *const *names, size_t count);

/* 1 when the run of this thread, if any, is to end: RunOptions.terminate is set. */
int run_terminated(void);

OrtStatus *create_status(const char *message);
const char *status_message(const OrtStatus *status);
void release_status(OrtStatus *status);

/* Logs through a logger of ONNX Runtime's (an OrtLogger), at an OrtLoggingLevel. */
OrtStatus *log_message(uintptr_t logger, int severity, const char *message);

/* 1 if ONNX Runtime calls the provider at the end of a session's initialization (1.27 and newer). */
int has_initialization_end(void);

/* The configuration entries of session options, or of the environment; the receiver releases them. */
OrtStatus *read_config(const OrtSessionOptions *options, OrtKeyValuePairs **pairs);
OrtStatus *read_environment(OrtKeyValuePairs **pairs);
void list_pairs(const OrtKeyValuePairs *pairs, const char *const **keys,
                const char *const **values, size_t *count);
OrtKeyValuePairs *new_pairs(const char *const *keys, const char *const *values, size_t count);
void release_pairs(OrtKeyValuePairs *pairs);

int hardware_type(const OrtHardwareDevice *device);
/* Makes a hardware device of an OrtHardwareDeviceType; ONNX Runtime copies the metadata. */
OrtStatus *new_hardware(int type, const char *vendor, const OrtKeyValuePairs *metadata,
                        OrtHardwareDevice **device);
OrtStatus *add_device(PyFactory *factory, const OrtHardwareDevice *hardware,
                      const OrtKeyValuePairs *metadata, OrtEpDevice **device);

OrtStatus *read_graph(uintptr_t graph, GraphFacts *facts);
OrtStatus *list_graph(uintptr_t graph, const GraphFacts *facts, uintptr_t *members,
                      const char **domains, int64_t *versions);
OrtStatus *read_node(uintptr_t node, NodeFacts *facts, uintptr_t *members, size_t capacity);
OrtStatus *count_inner(uintptr_t node, size_t *graphs);
OrtStatus *list_inner(uintptr_t node, uintptr_t *graphs, const char **attributes, size_t count);
OrtStatus *read_value(uintptr_t value, ValueFacts *facts);
OrtStatus *read_initializer(uintptr_t value, Tensor *tensor);
OrtStatus *read_attribute(uintptr_t attribute, AttributeFacts *facts, void *data, size_t capacity);
OrtStatus *read_tensor_attribute(uintptr_t attribute, OrtValue **value, Tensor *tensor);
void release_value(OrtValue *value);
/* Makes a node, which its receiver releases; at most 8 attributes. */
OrtStatus *create_node(const char *op_type, const char *domain, const char *name,
                       const char *const *inputs, size_t input_count, const char *const *outputs,
                       size_t output_count, const NewAttribute *attributes, size_t attribute_count,
                       uintptr_t *node);

/* Those of session options, until they are closed. */
OrtStatus *open_context_data(const OrtSessionOptions *options, ContextData *data);
void close_context_data(ContextData *data);
OrtStatus *write_context_data(const ContextData *data, const char *name, const void *bytes,
                              size_t size);
/* The data, which the receiver frees; NULL when empty. */
OrtStatus *read_context_data(const ContextData *data, const char *name, void **bytes, size_t *size);
OrtStatus *free_context_data(void *bytes);

/* Version of the ONNX Runtime that has loaded the plugin, like "1.31.1". */
const char *running_version(void);

/* 1 once ONNX Runtime has loaded the plugin, whose own API the functions below call. */
int has_api(void);

/* Opens a session on a model; it reads the memory of `weights`, external initializers, while it
 * lives. */
OrtStatus *open_inner_session(const InnerModel *model, int threads, const SessionSetting *settings,
                              size_t count, InnerSession **session);
void close_inner_session(InnerSession *session);

/* Runs on the caller's memory. An output without data is left in `results`, which has room for a
 * value of each output; the receiver releases all values, after an error too. */
OrtStatus *run_inner_session(const InnerSession *session, const NamedTensors *inputs,
                             const NamedTensors *outputs, OrtRunOptions *options,
                             OrtValue **results);
OrtStatus *read_result(const OrtValue *value, Tensor *tensor);
OrtStatus *new_run_options(OrtRunOptions **options);
OrtStatus *terminate_run(OrtRunOptions *options);
void release_run_options(OrtRunOptions *options);

/* A run that needs no Python, one of MOST_DIRECT_RUNS of `compute` from now on, or none for NULL.
 * Returns 1 if no thread uses an earlier one there any more: as long must each of them live. */
int set_direct_run(PyCompute *compute, size_t index, const DirectRun *run);
/* When the run there last began, in perf_counter_ns() time; 0 if not since the last call. */
int64_t last_direct_run(PyCompute *compute, size_t index);
/* While held, runs that begin go through Python. */
void hold_direct_runs(int hold);
int count_direct_runs(void);
/* There are none, and they are not held: in a forked child. */
void forget_direct_runs(void);

OrtStatus *add_cluster(OrtEpGraphSupportInfo *support, const uintptr_t *nodes, size_t count);

/* The buffer of output `index`, made with this shape; NULL when empty or, with call->status set,
 * when it failed. */
void *make_output(Call *call, size_t index, const int64_t *dims, size_t rank);

/* Returns when ONNX Runtime called the fused node that runs on this thread, and has *ends set when
 * the node returns to it; in perf_counter_ns() time. */
int64_t time_compute(int64_t *ends);

/* Adds an event to the OrtProfilingEventsContainer of a profile that ends. */
OrtStatus *add_event(uintptr_t events, const NewEvent *event);

PyFactory *new_factory(void *self, const char *name, const char *vendor, const char *version);
PyEp *new_ep(void *self, const char *name);
PyCompute *new_compute(void *self, size_t inputs, size_t outputs);
PyProfiler *new_profiler(void *self);
void free_ep(PyEp *ep);
void free_compute(PyCompute *compute);
void free_profiler(PyProfiler *profiler);
void *compute_self(PyCompute *compute);
void *factory_self(PyFactory *factory);
