/* flux-top.c - flux top: show the activity of a session on the whole screen of a terminal.
 *
 * This is a separate program, so that `flux` does not need the terminal library.
 *
 *    layer            responsibility
 *    topdata.c        the session: queries it when something has changed
 *    topview.c        the screen, as lines
 *    this file        the terminal, keys, and opening and leaving sessions
 *
 * Opened sessions form a stack of connections; the last one is shown.  When a session ends, it is
 * removed from the stack together with those above it.  The first connection may return
 * (FLUX_O_RECONNECT); while it is lost, the screen keeps what it shows, and says so.
 *
 * Failure: an error message if the terminal cannot be used; --batch does not need one.
 */
#include "config.h"
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../cmd_private.h"
#include "../nest/nestlink.h"
#include "../nest/nesturi.h"
#include "topdata.h"
#include "libutil/clock.h"

#define TICK 1. /* seconds: times on the screen go on */
#define PLACES_MAX NESTURI_LEVELS_MAX
#define LINES_MAX 1000
#define BATCH_WIDTH 100

enum { OPT_RELAY = CMD_KEY(0) };

static const struct cmd_opt opts[] = {
    {'b', "batch", NULL, "print the contents of the screen once, as text, and exit"},
    {OPT_RELAY, "relay", NULL, "connect through the enclosing sessions, even on the same host"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [ID[/ID...]]",
    "Show the activity of this session, or of the session of job ID, on the whole screen: nodes "
    "and\n"
    "cores in use, and the running and pending jobs.",
    opts,
    "Keys: up, down, j, k, Page Up, Page Down, Home, End: select a job; Enter, right: open its\n"
    "session; left, Backspace: return to the parent session; p: show or hide pending jobs;\n"
    "r: refresh; ?: show these keys; q: quit.",
    0,
};

struct place {
    nestlink_t *link; /* NULL: the first */
    flux_t *h;
    const char *uri;
    uint64_t id;
};

struct top {
    struct cmd *c;
    flux_reactor_t *r;
    struct place places[PLACES_MAX];
    size_t n;
    struct topmodel model;
    topdata_t *data;
    bool relay, batch, pending;
    bool screen;    /* ncurses is at work */
    int stderr_was; /* what relays say must not come between */
    bool colors;
    bool away; /* the first connection is lost, and may return */
    int code;
    size_t leave; /* number of places to return to in the next pass; 0: stay */
    bool enter;   /* the selected session, in the next pass */
    flux_watcher_t *later;
    struct topline lines[LINES_MAX];
};

/* --- drawing --- */

static attr_t attributes(const struct top *t, enum top_style style)
{
    switch (style) {
    case TOP_TITLE:
        return A_BOLD;
    case TOP_HEADER:
        return A_REVERSE;
    case TOP_SELECTED:
        return t->colors ? (attr_t)COLOR_PAIR(1) | A_BOLD : A_STANDOUT;
    case TOP_DIM:
        return A_DIM;
    case TOP_ERROR:
        return t->colors ? (attr_t)COLOR_PAIR(2) | A_BOLD : A_BOLD;
    default:
        return A_NORMAL;
    }
}

static void draw(struct top *t)
{
    size_t n, rows = LINES > 0 ? (size_t)LINES : 1, cols = COLS > 0 ? (size_t)COLS : 1;

    if (!t->screen)
        return;
    t->model.now = clock_wall();
    t->model.away = t->away && t->n == 1;
    n = topview_render(&t->model, t->lines, rows < LINES_MAX ? rows : LINES_MAX, cols);
    erase();
    for (size_t i = 0; i < n; i++) {
        /* The last line is the last of the screen. */
        int y = i + 1 == n && n > 1 ? (int)rows - 1 : (int)i;
        attr_t a = attributes(t, t->lines[i].style);

        attron(a);
        mvaddnstr(y, 0, t->lines[i].text, -1);
        if (t->lines[i].style == TOP_HEADER || t->lines[i].style == TOP_SELECTED) {
            for (int x = getcurx(stdscr); x < (int)cols && getcury(stdscr) == y; x++)
                mvaddch(y, x, ' ');
        }
        attroff(a);
    }
    refresh();
}

static void print_batch(struct top *t)
{
    const char *columns = getenv("COLUMNS");
    size_t n, cols = columns && atoi(columns) > 0 ? (size_t)atoi(columns) : BATCH_WIDTH;

    t->model.now = clock_wall();
    n = topview_render(&t->model, t->lines, LINES_MAX, cols);
    /* Without the line of keys, unless it is a message. */
    for (size_t i = 0; i + (t->model.message[0] == '\0') < n; i++) {
        size_t len = strlen(t->lines[i].text);
        while (len > 0 && t->lines[i].text[len - 1] == ' ')
            len--;
        printf("%.*s\n", (int)len, t->lines[i].text);
    }
    t->code = t->model.message[0] ? CMD_FAIL : CMD_OK;
}

static void changed_cb(void *arg)
{
    struct top *t = arg;

    if (t->batch && topdata_complete(t->data)) {
        flux_reactor_stop(t->r, 0);
        return;
    }
    draw(t);
}

/* --- sessions --- */

static void lost_cb(flux_t *h, void *arg)
{
    struct top *t = arg;

    for (size_t i = 0; i < t->n; i++) {
        if (t->places[i].h == h && (t->leave == 0 || i < t->leave)) {
            if (i == 0) {
                t->code = CMD_FAIL;
                flux_reactor_stop(t->r, 1);
                return;
            }
            t->leave = i;
            flux_watcher_start(t->later);
        }
    }
}

static void away_cb(flux_t *h, void *arg)
{
    struct top *t = arg;

    t->away = true;
    draw(t);
}

static void back_cb(void *arg)
{
    struct top *t = arg;

    t->away = false;
    if (t->data)
        topdata_refresh(t->data);
    draw(t);
}

static void show_last(struct top *t)
{
    struct topmodel *m = &t->model;
    char message[sizeof(m->message)];
    size_t len = 0;
    bool help = m->help;

    memcpy(message, m->message, sizeof(message));
    topdata_destroy(t->data);
    memset(m, 0, sizeof(*m));
    memcpy(m->message, message, sizeof(message));
    m->help = help;
    for (size_t i = 1; i < t->n; i++)
        len += (size_t)snprintf(m->path + len, sizeof(m->path) - len, "%s%" PRIu64,
                                i > 1 ? "/" : "", t->places[i].id);
    t->data = topdata_create(t->places[t->n - 1].h, m, changed_cb, t);
    if (t->data && !t->pending)
        topdata_show_pending(t->data, false);
}

static int enter(struct top *t, uint64_t id, const char *address, errmsg_t *err)
{
    struct place *from = &t->places[t->n - 1], *p = &t->places[t->n];

    if (t->n == PLACES_MAX)
        return errmsg_fail(err, ELOOP, "sessions are nested too deeply");
    if (!(p->link = nestlink_open(from->uri, address, t->relay, t->r, err)))
        return -1;
    p->h = nestlink_handle(p->link);
    p->uri = nestlink_uri(p->link);
    p->id = id;
    flux_set_lost_handler(p->h, lost_cb, t);
    t->n++;
    return 0;
}

static void leave_to(struct top *t, size_t n)
{
    topdata_destroy(t->data);
    t->data = NULL;
    while (t->n > n)
        nestlink_close(t->places[--t->n].link);
}

static void later_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct top *t = arg;
    const struct topmodel *m = &t->model;
    errmsg_t err;

    if (t->leave > 0) {
        leave_to(t, t->leave);
        t->leave = 0;
        t->model.message[0] = '\0';
        show_last(t);
    } else if (t->enter && m->selected < m->nrows) {
        uint64_t id = m->rows[m->selected].id;
        const char *address = topdata_address(t->data, id);

        if (!address)
            snprintf(t->model.message, sizeof(t->model.message), "job %" PRIu64 " is not a session",
                     id);
        else if (enter(t, id, address, &err) < 0)
            snprintf(t->model.message, sizeof(t->model.message), "%.150s", err.text);
        else {
            t->model.message[0] = '\0';
            show_last(t);
        }
    }
    t->enter = false;
    draw(t);
}

