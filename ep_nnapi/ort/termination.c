/* Whether the caller of Run has asked for its end meanwhile.
 *
 * ONNX Runtime has functions that set and unset a run's terminate flag, and none that reads it. But
 * every run looks at the flag of the options it is given: so a model of one node is run with those
 * of the run in question, which takes some microseconds, and fails when the flag is set.
 */
#include <pthread.h>
#include <string.h>

#include "parts.h"

/* y = RandomUniform(shape=[1]), opset 13: no inputs, and nothing that is computed beforehand. */
static const unsigned char PROBE[] = {8,   10,  58,  54,  10, 32,  18,  1,   121, 34,  13,  82, 97,
                                      110, 100, 111, 109, 85, 110, 105, 102, 111, 114, 109, 42, 12,
                                      10,  5,   115, 104, 97, 112, 101, 64,  1,   160, 1,   7,  18,
                                      1,   112, 98,  15,  10, 1,   121, 18,  10,  10,  8,   8,  1,
                                      18,  4,   10,  2,   8,  1,   66,  4,   10,  0,   16,  13};
static const char TERMINATED[] = "terminate flag";

static OrtSession *probe;
static pthread_once_t probe_once = PTHREAD_ONCE_INIT;
_Thread_local const OrtRunOptions *run_options;

OrtStatus *open_probe(const OrtSessionOptions *options, OrtEnv **env, OrtSession **session) {
  enum { WARNING = 2 };
  TRY(api->CreateEnv(WARNING, "ep_nnapi", env)); /* the process's own, once more */
  return api->CreateSessionFromArray(*env, PROBE, sizeof PROBE, options, session);
}

static OrtStatus *open_own_probe(OrtEnv **env, OrtSessionOptions **options) {
  enum { FATAL = 4 };
  TRY(api->CreateSessionOptions(options));
  TRY(api->SetIntraOpNumThreads(*options, 1));
  TRY(api->SetSessionLogSeverityLevel(*options, FATAL));
  return open_probe(*options, env, &probe);
}

static void make_probe(void) {
  OrtEnv *env = NULL;
  OrtSessionOptions *options = NULL;
  OrtStatus *status = open_own_probe(&env, &options);
  if (status != NULL) api->ReleaseStatus(status);
  if (options != NULL) api->ReleaseSessionOptions(options);
  if (env != NULL) api->ReleaseEnv(env);
}

int run_terminated(void) {
  static const char *const output = "y";
  OrtValue *value = NULL;
  OrtStatus *status;
  int terminated;
  if (run_options == NULL) return 0;
  pthread_once(&probe_once, make_probe);
  if (probe == NULL) return 0;
  status = api->Run(probe, run_options, NULL, NULL, 0, &output, 1, &value);
  terminated = status != NULL && strstr(api->GetErrorMessage(status), TERMINATED) != NULL;
  if (status != NULL) api->ReleaseStatus(status);
  if (value != NULL) api->ReleaseValue(value);
  return terminated;
}
