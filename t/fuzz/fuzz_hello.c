/* fuzz_hello.c - what a stranger says first: the first messages of a local connection, routing ids
 * and subscriptions of ZeroMQ connections, and the dialog over ssh.
 *
 * The first byte chooses which of these the rest is.  What can be written must be read as it was.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "src/broker/boot_ssh_wire.c"
#include "src/broker/link/unix/ulink_private.h"
#include "src/broker/link/zmq/link_private.h"

/* --- local connections --- */

static void word(enum ulink_word number, const char *text)
{
    union {
        struct ulink_hello hello;
        struct ulink_key key;
        struct ulink_reason reason;
    } in, again;
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, ulink_words[number].topic), *copy;
    errmsg_t err = {""};
    json_t *owner, *owner2;

    MUST(msg != NULL);
    memset(&in, 0, sizeof(in));
    flux_msg_set_cred(msg, 0, FLUX_ROLE_BROKER);
    MUST(flux_msg_set_json(msg, text) == 0);
    owner = ulink_word_decode(number, msg, &in, &err);
    MUST(owner || err.text[0]);
    if (owner) {
        MUST((copy = ulink_word_create(number, &in)) != NULL);
        MUST((owner2 = ulink_word_decode(number, copy, &again, &err)) != NULL);
        if (number == ULINK_HELLO)
            MUST(in.hello.rank == again.hello.rank && in.hello.version == again.hello.version &&
                 ulink_same_key(in.hello.key, again.hello.key));
        json_decref(owner2);
        flux_msg_destroy(copy);
    }
    json_decref(owner);
    flux_msg_destroy(msg);
}

/* --- ZeroMQ connections --- */

static void id(const void *data, size_t len)
{
    enum core_plane plane;
    struct link_attempt at;
    uint32_t rank;

    if (link_parse_id(data, len, &plane, &rank, &at))
        MUST((plane == CORE_TREE || plane == CORE_RING) && at.number > 0);
}

static void subscription(const void *data, size_t len)
{
    struct link_attempt at, at2;
    uint32_t rank, rank2;
    char text[64];

    if (!link_parse_subscription(data, len, &rank, &at))
        return;
    MUST(at.number > 0);
    snprintf(text, sizeof(text), "\1up.%u.%08x%08x", rank, at.broker, at.number);
    MUST(link_parse_subscription(text, strlen(text), &rank2, &at2) && rank2 == rank &&
         at2.broker == at.broker && at2.number == at.number);
}

/* --- ssh --- */

/* However the frames are cut, they are the same. */
static void frames(const char *data, size_t len)
{
    struct boot_frame f, part;
    size_t used = 0, used2;
    int rc;

    while ((rc = boot_frame_first(data, len, &f, &used)) == 1) {
        MUST(used <= len && f.data >= data && f.data + f.len == data + used);
        MUST(boot_frame_first(data, used, &part, &used2) == 1 && used2 == used);
        MUST(boot_frame_first(data, used - 1, &part, &used2) == 0);
        data += used;
        len -= used;
    }
    MUST(rc == 0 || errno == EPROTO);
}

static void greeting(const char *data, size_t len)
{
    char version[16];
    size_t used;

    if (boot_greeting_find(data, len, version, sizeof(version), &used) == 1) {
        MUST(used <= len && strlen(version) < sizeof(version));
        frames(data + used, len - used);
    }
}

static void args(const char *data, size_t len)
{
    struct boot_remote_args a, b;
    char *copy;
    size_t n;

    if (boot_remote_args_decode(data, len, &a) < 0)
        return;
    MUST(a.rank < a.size && a.again <= 1);
    MUST((copy = boot_remote_args_encode(&a, &n)) != NULL);
    MUST(boot_remote_args_decode(copy, n, &b) == 0);
    MUST(strcmp(a.dir, b.dir) == 0 && a.rank == b.rank && a.size == b.size && a.again == b.again &&
         strvec_count(a.options) == strvec_count(b.options));
    strvec_destroy(a.options);
    strvec_destroy(b.options);
    free(copy);
}

static void why(const char *data, size_t len)
{
    errmsg_t err = {""};
    char host[64];

    if (len < 1)
        return;
    snprintf(host, sizeof(host), "%s", data + 1);
    errno = 0;
    MUST(boot_ssh_explain(host, (uint8_t)data[0],
                          strlen(data + 1) + 2 < len ? data + strlen(data + 1) + 2 : "", "broker",
                          &err) == -1);
    MUST(errno != 0 && err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len = size - 1;
    char *text;

    if (size < 1)
        return 0;
    MUST((text = malloc(size)) != NULL);
    memcpy(text, data + 1, len);
    text[len] = '\0';
    if (data[0] == 'h')
        word(ULINK_HELLO, text);
    else if (data[0] == 'a')
        word(ULINK_ACCEPTED, text);
    else if (data[0] == 'r')
        word(ULINK_REFUSED, text);
    else if (data[0] == 'i')
        id(text, len);
    else if (data[0] == 's')
        subscription(text, len);
    else if (data[0] == 'g')
        greeting(text, len);
    else if (data[0] == 'f')
        frames(text, len);
    else if (data[0] == 'b')
        args(text, len);
    else if (data[0] == 'e')
        why(text, len);
    free(text);
    return 0;
}
