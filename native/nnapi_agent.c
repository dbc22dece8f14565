/* nnapi_agent: serves the NNAPI library of this machine over standard input and output, so that
 * another machine's ep-nnapi uses it as its own. docs/agent.md specifies the protocol.
 *
 * This process never loads the library. Each job, a compilation with its runs, has a worker, which
 * is this program started again: a driver that prints, hangs or dies ends one job. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

static const char USAGE[] =
    "usage: nnapi_agent [option...]\n"
    "\n"
    "Serves an NNAPI library over standard input and output to ep-nnapi on another machine:\n"
    "--runtime adb there starts it on a phone, --runtime 'exec:COMMAND' by any command.\n"
    "\n"
    "  --runtime LIBRARY   the NNAPI library (default: the system's)\n"
    "  --folder FOLDER     where weights are kept (default: this program's own folder)\n"
    "  --idle S            seconds without a request after which it ends (default: 600)\n"
    "  --emulator PROGRAM  starts the workers, where the system does not start them itself\n";

#if defined(__aarch64__)
#define ABI "arm64-v8a"
#elif defined(__arm__)
#define ABI "armeabi-v7a"
#elif defined(__x86_64__)
#define ABI "x86_64"
#else
#define ABI "x86"
#endif

enum { MOST_PATH = 4096, MOST_JOBS = 1024, WORKER_DESCRIPTOR = 3, UNUSABLE = 2, BROKEN = 3 };

typedef struct {
  uint32_t job;
  int descriptor; /* of its frames */
  pid_t process;  /* 0: it has ended, */
  int status;     /* with this one */
} worker;

typedef struct {
  char self[MOST_PATH], folder[MOST_PATH];
  const char *emulator;
  bool is_worker;
  unsigned idle; /* seconds */
  ctx_settings settings;
  int out; /* the frames' own descriptor: drivers print to 1 */
  worker workers[MOST_JOBS];
  uint32_t count;
  frame request, reply;
  uint64_t deadline; /* of the request, in nanoseconds; 0: none */
} agent;

static int fail(int status, const char *sentence) {
  fprintf(stderr, "nnapi_agent: %s\n", sentence);
  return status;
}

/* Workers end with this process: PR_SET_PDEATHSIG. */
static void end_of_stream(void) { _exit(0); }

