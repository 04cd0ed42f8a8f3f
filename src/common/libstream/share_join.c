/* share_join.c - writers and readers at the relay of their host.
 *
 * The relay listens at a name in the abstract namespace of UNIX sockets, which contains the user;
 * the namespace is that of the network, so that hosts that are network namespaces have relays of
 * their own.  Requests have a fixed size (doc/stream-format.rst).
 *
 * The address of a writer is "share://TOKEN.KEY@IP:PORT": 16 hexadecimal digits, which the relay
 * has chosen at random, 32 of a key by which another relay knows it again (share_link.c), and where
 * it listens for others.
 *
 * A process that finds no relay starts one, and tries again.  If several do so, the name is bound
 * once: the other relays end at once, and their processes find the first one.  A relay may end
 * because nobody has used it just when a process comes; that process is not answered, and starts
 * the next one.
 *
 * Failure: errno and a sentence.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/paths.h"
#include "libstream/share.h"
#include "libstream/share_private.h"
#include "libutil/clock.h"
#include "libutil/fdutil.h"
#include "libutil/hex.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define TCP_PREFIX "tcp://"
#define ANSWER_SECONDS 10.

static unsigned char *id_put(unsigned char *buf, const struct share_id *id)
{
    memcpy(buf, id->key, SHARE_KEY_LEN);
    memcpy(buf + SHARE_KEY_LEN, id->address, strlen(id->address));
    return buf + SHARE_ID_LEN;
}

void share_request_encode(const struct share_request *r, unsigned char *buf)
{
    memset(buf, 0, SHARE_REQUEST_LEN);
    memcpy(buf, SHARE_MAGIC, 8);
    le_put32(buf + 8, (uint32_t)r->kind);
    le_put64(buf + 16, r->token);
    id_put(id_put(buf + 24, &r->to), &r->own);
}

static bool id_get(const unsigned char *buf, struct share_id *id)
{
    memcpy(id->key, buf, SHARE_KEY_LEN);
    memcpy(id->address, buf + SHARE_KEY_LEN, FAR_ADDR_MAX);
    return memchr(id->address, '\0', FAR_ADDR_MAX) != NULL;
}

int share_request_decode(const unsigned char *buf, struct share_request *r)
{
    uint32_t kind = le_get32(buf + 8);

    errno = EPROTO;
    if (memcmp(buf, SHARE_MAGIC, 8) != 0 || (kind != SHARE_REGISTER && kind != SHARE_CONNECT) ||
        le_get32(buf + 12) != 0 || !id_get(buf + 24, &r->to) ||
        !id_get(buf + 24 + SHARE_ID_LEN, &r->own))
        return -1;
    r->kind = (enum share_kind)kind;
    r->token = le_get64(buf + 16);
    return 0;
}

/* "share://TOKEN.KEY@IP:PORT".  0, or -1: it is malformed. */
static int address_read(const char *text, uint64_t *token, struct share_id *id)
{
    const char *p = text + strlen(SHARE_PREFIX);
    unsigned char bytes[8];

    if (!str_starts(text, SHARE_PREFIX) || strspn(p, "0123456789abcdef") != 16 || p[16] != '.' ||
        strspn(p + 17, "0123456789abcdef") != 2 * SHARE_KEY_LEN ||
        p[17 + 2 * SHARE_KEY_LEN] != '@' || strlen(p) >= FAR_ADDR_MAX - strlen(TCP_PREFIX))
        return -1;
    hex_decode(bytes, p, sizeof(bytes));
    *token = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        *token = *token << 8 | bytes[i];
    hex_decode(id->key, p + 17, SHARE_KEY_LEN);
    snprintf(id->address, FAR_ADDR_MAX, TCP_PREFIX "%.200s", p + 18 + 2 * SHARE_KEY_LEN);
    return 0;
}

static void address_write(char text[FAR_ADDR_MAX], uint64_t token, const struct share_id *id)
{
    char key[2 * SHARE_KEY_LEN + 1];

    *hex_encode(key, id->key, SHARE_KEY_LEN) = '\0';
    snprintf(text, FAR_ADDR_MAX, SHARE_PREFIX "%016" PRIx64 ".%s@%.180s", token, key,
             id->address + strlen(TCP_PREFIX));
}

