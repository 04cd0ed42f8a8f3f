/* Boot by PMI: brokers that a launcher started find each other through its PMI.
 *
 * Three ways to speak PMI-1 are tried in this order:
 *     wire     PMI_FD or PMI_PORT is set: flux start, flux wreckrun, mpiexec.hydra, and
 *              srun --mpi=pmi2
 *     bridge   PMIX_NAMESPACE is set: Open MPI's mpirun, srun --mpi=pmix; a helper program
 *              translates (boot_pmix.c)
 *     libpmi   a step of srun with several tasks: Slurm's own libpmi.so.0, loaded when needed
 *
 * Format: a card is one value under the key "flux.card.RANK":
 *     TREE-URI|EVENT-URI|KEY
 * It consists of printable ASCII without blanks.  An empty part is written as "-", since some
 * servers reject empty values.
 *
 * If PMI_process_mapping says that all brokers are on this host (and neither tcp.address nor
 * tcp.interface is set), they listen on UNIX sockets in RUNDIR/RANK, which only the user can reach.
 * Otherwise they listen on TCP, at the address of boot_address() and a free port, and on a UNIX
 * socket as well: TREE-URI names it, with a mark of host and network namespace, and neighbors with
 * the same mark use it (link/mixed).  The setting link.transport=zmq, a directory whose
 * name PMI cannot carry, and a PMI whose values are too short, restrict a broker to ZeroMQ; it then
 * ignores the UNIX sockets of others.
 *
 * A broker that the nursery starts again (BOOT_AGAIN) finds the cards of all ranks, and its own: it
 * listens where the earlier one did, and has its key.  A card has no secret key, so all of such a
 * session is on one host, connected by UNIX sockets, where the secret is not needed.
 *
 * The nursery puts a card for a broker that is absent (boot_pmi_absent()), so that its neighbors
 * begin without it.  When that broker is started (BOOT_AGAIN), it finds its secret key, too, and
 * listens at the address of the card, by ZeroMQ alone, where those that begin at the same time look
 * for it; or at a free port if that one is taken (boot.c).  It publishes a second card with its
 * address, under the key "flux.came.RANK", for those that start later.  The card for a rank that
 * has no host yet (boot_add.h) has no address; its broker listens as any other does.  Those that
 * are there already learn addresses from the session.
 *
 * Failure: PMI calls block, and fail if the launcher goes away.  The error for a missing card names
 * its rank.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot_private.h"
#include "libpmi/pmi_client.h"
#include "libpmi/pmi_mapping.h"
#include "libutil/filetrust.h"
#include "libutil/strutil.h"

#define VALUE_MAX (2 * BOOT_URI_MAX + CERT_KEY_SIZE + 3)
#define MAPPING_MAX 65536
#define PORT_MIN 20000u /* of a broker that is absent: below those that systems choose */
#define PORT_PAIRS 6000u

/* The functions of libpmi.so that are used here, named as in the PMI-1 C API. */
struct libpmi {
    void *dso;
    int (*init)(int *spawned);
    int (*finalize)(void);
    int (*get_rank)(int *rank);
    int (*get_size)(int *size);
    int (*name_max)(int *len);
    int (*name)(char *name, int len);
    int (*value_max)(int *len);
    int (*put)(const char *name, const char *key, const char *value);
    int (*commit)(const char *name);
    int (*barrier)(void);
    int (*get)(const char *name, const char *key, char *value, int len);
};

struct pmi {
    struct pmi_client *wire;
    pid_t bridge; /* 0: none */
    struct libpmi lib;
    char *kvsname;
    size_t value_max;
};

static const char *const variables[] = {
    "PMI_FD",      "PMI_PORT",    "PMI_ID",         "PMI_RANK",  "PMI_SIZE",
    "PMI_SPAWNED", "PMI_VERSION", "PMI_SUBVERSION", "PMI_DEBUG", "PMI_TOTALVIEW",
};

