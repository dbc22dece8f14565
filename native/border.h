/* The conversions between ONNX tensors and operands at a cluster's border. */
#ifndef NNAPI_CONTEXT_BORDER_H
#define NNAPI_CONTEXT_BORDER_H

#include "container.h"

/* True if the operand has the same bytes as the ONNX tensor. */
bool ctx_crossing_is_plain(const ctx_container *container, const ctx_crossing *crossing,
                           const ctx_operand *operand);

/* Converts an ONNX tensor into the operand's contents. */
void ctx_enter(const ctx_container *container, const ctx_crossing *crossing,
               const ctx_operand *operand, const void *tensor, void *contents);

/* Converts the operand's contents into an ONNX tensor. */
void ctx_leave(const ctx_container *container, const ctx_crossing *crossing,
               const ctx_operand *operand, const void *contents, void *tensor);

#endif
