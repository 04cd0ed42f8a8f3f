/* The tasks of simulated nodes: what tasks.c, which stands in for the launcher, and the scenario
 * that launches them agree about. */
#ifndef SIM_TASKS_H
#define SIM_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A program has two words and two numbers: NAME BYTES CODE.
 *
 *    emit BYTES CODE   write BYTES to each of standard output and standard error, exit with CODE
 *    cat BYTES CODE    read standard input to its end, exit with CODE if it was the BYTES of
 *                      task_byte(), else with TASK_WRONG
 *    sleep             wait for a signal
 *    meet TIMES CODE   enter TIMES barriers of PMI, each with a pair, exit with CODE if each
 *                      barrier has brought the pairs of all nodes, else with TASK_WRONG
 */
#define TASK_WRONG 99

/* Byte number `pos` of what a task of a job writes to stream 1 or 2, or (stream 0) reads. */
static inline uint8_t task_byte(uint64_t job, uint32_t task, uint32_t stream, uint64_t pos)
{
    uint64_t x = (job << 40) ^ ((uint64_t)task << 24) ^ ((uint64_t)stream << 20) ^ (pos >> 3);

    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)(x >> (8 * (pos & 7)));
}

/* The key and the value of the pair that a node of a job adds to a barrier. */
#define TASK_PAIR_MAX 32
void task_pair(uint64_t job, uint32_t node, uint32_t barrier, char key[TASK_PAIR_MAX],
               char value[TASK_PAIR_MAX]);

#endif
