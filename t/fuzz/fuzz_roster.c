/* fuzz_roster.c - bytes as the file of hosts that were added to a session (broker/boot_roster.c).
 *
 * The first byte is the number of ranks that have no host yet.  What is refused must say where;
 * what was read is written so that it is read again as it was.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "src/broker/boot_hosts.c"
#include "src/broker/boot_roster.c"

#define DIR_NAME "/nonexistent"

bool boot_addr_is_here(const char *uri)
{
    return false;
}

static boot_roster_t *create(boot_hosts_t **h, uint32_t more)
{
    hostlist_t *list = hostlist_parse("node[0-1]", NULL);
    errmsg_t err;
    boot_roster_t *r;

    MUST(list != NULL && (*h = boot_hosts_list(list, &err)) != NULL);
    MUST(boot_hosts_reserve(*h, 2 + more, &err) == 0);
    MUST((r = boot_roster_create(*h, DIR_NAME, &err)) != NULL);
    hostlist_destroy(list);
    return r;
}

/* Each host has its rank, alone, and the others can still be given away. */
static void usable(boot_roster_t *r, boot_hosts_t *h)
{
    uint32_t free_ranks = 0, rank, other;
    errmsg_t err;

    for (rank = 0; rank < boot_hosts_size(h); rank++) {
        const char *host = boot_hosts_name(h, rank);

        free_ranks += host == NULL;
        if (!host)
            continue;
        MUST(boot_roster_admit(r, rank, host, &err) == 0);
        MUST(boot_hosts_add(h, host, &other, &err) < 0 && errno == EEXIST && other == rank);
    }
    for (uint32_t i = 0; i < free_ranks; i++) {
        char name[32];

        snprintf(name, sizeof(name), "not_there_before-%u", i);
        MUST(boot_hosts_add(h, name, &rank, &err) == 0 || errno == EEXIST);
    }
}

static void again(const boot_roster_t *r, uint32_t more)
{
    strbuf_t *text = make_text(r), *copy;
    char *s = text ? strdup(strbuf_str(text)) : NULL;
    boot_hosts_t *h;
    boot_roster_t *r2 = create(&h, more);
    errmsg_t err;

    MUST(s != NULL);
    MUST(take_text(r2, s, strlen(s), &err) == 0);
    MUST((copy = make_text(r2)) != NULL && strcmp(strbuf_str(copy), strbuf_str(text)) == 0);
    boot_roster_destroy(r2);
    boot_hosts_destroy(h);
    strbuf_destroy(copy);
    strbuf_destroy(text);
    free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    boot_hosts_t *h;
    boot_roster_t *r;
    char *text;

    if (size < 1)
        return 0;
    r = create(&h, data[0]);
    MUST((text = malloc(size - 1)) != NULL); /* no byte beyond the text */
    memcpy(text, data + 1, size - 1);
    if (take_text(r, text, size - 1, &err) == 0) {
        again(r, data[0]);
        usable(r, h);
    } else {
        MUST(errno == EINVAL && strncmp(err.text, DIR_NAME "/hosts:", 19) == 0);
    }
    boot_roster_destroy(r);
    boot_hosts_destroy(h);
    free(text);
    return 0;
}
