/* The provider of one session: it takes the EPContext nodes that ep-nnapi wrote, and runs them. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { ATTRIBUTE_STRING = 5, FEW = 32 }; /* Source: OrtOpAttrType */

/* A compiled node. */
typedef struct Compute {
  OrtNodeComputeInfo base;
  void *reserved[8];
  Ep *ep;
  char *name;
  uint8_t *data; /* of the container */
  ctx_container container;
  ctx_weights weights;
  ctx_choice *choice;
  atomic_uint told; /* alternatives that gave way when that was said last; UINT32_MAX: never */
  ep_tensors tensors;
} Compute;

static const char *Ep_GetName(const OrtEp *ep) { return (void)ep, EP_NAME; }

/* The string attribute of a node, to be freed, at an address that is a multiple of 64; *out is NULL if
 * it has none. ONNX Runtime's strings may be followed by zeros, which the size is without. */
static OrtStatus *read_string(const OrtNode *node, const char *name, char **out, size_t *size) {
  const OrtOpAttr *attribute = NULL;
  OrtStatus *status = ort->Node_GetAttributeByName(node, name, &attribute);
  int type = 0;
  *out = NULL;
  *size = 0;
  if (status != NULL || attribute == NULL) { /* there is none of that name */
    if (status != NULL) ort->ReleaseStatus(status);
    return NULL;
  }
  ORT_TRY(ort->OpAttr_GetType(attribute, &type));
  if (type != ATTRIBUTE_STRING) return NULL;
  status = ort->ReadOpAttr(attribute, type, NULL, 0, size);
  if (status != NULL) ort->ReleaseStatus(status); /* it says that the buffer is too small */
  *out = ctx_aligned(*size + 1);
  if (*out == NULL) return ep_status("out of memory");
  status = ort->ReadOpAttr(attribute, type, *out, *size, size);
  if (status != NULL) {
    free(*out);
    *out = NULL;
    return status;
  }
  while (*size > 0 && (*out)[*size - 1] == '\0') --*size;
  return NULL;
}

/* True for a node that ep-nnapi wrote and no other provider has. */
static OrtStatus *is_own(const OrtNode *node, bool *own) {
  const char *type = NULL, *domain = NULL, *taken_by = NULL;
  char *source;
  size_t size;
  *own = false;
  ORT_TRY(ort->Node_GetOperatorType(node, &type));
  ORT_TRY(ort->Node_GetDomain(node, &domain));
  ORT_TRY(ort->Node_GetEpName(node, &taken_by));
  if (strcmp(type, "EPContext") != 0 || strcmp(domain, "com.microsoft") != 0) return NULL;
  if (taken_by != NULL && taken_by[0] != '\0' && strcmp(taken_by, EP_NAME) != 0) return NULL;
  ORT_TRY(read_string(node, "source", &source, &size));
  *own = source != NULL && strcmp(source, EP_SOURCE) == 0;
  free(source);
  return NULL;
}

static OrtStatus *claim(const OrtNode *const *nodes, size_t count, OrtEpGraphSupportInfo *support) {
  const OrtNodeFusionOptions options = {IMPLEMENTED_VERSION, 0};
  size_t i;
  for (i = 0; i < count; i++) {
    bool own;
    ORT_TRY(is_own(nodes[i], &own));
    if (own) ORT_TRY(ort_ep->EpGraphSupportInfo_AddNodesToFuse(support, &nodes[i], 1, &options));
  }
  return NULL;
}

static OrtStatus *Ep_GetCapability(OrtEp *ep, const OrtGraph *graph,
                                   OrtEpGraphSupportInfo *support) {
  const OrtNode **nodes;
  OrtStatus *status;
  size_t count = 0;
  (void)ep;
  ORT_TRY(ort->Graph_GetNumNodes(graph, &count));
  nodes = calloc(count + 1, sizeof *nodes);
  if (nodes == NULL) return ep_status("out of memory");
  status = ort->Graph_GetNodes(graph, nodes, count);
  if (status == NULL) status = claim(nodes, count, support);
  free(nodes);
  return status;
}

static context_file *find(const Ep *ep, const char *name) {
  context_file *file = ep->context_files;
  while (file != NULL && strcmp(file->name, name) != 0) file = file->next;
  return file;
}

