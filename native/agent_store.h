/* The weights that were pushed to an agent: files in a folder, named by their SHA-256. */
#ifndef NNAPI_CONTEXT_AGENT_STORE_H
#define NNAPI_CONTEXT_AGENT_STORE_H

#include "agent_frames.h"

/* Writes the part of a file that the request has, and says how much of it is there; the whole file
 * gets its name when its digest is right. */
bool agent_put(const char *folder, const frame *request, frame *reply, ctx_error *error);

/* Lists the files, lines of bytes and name; removes them if the request says 1. */
bool agent_store(const char *folder, const frame *request, frame *reply, ctx_error *error);

#endif