bool boot_pmi_found(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS"); /* not set in a batch script */

    return getenv("PMI_FD") || getenv("PMI_PORT") || boot_pmix_found() ||
           (getenv("SLURM_PROCID") && tasks && strcmp(tasks, "1") != 0);
}

/* --- libpmi.so --- */

#define LIBPMI "libpmi.so.0"

/* Find libpmi.so.  The loader first searches the directories of LD_LIBRARY_PATH, in which an empty
 * entry is the current directory.  Then it searches only directories and a cache that it trusts, as
 * for the libraries of this program.  *path: the file in a directory of the variable, NULL: there
 * is none. */
static int lib_find(char **path, errmsg_t *err)
{
    const char *dirs = getenv("LD_LIBRARY_PATH");

    *path = NULL;
    if (dirs && !*dirs)
        dirs = NULL;
    for (size_t n; dirs; dirs = dirs[n] ? dirs + n + 1 : NULL) {
        n = strcspn(dirs, ":;");
        if (asprintf(path, "%.*s/" LIBPMI, n ? (int)n : 1, n ? dirs : ".") < 0) {
            *path = NULL;
            return errmsg_fail(err, ENOMEM, "out of memory while booting");
        }
        if (access(*path, F_OK) == 0)
            break;
        free(*path);
        *path = NULL;
    }
    if (*path && !file_is_trusted(*path, err)) {
        free(*path);
        return -1;
    }
    return 0;
}

static int lib_load(struct libpmi *lib, errmsg_t *err)
{
    const struct {
        const char *name;
        void **slot;
    } symbols[] = {
        {"PMI_Init", (void **)&lib->init},
        {"PMI_Finalize", (void **)&lib->finalize},
        {"PMI_Get_rank", (void **)&lib->get_rank},
        {"PMI_Get_size", (void **)&lib->get_size},
        {"PMI_KVS_Get_name_length_max", (void **)&lib->name_max},
        {"PMI_KVS_Get_my_name", (void **)&lib->name},
        {"PMI_KVS_Get_value_length_max", (void **)&lib->value_max},
        {"PMI_KVS_Put", (void **)&lib->put},
        {"PMI_KVS_Commit", (void **)&lib->commit},
        {"PMI_Barrier", (void **)&lib->barrier},
        {"PMI_KVS_Get", (void **)&lib->get},
    };
    char *path;

    if (lib_find(&path, err) < 0)
        return -1;
    /* Global: plugins that Slurm's library loads look for its symbols there. */
    lib->dso = dlopen(path ? path : LIBPMI, RTLD_NOW | RTLD_GLOBAL);
    free(path);
    if (!lib->dso)
        return errmsg_fail(err, ENOENT,
                           "started by srun without a PMI: use srun --mpi=pmi2, or install Slurm's "
                           "libpmi (%.100s)",
                           dlerror());
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        if (!(*symbols[i].slot = dlsym(lib->dso, symbols[i].name)))
            return errmsg_fail(err, ENOSYS, "Slurm's libpmi.so.0 has no %s", symbols[i].name);
    }
    return 0;
}

static int lib_failed(errmsg_t *err, const char *what, int rc)
{
    return errmsg_fail(err, EREMOTEIO, "Slurm's PMI failed to %s (code %d)", what, rc);
}

static int lib_open(boot_t *b, struct pmi *p, errmsg_t *err)
{
    int rc, spawned, rank, size, len;

    if (lib_load(&p->lib, err) < 0)
        return -1;
    if ((rc = p->lib.init(&spawned)) != 0 || (rc = p->lib.get_rank(&rank)) != 0 ||
        (rc = p->lib.get_size(&size)) != 0 || (rc = p->lib.name_max(&len)) != 0)
        return lib_failed(err, "start", rc);
    if (len < 1 || !(p->kvsname = calloc(1, (size_t)len + 1)))
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    if ((rc = p->lib.name(p->kvsname, len)) != 0 || (rc = p->lib.value_max(&len)) != 0)
        return lib_failed(err, "name its store", rc);
    p->value_max = len > 1 ? len - 1 : 0;
    b->rank = rank;
    b->size = size;
    return rank < 0 || size <= rank ? lib_failed(err, "report rank and size", 0) : 0;
}