/* An entry without contents. */
static context_file *add(Ep *ep, const char *name) {
  context_file *file = calloc(1, sizeof *file);
  if (file == NULL || (file->name = strdup(name)) == NULL) return free(file), NULL;
  file->next = ep->context_files;
  return ep->context_files = file;
}

/* What the application has under a name, which stays the session's. */
static OrtStatus *read_context_data(Ep *ep, const char *name, context_file **out) {
  OrtAllocator *allocator = NULL;
  if ((*out = find(ep, name)) != NULL) return NULL;
  ORT_TRY(ort->GetAllocatorWithDefaultOptions(&allocator));
  if ((*out = add(ep, name)) == NULL) return ep_status("out of memory");
  ORT_TRY(ep->read_context(ep->read_state, name, allocator, &(*out)->contents, &(*out)->size));
  if ((*out)->contents == NULL) (*out)->size = 0;
  return NULL;
}

/* The application's weights, if it has a callback for them; else those of a file, or embedded. */
static bool open_weights(Compute *compute, const char *path, ctx_error *error) {
  const ctx_container *c = &compute->container;
  const ctx_range file = c->header->weights_file;
  context_file *found = NULL;
  OrtStatus *status;
  char *name;
  if (file.count == 0 || compute->ep->read_context == NULL)
    return ctx_weights_open(c, path, &compute->weights, error);
  name = strndup(c->text + file.first, file.count);
  if (name == NULL) return ctx_out_of_memory(error);
  status = read_context_data(compute->ep, name, &found);
  if (status != NULL) {
    ctx_fail(error, "the application's weights '%.100s': %.300s", name,
             ort->GetErrorMessage(status));
    ort->ReleaseStatus(status);
  }
  free(name);
  return status == NULL &&
         ctx_weights_use(c, found->contents, found->size, &compute->weights, error);
}

static bool load(Compute *compute, size_t size, const char *path, ctx_error *error) {
  if (!compute->ep->usable) return *error = compute->ep->error, false;
  if (!ctx_read(compute->data, size, &compute->container, error)) return false;
  if (path[0] != '\0' && (compute->container.header->flags & CTX_MODEL_HAS_CHECKSUM) != 0 &&
      !ctx_check_model_file(path, error))
    return false;
  if (!open_weights(compute, path, error)) return false;
  return ctx_choice_begin(&compute->ep->system, false, &compute->container, &compute->weights,
                          &compute->choice, error);
}

static void free_compute(Compute *compute) {
  if (compute == NULL) return;
  if (compute->ep->undecided == compute) compute->ep->undecided = NULL;
  if (!ctx_choice_free(compute->choice)) { /* what hangs keeps all of it */
    compute->ep->stuck = true;
    return;
  }
  ctx_weights_close(&compute->weights);
  free(compute->data);
  free(compute->name);
  free(compute->tensors.places);
  free(compute);
}

/* Logs which alternative was chosen, and then each time that another one took its place. */
static OrtStatus *tell(Compute *compute) {
  uint32_t told = atomic_load(&compute->told);
  ctx_error said;
  const uint32_t count = ctx_choice_tell(compute->choice, compute->name, told, &said);
  if (count == told || !atomic_compare_exchange_strong(&compute->told, &told, count) ||
      said.text[0] == '\0')
    return NULL;
  return ort->Logger_LogMessage(compute->ep->logger, count > 0 ? LOG_WARNING : LOG_INFO, said.text,
                                "ep.c", __LINE__, EP_NAME);
}

/* The error of a node of which nothing was chosen, with all that were tried and why they gave way. */
static OrtStatus *no_choice(const Compute *compute, const ctx_error *error) {
  uint32_t count, i;
  const ctx_tried *tried = ctx_choice_tried(compute->choice, &count);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  OrtStatus *status;
  if (out == NULL) return ep_named_status(compute->name, error->text);
  fprintf(out, "%s: %s", compute->name, error->text);
  for (i = 0; i < count; i++) {
    const char *why = tried[i].reason.text;
    const bool new = i == 0 || strcmp(tried[i - 1].reason.text, why) != 0;
    const bool last = i + 1 == count || strcmp(tried[i + 1].reason.text, why) != 0;
    fprintf(out, "%s%s", i == 0 ? ": " : new ? "; " : ", ", tried[i].name);
    if (last) fprintf(out, ": %s", why);
  }
  status = fclose(out) == 0 ? ep_status(text) : ep_named_status(compute->name, error->text);
  free(text);
  return status;
}

