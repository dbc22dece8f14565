/* Receipts: what ran where, as a JSON file. docs/receipts.md has the format; Python's is
 * ep_nnapi/provider/receipt.py. */
#ifndef NNAPI_CONTEXT_RECEIPT_H
#define NNAPI_CONTEXT_RECEIPT_H

#include "choice.h"

typedef struct ctx_receipt ctx_receipt;

/* Begins a receipt that is to stand at `path`; NULL, and an error, if no file can be made there. */
ctx_receipt *ctx_receipt_begin(const char *path, ctx_error *error);

/* Notes the model's file, as it is now; "" and NULL: it was no file. */
void ctx_receipt_model(ctx_receipt *receipt, const char *path);

/* Adds a cluster, a node of that name, that ran on this runtime: "system" or a path. */
void ctx_receipt_add(ctx_receipt *receipt, const char *node, const char *runtime,
                     ctx_choice *choice);

/* Adds one that its device could not compile and that nothing else was to run. */
void ctx_receipt_add_failure(ctx_receipt *receipt, const char *node, const char *runtime,
                             const ctx_container *container, const ctx_device *device,
                             const ctx_error *reason);

/* Writes it whole, and frees it; `onnxruntime`: its version, NULL where it did not run anything. A
 * forked child writes none of its parent's. */
bool ctx_receipt_end(ctx_receipt *receipt, const char *onnxruntime, ctx_error *error);

/* Frees it without writing. */
void ctx_receipt_drop(ctx_receipt *receipt);

#endif
