/* What the C files have of one another and Python does not see. */
#ifndef EP_NNAPI_ORT_PARTS_H
#define EP_NNAPI_ORT_PARTS_H

#include <stdatomic.h>

#include "callbacks.h"
#include "interrupts.h"

#define TRY(call)                        \
  do {                                   \
    OrtStatus *status_ = (call);         \
    if (status_ != NULL) return status_; \
  } while (0)

enum { EXECUTE_FAIL = 1 };

/* ONNX Runtime reads only the members of `ort_version_supported`. Those that ort_api.h does not
 * declare are NULL: `undeclared` has room for them. */
enum { UNDECLARED = 16 };
struct PyEp {
  OrtEp base;
  void *undeclared[UNDECLARED], *self;
  const char *name;
  size_t clusters;
};

/* native.c */
extern const OrtApi *api;
extern const OrtEpApi *ep_api;
int use_api(const OrtApiBase *base);    /* 0 if it is too old */
OrtStatus *returned(OrtStatus *status); /* of every callback that may fail */

/* termination.c; the options are those of the run on this thread, if any */
extern _Thread_local const OrtRunOptions *run_options;
OrtStatus *open_probe(const OrtSessionOptions *options, OrtEnv **env, OrtSession **session);

/* run_options.c */
extern _Thread_local int has_options; /* the run of this thread */
OrtStatus *Ep_OnRunStart(OrtEp *ep, const OrtRunOptions *options);
OrtStatus *Ep_OnRunEnd(OrtEp *ep, const OrtRunOptions *options, _Bool sync);

/* callbacks.c; `planning`: this thread is in GetCapability */
extern _Thread_local int planning;

/* inner_session.c */
int64_t now_ns(void); /* Python's time.perf_counter_ns() */
OrtStatus *tensor_over(const InnerSession *session, const Tensor *tensor, OrtValue **value);
int64_t count_elements(const int64_t *dims, size_t rank);
void note_run(InnerSession *session, int64_t elements, int64_t ns);
/* 1 if a run may take longer than `long_ns` for more elements than any before. */
int may_grow_long(const InnerSession *session, int64_t elements, int64_t long_ns);
void start_threads(InnerSession *session); /* that are held */

/* size_program.c; sets *fits to 0 if a condition does not hold */
OrtStatus *compute_sizes(const SizeProgram *program, OrtKernelContext *context, int64_t *sizes,
                         int *fits);

/* direct_run.c: one of the runs that a fused node chooses from; NULL: none.
 *
 * users   threads that look at the run or are in it
 * last    when it began last, 0 once Python knows */
typedef struct {
  _Atomic(const DirectRun *) run;
  atomic_int users;
  _Atomic int64_t last;
} DirectEntry;

/* What a fused node may run without Python. */
typedef struct {
  DirectEntry entries[MOST_DIRECT_RUNS];
  atomic_int failed;
} DirectSlot;

/* 1 if the cluster has been computed, or its run terminated: then *status. 0: Python has to do it.
 *
 * After an error Python does it for good. */
int run_directly(DirectSlot *slot, OrtKernelContext *context, OrtStatus **status);

/* selection.c; `probing`: this thread opens a session only to see if there is a policy */
extern _Thread_local int probing;
int selected_by_policy(const OrtSessionOptions *options);
uint32_t Factory_GetVendorId(const OrtEpFactory *factory);

/* profiler.c */
void begin_compute(void);
void end_compute(void);
OrtStatus *Ep_CreateProfiler(OrtEp *ep, OrtEpProfilerImpl **profiler);

#endif
