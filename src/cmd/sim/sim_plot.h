/* Figures drawn by gnuplot: a script is written to a stream, and turned into SVG.
 *
 * A script holds its data and prints the figure to standard output, so that a user can change it
 * and draw the figure again: `gnuplot waits.gp >waits.svg`.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_SIM_PLOT_H
#define CMD_SIM_PLOT_H

#include <stdio.h>

#include "libutil/errmsg.h"

/* Begin a script: the terminal, colors, and the names of the figure and its axes.  `name`, of
 * letters, digits and "_", makes its ids different from those of other figures.  `height` is in
 * pixels; 0: the default. */
void sim_plot_begin(FILE *f, const char *name, int height, const char *title, const char *xlabel,
                    const char *ylabel);

/* Write a string constant; one that names a tick, which gnuplot takes for a format; a string in a
 * row of data, where a double quote becomes "?".  So do control characters in all of them. */
void sim_plot_quote(FILE *f, const char *text);
void sim_plot_quote_tick(FILE *f, const char *text);
void sim_plot_quote_value(FILE *f, const char *text);

/* Begin and end the data block "$NAMEi".  The comment names its columns. */
void sim_plot_data(FILE *f, const char *name, size_t i, const char *columns);
void sim_plot_data_end(FILE *f);

/* Draw a script of `len` bytes.  The text of an SVG element, to be freed by the caller; NULL with
 * errno and an error message, for example ENOENT when gnuplot is not installed. */
char *sim_plot_draw(const char *script, size_t len, errmsg_t *err);

#endif