/* --- any kind of PMI --- */

static int pmi_put(struct pmi *p, const char *key, const char *value, errmsg_t *err)
{
    int rc;

    if (p->wire)
        return pmi_client_put(p->wire, key, value, err);
    if ((rc = p->lib.put(p->kvsname, key, value)) != 0 || (rc = p->lib.commit(p->kvsname)) != 0)
        return lib_failed(err, "store this broker's address", rc);
    return 0;
}

static int pmi_barrier(struct pmi *p, errmsg_t *err)
{
    int rc;

    if (p->wire)
        return pmi_client_barrier(p->wire, err);
    return (rc = p->lib.barrier()) == 0 ? 0 : lib_failed(err, "pass the barrier", rc);
}

static int pmi_get(struct pmi *p, const char *key, char *value, size_t cap, errmsg_t *err)
{
    int rc;

    if (p->wire)
        return pmi_client_get(p->wire, key, value, cap, err);
    return (rc = p->lib.get(p->kvsname, key, value, (int)cap)) == 0
               ? 0
               : lib_failed(err, "return a neighbor's address", rc);
}

static void pmi_close(boot_t *b)
{
    struct pmi *p = b->state;

    if (!p)
        return;
    b->state = NULL;
    pmi_client_destroy(p->wire);
    boot_pmix_close(p->bridge);
    free(p->kvsname);
    /* The library stays loaded: it may have threads or exit handlers. */
    free(p);
}

static int pmi_open(boot_t *b, errmsg_t *err)
{
    struct pmi *p = b->state = calloc(1, sizeof(*p));
    const char *fd = getenv("PMI_FD");
    int32_t n;

    if (!p)
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    if (fd || getenv("PMI_PORT")) {
        if (fd && str2i32(fd, &n) == 0)
            fcntl(n, F_SETFD, FD_CLOEXEC);
        p->wire = pmi_client_create_env(err);
    } else if (boot_pmix_found()) {
        p->wire = boot_pmix_open(&p->bridge, err);
    } else if (getenv("SLURM_PROCID")) {
        return lib_open(b, p, err);
    } else {
        p->wire = pmi_client_create_env(err);
    }
    if (!p->wire)
        return -1;
    b->rank = pmi_client_rank(p->wire);
    b->size = pmi_client_size(p->wire);
    p->value_max = pmi_client_value_max(p->wire);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    b->again = getenv(BOOT_AGAIN) != NULL;
    unsetenv(BOOT_AGAIN);
    if (getenv(BOOT_LAUNCHER) && str2i32(getenv(BOOT_LAUNCHER), &n) == 0 && b->rank == 0)
        b->launcher = n;
    unsetenv(BOOT_LAUNCHER);
    boot_pmix_clean(p->bridge > 0);
    return 0;
}

/* Are all brokers of the session on this host?  False if that is not known. */
static bool one_host(boot_t *b, struct pmi *p)
{
    size_t cap = p->value_max + 1 > MAPPING_MAX ? MAPPING_MAX : p->value_max + 1;
    struct pmi_mapping *m;
    char *text;
    bool one = false;

    if (!p->wire || !(text = calloc(1, cap)))
        return false;
    if (pmi_get(p, "PMI_process_mapping", text, cap, NULL) == 0 &&
        (m = pmi_mapping_parse(text, b->size))) {
        one = pmi_mapping_nnodes(m) == 1;
        pmi_mapping_destroy(m);
    }
    free(text);
    return one;
}

/* May this string be part of a card? */
static bool part_ok(const char *s)
{
    for (; *s; s++) {
        if (!isgraph((unsigned char)*s) || *s == '|')
            return false;
    }
    return true;
}

