/* fuzz_streamlane.c - a page of a stream's lane in which one end writes anything while the other
 * works, and any bytes as a knock and a welcome. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/knock.h"
#include "libstream/lane.h"

static void messages(const uint8_t *data, size_t size)
{
    unsigned char buf[KNOCK_MAX];
    struct knock_welcome w;
    struct knock k;

    if (knock_decode(data, size, &k) == 0) {
        MUST(size == knock_encode(&k, buf) && memcmp(buf, data, size) == 0);
    }
    if (knock_welcome_decode(data, size, &w) == 0) {
        knock_welcome_encode(&w, buf);
        MUST(size == KNOCK_WELCOME_LEN && memcmp(buf, data, size) == 0);
    }
}

/* Each operation takes 4 bytes: what, where (2), value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char refs[1024];
    uint64_t *page = aligned_alloc(64, lane_page_size());
    size_t words = lane_page_size() / sizeof(*page);
    unsigned live = 0;
    struct lane_item item = {.len = 100};
    lane_tx_t *tx;
    lane_rx_t *rx;

    messages(data, size);
    memset(page, 0, lane_page_size());
    MUST((tx = lane_tx_create(page)) && (rx = lane_rx_create(page)));
    for (; size >= 4; data += 4, size -= 4) {
        size_t at = (size_t)(data[1] | data[2] << 8) % words;

        switch (data[0] % 8) {
        case 0:
            live += lane_tx_offer(tx, &item, &refs[at % sizeof(refs)]) ? 1 : 0;
            break;
        case 1:
            live -= lane_tx_drop(tx) ? 1 : 0;
            break;
        case 2:
            live -= lane_tx_reap(tx) ? 1 : 0;
            break;
        case 3:
            lane_rx_take(rx, &item);
            item.len = 100;
            break;
        case 4:
            lane_rx_release(rx, at);
            break;
        case 5:
            lane_rx_sleep(rx);
            lane_tx_asleep(tx);
            break;
        case 6:
            page[at] = data[3];
            break;
        default:
            page[at] += (uint64_t)data[3] << (at % 57);
        }
        MUST(lane_tx_live(tx) == live && lane_tx_bytes(tx) == 100 * (uint64_t)live);
    }
    while (lane_tx_forget(tx))
        live--;
    MUST(live == 0);
    lane_tx_destroy(tx);
    lane_rx_destroy(rx);
    free(page);
    return 0;
}
