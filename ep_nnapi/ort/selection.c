/* Whether ONNX Runtime creates the provider for a selection policy, or because it was named.
 *
 * CreateEp has the same arguments in both cases. For a policy, ONNX Runtime ranks all devices before
 * it, on the same thread, and compares vendors then and at no other time. But the policy may choose
 * another plugin, and the next CreateEp belong to another session. So the session options are asked:
 * a session that is opened with a copy of them ranks devices again if, and only if, they have a
 * policy. That happens only after a ranking, and takes about a millisecond.
 */
#include "parts.h"

static _Thread_local int ranked; /* devices were ranked on this thread since the last CreateEp */
_Thread_local int probing;

/* The copy writes no files, logs nothing and starts no threads. */
static OrtStatus *prepare_copy(OrtSessionOptions *copy) {
  enum { FATAL = 4 };
  TRY(api->DisableProfiling(copy));
  TRY(api->SetOptimizedModelFilePath(copy, ""));
  TRY(api->AddSessionConfigEntry(copy, "ep.context_enable", "0"));
  TRY(api->AddSessionConfigEntry(copy, "session.load_model_format", "ONNX"));
  TRY(api->SetSessionLogSeverityLevel(copy, FATAL));
  TRY(api->SetIntraOpNumThreads(copy, 1));
  return api->SetInterOpNumThreads(copy, 1);
}

static OrtStatus *open_copy(const OrtSessionOptions *options, OrtSessionOptions **copy,
                            OrtEnv **env, OrtSession **session) {
  TRY(api->CloneSessionOptions(options, copy));
  TRY(prepare_copy(*copy));
  return open_probe(*copy, env, session);
}

int selected_by_policy(const OrtSessionOptions *options) {
  OrtSessionOptions *copy = NULL;
  OrtEnv *env = NULL;
  OrtSession *session = NULL;
  OrtStatus *status;
  int again;
  if (!ranked) return 0;
  ranked = 0;
  probing = 1;
  status = open_copy(options, &copy, &env, &session); /* mostly fails, in Factory_CreateEp */
  probing = 0;
  if (status != NULL) api->ReleaseStatus(status);
  if (session != NULL) api->ReleaseSession(session);
  if (copy != NULL) api->ReleaseSessionOptions(copy);
  if (env != NULL) api->ReleaseEnv(env);
  again = ranked;
  ranked = 0;
  return again;
}

/* No PCI vendor. Called, without a check for NULL, when ONNX Runtime ranks devices. */
uint32_t Factory_GetVendorId(const OrtEpFactory *factory) {
  (void)factory;
  ranked = 1;
  return 0;
}
