/* Charts in SVG: a frame with two axes, and marks at values.
 *
 * Marks carry their values as a tooltip (a <title>), which is also what a program reads.  Text is
 * escaped here; ids and colors come from the program.  Output goes to a stream, whose errors the
 * caller looks at (ferror()).
 *
 * Thread rules: one thread.  [W3C, Scalable Vector Graphics 1.1]
 */
#ifndef CMD_SIM_SVG_H
#define CMD_SIM_SVG_H

#include <stdbool.h>
#include <stdio.h>

struct sim_svg {
    FILE *f;
    double width, height, left, right, top, bottom; /* pixels: size, margins */
    double x0, x1, y0, y1;                          /* values at the edges of the frame */
    bool log_y;                                     /* y0 and y1 are above 0 */
    bool exact_y;                                   /* y1 is not rounded up */
};

/* A set of colors that are told apart by most eyes [Okabe and Ito 2008]; any number. */
const char *sim_svg_color(size_t i);

/* Text for XML: markup is escaped; control characters, and bytes that are not UTF-8, become "?". */
void sim_svg_text(FILE *f, const char *s);

/* Begin a chart: the element, its title, the frame.  The caller has set f, x0, x1, y0, y1, log_y;
 * y1 is rounded up to a tick, unless exact_y is set.  Sizes that are 0 get a default. */
void sim_svg_begin(struct sim_svg *s, const char *id, const char *title, const char *xlabel,
                   const char *ylabel);
void sim_svg_end(struct sim_svg *s);

/* Ticks of the axes: at round numbers, or one named tick. */
void sim_svg_x_ticks(struct sim_svg *s);
void sim_svg_y_ticks(struct sim_svg *s);
void sim_svg_x_name(struct sim_svg *s, double x, const char *name);

/* Marks, in values. */
void sim_svg_bar(struct sim_svg *s, double x, double width, double from, double to,
                 const char *color, const char *fmt, ...) __attribute__((format(printf, 7, 8)));
/* A box from the lower to the upper quartile, whiskers to minimum and maximum, a line at the
 * median. */
void sim_svg_box(struct sim_svg *s, double x, double width, const double q[5], const char *color,
                 const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The i-th of the names of colors, in a row below the title. */
void sim_svg_legend(struct sim_svg *s, size_t i, const char *color, const char *name);

#endif
