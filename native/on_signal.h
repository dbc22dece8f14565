/* Files that are removed when a signal ends the process: a user's Ctrl-C, the system's SIGTERM. */
#ifndef NNAPI_CONTEXT_ON_SIGNAL_H
#define NNAPI_CONTEXT_ON_SIGNAL_H

/* Has SIGHUP, SIGINT and SIGTERM remove the file where their default is to end this process; not in
 * forked ones. Returns a handle for ctx_keep_on_signal, or -1: none is left, and the file stays. */
int ctx_remove_on_signal(const char *path);

/* Has the file stay, or be forgotten that is removed. With the last one signals get their default. */
void ctx_keep_on_signal(int handle);

#endif