/* --- keys --- */

static void select_row(struct top *t, long step)
{
    long at = (long)t->model.selected + step, last = (long)t->model.nrows - 1;

    at = at > last ? last : at;
    t->model.selected = at < 0 ? 0 : (size_t)at;
}

/* False: quit. */
static bool key(struct top *t, int k)
{
    long page = LINES > 8 ? LINES - 8 : 1;

    t->model.message[0] = '\0';
    switch (k) {
    case 'q':
    case 'Q':
        return false;
    case KEY_UP:
    case 'k':
        select_row(t, -1);
        break;
    case KEY_DOWN:
    case 'j':
        select_row(t, 1);
        break;
    case KEY_PPAGE:
        select_row(t, -page);
        break;
    case KEY_NPAGE:
        select_row(t, page);
        break;
    case KEY_HOME:
    case 'g':
        t->model.selected = 0;
        break;
    case KEY_END:
    case 'G':
        select_row(t, (long)t->model.nrows);
        break;
    case KEY_ENTER:
    case '\r':
    case '\n':
    case KEY_RIGHT:
    case 'l':
        t->enter = true;
        flux_watcher_start(t->later);
        break;
    case KEY_LEFT:
    case KEY_BACKSPACE:
    case 127:
    case 'h':
        if (t->n > 1) {
            t->leave = t->n - 1;
            flux_watcher_start(t->later);
        }
        break;
    case 'p':
        t->pending = !t->pending;
        topdata_show_pending(t->data, t->pending);
        break;
    case 'r':
        topdata_refresh(t->data);
        break;
    case '?':
        t->model.help = !t->model.help;
        break;
    default:
        break;
    }
    return true;
}

