/* pmi_launch.c - start a command N times on this host and serve it by PMI: the harness that shows
 * whether real MPI libraries start over this code, without any broker.
 *
 *   pmi_launch [-n TASKS] [-N NODES] [-l LIBPMI] [-p] [-s] COMMAND [ARG...]
 *
 * -N divides the tasks among that number of simulated nodes, each with a server of its own; their
 * barriers meet in this process as they would in a tree, by concatenated blobs.  -l sets what Open
 * MPI needs in the environment.  -p serves by PMI_PORT instead of PMI_FD.  -s prints figures on
 * stderr.
 *
 * The exit code is the largest of the tasks', or the one of an abort; 124 after 60 s.
 */
#include "config.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libpmi/pmi_mapping.h"
#include "libpmi/pmi_server.h"
#include "libpmi/pmi_wire.h"
#include "libutil/buf.h"

#define LIMIT_MS 60000

struct node;

struct task {
    struct node *node;
    size_t local;
    pid_t pid;
    int fd; /* -1: closed, or (with -p) not connected yet */
    buf_t *queue;
};

struct node {
    struct pmi_server *server;
    uint32_t *ranks;
    size_t ntasks;
    uint32_t first;
    char backing[64];
    bool entered;
};

struct stranger { /* a connection to the port that has not said who it is */
    int fd;
};

static int ntasks = 1, nnodes = 1;
static const char *libpmi;
static bool by_port, figures;
static struct task *tasks;
static struct node *nodes;
static struct stranger *strangers;
static size_t nstrangers;
static buf_t *round_blob;
static int nentered, barriers;
static size_t pairs, bytes_in, bytes_out;
static int exit_code;
static bool killed;
static int listen_fd = -1;
static char port[64];

static void die(const char *what)
{
    fprintf(stderr, "pmi_launch: %s: %s\n", what, strerror(errno));
    exit(125);
}

static struct task *task_of(void *arg, size_t idx)
{
    struct node *n = arg;

    return &tasks[n->first + idx];
}

static void kill_all(int code)
{
    if (killed)
        return;
    killed = true;
    exit_code = code;
    for (int i = 0; i < ntasks; i++) {
        if (tasks[i].pid > 0)
            kill(tasks[i].pid, SIGKILL);
    }
}

static int on_send(void *arg, size_t idx, const void *data, size_t len)
{
    struct task *t = task_of(arg, idx);

    bytes_out += len;
    return t->fd < 0 ? -1 : buf_append(t->queue, data, len);
}

static void on_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    pairs += npairs;
    nentered++;
    if (buf_append(round_blob, blob, len) < 0)
        die("barrier");
    /* completed in the main loop: the servers may not be re-entered from here */
}

static void complete_barrier(void)
{
    if (nentered < nnodes)
        return;
    nentered = 0;
    barriers++;
    for (int i = 0; i < nnodes; i++) {
        if (pmi_server_merge(nodes[i].server, buf_data(round_blob), buf_len(round_blob)) < 0 ||
            pmi_server_barrier_done(nodes[i].server, 0, NULL) < 0)
            die("merge");
    }
    buf_consume(round_blob, buf_len(round_blob));
}

static void on_abort(void *arg, size_t idx, int code, const char *msg)
{
    fprintf(stderr, "pmi_launch: rank %d aborts the job with exit code %d %s\n",
            (int)(task_of(arg, idx) - tasks), code, msg);
    kill_all(code & 255);
}

static void on_error(void *arg, size_t idx, const char *text)
{
    fprintf(stderr, "pmi_launch: %s\n", text);
    kill_all(exit_code ? exit_code : 1);
}

static const struct pmi_server_ops ops = {
    .send = on_send, .barrier = on_barrier, .abort = on_abort, .client_error = on_error};

static void put_env(const char *name, const char *fmt, int value)
{
    char text[64];

    snprintf(text, sizeof(text), fmt, value);
    setenv(name, text, 1);
}

