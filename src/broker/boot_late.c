/* boot_late.c - the PMI of brokers that start late (see the header).
 *
 * Purpose: the brokers that begin a session exchange their cards in PMI's barrier.  Nobody enters
 * another barrier later, so a broker that starts late has a PMI server of its own, which holds the
 * cards of that exchange, and of those that came late before it.
 *
 * A rank whose broker is absent when the session begins has a card that was made here
 * (boot_pmi_absent()): its neighbors begin with it, so it names the key that the broker will have.
 * The broker gets the secret part of that key, alone; and it puts a second card with the address
 * where it listens, for those that come later.
 *
 * rank          its cards for others                for itself
 * present       that of the exchange                the same
 * absent        made here                           made here, and the secret key
 * has come      made here, and the one that it      made here, and the secret key: a broker that
 *               has put                             comes once more puts another second card
 *
 * Invariants:
 *  1. A secret key is put only into the server of its rank.
 *  2. The key of a rank is the same for as long as the session lasts.
 *  3. Per rank, what the latest broker has put is kept.
 *
 * Failure: without memory a card that was put is not kept; brokers that start later know the one
 * that was made here.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot_late.h"
#include "boot_private.h"
#include "libpmi/pmi_mapping.h"

struct place {
    struct boot_absent *made; /* NULL: it was present */
    void *put;                /* blob of the broker that has come; NULL: none */
    size_t len;
};

struct boot_late {
    uint32_t size;
    bool one_host;
    void *pairs; /* of the exchange; NULL: not yet */
    size_t pairs_len;
    struct place places[];
};

struct boot_dialog {
    boot_late_t *l;
    uint32_t rank;
    struct pmi_server *pmi;
    int (*send)(void *arg, const void *data, size_t len);
    void *arg;
};

boot_late_t *boot_late_create(uint32_t size)
{
    boot_late_t *l = calloc(1, sizeof(*l) + size * sizeof(l->places[0]));

    if (l)
        l->size = size;
    return l;
}

void boot_late_destroy(boot_late_t *l)
{
    int saved = errno;

    if (!l)
        return;
    for (uint32_t i = 0; i < l->size; i++) {
        if (l->places[i].made)
            explicit_bzero(l->places[i].made, sizeof(*l->places[i].made));
        free(l->places[i].made);
        free(l->places[i].put);
    }
    free(l->pairs);
    free(l);
    errno = saved;
}

void boot_late_set_one_host(boot_late_t *l, bool one)
{
    l->one_host = one;
}

/* Brokers that are told nothing do not take each other for neighbors on one host. */
int boot_late_mapping(const boot_late_t *l, struct pmi_server *s)
{
    char *mapping;
    int rc;

    if (!l->one_host)
        return 0;
    mapping = pmi_mapping_format(1, &l->size, PMI_LAYOUT_BLOCK);
    rc = mapping ? pmi_server_preset(s, "PMI_process_mapping", mapping) : -1;
    free(mapping);
    return rc;
}

int boot_late_absent(boot_late_t *l, uint32_t rank, const char *host, struct pmi_server *common,
                     errmsg_t *err)
{
    struct boot_absent *a = calloc(1, sizeof(*a));

    if (!a)
        return errmsg_fail(err, ENOMEM, "out of memory for rank %u", rank);
    if (boot_pmi_absent(rank, host, a, err) < 0) {
        free(a);
        return -1;
    }
    free(l->places[rank].made);
    l->places[rank].made = a;
    return pmi_server_preset(common, a->card_key, a->card) == 0
               ? 0
               : errmsg_fail(err, errno, "out of memory for rank %u", rank);
}

bool boot_late_has_key(const boot_late_t *l, uint32_t rank)
{
    return l->places[rank].made != NULL;
}

int boot_late_keep(boot_late_t *l, const void *blob, size_t len)
{
    void *pairs = malloc(len ? len : 1);

    if (!pairs)
        return -1;
    memcpy(pairs, blob, len);
    free(l->pairs);
    l->pairs = pairs;
    l->pairs_len = len;
    return 0;
}

bool boot_late_possible(const boot_late_t *l)
{
    return l->pairs != NULL;
}

/* --- the dialog --- */

static int dialog_send(void *arg, size_t idx, const void *data, size_t len)
{
    const boot_dialog_t *d = arg;

    (void)idx;
    return d->send(d->arg, data, len);
}

static void dialog_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    const boot_dialog_t *d = arg;
    struct place *p = &d->l->places[d->rank];
    void *put = npairs > 0 && p->made ? malloc(len) : NULL;

    if (put) {
        memcpy(put, blob, len);
        free(p->put);
        p->put = put;
        p->len = len;
    }
    pmi_server_barrier_done(d->pmi, 0, NULL);
}

static const struct pmi_server_ops dialog_ops = {.send = dialog_send, .barrier = dialog_barrier};

/* Put what the broker of this rank may know. */
static int put_pairs(const boot_late_t *l, uint32_t rank, struct pmi_server *s)
{
    if (pmi_server_merge(s, l->pairs, l->pairs_len) < 0 || boot_late_mapping(l, s) < 0)
        return -1;
    for (uint32_t i = 0; i < l->size; i++) {
        const struct place *p = &l->places[i];
        const struct boot_absent *a = p->made;

        if (a && pmi_server_preset(s, a->card_key, a->card) < 0)
            return -1;
        if (p->put && i != rank && pmi_server_merge(s, p->put, p->len) < 0)
            return -1;
        if (i == rank && a && pmi_server_preset(s, a->secret_key, a->secret) < 0)
            return -1;
    }
    return 0;
}

boot_dialog_t *boot_dialog_create(boot_late_t *l, uint32_t rank,
                                  int (*send)(void *arg, const void *data, size_t len), void *arg,
                                  errmsg_t *err)
{
    boot_dialog_t *d = calloc(1, sizeof(*d));
    struct pmi_server_params params = {
        .kvsname = "flux", .size = l->size, .nlocal = 1, .ranks = &rank};

    if (d) {
        *d = (boot_dialog_t){.l = l, .rank = rank, .send = send, .arg = arg};
        d->pmi = pmi_server_create(&dialog_ops, d, &params, NULL);
    }
    if (d && d->pmi && put_pairs(l, rank, d->pmi) == 0)
        return d;
    boot_dialog_destroy(d);
    errmsg_fail(err, ENOMEM, "out of memory for broker %u", rank);
    return NULL;
}

void boot_dialog_destroy(boot_dialog_t *d)
{
    int saved = errno;

    if (!d)
        return;
    pmi_server_destroy(d->pmi);
    free(d);
    errno = saved;
}

int boot_dialog_input(boot_dialog_t *d, const void *data, size_t len)
{
    return pmi_server_input(d->pmi, 0, data, len);
}

void boot_dialog_eof(boot_dialog_t *d)
{
    pmi_server_eof(d->pmi, 0);
}