static int milliseconds_left(const agent *a) {
  const uint64_t at = ctx_now();
  uint64_t left;
  if (a->deadline == 0) return -1;
  left = a->deadline > at ? (a->deadline - at) / 1000000 + 1 : 0;
  return left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Waits for a worker until the deadline, and for the end of the stream to the client. */
static bool wait_for_worker(void *context, int descriptor, bool writing, ctx_error *error) {
  const agent *a = context;
  struct pollfd watched[] = {{descriptor, writing ? POLLOUT : POLLIN, 0}, {0, POLLIN, 0}};
  for (;;) {
    const int left = milliseconds_left(a);
    const int count = poll(watched, 2, left);
    int waiting = 0;
    if (count < 0 && errno != EINTR) return ctx_fail(error, "poll: %s", strerror(errno));
    if (count > 0 && watched[0].revents != 0) return true;
    if (count > 0 && watched[1].revents != 0) {
      if (ioctl(0, FIONREAD, &waiting) != 0 || waiting == 0) end_of_stream();
      watched[1].fd = -1; /* the next request, already */
    }
    if (a->deadline == 0 || ctx_now() < a->deadline) continue;
    ctx_fail(error, "the device has not answered within %.3g s, and was ended",
             (double)a->request.header.limit_ms / 1000);
    error->code = NN_MISSED_DEADLINE_PERSISTENT;
    return false;
  }
}

static void start_here(const agent *a, int descriptor) {
  const char *words[12];
  int count = 0, null = open("/dev/null", O_RDONLY);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (null >= 0) dup2(null, 0);
  dup2(2, 1);
  if (descriptor == WORKER_DESCRIPTOR)
    fcntl(descriptor, F_SETFD, 0);
  else
    dup2(descriptor, WORKER_DESCRIPTOR);
  if (a->emulator != NULL) words[count++] = a->emulator;
  words[count++] = a->self;
  words[count++] = "--worker";
  words[count++] = "--folder";
  words[count++] = a->folder;
  if (a->settings.runtime != NULL) words[count++] = "--runtime";
  if (a->settings.runtime != NULL) words[count++] = a->settings.runtime;
  words[count] = NULL;
  execvp(words[0], (char *const *)(uintptr_t)words);
  _exit(127);
}

static worker *start_worker(agent *a, uint32_t job, ctx_error *error) {
  int pair[2];
  worker *w = &a->workers[a->count];
  if (a->count == MOST_JOBS) return ctx_fail(error, "there are %d jobs", MOST_JOBS), NULL;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return ctx_fail(error, "socketpair: %s", strerror(errno)), NULL;
  w->job = job;
  w->descriptor = pair[0];
  w->status = 0;
  w->process = fork();
  if (w->process == 0) start_here(a, pair[1]);
  close(pair[1]);
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  if (w->process > 0) return a->count++, w;
  close(pair[0]);
  return ctx_fail(error, "fork: %s", strerror(errno)), NULL;
}

static worker *find_worker(agent *a, uint32_t job) {
  uint32_t i;
  for (i = 0; i < a->count; i++)
    if (a->workers[i].job == job) return &a->workers[i];
  return NULL;
}

/* Its end of the stream lets a worker end by itself. */
static void free_worker(agent *a, worker *w) {
  close(w->descriptor);
  *w = a->workers[--a->count];
}

/* Waits a little for a worker that is about to end; -1: it has not ended. */
static int status_of(const worker *w) {
  static const struct timespec step = {0, 5000000};
  int status = w->status, tries;
  if (w->process == 0) return status;
  for (tries = 0; tries < 400; tries++) {
    if (waitpid(w->process, &status, WNOHANG) != 0) return status;
    if (tries == 200) kill(w->process, SIGKILL);
    nanosleep(&step, NULL);
  }
  return -1;
}

/* Takes the statuses of workers that have ended: those of jobs that were freed, and others. */
static void note_ended(agent *a) {
  pid_t process;
  uint32_t i;
  int status;
  while ((process = waitpid(-1, &status, WNOHANG)) > 0)
    for (i = 0; i < a->count; i++)
      if (a->workers[i].process == process) {
        a->workers[i].process = 0;
        a->workers[i].status = status;
      }
}

/* What became of a worker that does not answer; it is ended. */
static void end_worker(agent *a, worker *w, ctx_error *error) {
  const worker ended = *w;
  const bool late = error->code == NN_MISSED_DEADLINE_PERSISTENT;
  int status;
  if (late && ended.process > 0) kill(ended.process, SIGKILL);
  free_worker(a, w);
  status = status_of(&ended);
  if (late) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    ctx_fail(error, "the agent cannot start itself; on an emulator it needs --emulator");
  else if (WIFEXITED(status))
    ctx_fail(error, "the driver ended its process with status %d", WEXITSTATUS(status));
  else
    ctx_fail(error, "the driver ended its process by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  error->code = NN_DEAD_OBJECT;
}

/* Hands the request to the job's worker, and takes its reply. */
static bool pass_on(agent *a, ctx_error *error) {
  const frame_header *asked = &a->request.header;
  worker *w = find_worker(a, asked->job);
  if (w == NULL) w = start_worker(a, asked->job, error);
  if (w == NULL) return false;
  a->deadline = asked->limit_ms > 0 ? ctx_now() + (uint64_t)asked->limit_ms * 1000000 : 0;
  *error = (ctx_error){0};
  if (frame_write(w->descriptor, &a->request, wait_for_worker, a, error) &&
      frame_read(w->descriptor, &a->reply, false, wait_for_worker, a, error))
    return true;
  end_worker(a, w, error);
  return false;
}

static bool say_hello(agent *a, ctx_error *error) {
  cpu_set_t cpus;
  char text[MOST_PATH + 512];
  int length;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  length = snprintf(text, sizeof text,
                    "release=%s\nprotocol=%d\ncontainer=%d\nabi=%s\npage=%ld\ncpus=%d\nfolder=%s\n",
                    NNAPI_CONTEXT_RELEASE, FRAME_VERSION, CTX_VERSION, ABI, sysconf(_SC_PAGESIZE),
                    CPU_COUNT(&cpus), a->folder);
  return frame_add(&a->reply, text, (size_t)length, error);
}

static bool free_job(agent *a) {
  worker *w = find_worker(a, a->request.header.job);
  if (w != NULL) free_worker(a, w);
  return true;
}

/* `passed`: the reply is a worker's, sealed. */
static bool serve(agent *a, bool *passed, ctx_error *error) {
  *passed = false;
  a->reply.header.length = 0;
  switch (a->request.header.kind) {
    case FRAME_HELLO: return say_hello(a, error);
    case FRAME_PUT: return agent_put(a->folder, &a->request, &a->reply, error);
    case FRAME_STORE: return agent_store(a->folder, &a->request, &a->reply, error);
    case FRAME_FREE: return free_job(a);
    default: return *passed = pass_on(a, error);
  }
}

/* Reads and answers until the end of the stream. SIGALRM ends the process when nobody asks, or
 * nobody reads the answer, for too long. */
static int serve_all(agent *a) {
  static const frame_header no_request;
  ctx_error error;
  for (;;) {
    const frame_header *asked = &a->request.header;
    bool passed, served;
    alarm(a->idle);
    if (!frame_read(0, &a->request, true, NULL, NULL, &error)) break;
    alarm(0);
    note_ended(a);
    served = serve(a, &passed, &error);
    if (!passed) frame_answer(&a->reply, asked, served ? NULL : &error);
    alarm(a->idle);
    if (!frame_write(a->out, &a->reply, NULL, NULL, &error)) return 0;
  }
  if (error.text[0] == '\0') return 0;
  frame_answer(&a->reply, &no_request, &error);
  if (!frame_write(a->out, &a->reply, NULL, NULL, &error)) return 0;
  return BROKEN;
}

static bool set_idle(agent *a, const char *value, ctx_error *error) {
  char *end;
  const long seconds = strtol(value, &end, 10);
  if (*end != '\0' || end == value || seconds < 1 || seconds > 1000000)
    return ctx_fail(error, "--idle is '%.50s'; it must be 1 to 1000000 seconds", value);
  a->idle = (unsigned)seconds;
  return true;
}

static bool parse(int count, char **words, agent *a, ctx_error *error) {
  int i;
  for (i = 1; i < count; i++) {
    const char *word = words[i], *value = i + 1 < count ? words[i + 1] : NULL;
    if (strcmp(word, "--worker") == 0) {
      a->is_worker = true;
      continue;
    }
    if (value == NULL) return ctx_fail(error, "%.100s needs a value; --help shows how", word);
    i++;
    if (strcmp(word, "--runtime") == 0) {
      a->settings.runtime = value;
    } else if (strcmp(word, "--emulator") == 0) {
      a->emulator = value;
    } else if (strcmp(word, "--idle") == 0) {
      TRY(set_idle(a, value, error));
    } else if (strcmp(word, "--folder") == 0) {
      if (snprintf(a->folder, sizeof a->folder, "%s", value) >= MOST_PATH)
        return ctx_fail(error, "--folder is too long");
    } else {
      return ctx_fail(error, "%.100s is unknown; --help shows the options", word);
    }
  }
  return true;
}

/* Its own path, and the folder that it is in. */
static bool find_self(agent *a, ctx_error *error) {
  const ssize_t length = readlink("/proc/self/exe", a->self, sizeof a->self - 1);
  if (length <= 0) return ctx_fail(error, "/proc/self/exe: %s", strerror(errno));
  a->self[length] = '\0';
  if (a->folder[0] == '\0')
    snprintf(a->folder, sizeof a->folder, "%.*s", (int)(strrchr(a->self, '/') - a->self), a->self);
  return true;
}

int main(int count, char **words) {
  static agent a = {.idle = 600};
  ctx_error error;
  if (count == 2 && strcmp(words[1], "--help") == 0) return fputs(USAGE, stdout), 0;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a limit of files is told as one */
  a.settings = ctx_default_settings();
  if (!parse(count, words, &a, &error) || !find_self(&a, &error)) return fail(UNUSABLE, error.text);
  if (a.is_worker) return agent_work(WORKER_DESCRIPTOR, &a.settings, a.folder);
  a.out = fcntl(1, F_DUPFD_CLOEXEC, WORKER_DESCRIPTOR + 1);
  if (a.out < 0 || dup2(2, 1) < 0) return fail(UNUSABLE, "standard output is closed");
  return serve_all(&a);
}
