/* Connects libneuralnetworks.so with its callbacks in Python, which interpreter.c finds.
 *
 * interpreter.c stands in front of this file. The functions of the API follow below it; they are
 * generated from functions.py.
 */
static atomic_bool nn_said; /* that it does not work, on stderr */

static const nn_table *nn_connect_or_say(void) {
  char reason[NN_LINE];
  const nn_table *table = nn_connect_first(reason);
  if (table == NULL && reason[0] != '\0' && !atomic_exchange(&nn_said, true))
    fprintf(stderr, "libneuralnetworks.so: %s; calls return ANEURALNETWORKS_OP_FAILED\n", reason);
  return table;
}

/* The table of callbacks; NULL when there is no Python, or no longer. */
static const nn_table *nn_connect(void) {
  const nn_table *table = atomic_load_explicit(&nn_connected, memory_order_acquire);
  if (table == NULL) return nn_connect_or_say();
  return py.is_initialized() ? table : NULL;
}
