/* Calls that may not come back: see trial.h. */
#include "trial.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "nnapi_functions.h"
#include "on_signal.h"
#include "sha256.h"

/* Whoever comes last of its holders, the thread and who waits for it, frees it. */
struct ctx_call {
  void (*work)(void *);
  void (*release)(void *);
  void *given;
  ctx_note note;
  uint64_t nanoseconds;
  struct timespec deadline; /* as many after its begin */
  bool ended, left;
  pthread_mutex_t lock;
  pthread_cond_t end;
  atomic_int holders;
};
typedef struct ctx_call call;

static void free_call(call *c) {
  pthread_cond_destroy(&c->end);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

static void let_go(call *c) {
  if (atomic_fetch_sub(&c->holders, 1) == 1) free_call(c);
}

static void tell_end(call *c) {
  bool left;
  pthread_mutex_lock(&c->lock);
  c->ended = true;
  left = c->left;
  if (!left) ctx_note_end(&c->note); /* here: who waits may not come to it */
  pthread_mutex_unlock(&c->lock);
  pthread_cond_signal(&c->end); /* not before: who wakes would wait for the lock */
  if (left) c->release(c->given);
  let_go(c);
}

/* The thread that waits for the next call, if there is one: to start another, with memory that is new
 * to it, takes longer than to open a small program. A forked child has none of its parent's. */
static struct {
  pthread_mutex_t lock; /* others are started where it is held: a child may have it so for ever */
  pthread_cond_t change;
  pthread_t thread;
  pid_t process; /* whose thread and change these are */
  bool exists, waits, ends;
  call *next;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

/* True if this thread is the one that waits, as it is for good if it has `waited` before. */
static bool begin_to_wait(bool waited) {
  const pid_t process = getpid();
  bool waits;
  if ((waited ? pthread_mutex_lock(&waiting.lock) : pthread_mutex_trylock(&waiting.lock)) != 0)
    return false;
  if (waiting.process != process) {
    pthread_cond_init(&waiting.change, NULL);
    waiting.process = process;
    waiting.exists = false;
  }
  if (!waiting.exists) {
    waiting.exists = true;
    waiting.thread = pthread_self();
    waiting.next = NULL;
  }
  waits = pthread_equal(waiting.thread, pthread_self()) != 0;
  if (waits) waiting.waits = true;
  pthread_mutex_unlock(&waiting.lock);
  return waits;
}

/* The next call; NULL: there is to be none. */
static call *wait_for_next(void) {
  call *c;
  pthread_mutex_lock(&waiting.lock);
  while (waiting.next == NULL && !waiting.ends) pthread_cond_wait(&waiting.change, &waiting.lock);
  c = waiting.next;
  waiting.next = NULL;
  pthread_mutex_unlock(&waiting.lock);
  return c;
}

static void *carry_out(void *given) {
  call *c = given;
  bool waits = false;
  do {
    c->work(c->given);
    waits = begin_to_wait(waits); /* before its end is told, so that the next call finds it */
    tell_end(c);
    c = waits ? wait_for_next() : NULL;
  } while (c != NULL);
  if (!waits) pthread_detach(pthread_self());
  return NULL;
}

/* Has it carried out by the thread that waits, else by a new one. */
static bool start(call *c) {
  bool waits;
  pthread_t thread;
  if (pthread_mutex_trylock(&waiting.lock) == 0) {
    waits = waiting.waits && waiting.process == getpid();
    if (waits) {
      waiting.waits = false;
      waiting.next = c;
    }
    pthread_mutex_unlock(&waiting.lock);
    if (waits) return pthread_cond_signal(&waiting.change) == 0;
  }
  return pthread_create(&thread, NULL, carry_out, c) == 0;
}

void ctx_end_trials(void) {
  bool waits;
  if (pthread_mutex_trylock(&waiting.lock) != 0) return;
  waits = waiting.waits && waiting.process == getpid();
  waiting.ends = waits;
  waiting.waits = false;
  pthread_cond_signal(&waiting.change);
  pthread_mutex_unlock(&waiting.lock);
  if (!waits) return;
  pthread_join(waiting.thread, NULL);
  waiting.exists = waiting.ends = false;
}

static struct timespec after(uint64_t nanoseconds) {
  enum { LONGEST = 1000000000 }; /* 31 years: seconds have 32 bits on some systems */
  const uint64_t seconds = nanoseconds / 1000000000;
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_sec += (time_t)(seconds < LONGEST ? seconds : LONGEST);
  time.tv_nsec += (long)(nanoseconds % 1000000000);
  if (time.tv_nsec >= 1000000000) {
    time.tv_nsec -= 1000000000;
    time.tv_sec++;
  }
  return time;
}

/* Waits until it has ended; false at the deadline. */
static bool wait_for(call *c) {
  bool ended;
  pthread_mutex_lock(&c->lock);
  while (!c->ended && pthread_cond_timedwait(&c->end, &c->lock, &c->deadline) == 0) {
  }
  ended = c->ended;
  c->left = !ended;
  if (!ended) ctx_note_leave(&c->note);
  pthread_mutex_unlock(&c->lock);
  return ended;
}

/* Python's lock, where this is a Python process whose lock this thread holds: what is waited for may
 * need it, as this project's own NNAPI library does. */
typedef struct {
  void (*restore)(void *);
  void *state;
} python_lock;

/* Its functions, which are not looked for again once they are found; false: there is no Python. */
static bool find_python(void *found[4]) {
  static const char *const names[4] = {"Py_IsInitialized", "PyGILState_Check", "PyEval_SaveThread",
                                       "PyEval_RestoreThread"};
  static void *_Atomic known[4];
  int i;
  for (i = 0; i < 4; i++) {
    found[i] = atomic_load(&known[i]);
    if (found[i] == NULL && (found[i] = dlsym(RTLD_DEFAULT, names[i])) == NULL) return false;
    atomic_store(&known[i], found[i]);
  }
  return true;
}

static python_lock release_python(void) {
  python_lock lock = {NULL, NULL};
  int (*is_there)(void), (*is_held)(void);
  void *(*save)(void);
  void *found[4];
  if (!find_python(found)) return lock;
  memcpy(&is_there, &found[0], sizeof is_there);
  memcpy(&is_held, &found[1], sizeof is_held);
  memcpy(&save, &found[2], sizeof save);
  if (is_there() == 0 || is_held() == 0) return lock;
  memcpy(&lock.restore, &found[3], sizeof lock.restore);
  lock.state = save();
  return lock;
}

static call *make_call(const ctx_note *note, uint64_t nanoseconds, void (*work)(void *),
                       void (*release)(void *), void *given) {
  pthread_condattr_t monotonic;
  call *c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  c->work = work;
  c->release = release;
  c->given = given;
  c->note = *note;
  c->nanoseconds = nanoseconds;
  c->deadline = after(nanoseconds);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&c->end, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&c->lock, NULL);
  atomic_init(&c->holders, 2);
  return c;
}

ctx_call *ctx_begin_call(const ctx_note *note, uint64_t nanoseconds, void (*work)(void *),
                         void (*release)(void *), void *given, ctx_error *error) {
  call *c = make_call(note, nanoseconds, work, release, given);
  if (c != NULL && start(c)) return c;
  ctx_note_end(note);
  release(given);
  if (c != NULL) free_call(c);
  ctx_fail(error, "no thread can be started for a trial");
  return NULL;
}

bool ctx_end_call(ctx_call *c, const char *doing, ctx_error *error) {
  const python_lock python = release_python();
  const bool ended = wait_for(c);
  if (python.restore != NULL) python.restore(python.state);
  if (!ended) {
    ctx_fail(error, "it did not %s within %.3g s", doing, (double)c->nanoseconds / 1e9);
    error->code = NN_MISSED_DEADLINE_PERSISTENT;
  }
  let_go(c);
  return ended;
}

bool ctx_within(const ctx_note *note, uint64_t nanoseconds, void (*work)(void *),
                void (*release)(void *), void *given, const char *doing, ctx_error *error) {
  ctx_call *c = ctx_begin_call(note, nanoseconds, work, release, given, error);
  return c != NULL && ctx_end_call(c, doing, error);
}

/* The build of the system, of which drivers are a part. */
static void system_build(char *out, size_t capacity) {
  struct utsname about;
  char fingerprint[92] = ""; /* Source: PROP_VALUE_MAX of Android's system_properties.h */
  int (*get)(const char *, char *);
  void *found = dlsym(RTLD_DEFAULT, "__system_property_get");
  memcpy(&get, &found, sizeof get);
  if (get != NULL) (void)get("ro.build.fingerprint", fingerprint);
  if (fingerprint[0] == '\0' && uname(&about) == 0)
    snprintf(out, capacity, "%.60s %.60s", about.release, about.version);
  else
    snprintf(out, capacity, "%s", fingerprint);
}

ctx_note ctx_note_of(const char *folder, const uint8_t *about, size_t size, char kind,
                     const char *tried, const uint8_t *by, size_t by_size) {
  ctx_note note = {.folder = folder};
  uint8_t digest[SHA256_BYTES];
  char build[128] = "";
  sha256 hash;
  if (folder == NULL) return note;
  system_build(build, sizeof build);
  sha256_begin(&hash);
  sha256_add(&hash, about, size);
  sha256_add(&hash, (const uint8_t *)build, strlen(build));
  sha256_end(&hash, digest);
  sha256_hex(digest, (sizeof note.about - 1) / 2, note.about);
  sha256_of((const uint8_t *)tried, strlen(tried), digest);
  note.tried[0] = kind;
  sha256_hex(digest, (sizeof note.tried - 2) / 2, note.tried + 1);
  sha256_of(by, by_size, digest);
  sha256_hex(digest, (sizeof note.by - 1) / 2, note.by);
  return note;
}

/* The path of the note, or with `own` of the file that tells of its trial; false if too long. */
static bool path_of(const ctx_note *note, const char *own, const char *suffix, char *out,
                    size_t capacity) {
  const int size = snprintf(out, capacity, "%s/ep-nnapi-%s-%s-%s.%s%s", note->folder, note->about,
                            note->tried, note->by, own, suffix);
  return size > 0 && (size_t)size < capacity;
}

/* True if the trial of a note lasts, or has just ended well. */
static bool lasts(int folder, const char *name) {
  struct stat about;
  const int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
  bool does;
  if (file < 0) return errno == ENOENT;
  does = flock(file, LOCK_SH | LOCK_NB) != 0 ? errno == EWOULDBLOCK
                                             : fstat(file, &about) == 0 && about.st_nlink == 0;
  close(file);
  return does;
}

bool ctx_note_is_free(const ctx_note *note, bool whole, ctx_error *error) {
  char start[64];
  const struct dirent *entry;
  bool is_free = true;
  DIR *folder = note->folder != NULL ? opendir(note->folder) : NULL;
  if (folder == NULL) return true;
  snprintf(start, sizeof start, "ep-nnapi-%s-%.*s", note->about,
           whole ? 1 : (int)sizeof note->tried, note->tried);
  while (is_free && (entry = readdir(folder)) != NULL) {
    const char *suffix = strrchr(entry->d_name, '.');
    if (suffix == NULL || strcmp(suffix, ".trying") != 0) continue;
    if (strncmp(entry->d_name, start, strlen(start)) != 0) continue;
    if (lasts(dirfd(folder), entry->d_name)) continue;
    is_free = ctx_fail(
        error, "an earlier start ended in it, as %.300s/%.90s says; remove that to try again",
        note->folder, entry->d_name);
  }
  closedir(folder);
  return is_free;
}

static bool write_line(int file, const char *text) {
  return dprintf(file, "%s\n", text) > 0 && fsync(file) == 0;
}

void ctx_note_write(const ctx_note *note, const char *suffix, const char *text) {
  char path[4096];
  int file;
  if (note->folder == NULL || !path_of(note, "", suffix, path, sizeof path)) return;
  file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return;
  (void)write_line(file, text);
  close(file);
}

void ctx_note_begin(ctx_note *note, const char *text) {
  char new[4096], path[4096];
  struct timespec now;
  note->file = note->handle = -1;
  if (note->folder == NULL) return;
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(note->own, sizeof note->own, "%lx-%llx", (unsigned long)getpid(),
           (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec);
  if (!path_of(note, note->own, ".new", new, sizeof new) ||
      !path_of(note, note->own, ".trying", path, sizeof path))
    return;
  note->file = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (note->file < 0) return;
  (void)flock(note->file, LOCK_EX); /* fails where files have no locks */
  /* under its name it is locked from the first moment on */
  if (write_line(note->file, text) && rename(new, path) == 0) {
    note->handle = ctx_remove_on_signal(path);
    return;
  }
  (void)unlink(new);
  ctx_note_leave(note);
  note->file = -1;
}

void ctx_note_leave(const ctx_note *note) {
  if (note->folder == NULL || note->file < 0) return;
  ctx_keep_on_signal(note->handle);
  close(note->file);
}

void ctx_note_end(const ctx_note *note) {
  char path[4096];
  if (note->folder == NULL || note->file < 0) return;
  if (path_of(note, note->own, ".trying", path, sizeof path)) (void)unlink(path);
  ctx_note_leave(note);
}
