/* Files that are written whole or not at all. Python's are in ep_nnapi/files.py. */
#ifndef NNAPI_CONTEXT_WHOLE_FILE_H
#define NNAPI_CONTEXT_WHOLE_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "error.h"

typedef struct {
  FILE *stream;
  char *path, *temporary; /* in the same folder; NULL: devices and pipes are written to at once */
} ctx_file;

/* Opens a file that is to stand at `path`. */
bool ctx_file_open(const char *path, ctx_file *out, ctx_error *error);

/* Puts the file at its path if all was written and `written` says so too; else nothing changes
 * there. */
bool ctx_file_close(ctx_file *file, bool written, ctx_error *error);

/* The path of a file in `folder` that is named after a tensor, to be freed: percent-encoded as in a
 * URL (RFC 3986), a dot at the beginning too, so that two names never have one file. NULL if memory
 * is short. As in Python: ep_nnapi.nnapi.files.file_name_of. */
char *ctx_path_of(const char *folder, const char *name, size_t length, const char *suffix);

#endif
