/* ssh as the parent of a broker on another host.
 *
 * Purpose: for the nursery, ssh is the broker: its end is the broker's end, its exit code the
 * broker's.  What a socketpair is for a broker on this host, PMI_FD, is a connection to ssh here,
 * whose standard input and output it is (boot_ssh_wire.h).  flux-broker --remote, which ssh runs
 * there, is at the other end (boot_remote.c).
 *
 * state      left when
 * WAITING    the greeting comes: the arguments are sent
 * GREETED    the other end closes the PMI dialog
 * RUNNING    ssh ends
 *
 * Invariants:
 *  1. The command line of ssh names the host and the path of flux-broker, and nothing else about
 *     the session.  The rest goes through the connection.
 *  2. ssh asks nobody (BatchMode): it gets no terminal, and fails where it would have to ask.
 *     Words of the user come before the options that are added here, and ssh uses the first of two.
 *  3. What is sent before it is read is bounded: the arguments, then one answer per request of the
 *     PMI dialog.  The socket holds that, so no call blocks; a connection that does not take it
 *     counts as broken.
 *  4. Of what ssh prints before the greeting, the last line is kept, and printed when the broker
 *     greets; if it does not, that line is part of the error message.  Later lines are printed, and
 *     the last one is kept as the reason why the broker has ended.
 *  5. The state changes by the transitions of `moves` only, each made by the function that is named
 *     there.
 *
 * Failure: boot_ssh_explain() has the sentences.  ssh exits with 255 if the connection fails; a
 * broker never does.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_ssh.h"
#include "boot_ssh_wire.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"

#define LINE_SIZE 4096
#define ERR_READS 16 /* of LINE_SIZE bytes */
#define READ_SIZE 65536
#define LOST 255 /* exit code of ssh */

enum state { WAITING, GREETED, RUNNING };

static const struct transition moves[] = {
    {WAITING, GREETED, "greeting"},
    {GREETED, RUNNING, "boot_ssh_pmi_next"},
    TRANSITION_END,
};

struct boot_ssh {
    const struct boot_ssh_config *cfg;
    const char *host;
    uint32_t rank;
    bool again;
    char broker[PATH_MAX];
    pid_t pid;
    int fd, err;
    enum state state;
    bool broken; /* the reason was told */
    buf_t *in;
    size_t used;          /* bytes of `in` that were passed on */
    buf_t *lines;         /* of standard error, not printed yet */
    char last[LINE_SIZE]; /* line before the greeting, and then since it; "": none */
};

static void enter(boot_ssh_t *s, enum state state)
{
    TRANSITION(5, moves, s->state, state);
    s->state = state;
}

/* --- starting ssh --- */

/* exec '/path/flux-broker' --remote, for any shell. */
static char *remote_command(const char *path)
{
    char *text = malloc(4 * strlen(path) + sizeof("exec '' --remote"));
    char *p = text;

    if (!text)
        return NULL;
    p = stpcpy(p, "exec '");
    for (; *path; path++) {
        if (*path == '\'')
            p = stpcpy(p, "'\\''");
        else
            *p++ = *path;
    }
    strcpy(p, "' --remote");
    return text;
}

static strvec_t *ssh_words(const boot_ssh_t *s)
{
    static const char *const added[] = {
        "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
    strvec_t *given = strvec_split(s->cfg->program, ' '), *words = strvec_create();
    char *command = remote_command(s->broker);
    int rc = given && words && command ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < strvec_count(given); i++) {
        if (strvec_at(given, i)[0])
            rc = strvec_add(words, strvec_at(given, i));
    }
    for (size_t i = 0; rc == 0 && i < sizeof(added) / sizeof(added[0]); i++)
        rc = strvec_add(words, added[i]);
    if (rc == 0 && strvec_add(words, s->host) == 0 && strvec_add(words, command) == 0) {
        free(command);
        strvec_destroy(given);
        return words;
    }
    free(command);
    strvec_destroy(given);
    strvec_destroy(words);
    return NULL;
}

static void become_ssh(const strvec_t *words, int fd, int errfd, const sigset_t *mask, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(LOST);
    setpgid(0, 0); /* ^C at the terminal is not for it */
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(errfd, STDERR_FILENO) < 0)
        _exit(LOST);
    execvp(strvec_at(words, 0), strvec_argv(words));
    fprintf(stderr, "%s cannot be run: %s\n", strvec_at(words, 0), strerror(errno));
    _exit(LOST);
}

