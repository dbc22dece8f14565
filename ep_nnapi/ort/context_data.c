/* Callbacks of an application for the external data of EPContext nodes.
 *
 * ONNX Runtime 1.31 and newer has them: a compiled model's weights then go to a function of the
 * application, under a name, and come from one, in place of a file. callbacks.c uses this file.
 */
#include <string.h>

enum { CONTEXT_DATA = 31, CAN_READ = 1, CAN_WRITE = 2 }; /* version; OrtEpContextDataSupportFlags */

OrtStatus *open_context_data(const OrtSessionOptions *options, ContextData *data) {
  memset(data, 0, sizeof *data);
  if (implemented < CONTEXT_DATA) return NULL;
  TRY(ep_api->SessionOptions_GetEpContextConfig(options, &data->config));
  TRY(ep_api->EpContextConfig_GetEpContextDataReadFunc(data->config, &data->read,
                                                       &data->read_state));
  return ep_api->EpContextConfig_GetEpContextDataWriteFunc(data->config, &data->write,
                                                           &data->write_state);
}

void close_context_data(ContextData *data) {
  if (data->config != NULL) ep_api->ReleaseEpContextConfig(data->config);
  memset(data, 0, sizeof *data);
}

OrtStatus *write_context_data(const ContextData *data, const char *name, const void *bytes,
                              size_t size) {
  return data->write(data->write_state, name, bytes, size);
}

OrtStatus *read_context_data(const ContextData *data, const char *name, void **bytes,
                             size_t *size) {
  OrtAllocator *allocator = NULL;
  TRY(api->GetAllocatorWithDefaultOptions(&allocator));
  *bytes = NULL;
  *size = 0;
  TRY(data->read(data->read_state, name, allocator, bytes, size));
  if (*bytes == NULL && *size > 0) return create_status("the callback returned no data");
  return NULL;
}

OrtStatus *free_context_data(void *bytes) {
  OrtAllocator *allocator = NULL;
  TRY(api->GetAllocatorWithDefaultOptions(&allocator));
  return api->AllocatorFree(allocator, bytes);
}

static OrtStatus *Ep_GetEpContextDataSupport(const OrtEp *ep, uint32_t *flags) {
  (void)ep;
  *flags = CAN_READ | CAN_WRITE;
  return NULL;
}
