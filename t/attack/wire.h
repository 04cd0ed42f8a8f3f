/* wire.h - the bytes of the local connection (doc/protocol.rst), without libflux: frames that no
 * client of libflux would send can be made, too. */
#ifndef ATTACK_WIRE_H
#define ATTACK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEADER 44
#define REQUEST 1
#define RESPONSE 2
#define EVENT 4
#define CONTROL 8
#define RAW 16
#define NORESPONSE 1
#define STREAMING 2
#define ANY 0xffffffffu

struct frame {
    uint8_t type, flags;
    uint32_t userid, roles, nodeid, tag, errnum;
    uint64_t seq;
    uint16_t routes;
    const char *topic;
    const char *payload;
    size_t len;
};

/* Little-endian numbers. */
void put(uint8_t *p, uint64_t v, int bytes);
uint64_t get(const uint8_t *p, int bytes);

/* To be freed. Exits with 3 without memory. */
uint8_t *encode(const struct frame *f, size_t *len);

/* A descriptor, -1 when nobody takes the connection. */
int dial(const char *path);

/* All of it; false: the other end closes, or takes nothing for `ms`. */
bool send_bytes(int fd, const uint8_t *buf, size_t len, int ms);
bool send_frame(int fd, const struct frame *f, int ms);

/* False, with errno: ETIMEDOUT when nothing comes for `ms`, ECONNRESET at the end. */
bool read_bytes(int fd, void *buf, size_t len, int ms);
/* The next message: its header, with the rest thrown away. */
bool read_header(int fd, uint8_t head[HEADER], int ms);

#endif