/* Set pid, fd and err. */
static int fork_ssh(boot_ssh_t *s, const strvec_t *words, const sigset_t *mask)
{
    pid_t parent = getpid();
    int sock[2], pipefd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0)
        return -1;
    s->fd = sock[0];
    if (pipe2(pipefd, O_CLOEXEC) < 0) {
        close(sock[1]);
        return -1;
    }
    s->err = pipefd[0];
    if ((s->pid = fork()) == 0)
        become_ssh(words, sock[1], pipefd[1], mask, parent);
    close(sock[1]);
    close(pipefd[1]);
    return s->pid < 0 || fd_set_nonblock(s->fd, 1) < 0 || fd_set_nonblock(s->err, 1) < 0 ? -1 : 0;
}

boot_ssh_t *boot_ssh_start(const struct boot_ssh_config *cfg, uint32_t rank, bool again,
                           const sigset_t *mask, errmsg_t *err)
{
    boot_ssh_t *s = calloc(1, sizeof(*s));
    strvec_t *words = NULL;
    ssize_t len;

    if (s) {
        s->cfg = cfg;
        s->rank = rank;
        s->again = again;
        s->host = boot_hosts_name(cfg->hosts, rank);
        s->fd = s->err = -1;
        len = readlink("/proc/self/exe", s->broker, sizeof(s->broker) - 1);
        if (len > 0 && (s->in = buf_create(0)) && (s->lines = buf_create(0)) &&
            (words = ssh_words(s)) && fork_ssh(s, words, mask) == 0) {
            strvec_destroy(words);
            return s;
        }
    }
    errmsg_fail(err, errno, "cannot start ssh for host %.64s: %s",
                boot_hosts_name(cfg->hosts, rank), strerror(errno));
    strvec_destroy(words);
    boot_ssh_destroy(s);
    return NULL;
}

void boot_ssh_destroy(boot_ssh_t *s)
{
    int saved = errno;

    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->err >= 0)
        close(s->err);
    buf_destroy(s->in);
    buf_destroy(s->lines);
    free(s);
    errno = saved;
}

pid_t boot_ssh_pid(const boot_ssh_t *s)
{
    return s->pid;
}

int boot_ssh_fd(const boot_ssh_t *s)
{
    return s->fd;
}

int boot_ssh_err(const boot_ssh_t *s)
{
    return s->err;
}

/* --- standard error --- */

static void print_line(boot_ssh_t *s, const char *line, size_t len)
{
    char text[LINE_SIZE];

    snprintf(text, sizeof(text), "%.*s", (int)len, line);
    str_clean(text);
    while (str_ends(text, " ")) /* a carriage return was there */
        text[strlen(text) - 1] = '\0';
    if (text[0])
        memcpy(s->last, text, sizeof(text));
    if (s->state != WAITING || s->cfg->verbose)
        fprintf(stderr, "%s: %s\n", s->host, text);
}

/* The whole lines that are there; `all`: an incomplete one, too. */
static void print_lines(boot_ssh_t *s, bool all)
{
    const char *data, *end;
    size_t len;

    while ((len = buf_len(s->lines)) > 0) {
        data = buf_data(s->lines);
        end = memchr(data, '\n', len);
        if (!end && !all && len < LINE_SIZE - 1)
            return;
        len = end ? (size_t)(end - data) : len < LINE_SIZE - 1 ? len : LINE_SIZE - 1;
        print_line(s, data, len);
        buf_consume(s->lines, end ? len + 1 : len);
    }
}

void boot_ssh_read_err(boot_ssh_t *s)
{
    char data[LINE_SIZE];
    ssize_t n = 1;

    /* At most what a pipe holds: then others have their turn. */
    for (int i = 0; s->err >= 0 && n > 0 && i < ERR_READS; i++) {
        n = read(s->err, data, sizeof(data));
        if (n > 0 && buf_append(s->lines, data, (size_t)n) == 0)
            print_lines(s, false);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            close(s->err);
            s->err = -1;
        }
    }
    if (s->err < 0)
        print_lines(s, true);
}

const char *boot_ssh_last(const boot_ssh_t *s)
{
    return s->last;
}

/* --- the connection --- */

static int send_frame(boot_ssh_t *s, char type, const void *data, size_t len)
{
    char header[BOOT_FRAME_HEADER];
    struct iovec iov[2] = {{header, sizeof(header)}, {(void *)data, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n;

    if (s->fd < 0) {
        errno = EPIPE;
        return -1;
    }
    boot_frame_header(header, type, len);
    n = sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t)(sizeof(header) + len))
        return 0;
    if (n >= 0)
        errno = EAGAIN;
    return -1;
}

