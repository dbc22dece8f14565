/* A worker of nnapi_agent: one process, which has one job of an NNAPI library at a time. */
#ifndef NNAPI_CONTEXT_AGENT_WORKER_H
#define NNAPI_CONTEXT_AGENT_WORKER_H

#include "options.h"

/* Serves the frames of `descriptor` until its end; returns the process's exit status. `folder` has
 * the weights. */
int agent_work(int descriptor, const ctx_settings *settings, const char *folder);

#endif