static void input_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct top *t = arg;
    struct pollfd pfd = {STDIN_FILENO, POLLIN, 0};
    int k, n = 0;

    while ((k = getch()) != ERR) {
        n++;
        if (!key(t, k)) {
            flux_reactor_stop(r, 0);
            return;
        }
    }
    if (n == 0 && poll(&pfd, 1, 0) > 0 && pfd.revents & (POLLHUP | POLLERR)) {
        flux_reactor_stop(r, 0); /* the terminal was closed */
        return;
    }
    draw(t);
}

static void resized_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct winsize ws;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_row > 0 && ws.ws_col > 0) {
        resizeterm(ws.ws_row, ws.ws_col);
        clear();
    }
    draw(arg);
}

static void end_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static void tick_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    draw(arg);
}

/* --- the whole --- */

static int start_screen(struct top *t)
{
    const char *term = getenv("TERM");
    SCREEN *s;
    int fd;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return cmd_error(t->c, "standard input and output are not a terminal; use --batch");
    setlocale(LC_ALL, "");
    if (!(s = newterm(NULL, stdout, stdin)))
        return cmd_error(t->c, "the terminal '%s' is unknown; set TERM", term ? term : "");
    set_term(s);
    t->screen = true;
    if (isatty(STDERR_FILENO) && (fd = open("/dev/null", O_WRONLY | O_CLOEXEC)) >= 0) {
        t->stderr_was = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        dup2(fd, STDERR_FILENO);
        close(fd);
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
        t->colors =
            init_pair(1, COLOR_BLACK, COLOR_CYAN) == OK && init_pair(2, COLOR_RED, -1) == OK;
    }
    return CMD_OK;
}

