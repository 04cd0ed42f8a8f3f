/* The far end of flux alloc's terminal: a pseudo-terminal with a command on it.
 *
 * Thread rules: for programs with one thread.
 */
#ifndef CMD_PTYEND_H
#define CMD_PTYEND_H

/* Read frames (ptyframe.h) from standard input; once the first SIZE is there, run the command on a
 * terminal of that size; write what the terminal shows to standard output.  The exit code of the
 * command. */
int ptyend_run(char *const *argv);

#endif
