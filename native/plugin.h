/* The plugin execution provider: what its files share. */
#ifndef NNAPI_CONTEXT_PLUGIN_H
#define NNAPI_CONTEXT_PLUGIN_H

#include "choice.h"
#include "options.h"
#include "ort_api.h"
#include "receipt.h"

#define EP_NAME "NnapiContextExecutionProvider"
#define EP_OPTION_PREFIX "ep.nnapicontextexecutionprovider."
#define EP_SOURCE "NnapiPluginExecutionProvider" /* attribute `source` of contexts of ep-nnapi */

enum {
  IMPLEMENTED_VERSION = 23,
  REQUIRED_API = 25,
  INITIALIZATION_END_VERSION = 27,
  CONTEXT_DATA_VERSION = 31
};
enum { LOG_INFO = 1, LOG_WARNING = 2, ORT_FAIL = 1 }; /* Source: OrtLoggingLevel, OrtErrorCode */

/* ONNX Runtime's tables, for the life of the process. */
extern const OrtApi *ort;
extern const OrtEpApi *ort_ep;

#define ORT_TRY(call)                    \
  do {                                   \
    OrtStatus *status_ = (call);         \
    if (status_ != NULL) return status_; \
  } while (0)

/* A status for a sentence; for one about a node of that name. */
OrtStatus *ep_status(const char *sentence);
OrtStatus *ep_named_status(const char *node, const char *sentence);

/* Where the tensors of a container are among those of its node. */
typedef struct {
  const ctx_container *container;
  const char *node; /* its name */
  size_t *places;   /* of each tensor of the container among the node's inputs, or its outputs */
} ep_tensors;

/* Finds them by their names; fails unless the graph declares each with the crossing's element type
 * and sizes (which it may leave open), and each output of the node is one crossing. */
OrtStatus *ep_bind(const ctx_container *container, const char *node, const OrtNode *fused,
                   ep_tensors *out);

/* The contents of a tensor of the container in a run; an output is made. */
OrtStatus *ep_contents(const ep_tensors *tensors, OrtKernelContext *context, uint32_t index,
                       void **out);

/* Opens an ONNX alternative in a session of its own. */
bool ep_open_onnx(const ctx_container *container, const ctx_weights *weights, ctx_engine **out,
                  ctx_error *error);

/* What the application has under a name; clusters of one model share it. */
typedef struct context_file {
  struct context_file *next;
  char *name;
  void *contents; /* of ONNX Runtime's allocator; NULL when empty */
  size_t size;
} context_file;

/* The provider of one session. */
typedef struct {
  OrtEp base;
  void *reserved[16]; /* ONNX Runtime reads only the members of the version in `base` */
  const OrtLogger *logger;
  OrtKeyValuePairs *entries; /* the session's configuration, whose strings the settings refer to */
  char *device_name;         /* of the device that the session selected; NULL for none or several */
  ctx_system system;
  ctx_receipt *receipt;                /* NULL: none is to be written */
  OrtEpContextConfig *context_config;  /* NULL before CONTEXT_DATA_VERSION */
  OrtReadNamedBufferFunc read_context; /* the application's; NULL: weights are in a file */
  void *read_state;
  context_file *context_files;
  struct Compute *undecided; /* the node whose choice has begun and not ended; NULL: none */
  bool stuck;                /* a driver hangs, and may still read all of this */
  bool usable;               /* else every node fails to compile, with the error below */
  ctx_error error;
} Ep;

/* Fills in the functions that ONNX Runtime of that version calls. */
void ep_init(Ep *ep, uint32_t version);

/* Takes the session's callback for the data of EPContext nodes; `version`: of ONNX Runtime. */
OrtStatus *ep_open_context_data(Ep *ep, const OrtSessionOptions *options, uint32_t version);

void ep_close_context_data(Ep *ep);

#endif
