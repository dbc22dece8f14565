/* Callbacks of an application for the weights of prepared models: see plugin.h. In Python's
 * provider: ep_nnapi/ort/context_data.c. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* What the application has under a name; clusters of one model share it. */
struct context_file {
  context_file *next;
  char *name;
  void *contents; /* of ONNX Runtime's allocator */
  size_t size;
};

/* Source: OrtEpContextDataSupportFlags. */
static OrtStatus *Ep_GetEpContextDataSupport(const OrtEp *ep, uint32_t *flags) {
  enum { CAN_READ = 1 };
  (void)ep;
  *flags = CAN_READ;
  return NULL;
}

OrtStatus *ep_open_context_data(Ep *ep, const OrtSessionOptions *options, uint32_t version) {
  if (version < CONTEXT_DATA_VERSION) return NULL;
  ep->base.ort_version_supported = CONTEXT_DATA_VERSION;
  ep->base.GetEpContextDataSupport = Ep_GetEpContextDataSupport;
  ORT_TRY(ort_ep->SessionOptions_GetEpContextConfig(options, &ep->context_config));
  return ort_ep->EpContextConfig_GetEpContextDataReadFunc(ep->context_config, &ep->read_context,
                                                          &ep->read_state);
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

OrtStatus *ep_read_context_data(Ep *ep, const char *name, const void **contents, size_t *size) {
  context_file *file = find(ep, name);
  if (file == NULL) {
    OrtAllocator *allocator = NULL;
    ORT_TRY(ort->GetAllocatorWithDefaultOptions(&allocator));
    if ((file = add(ep, name)) == NULL) return ep_status("out of memory");
    ORT_TRY(ep->read_context(ep->read_state, name, allocator, &file->contents, &file->size));
  }
  *contents = file->contents;
  *size = file->contents != NULL ? file->size : 0;
  return NULL;
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