/* The room for an address, such that the card of the broker remains short enough for PMI. An
 * address without a UNIX socket is always accepted here: pmi_publish() reports if it is too
 * long. */
static size_t address_size(const struct pmi *p, const char *remote)
{
    size_t len = strlen(remote), port = strlen("65535");
    size_t other = len + 2 * port + strlen("||") + CERT_KEY_SIZE, size = BOOT_URI_MAX - port;

    if (p->value_max < other + size)
        size = p->value_max > other ? p->value_max - other + 1 : 0;
    return size > len ? size : len + 1;
}

static int pmi_lookup(boot_t *b, uint32_t rank, struct boot_card *card, errmsg_t *err);

static int pmi_endpoints(boot_t *b, char *tree_uri, char *event_uri, errmsg_t *err)
{
    struct boot_card card;
    char address[BOOT_ADDR_MAX], remote[BOOT_ADDR_MAX + sizeof("tcp://:*")];
    struct transport_place place = {.dir = b->rankdir, .size = BOOT_URI_MAX};

    if (b->again && pmi_lookup(b, b->rank, &card, err) < 0)
        return -1;
    b->late = b->again && card.absent;
    if (b->late && card.tree_uri[0]) { /* others look for it there */
        memcpy(tree_uri, card.tree_uri, BOOT_URI_MAX);
        memcpy(event_uri, card.event_uri, BOOT_URI_MAX);
        return 0;
    }
    if (!one_host(b, b->state) || boot_attr(b, "tcp.address") || boot_attr(b, "tcp.interface")) {
        if (boot_address(b, address, sizeof(address), err) < 0)
            return -1;
        snprintf(remote, sizeof(remote), "tcp://%s:*", address);
        place.remote = remote;
        place.size = address_size(b->state, remote);
        if (!part_ok(b->rankdir))
            place.dir = NULL;
    }
    return boot_compose(b, &place, tree_uri, event_uri, err);
}

static void card_key(char *key, size_t size, uint32_t rank)
{
    snprintf(key, size, "flux.card.%u", rank);
}

/* The card that a broker has put which came late. */
static void second_key(char *key, size_t size, uint32_t rank)
{
    snprintf(key, size, "flux.came.%u", rank);
}

static void secret_key(char *key, size_t size, uint32_t rank)
{
    snprintf(key, size, "flux.secret.%u", rank);
}

int boot_pmi_absent(uint32_t rank, const char *host, struct boot_absent *a, errmsg_t *err)
{
    char uri[300], tree[BOOT_ADDR_MAX], event[BOOT_ADDR_MAX];
    struct cert cert;
    uint16_t random;
    unsigned port;

    if (getentropy(&random, sizeof(random)) < 0 || boot_cert_generate(&cert, err) < 0)
        return -1;
    port = PORT_MIN + 2u * (random % PORT_PAIRS);
    card_key(a->card_key, sizeof(a->card_key), rank);
    secret_key(a->secret_key, sizeof(a->secret_key), rank);
    memcpy(a->secret, cert.secret_key, sizeof(a->secret));
    if (!host) {
        snprintf(a->card, sizeof(a->card), "-|-|%s|" BOOT_ABSENT, cert.public_key);
        boot_cert_wipe(&cert);
        return 0;
    }
    snprintf(uri, sizeof(uri), "tcp://%s:%u", host, port);
    if (boot_addr_resolve(uri, tree, sizeof(tree), NULL) < 0)
        snprintf(tree, sizeof(tree), "tcp://127.0.0.1:%u", port); /* it will not be found there */
    snprintf(event, sizeof(event), "%.*s:%u", (int)(strrchr(tree, ':') - tree), tree, port + 1);
    snprintf(a->card, sizeof(a->card), "%s|%s|%s|" BOOT_ABSENT, tree, event, cert.public_key);
    boot_cert_wipe(&cert);
    return 0;
}