static void exec_task(int rank, int fd, char **argv)
{
    if (by_port) {
        setenv("PMI_PORT", port, 1);
        put_env("PMI_ID", "%d", rank);
    } else {
        put_env("PMI_FD", "%d", fd);
        put_env("PMI_RANK", "%d", rank);
        put_env("PMI_SIZE", "%d", ntasks);
        fcntl(fd, F_SETFD, 0);
    }
    if (libpmi) {
        put_env("FLUX_JOB_ID", "%d", (int)getppid());
        setenv("FLUX_PMI_LIBRARY_PATH", libpmi, 1);
        if (nnodes > 1)
            setenv("OMPI_MCA_btl_vader_backing_directory", tasks[rank].node->backing, 1);
    }
    execvp(argv[0], argv);
    fprintf(stderr, "pmi_launch: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void start_task(int rank, char **argv)
{
    struct task *t = &tasks[rank];
    int sv[2] = {-1, -1};

    t->fd = -1;
    t->queue = buf_create(0);
    if (!t->queue)
        die("start");
    if (!by_port && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        die("socketpair");
    t->pid = fork();
    if (t->pid < 0)
        die("fork");
    if (t->pid == 0)
        exec_task(rank, sv[1], argv);
    if (!by_port) {
        close(sv[1]);
        t->fd = sv[0];
        fcntl(t->fd, F_SETFL, O_NONBLOCK);
    }
}

static void make_nodes(void)
{
    struct pmi_server_params p = {.kvsname = "kvs_test_0", .size = (uint32_t)ntasks};
    uint32_t *counts = calloc((size_t)nnodes, sizeof(*counts));
    char *mapping;
    uint32_t rank = 0;

    for (int i = 0; i < nnodes; i++)
        counts[i] = (uint32_t)(ntasks / nnodes + (i < ntasks % nnodes));
    mapping = pmi_mapping_format((size_t)nnodes, counts, PMI_LAYOUT_BLOCK);
    if (!mapping)
        die("mapping");
    for (int i = 0; i < nnodes; i++) {
        struct node *n = &nodes[i];
        errmsg_t err;

        n->first = rank;
        n->ntasks = counts[i];
        n->ranks = calloc(counts[i], sizeof(uint32_t));
        for (uint32_t k = 0; k < counts[i]; k++, rank++) {
            n->ranks[k] = rank;
            tasks[rank].node = n;
            tasks[rank].local = k;
        }
        p.nlocal = counts[i];
        p.ranks = n->ranks;
        n->server = pmi_server_create(&ops, n, &p, &err);
        if (!n->server || pmi_server_preset(n->server, "PMI_process_mapping", mapping) < 0)
            die("server");
        if (libpmi && nnodes > 1) {
            snprintf(n->backing, sizeof(n->backing), "/dev/shm/pmi_launch.XXXXXX");
            if (!mkdtemp(n->backing))
                die("backing directory");
        }
    }
    free(mapping);
    free(counts);
}

static void listen_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        listen(listen_fd, 128) < 0 || getsockname(listen_fd, (struct sockaddr *)&a, &len) < 0)
        die("listen");
    snprintf(port, sizeof(port), "127.0.0.1:%d", ntohs(a.sin_port));
}

static void drop(struct task *t)
{
    close(t->fd);
    t->fd = -1;
    pmi_server_eof(t->node->server, t->local);
}

static void read_task(struct task *t)
{
    static char data[65536];
    ssize_t n = read(t->fd, data, sizeof(data));

    if (n > 0) {
        bytes_in += (size_t)n;
        pmi_server_input(t->node->server, t->local, data, (size_t)n);
        complete_barrier();
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        drop(t);
    }
}

static void write_task(struct task *t)
{
    while (t->fd >= 0 && buf_len(t->queue)) {
        ssize_t n = send(t->fd, buf_data(t->queue), buf_len(t->queue), MSG_NOSIGNAL);

        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR)
                drop(t);
            return;
        }
        buf_consume(t->queue, (size_t)n);
    }
}

static void accept_one(void)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    strangers[nstrangers++].fd = fd;
}

/* Who is this?  The bytes stay in the socket for read_task(). */
static void ask_stranger(size_t i)
{
    char line[512];
    ssize_t n = recv(strangers[i].fd, line, sizeof(line), MSG_PEEK);
    ptrdiff_t len = n > 0 ? pmi_wire_line(line, (size_t)n) : -1;
    struct pmi_msg msg;
    int rank;

    if (n > 0 && len < 0 && (size_t)n < sizeof(line))
        return; /* the line is not complete */
    if (len >= 0 && pmi_wire_parse(line, (size_t)len, &msg) == 0 && msg.cmd == PMI_CMD_INITACK &&
        pmi_msg_get_int(&msg, "pmiid", 0, ntasks - 1, &rank) == 0 && tasks[rank].fd < 0)
        tasks[rank].fd = strangers[i].fd;
    else
        close(strangers[i].fd);
    strangers[i] = strangers[--nstrangers];
}