socklen_t share_name(struct sockaddr_un *sun)
{
    int n;

    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "flux-stream-relay-%u",
                 (unsigned)geteuid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* --- a relay that is not there yet --- */

/* Start a relay, and wait until it listens, or has found another one.  0, or -1. */
static int start(const struct share_place *place, errmsg_t *err)
{
    const char *option = *place->address ? "--address" : *place->interface ? "--interface" : NULL;
    const char *value = *place->address ? place->address : place->interface;
    char *path = flux_path_exec("flux-stream", err);
    char *argv[] = {path, (char *)"relay", (char *)"--detach", (char *)option, (char *)value, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    int status = 0;
    pid_t pid;
    int rc;

    if (!path)
        return -1;
    if (!option)
        argv[3] = NULL;
    sigemptyset(&none);
    if ((rc = posix_spawn_file_actions_init(&actions)) == 0) {
        if ((rc = posix_spawnattr_init(&attr)) == 0) {
            posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
            posix_spawnattr_setsigmask(&attr, &none);
            /* What is open here, such as a pipe of the job, must not be open as long as it runs. */
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
            posix_spawn_file_actions_adddup2(&actions, 0, 1);
            posix_spawn_file_actions_addclosefrom_np(&actions, 3);
            rc = posix_spawn(&pid, path, &actions, &attr, argv, environ);
            posix_spawnattr_destroy(&attr);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    free(path);
    if (rc != 0)
        return errmsg_fail(err, rc, "a relay for streams cannot be started: %s", strerror(rc));
    while ((rc = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    if (rc == pid && status != 0) /* else the program reaps all its children itself */
        return errmsg_fail(err, ENOENT,
                           "connections are to be shared, and no relay can run on this host: try "
                           "'flux stream relay'");
    return 0;
}

/* --- requests --- */

/* Connect to the relay of this host.  -1: ECONNREFUSED if there is none. */
static int reach(errmsg_t *err)
{
    const struct timeval tv = {.tv_sec = (time_t)ANSWER_SECONDS};
    struct sockaddr_un sun;
    socklen_t len = share_name(&sun);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int saved;

    if (fd < 0)
        return errmsg_fail(err, errno, "cannot open a socket to the relay of this host: %s",
                           strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    if (connect(fd, (struct sockaddr *)&sun, len) < 0)
        errmsg_fail(err, errno, "cannot connect to the relay of this host: %s", strerror(errno));
    else if (fd_check_peer(fd, "the relay of this host", err) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Send a request, and receive the answer.  Returns the connection; -1: ECONNRESET if the relay has
 * ended before it answered. */
static int ask(int fd, struct share_request *r, errmsg_t *err)
{
    unsigned char buf[SHARE_REQUEST_LEN];
    enum share_kind kind = r->kind;
    ssize_t n;

    share_request_encode(r, buf);
    if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) != (ssize_t)sizeof(buf))
        n = errno == EPIPE ? 0 : -1;
    else
        n = recv(fd, buf, sizeof(buf), MSG_WAITALL);
    if (n == (ssize_t)sizeof(buf) && share_request_decode(buf, r) == 0 && r->kind == kind &&
        str_starts(r->own.address, TCP_PREFIX)) {
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        return fd;
    }
    if (n >= 0)
        errmsg_fail(err, n < (ssize_t)sizeof(buf) ? ECONNRESET : EPROTO,
                    "the relay of this host does not answer as a relay");
    else
        errmsg_fail(err, errno == EAGAIN ? ETIMEDOUT : errno,
                    "the relay of this host does not answer: %s",
                    strerror(errno == EAGAIN ? ETIMEDOUT : errno));
    n = errno;
    close(fd);
    errno = (int)n;
    return -1;
}

/* Have a request answered by the relay of this host, which may have to be started, or may be ending
 * just now. */
static int request(const struct share_place *place, const struct share_request *q,
                   struct share_request *answer, errmsg_t *err)
{
    double until = clock_now() + ANSWER_SECONDS;
    int fd;

    for (;;) {
        *answer = *q;
        if ((fd = reach(err)) >= 0)
            fd = ask(fd, answer, err);
        if (fd >= 0 || (errno != ECONNREFUSED && errno != ECONNRESET) || clock_now() > until)
            return fd;
        if (errno == ECONNREFUSED && start(place, err) < 0)
            return -1;
    }
}

int share_register(const struct share_place *place, char text[FAR_ADDR_MAX], errmsg_t *err)
{
    struct share_request q = {.kind = SHARE_REGISTER};
    struct share_request answer;
    int fd;

    if (*text && address_read(text, &q.token, &q.own) < 0)
        return errmsg_fail(err, EINVAL, "the address of a writer at a relay is malformed: %.100s",
                           text);
    if ((fd = request(place, &q, &answer, err)) >= 0)
        address_write(text, answer.token, &answer.own);
    return fd;
}

int share_connect(const struct share_place *place, const char *text, struct share_id *own,
                  errmsg_t *err)
{
    struct share_request q = {.kind = SHARE_CONNECT, .own = *own};
    struct share_request answer;
    int fd;

    if (address_read(text, &q.token, &q.to) < 0)
        return errmsg_fail(err, EINVAL, "the address of a stream's writer is malformed: %.100s",
                           text);
    if ((fd = request(place, &q, &answer, err)) >= 0)
        *own = answer.own;
    return fd;
}
