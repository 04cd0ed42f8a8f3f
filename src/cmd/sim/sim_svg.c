/* sim_svg.c - charts in SVG.
 *
 * Coordinates are rounded to a tenth of a pixel, so equal values give equal bytes.  All colors and
 * fonts are attributes of the elements, so a figure that is cut out of its page looks the same.
 *
 * Invariants:
 *  1. Values outside the frame are drawn at its edge; a value that is not finite is not drawn.
 *  2. The output is well-formed XML for any texts.
 *
 * Failure: none of its own; the stream records errors.
 */
#include "config.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "sim_svg.h"

#define INK "#333333"
#define GRID "#dddddd"

const char *sim_svg_color(size_t i)
{
    static const char *const colors[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                         "#56b4e9", "#d55e00", "#f0e442", "#666666"};

    return colors[i % (sizeof(colors) / sizeof(colors[0]))];
}

/* --- text --- */

/* Length of the character of UTF-8 that begins here, 0 when it is none [RFC 3629, section 4]. */
static size_t character(const unsigned char *s)
{
    static const struct {
        unsigned char first, last, low, high;
        size_t n;
    } kinds[] = {
        {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xee, 0x80, 0xbf, 3},
        {0xef, 0xef, 0x80, 0xbe, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (*s < kinds[i].first || *s > kinds[i].last)
            continue;
        if (kinds[i].n > 1 && (s[1] < kinds[i].low || s[1] > kinds[i].high))
            return 0;
        for (size_t k = 2; k < kinds[i].n; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return kinds[i].n;
    }
    return 0;
}

void sim_svg_text(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    while (*s) {
        size_t n = character(s);

        if (n == 0)
            putc('?', f);
        else if (*s == '&')
            fputs("&amp;", f);
        else if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else if (*s == '"')
            fputs("&quot;", f);
        else
            fwrite(s, 1, n, f);
        s += n > 0 ? n : 1;
    }
}

static void put_text(struct sim_svg *s, double x, double y, const char *attributes,
                     const char *text)
{
    fprintf(s->f, "<text x=\"%.1f\" y=\"%.1f\" fill=\"" INK "\" %s>", x, y, attributes);
    sim_svg_text(s->f, text);
    fputs("</text>\n", s->f);
}

/* The tooltip of the element that is open. */
static void put_title(struct sim_svg *s, const char *fmt, va_list ap)
{
    char text[512];

    vsnprintf(text, sizeof(text), fmt, ap);
    fputs("<title>", s->f);
    sim_svg_text(s->f, text);
    fputs("</title>", s->f);
}

/* --- values to pixels --- */

static double clamp(double v, double lo, double hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static double at_x(const struct sim_svg *s, double x)
{
    double part = (clamp(x, s->x0, s->x1) - s->x0) / (s->x1 - s->x0);

    return s->left + part * (s->width - s->left - s->right);
}

static double at_y(const struct sim_svg *s, double y)
{
    double part;

    y = clamp(y, s->y0, s->y1);
    part = s->log_y ? log(y / s->y0) / log(s->y1 / s->y0) : (y - s->y0) / (s->y1 - s->y0);
    return s->height - s->bottom - part * (s->height - s->top - s->bottom);
}

/* A round number, about a fifth of `span`. */
static double round_step(double span)
{
    double power = pow(10, floor(log10(span / 5))), x = span / 5 / power;

    return power * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

/* The number of the first tick at or above `from`; 0 without a sign. */
static double first_tick(double from, double step)
{
    return ceil(from / step - 1e-9) + 0.0;
}

/* --- the frame --- */

static void round_up_y(struct sim_svg *s)
{
    double step = round_step(s->y1 - s->y0);

    if (s->log_y)
        s->y1 = pow(10, ceil(log10(s->y1)));
    else if (!s->exact_y)
        s->y1 = s->y0 + ceil((s->y1 - s->y0) / step - 1e-9) * step;
}

void sim_svg_begin(struct sim_svg *s, const char *id, const char *title, const char *xlabel,
                   const char *ylabel)
{
    char turned[96];

    s->width = s->width > 0 ? s->width : 760;
    s->height = s->height > 0 ? s->height : 330;
    s->left = 70;
    s->right = 20;
    s->top = 58;
    s->bottom = 52;
    if (!(s->x1 > s->x0))
        s->x1 = s->x0 + 1;
    if (!(s->y1 > s->y0))
        s->y1 = s->log_y ? s->y0 * 10 : s->y0 + 1;
    round_up_y(s);
    fprintf(s->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" role=\"img\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<title>",
            id, s->width, s->height, s->width, s->height);
    sim_svg_text(s->f, title);
    fprintf(s->f, "</title>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", s->width,
            s->height);
    put_text(s, s->left, 20, "font-size=\"15\" font-weight=\"bold\"", title);
    put_text(s, (s->left + s->width - s->right) / 2, s->height - 10, "text-anchor=\"middle\"",
             xlabel);
    snprintf(turned, sizeof(turned), "text-anchor=\"middle\" transform=\"rotate(-90 16 %.1f)\"",
             (s->top + s->height - s->bottom) / 2);
    put_text(s, 16, (s->top + s->height - s->bottom) / 2, turned, ylabel);
}

void sim_svg_end(struct sim_svg *s)
{
    fprintf(s->f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
            "stroke=\"" INK "\"/>\n</svg>\n",
            s->left, s->top, s->width - s->left - s->right, s->height - s->top - s->bottom);
}

static void put_line(struct sim_svg *s, double x0, double y0, double x1, double y1,
                     const char *color)
{
    fprintf(s->f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x0, y0,
            x1, y1, color);
}

static void y_tick(struct sim_svg *s, double v)
{
    char text[32];
    double y = at_y(s, v);

    snprintf(text, sizeof(text), "%.6g", v);
    put_line(s, s->left, y, s->width - s->right, y, GRID);
    put_text(s, s->left - 6, y + 4, "text-anchor=\"end\"", text);
}

void sim_svg_y_ticks(struct sim_svg *s)
{
    double step = round_step(s->y1 - s->y0);

    if (s->log_y) {
        for (double v = pow(10, ceil(log10(s->y0) - 1e-9)); v <= s->y1 * 1.001; v *= 10)
            y_tick(s, v);
        return;
    }
    for (double i = first_tick(s->y0, step); i * step <= s->y1 + step * 1e-6; i++)
        y_tick(s, i * step);
}

void sim_svg_x_name(struct sim_svg *s, double x, const char *name)
{
    put_text(s, at_x(s, x), s->height - s->bottom + 17, "text-anchor=\"middle\"", name);
}

void sim_svg_x_ticks(struct sim_svg *s)
{
    double step = round_step(s->x1 - s->x0);
    char text[32];

    for (double i = first_tick(s->x0, step); i * step <= s->x1 + step * 1e-6; i++) {
        double x = at_x(s, i * step);

        snprintf(text, sizeof(text), "%.6g", i * step);
        put_line(s, x, s->height - s->bottom, x, s->height - s->bottom + 4, INK);
        sim_svg_x_name(s, i * step, text);
    }
}

/* --- marks --- */

void sim_svg_bar(struct sim_svg *s, double x, double width, double from, double to,
                 const char *color, const char *fmt, ...)
{
    double left = at_x(s, x), right = at_x(s, x + width), low, high;
    va_list ap;

    if (!isfinite(x) || !isfinite(width) || !isfinite(from) || !isfinite(to))
        return;
    low = at_y(s, from);
    high = at_y(s, to);
    /* What is there is seen, however thin. */
    fprintf(s->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\">", left,
            high, right - left > 0.3 ? right - left : 0.3, low - high > 0.3 ? low - high : 0.3,
            color);
    va_start(ap, fmt);
    put_title(s, fmt, ap);
    va_end(ap);
    fputs("</rect>\n", s->f);
}

void sim_svg_box(struct sim_svg *s, double x, double width, const double q[5], const char *color,
                 const char *fmt, ...)
{
    double left = at_x(s, x), right = at_x(s, x + width), y[5];
    va_list ap;

    for (int i = 0; i < 5; i++) {
        if (!isfinite(q[i]))
            return;
        y[i] = at_y(s, q[i]);
    }
    fputs("<g>", s->f);
    va_start(ap, fmt);
    put_title(s, fmt, ap);
    va_end(ap);
    putc('\n', s->f);
    put_line(s, (left + right) / 2, y[0], (left + right) / 2, y[4], INK);
    put_line(s, left + (right - left) / 4, y[0], right - (right - left) / 4, y[0], INK);
    put_line(s, left + (right - left) / 4, y[4], right - (right - left) / 4, y[4], INK);
    fprintf(s->f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
            "stroke=\"" INK "\"/>\n",
            left, y[3], right - left, y[1] - y[3], color);
    fprintf(s->f,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#000000\" "
            "stroke-width=\"2\"/></g>\n",
            left, y[2], right, y[2]);
}

void sim_svg_legend(struct sim_svg *s, size_t i, const char *color, const char *name)
{
    double step = (s->width - s->left - s->right) / 4;
    double x = s->left + step * (double)(i % 4), y = 34 + 14 * (double)(i / 4);

    fprintf(s->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x,
            y - 3, color);
    put_text(s, x + 14, y + 6, "font-size=\"11\"", name);
}
