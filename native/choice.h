/* The choice among the alternatives of a container, for the system that it is made on.
 *
 * Those that the system could run are tried in the order of preference: compiled, then run once, by
 * the first run of the session, each with a deadline. What declines, fails or takes too long gives
 * way to the next one. Python's is ep_nnapi/provider/choice.py. */
#ifndef NNAPI_CONTEXT_CHOICE_H
#define NNAPI_CONTEXT_CHOICE_H

#include "options.h"

/* An alternative on a device that was tried before, and why it gave way. */
typedef struct {
  const char *name; /* such as "nnapi:4 on gpu" */
  ctx_error reason;
  uint64_t runs; /* that ended well before */
} ctx_tried;

typedef struct ctx_choice ctx_choice;

/* Checks the option `prefer`. */
bool ctx_check_prefer(const char *names, ctx_error *error);

/* Begins to choose: the first alternative that may run here compiles meanwhile. System, container and
 * weights live as long as the choice, which is to be freed also if it fails. A container of one
 * program, or of which the first is to run `alone`, is no choice: it runs, without a trial, on the
 * device of the options or their fallback, and is compiled already. */
bool ctx_choice_begin(const ctx_system *system, bool alone, const ctx_container *container,
                      ctx_weights *weights, ctx_choice **out, ctx_error *error);

/* Waits for what compiles, and chooses it or the first one after it that compiles; before all that
 * is below but ctx_choice_free, and ctx_choice_tried if none does. */
bool ctx_choice_end(ctx_choice *choice, ctx_error *error);

/* Both. */
bool ctx_choice_make(const ctx_system *system, bool alone, const ctx_container *container,
                     ctx_weights *weights, ctx_choice **out, ctx_error *error);

/* Frees it; returns false if a driver hangs in it, so that container and weights have to stay. */
bool ctx_choice_free(ctx_choice *choice);

/* Runs what is chosen; `tensors` are the contents of the ONNX tensors, inputs and then outputs, in
 * the order of the container's first alternative. Threads may run it at once. */
bool ctx_choice_run(ctx_choice *choice, void *const *tensors, ctx_error *error);

/* True for a program that runs alone. */
bool ctx_choice_is_alone(const ctx_choice *choice);

/* What is chosen now: such as "nnapi:4 on gpu", of a program alone its device; and those that were
 * tried before, in order. */
const char *ctx_choice_name(const ctx_choice *choice);
const ctx_tried *ctx_choice_tried(ctx_choice *choice, uint32_t *count);

/* How many gave way, if they are other than were `told`, with a sentence about the node on what is
 * chosen now and why the last one gave way; empty if there is nothing to say. Threads may run it. */
uint32_t ctx_choice_tell(ctx_choice *choice, const char *node, uint32_t told, ctx_error *said);

/* What became of it: its runs, those of alternatives before it, times of all if they are measured. */
ctx_record ctx_choice_record(ctx_choice *choice);

/* The container with the chosen alternative. */
ctx_container ctx_choice_container(const ctx_choice *choice);

#endif
