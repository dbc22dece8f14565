/* Interrupts that reach Python inside a callback of C: interrupts.c. */
#ifndef EP_NNAPI_INTERRUPTS_H
#define EP_NNAPI_INTERRUPTS_H

void interrupt_later(void);
void pass_on_interrupt(void);

#endif