static int send_args(boot_ssh_t *s, errmsg_t *err)
{
    const char *address = boot_hosts_address(s->cfg->hosts, s->rank);
    char dir[PATH_MAX];
    struct boot_remote_args a = {.dir = getcwd(dir, sizeof(dir)) ? dir : "/",
                                 .rank = s->rank,
                                 .size = boot_hosts_size(s->cfg->hosts),
                                 .again = s->again,
                                 .options = strvec_copy_argv(strvec_argv(s->cfg->options))};
    char *data = NULL;
    size_t len;
    int rc = -1;

    if (a.options && (!s->cfg->addresses || !address ||
                      strvec_addf(a.options, "--set=tcp.address=%s", address) == 0))
        data = boot_remote_args_encode(&a, &len);
    if (data)
        rc = send_frame(s, BOOT_FRAME_ARGS, data, len);
    if (rc < 0)
        errmsg_fail(err, errno, "host %.64s: the settings of the session cannot be sent: %s",
                    s->host, strerror(errno));
    free(data);
    strvec_destroy(a.options);
    return rc;
}

/* Look for the greeting in what was read.  -1 with an error message. */
static int greeting(boot_ssh_t *s, errmsg_t *err)
{
    char version[64];
    size_t used;
    int rc = boot_greeting_find(buf_data(s->in), buf_len(s->in), version, sizeof(version), &used);

    if (rc < 0)
        return errmsg_fail(err, EPROTO, "host %.64s: the shell prints too much before it starts %s",
                           s->host, s->broker);
    if (rc == 0)
        return 0;
    if (strcmp(version, PACKAGE_VERSION) != 0)
        return errmsg_fail(err, EPROTO,
                           "host %.64s has flux %.60s, this host %s: install the same version",
                           s->host, version, PACKAGE_VERSION);
    buf_consume(s->in, used);
    boot_ssh_read_err(s);
    enter(s, GREETED);
    if (s->last[0] && !s->cfg->verbose)
        fprintf(stderr, "%s: %s\n", s->host, s->last);
    s->last[0] = '\0';
    return send_args(s, err);
}

int boot_ssh_read(boot_ssh_t *s, errmsg_t *err)
{
    ssize_t n;
    void *p;

    err->text[0] = '\0';
    if (s->fd < 0)
        return -1;
    if (!(p = buf_reserve(s->in, READ_SIZE)))
        return errmsg_fail(err, errno, "out of memory for host %.64s", s->host);
    n = read(s->fd, p, READ_SIZE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        close(s->fd);
        s->fd = -1;
        return -1;
    }
    buf_commit(s->in, (size_t)n);
    if (s->state == RUNNING) /* nothing more is expected */
        buf_consume(s->in, buf_len(s->in));
    if (s->state != WAITING || s->broken || greeting(s, err) == 0)
        return 1;
    s->broken = true;
    return -1;
}

int boot_ssh_pmi_next(boot_ssh_t *s, const char **data, size_t *len)
{
    struct boot_frame f;
    int rc;

    buf_consume(s->in, s->used);
    s->used = 0;
    if (s->state != GREETED || s->broken)
        return 0;
    rc = boot_frame_first(buf_data(s->in), buf_len(s->in), &f, &s->used);
    if (rc == 0)
        return 0;
    if (rc < 0 || f.type != BOOT_FRAME_PMI) {
        s->used = buf_len(s->in);
        enter(s, RUNNING); /* by BOOT_FRAME_PMI_END, or because it breaks the rules */
        return -1;
    }
    *data = f.data;
    *len = f.len;
    return 1;
}

int boot_ssh_pmi_send(boot_ssh_t *s, const void *data, size_t len)
{
    const char *p = data;
    size_t n;

    for (; len > 0; p += n, len -= n) {
        n = len < BOOT_FRAME_MAX ? len : BOOT_FRAME_MAX;
        if (send_frame(s, BOOT_FRAME_PMI, p, n) < 0)
            return -1;
    }
    return 0;
}

bool boot_ssh_greeted(const boot_ssh_t *s)
{
    return s->state != WAITING;
}

void boot_ssh_signal(boot_ssh_t *s, int signum)
{
    char byte = (char)signum;

    if (s->state == WAITING || send_frame(s, BOOT_FRAME_SIGNAL, &byte, 1) < 0)
        kill(s->pid, SIGTERM);
}

void boot_ssh_cut(boot_ssh_t *s)
{
    kill(s->pid, SIGKILL);
}

bool boot_ssh_lost(boot_ssh_t *s, int status, errmsg_t *err)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : LOST;

    boot_ssh_read_err(s);
    if (s->state == WAITING)
        boot_ssh_explain(s->host, code, s->last, s->broker, err);
    else if (code == LOST)
        errmsg_fail(err, ECONNRESET, "the ssh connection to host %.64s was lost", s->host);
    else
        return false;
    return true;
}