static int pmi_publish(boot_t *b, const struct boot_card *card, errmsg_t *err)
{
    struct pmi *p = b->state;
    char key[32], value[VALUE_MAX];

    if (b->again && !b->late)
        return 0;
    if (!part_ok(card->tree_uri) || !part_ok(card->event_uri))
        return errmsg_fail(err, EINVAL,
                           "the path of %s has characters that PMI cannot carry; choose another "
                           "directory with TMPDIR",
                           card->tree_uri);
    snprintf(value, sizeof(value), "%s|%s|%s", card->tree_uri,
             card->event_uri[0] ? card->event_uri : "-", card->key[0] ? card->key : "-");
    if (strlen(value) > p->value_max)
        return errmsg_fail(
            err, EMSGSIZE,
            "this broker's card has %zu bytes, but the launcher's PMI accepts only %zu",
            strlen(value), p->value_max);
    (b->late ? second_key : card_key)(key, sizeof(key), b->rank);
    if (pmi_put(p, key, value, err) < 0 || pmi_barrier(p, err) < 0)
        return -1;
    return 0;
}

/* Copy the part at *s, up to '|' or the end, and advance *s. */
static int next_part(const char **s, char *buf, size_t size)
{
    size_t len = strcspn(*s, "|");

    if (len == 0 || len >= size)
        return -1;
    memcpy(buf, *s, len);
    buf[len] = '\0';
    if (strcmp(buf, "-") == 0)
        buf[0] = '\0';
    *s += len + ((*s)[len] == '|');
    return 0;
}

static int read_card(uint32_t rank, const char *value, struct boot_card *card, errmsg_t *err)
{
    const char *s = value;

    if (next_part(&s, card->tree_uri, BOOT_URI_MAX) < 0 ||
        next_part(&s, card->event_uri, BOOT_URI_MAX) < 0 ||
        next_part(&s, card->key, CERT_KEY_SIZE) < 0 || (*s && strcmp(s, BOOT_ABSENT) != 0))
        return errmsg_fail(err, EPROTO, "rank %u has published a malformed address: %.100s", rank,
                           value);
    card->absent = *s != '\0';
    return 0;
}

static int pmi_lookup(boot_t *b, uint32_t rank, struct boot_card *card, errmsg_t *err)
{
    char key[32], value[VALUE_MAX];
    errmsg_t why = {""};

    card_key(key, sizeof(key), rank);
    if (pmi_get(b->state, key, value, sizeof(value), &why) < 0)
        return errmsg_fail(err, errno, "the launcher's PMI has no address for rank %u: %s", rank,
                           why.text);
    if (read_card(rank, value, card, err) < 0)
        return -1;
    second_key(key, sizeof(key), rank);
    return !card->absent || pmi_get(b->state, key, value, sizeof(value), NULL) < 0
               ? 0
               : read_card(rank, value, card, err);
}

static int pmi_keys(boot_t *b, errmsg_t *err)
{
    struct boot_card card;
    char key[32];

    if (!b->again)
        return boot_cert_generate(&b->cert, err);
    if (pmi_lookup(b, b->rank, &card, err) < 0)
        return -1;
    memcpy(b->cert.public_key, card.key, CERT_KEY_SIZE);
    secret_key(key, sizeof(key), b->rank);
    if (pmi_get(b->state, key, b->cert.secret_key, CERT_KEY_SIZE, NULL) < 0)
        b->cert.secret_key[0] = '\0';
    return 0;
}

static int pmi_finish(boot_t *b, errmsg_t *err)
{
    struct pmi *p = b->state;
    int rc;

    if (p->wire)
        return pmi_client_finalize(p->wire, err);
    return (rc = p->lib.finalize()) == 0 ? 0 : lib_failed(err, "finish", rc);
}

const struct boot_ops boot_pmi_ops = {
    .keys = pmi_keys,
    .name = "pmi",
    .open = pmi_open,
    .endpoints = pmi_endpoints,
    .publish = pmi_publish,
    .lookup = pmi_lookup,
    .finish = pmi_finish,
    .close = pmi_close,
};
