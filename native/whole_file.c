/* Files that are written whole: see whole_file.h. */
#include "whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool failed(const char *path, ctx_error *error) {
  return ctx_fail(error, "%.300s: %s", path, strerror(errno));
}

/* True if what is at the path is to stay there: a device, a pipe, or a link to one. */
static bool stays(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
}

/* A new file in the folder of `path`. Another may have each name: of links there, none is followed. */
static int create_beside(const char *path, char **temporary) {
  const char *slash = strrchr(path, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - path) + 1;
  const size_t capacity = (size_t)folder + 64;
  struct stat facts;
  int descriptor = -1, tries;
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return errno = EISDIR, -1;
  *temporary = malloc(capacity);
  if (*temporary == NULL) return errno = ENOMEM, -1;
  for (tries = 0; tries < 100 && descriptor < 0; tries++) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(*temporary, capacity, "%.*s.ep-nnapi-%ld-%ld%09ld", folder, path, (long)getpid(),
             (long)now.tv_sec, now.tv_nsec);
    descriptor = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST) break;
  }
  if (descriptor >= 0) return descriptor;
  free(*temporary);
  *temporary = NULL;
  return -1;
}

bool ctx_file_open(const char *path, ctx_file *out, ctx_error *error) {
  ctx_file file = {.path = strdup(path)};
  int descriptor;
  if (file.path == NULL) return ctx_out_of_memory(error);
  descriptor =
      stays(path) ? open(path, O_WRONLY | O_CLOEXEC) : create_beside(path, &file.temporary);
  if (descriptor >= 0) file.stream = fdopen(descriptor, "wb");
  if (file.stream != NULL) return *out = file, true;
  (void)failed(path, error);
  if (descriptor >= 0) close(descriptor);
  if (file.temporary != NULL) unlink(file.temporary);
  free(file.temporary);
  free(file.path);
  return false;
}

bool ctx_file_close(ctx_file *file, bool written, ctx_error *error) {
  bool whole = written && !ferror(file->stream);
  if (written && !whole) (void)failed(file->path, error);
  if (fclose(file->stream) != 0 && whole) whole = failed(file->path, error);
  if (whole && file->temporary != NULL && rename(file->temporary, file->path) != 0)
    whole = failed(file->path, error);
  if (!whole && file->temporary != NULL) unlink(file->temporary);
  free(file->temporary);
  free(file->path);
  return whole;
}

static bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

char *ctx_path_of(const char *folder, const char *name, size_t length, const char *suffix) {
  const size_t before = strlen(folder) + 1;
  char *path = malloc(before + 3 * length + strlen(suffix) + 1), *end;
  size_t i;
  if (path == NULL) return NULL;
  end = path + sprintf(path, "%s/", folder);
  for (i = 0; i < length; i++)
    end += sprintf(end, is_unreserved(name[i]) && (i > 0 || name[i] != '.') ? "%c" : "%%%02X",
                   (unsigned char)name[i]);
  strcpy(end, suffix);
  return path;
}
