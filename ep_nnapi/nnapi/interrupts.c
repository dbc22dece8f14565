/* Raises an interrupt again that reached Python inside a callback, once the callback has returned.
 *
 * A part of both cffi modules: functions of Python's stable ABI, none of its macros.
 * `interrupt_later` is called by the callback, on its thread; `pass_on_interrupt` by the C function
 * around it, after it. Python runs a pending call in the main thread, before its next instruction.
 */
#include <Python.h>

#include "interrupts.h"

static _Thread_local int interrupted;

void interrupt_later(void) { interrupted = 1; }

static int raise_interrupt(void *unused) {
  PyObject *module = PyImport_ImportModule("ep_nnapi.nnapi.interrupts"), *result = NULL;
  (void)unused;
  if (module != NULL) result = PyObject_CallMethod(module, "raise_held", NULL);
  Py_DecRef(module);
  Py_DecRef(result);
  return result == NULL ? -1 : 0;
}

void pass_on_interrupt(void) {
  if (interrupted && Py_AddPendingCall(raise_interrupt, NULL) == 0) interrupted = 0;
}
