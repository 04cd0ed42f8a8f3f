/* core_keys.c - the public keys of the ranks below.
 *
 * Purpose: a broker that has lost its parent connects to an ancestor.  Where brokers authenticate
 * by public keys (link/zmq), the ancestor has to know the key of a rank that was never its
 * neighbor.
 *
 * Format: the keys of a set of ranks are one text: the key of each rank, in the order of the ranks,
 * in Z85 (KEY_SIZE characters), or as many blanks where it is not known.  A broker puts its own key
 * into its first overlay.hello, and the keys of the ranks that it reports into overlay.ready.  An
 * orphan puts the keys of its subtree into its hello (core_heal.c), and the parent of a rank that
 * moves names its key to the next parent by overlay.expect (core_restore.c).  So the keys do not
 * need messages of their own.
 *
 * Invariants:
 *  1. A broker knows the key of a rank below it when the session counts that rank as up: the report
 *     that the rank is ready has passed through this broker.  A broker that has come back knows the
 *     keys of the ranks that have connected below it since, and of the rank that it expects
 *     (core_restore.c).  Other ranks, whose cards describe the earlier incarnation, connect to an
 *     ancestor above it.
 *  2. Only the brokers between report a key, and the first of them has the rank as a neighbor.  A
 *     rank that comes back with another key replaces the earlier key.
 *  3. In a session whose links do not admit by key, keys are neither kept nor sent.
 *  4. The root keeps them in the session map (sessmap.c), with all else that it knows of a rank.
 *
 * Failure: a text of another length is ignored, and logged.  Without memory a key is not known: its
 * owner is not admitted here, and tries the next ancestor.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "core_private.h"

#define KEY_SIZE 40

const char *core_key_of(const core_t *c, uint32_t rank)
{
    return c->map ? sessmap_key(c->map, rank) : hmap_get_u64(c->keys, rank);
}

bool core_has_key(const core_t *c, const char *key)
{
    return hmap_get(c->key_users, key) != NULL;
}

/* Change the number of ranks that have a key.  Returns -1 with ENOMEM. */
static int count_user(core_t *c, const char *key, int by)
{
    uintptr_t n = (uintptr_t)hmap_get(c->key_users, key) + by;

    if (n > 0)
        return hmap_put(c->key_users, key, (void *)n);
    hmap_del(c->key_users, key);
    return 0;
}

/* Keep the key of a rank instead of the earlier one.  Without memory (-1) the rank has none. */
static int replace_key(core_t *c, uint32_t rank, const char *key)
{
    char *copy;

    if (c->map)
        return sessmap_set_key(c->map, rank, key);
    if ((copy = strdup(key)) && hmap_put_u64(c->keys, rank, copy) == 0)
        return 0;
    free(copy);
    hmap_del_u64(c->keys, rank);
    return -1;
}

static int set_key(core_t *c, uint32_t rank, const char *text)
{
    const char *old = core_key_of(c, rank);
    char key[KEY_SIZE + 1];

    if (old && strncmp(old, text, KEY_SIZE) == 0)
        return 0;
    memcpy(key, text, KEY_SIZE);
    key[KEY_SIZE] = '\0';
    if (count_user(c, key, 1) < 0)
        return -1;
    if (old)
        count_user(c, old, -1);
    if (replace_key(c, rank, key) < 0) {
        count_user(c, key, -1);
        return -1;
    }
    return 0;
}

void keys_note(core_t *c, const idset_t *ranks, const char *keys)
{
    if (!keys || !c->link->by_key)
        return;
    if (strlen(keys) != (size_t)KEY_SIZE * idset_count(ranks)) {
        core_log(c, LOG_ERR, "rank %u cannot read the public keys of ranks below it", c->cfg.rank);
        return;
    }
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (keys[0] != ' ' && set_key(c, r, keys) < 0)
            core_log(c, LOG_ERR, "rank %u is out of memory for the public key of rank %u",
                     c->cfg.rank, r);
        keys += KEY_SIZE;
    }
}

char *keys_text(core_t *c, const idset_t *ranks)
{
    char *text, *p;

    if (hmap_count(c->keys) == 0)
        return NULL;
    if (!(text = p = malloc((size_t)KEY_SIZE * idset_count(ranks) + 1))) {
        core_log(c, LOG_ERR, "rank %u is out of memory for public keys", c->cfg.rank);
        return NULL;
    }
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        const char *key = core_key_of(c, r);

        if (key)
            memcpy(p, key, KEY_SIZE);
        else
            memset(p, ' ', KEY_SIZE);
        p += KEY_SIZE;
    }
    *p = '\0';
    return text;
}

void keys_note_one(core_t *c, uint32_t rank, const char *key)
{
    idset_t *one = key && key[0] ? idset_create_range(rank, rank) : NULL;

    if (one)
        keys_note(c, one, key);
    idset_destroy(one);
}

void keys_begin(core_t *c)
{
    struct control_card own = {.rank = c->cfg.rank};

    if (c->link->by_key && heal_can(c) && c->link->card(c->link_arg, &own) == 0)
        keys_note_one(c, c->cfg.rank, own.key);
}

/* --- start and end --- */

int keys_init(core_t *c)
{
    return (c->keys = hmap_create_u64(free)) && (c->key_users = hmap_create_str(NULL)) ? 0 : -1;
}

void keys_destroy(core_t *c)
{
    hmap_destroy(c->keys);
    hmap_destroy(c->key_users);
}