static int reap(void)
{
    int running = 0;

    for (int i = 0; i < ntasks; i++) {
        int status, code;

        if (tasks[i].pid <= 0)
            continue;
        if (waitpid(tasks[i].pid, &status, WNOHANG) == 0) {
            running++;
            continue;
        }
        tasks[i].pid = 0;
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (!killed && code > exit_code)
            exit_code = code;
    }
    return running;
}

static long now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void loop(void)
{
    struct pollfd *p = calloc((size_t)ntasks * 2 + 1, sizeof(*p));
    long start = now_ms();

    while (reap() > 0) {
        size_t n = 0, first_stranger = (size_t)ntasks + 1, had = nstrangers;

        for (; n < (size_t)ntasks; n++) {
            p[n].fd = tasks[n].fd;
            p[n].events = buf_len(tasks[n].queue) ? POLLIN | POLLOUT : POLLIN;
        }
        p[n++] =
            (struct pollfd){.fd = nstrangers < (size_t)ntasks ? listen_fd : -1, .events = POLLIN};
        for (size_t i = 0; i < nstrangers; i++)
            p[n++] = (struct pollfd){.fd = strangers[i].fd, .events = POLLIN};
        if (poll(p, n, 20) <= 0) {
            if (now_ms() - start > LIMIT_MS) {
                fprintf(stderr, "pmi_launch: no end after %d ms\n", LIMIT_MS);
                kill_all(124);
            }
            continue;
        }
        for (size_t i = had; i-- > 0;) {
            if (p[first_stranger + i].revents)
                ask_stranger(i);
        }
        if (p[ntasks].revents)
            accept_one();
        for (int i = 0; i < ntasks; i++) {
            if (p[i].fd >= 0 && (p[i].revents & (POLLIN | POLLHUP | POLLERR)) && tasks[i].fd >= 0)
                read_task(&tasks[i]);
        }
        for (int i = 0; i < ntasks; i++)
            write_task(&tasks[i]);
    }
    if (figures)
        fprintf(stderr,
                "pmi_launch: %d tasks %d nodes: %d barriers %zu pairs, %zu bytes in, %zu out, "
                "%ld ms\n",
                ntasks, nnodes, barriers, pairs, bytes_in, bytes_out, now_ms() - start);
    free(p);
}

int main(int argc, char **argv)
{
    int opt;

    while ((opt = getopt(argc, argv, "+n:N:l:ps")) != -1) {
        switch (opt) {
        case 'n':
            ntasks = atoi(optarg);
            break;
        case 'N':
            nnodes = atoi(optarg);
            break;
        case 'l':
            libpmi = optarg;
            break;
        case 'p':
            by_port = true;
            break;
        case 's':
            figures = true;
            break;
        default:
            return 125;
        }
    }
    if (optind == argc || ntasks < 1 || nnodes < 1 || nnodes > ntasks) {
        fprintf(stderr, "usage: pmi_launch [-n TASKS] [-N NODES] [-l LIBPMI] [-p] [-s] COMMAND\n");
        return 125;
    }
    tasks = calloc((size_t)ntasks, sizeof(*tasks));
    nodes = calloc((size_t)nnodes, sizeof(*nodes));
    strangers = calloc((size_t)ntasks, sizeof(*strangers));
    round_blob = buf_create(0);
    if (!tasks || !nodes || !strangers || !round_blob)
        die("start");
    make_nodes();
    if (by_port)
        listen_port();
    for (int i = 0; i < ntasks; i++)
        start_task(i, argv + optind);
    loop();
    for (int i = 0; i < ntasks; i++) {
        if (tasks[i].fd >= 0)
            close(tasks[i].fd);
        buf_destroy(tasks[i].queue);
    }
    for (int i = 0; i < nnodes; i++) {
        pmi_server_destroy(nodes[i].server);
        free(nodes[i].ranks);
        if (nodes[i].backing[0] && rmdir(nodes[i].backing) < 0)
            fprintf(stderr, "pmi_launch: %s: %s\n", nodes[i].backing, strerror(errno));
    }
    free(tasks);
    free(nodes);
    free(strangers);
    buf_destroy(round_blob);
    return exit_code;
}
