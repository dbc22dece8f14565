/* Calls that may not come back: they hang, or end the process. Each has a deadline, and as long as
 * it lasts a note in a folder, where the next start finds it. Python's calls
 * are ep_nnapi/provider/trials.py. */
#ifndef NNAPI_CONTEXT_TRIAL_H
#define NNAPI_CONTEXT_TRIAL_H

#include "error.h"

/* The note of a trial: what may not come back, such as a device, and who tries it. */
typedef struct {
  const char *folder; /* NULL: none is written */
  char about[17];     /* digests in hex; of a model and the build of the system */
  char tried[10];     /* after a letter for its kind */
  char by[9];
  char own[36]; /* from its begin on: what its file has in its name beside these */
  int file;     /* and its descriptor, which is locked; -1: it could not be written */
  int handle;   /* a signal that ends the process removes it: it blames no device */
} ctx_note;

/* A note about these bytes, such as a model, with what is tried, of a kind. */
ctx_note ctx_note_of(const char *folder, const uint8_t *about, size_t size, char kind,
                     const char *tried, const uint8_t *by, size_t by_size);

/* Fails if there is such a note of a trial that ended its start, or hangs. `whole`: with anything of
 * its kind. Notes of trials that others make at the same time are none: their files are locked. */
bool ctx_note_is_free(const ctx_note *note, bool whole, ctx_error *error);

void ctx_note_begin(ctx_note *note, const char *text);
void ctx_note_end(const ctx_note *note);

/* Has it stay, for what does not come back. */
void ctx_note_leave(const ctx_note *note);

/* Writes a text to the file NOTE.suffix, such as what was chosen. */
void ctx_note_write(const ctx_note *note, const char *suffix, const char *text);

typedef struct ctx_call ctx_call;

/* Begins to do `work(given)` in another thread, for so many nanoseconds at most. The note has begun;
 * it ends when the work does, if that is in time, else it is left. NULL if no thread can be started:
 * then `given` is released by `release`. */
ctx_call *ctx_begin_call(const ctx_note *note, uint64_t nanoseconds, void (*work)(void *),
                         void (*release)(void *), void *given, ctx_error *error);

/* Waits for it, once. False if it has not come back in time: then `given` is released by the thread,
 * if it comes back. `doing`: what it is to do, for the sentence. */
bool ctx_end_call(ctx_call *call, const char *doing, ctx_error *error);

/* Both. */
bool ctx_within(const ctx_note *note, uint64_t nanoseconds, void (*work)(void *),
                void (*release)(void *), void *given, const char *doing, ctx_error *error);

/* Ends the thread that waits for the next trial, if there is one, before the library is unloaded. */
void ctx_end_trials(void);

#endif
