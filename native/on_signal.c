/* Files that are removed when a signal ends the process: see on_signal.h. */
#include "on_signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { FILES = 32 };
static const int ENDING[] = {SIGHUP, SIGINT, SIGTERM};

typedef struct {
  pid_t process; /* a forked child has its parent's files */
  char path[];
} removable;

static removable *_Atomic files[FILES]; /* whoever takes one out has it */
static atomic_int count;

/* Calls what is safe in a handler of signals alone. */
static void remove_files(int signal_number) {
  int i;
  for (i = 0; i < FILES; i++) {
    const removable *file = atomic_exchange(&files[i], NULL);
    if (file != NULL && file->process == getpid()) (void)unlink(file->path);
  }
  (void)raise(signal_number); /* its default, set again on entry, follows this handler */
}

/* Replaces one handler by the other; those of the application stay. */
static void replace(void (*old)(int), void (*new)(int)) {
  struct sigaction now, next = {.sa_flags = (int)SA_RESETHAND};
  size_t i;
  next.sa_handler = new;
  for (i = 0; i < sizeof ENDING / sizeof *ENDING; i++)
    if (sigaction(ENDING[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
        now.sa_handler == old)
      (void)sigaction(ENDING[i], &next, NULL);
}

int ctx_remove_on_signal(const char *path) {
  const size_t size = strlen(path) + 1;
  removable *file = malloc(sizeof *file + size), *none;
  int i;
  if (file == NULL) return -1;
  file->process = getpid();
  memcpy(file->path, path, size);
  for (i = 0; i < FILES; i++) {
    none = NULL;
    if (!atomic_compare_exchange_strong(&files[i], &none, file)) continue;
    atomic_fetch_add(&count, 1);
    replace(SIG_DFL, remove_files);
    return i;
  }
  free(file);
  return -1;
}

void ctx_keep_on_signal(int handle) {
  if (handle < 0) return;
  free(atomic_exchange(&files[handle], NULL));
  if (atomic_fetch_sub(&count, 1) == 1) replace(remove_files, SIG_DFL);
}