/* Ends the choice that has begun, if one has: not before something else is compiled or all of the
 * session is there, so that ONNX Runtime goes on meanwhile. */
static OrtStatus *decide(Ep *ep) {
  Compute *compute = ep->undecided;
  ctx_error error;
  ep->undecided = NULL;
  if (compute == NULL) return NULL;
  if (!ctx_choice_end(compute->choice, &error)) return no_choice(compute, &error);
  return tell(compute);
}

static OrtStatus *load_node(Compute *compute, const OrtNode *node, const char *path) {
  ctx_error error;
  char *text;
  size_t size;
  ORT_TRY(read_string(node, "ep_cache_context", &text, &size));
  if (text == NULL)
    return ep_named_status(compute->name, "it has no ep_cache_context; prepare the model again");
  compute->data = (uint8_t *)text;
  if (!load(compute, size, path, &error)) return ep_named_status(compute->name, error.text);
  compute->ep->undecided = compute;
  return compute->ep->base.OnSessionInitializationEnd != NULL ? NULL : decide(compute->ep);
}

static OrtStatus *run(Compute *compute, OrtKernelContext *context, void **tensors) {
  ctx_error error;
  uint32_t i;
  for (i = 0; i < ctx_tensor_count(&compute->container); i++)
    ORT_TRY(ep_contents(&compute->tensors, context, i, &tensors[i]));
  if (!ctx_choice_run(compute->choice, tensors, &error))
    return ep_named_status(compute->name, error.text);
  return tell(compute);
}

static OrtStatus *Compute_Compute(OrtNodeComputeInfo *info, void *state,
                                  OrtKernelContext *context) {
  Compute *compute = (Compute *)info;
  const uint32_t count = ctx_tensor_count(&compute->container);
  void *few[FEW], **tensors = count > FEW ? calloc(count, sizeof *tensors) : few;
  OrtStatus *status;
  (void)state;
  if (tensors == NULL) return ep_status("out of memory");
  status = run(compute, context, tensors);
  if (tensors != few) free(tensors);
  return status;
}

/* There will be no session. */
static void drop_receipt(Ep *ep) {
  ctx_receipt_drop(ep->receipt);
  ep->receipt = NULL;
}

static OrtStatus *Compute_CreateState(OrtNodeComputeInfo *info, OrtNodeComputeContext *context,
                                      void **state) {
  (void)info;
  (void)context;
  *state = NULL;
  return NULL;
}