static int watch_all(struct top *t)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    flux_watcher_t *w[3 + sizeof(ends) / sizeof(ends[0])] = {NULL};
    const size_t n = sizeof(w) / sizeof(w[0]);
    int rc = CMD_OK;

    w[0] = flux_fd_watcher_create(t->r, STDIN_FILENO, FLUX_POLLIN, input_cb, t);
    w[1] = flux_signal_watcher_create(t->r, SIGWINCH, resized_cb, t);
    w[2] = flux_timer_create(t->r, tick_cb, t);
    for (size_t i = 3; i < n; i++)
        w[i] = flux_signal_watcher_create(t->r, ends[i - 3], end_cb, t);
    for (size_t i = 0; i < n; i++) {
        if (!w[i])
            rc = CMD_FAIL;
        else if (i == 2)
            flux_timer_start(w[i], TICK, TICK);
        else
            flux_watcher_start(w[i]);
    }
    if (rc == CMD_OK) {
        draw(t);
        flux_reactor_run(t->r);
    }
    for (size_t i = 0; i < n; i++)
        flux_watcher_destroy(w[i]);
    return rc == CMD_OK ? t->code : cmd_error(t->c, "out of memory");
}

static int run(struct top *t, const char *where)
{
    uint64_t ids[NESTURI_LEVELS_MAX];
    errmsg_t err;
    int n = 0, rc;

    if (where && (n = nesturi_path(where, ids, NESTURI_LEVELS_MAX - 1, &err)) < 0)
        return cmd_usage_error(t->c, "%s", err.text);
    if (!t->batch)
        cmd_returns(t->c);
    if (!(t->places[0].h = cmd_handle_signals(t->c)))
        return CMD_FAIL;
    t->places[0].uri = flux_default_uri();
    t->n = 1;
    t->r = flux_get_reactor(t->places[0].h);
    flux_set_lost_handler(t->places[0].h, lost_cb, t);
    flux_set_away_handler(t->places[0].h, away_cb, t);
    cmd_on_return(t->c, back_cb, t);
    if (!(t->later = flux_defer_create(t->r, later_cb, t)))
        return cmd_error(t->c, "out of memory");
    for (int i = 0; i < n; i++) {
        char *address = nestlink_find(t->places[t->n - 1].h, ids[i], &err);

        rc = address ? enter(t, ids[i], address, &err) : -1;
        free(address);
        if (rc < 0)
            return cmd_error(t->c, "%s", err.text);
    }
    if (!t->batch && (rc = start_screen(t)) != CMD_OK)
        return rc;
    show_last(t);
    if (!t->data)
        return cmd_error(t->c, "out of memory");
    if (!t->batch)
        return watch_all(t);
    flux_reactor_run(t->r);
    if (t->code == CMD_OK)
        print_batch(t);
    return t->code;
}

int main(int argc, char **argv)
{
    struct cmd_private priv = {0};
    struct cmd c = {.name = "top", .priv = &priv};
    struct top *t = calloc(1, sizeof(*t));
    const char *val;
    int k, rc;

    if (!t)
        return cmd_error(&c, "out of memory");
    t->c = &c;
    t->pending = true;
    while ((k = cmd_option(&c, &usage, argc, argv, &val)) > 0) {
        if (k == 'b')
            t->batch = true;
        else
            t->relay = true;
    }
    if (k < 0)
        rc = cmd_option_exit(k);
    else if (argc - c.optind > 1)
        rc = cmd_usage_error(&c, "at most one path of ids is expected");
    else
        rc = run(t, argv[c.optind]);
    if (t->screen)
        endwin();
    if (t->stderr_was > 0) {
        dup2(t->stderr_was, STDERR_FILENO);
        close(t->stderr_was);
    }
    if (t->code == CMD_FAIL && !t->batch)
        cmd_error(&c, "the connection to the broker was lost");
    if (t->n > 0)
        leave_to(t, 1);
    flux_watcher_destroy(t->later);
    free(t);
    flux_close(priv.h);
    flux_reactor_destroy(priv.reactor);
    fflush(stdout);
    return rc;
}
