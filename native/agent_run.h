/* Runs of a model whose inputs and outputs are operands, without a border: for nnapi_agent.
 *
 * Sizes that the model leaves open are those of a run's inputs; outputs of open sizes get buffers
 * that grow. Python's is ep_nnapi/nnapi/library/compilation.py. */
#ifndef NNAPI_CONTEXT_AGENT_RUN_H
#define NNAPI_CONTEXT_AGENT_RUN_H

#include "execution.h"
#include "agent_frames.h"

typedef struct agent_runs agent_runs;

/* `measurable`: it was compiled for a chosen device, whose runs may be timed and limited. */
agent_runs *agent_runs_make(const ctx_nnapi *nnapi, const ctx_container *container,
                            const ctx_compiled *compiled, bool measurable, ctx_error *error);
void agent_runs_free(agent_runs *runs);

/* Runs as often as the request says; adds times and outputs to the reply. docs/agent.md has both. */
bool agent_run(agent_runs *runs, const frame *request, frame *reply, ctx_error *error);

#endif