static void Compute_ReleaseState(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

static OrtStatus *only_node(const OrtGraph *graph, const OrtNode **out) {
  size_t count = 0;
  ORT_TRY(ort->Graph_GetNumNodes(graph, &count));
  if (count != 1) return ep_status(EP_NAME " takes single EPContext nodes");
  return ort->Graph_GetNodes(graph, out, 1);
}

/* *out is to be freed also if it fails. */
static OrtStatus *compile_node(Ep *ep, const OrtGraph *graph, const OrtNode *fused,
                               OrtNodeComputeInfo **out) {
  Compute *compute = calloc(1, sizeof *compute);
  const OrtNode *node = NULL;
  const char *path = NULL, *name = NULL;
  *out = (OrtNodeComputeInfo *)compute;
  if (compute == NULL) return ep_status("out of memory");
  compute->weights.descriptor = -1;
  compute->told = UINT32_MAX;
  compute->base.ort_version_supported = IMPLEMENTED_VERSION;
  compute->base.CreateState = Compute_CreateState;
  compute->base.Compute = Compute_Compute;
  compute->base.ReleaseState = Compute_ReleaseState;
  compute->ep = ep;
  ORT_TRY(decide(ep));
  ORT_TRY(only_node(graph, &node));
  ORT_TRY(ort->Node_GetName(node, &name));
  ORT_TRY(ort->Graph_GetModelPath(graph, &path));
  if (ep->receipt != NULL) ctx_receipt_model(ep->receipt, path);
  compute->name = strdup(name);
  if (compute->name == NULL) return ep_status("out of memory");
  ORT_TRY(load_node(compute, node, path != NULL ? path : ""));
  return ep_bind(&compute->container, compute->name, fused, &compute->tensors);
}

static OrtStatus *Ep_Compile(OrtEp *base, const OrtGraph **graphs, const OrtNode **fused,
                             size_t count, OrtNodeComputeInfo **infos, OrtNode **context_nodes) {
  OrtStatus *status = NULL;
  size_t i;
  (void)context_nodes;
  for (i = 0; i < count && status == NULL; i++)
    status = compile_node((Ep *)base, graphs[i], fused[i], &infos[i]);
  if (status == NULL) return NULL;
  drop_receipt((Ep *)base);
  for (; i > 0; infos[--i] = NULL) /* ONNX Runtime need not free them after an error */
    free_compute((Compute *)infos[i - 1]);
  return status;
}

/* Adds what became of a node to the receipt. */
static void note(const Compute *compute) {
  const Ep *ep = compute->ep;
  char *runtime;
  if (ep->receipt == NULL) return;
  runtime = ctx_runtime_name(&ep->system);
  ctx_receipt_add(ep->receipt, compute->name, runtime, compute->choice);
  free(runtime);
}

static void Ep_ReleaseNodeComputeInfos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
  OrtStatus *status = decide((Ep *)ep); /* if no session came of it */
  size_t i;
  if (status != NULL) {
    drop_receipt((Ep *)ep);
    ort->ReleaseStatus(status);
  }
  for (i = 0; i < count; i++) {
    note((Compute *)infos[i]);
    free_compute((Compute *)infos[i]);
  }
}

static OrtStatus *Ep_OnSessionInitializationEnd(OrtEp *ep) {
  OrtStatus *status = decide((Ep *)ep);
  if (status != NULL) drop_receipt((Ep *)ep);
  return status;
}

/* Source: OrtEpContextDataSupportFlags. */
static OrtStatus *Ep_GetEpContextDataSupport(const OrtEp *ep, uint32_t *flags) {
  enum { CAN_READ = 1 };
  (void)ep;
  *flags = CAN_READ;
  return NULL;
}

void ep_init(Ep *ep, uint32_t version) {
  ep->base.ort_version_supported = version >= CONTEXT_DATA_VERSION ? CONTEXT_DATA_VERSION
                                   : version >= INITIALIZATION_END_VERSION
                                       ? INITIALIZATION_END_VERSION
                                       : IMPLEMENTED_VERSION;
  ep->base.GetName = Ep_GetName;
  ep->base.GetCapability = Ep_GetCapability;
  ep->base.Compile = Ep_Compile;
  ep->base.ReleaseNodeComputeInfos = Ep_ReleaseNodeComputeInfos;
  if (version >= INITIALIZATION_END_VERSION)
    ep->base.OnSessionInitializationEnd = Ep_OnSessionInitializationEnd;
  ep->base.GetEpContextDataSupport = Ep_GetEpContextDataSupport;
}

OrtStatus *ep_open_context_data(Ep *ep, const OrtSessionOptions *options, uint32_t version) {
  if (version < CONTEXT_DATA_VERSION) return NULL;
  ORT_TRY(ort_ep->SessionOptions_GetEpContextConfig(options, &ep->context_config));
  return ort_ep->EpContextConfig_GetEpContextDataReadFunc(ep->context_config, &ep->read_context,
                                                          &ep->read_state);
}

static void free_contents(void *contents) {
  OrtAllocator *allocator = NULL;
  OrtStatus *status = ort->GetAllocatorWithDefaultOptions(&allocator);
  if (status == NULL) status = ort->AllocatorFree(allocator, contents);
  if (status != NULL) ort->ReleaseStatus(status);
}

void ep_close_context_data(Ep *ep) {
  while (ep->context_files != NULL) {
    context_file *file = ep->context_files;
    ep->context_files = file->next;
    if (file->contents != NULL) free_contents(file->contents);
    free(file->name);
    free(file);
  }
  if (ep->context_config != NULL) ort_ep->ReleaseEpContextConfig(ep->context_config);
}
