/* All of libflux: what a program or a module of Flux includes.
 *
 *    cc $(pkg-config --cflags flux) tool.c $(pkg-config --libs flux)
 */
#ifndef FLUX_FLUX_H
#define FLUX_FLUX_H

#include "libflux/attr.h"
#include "libflux/dispatch.h"
#include "libflux/event.h"
#include "libflux/future.h"
#include "libflux/handle.h"
#include "libflux/handover.h"
#include "libflux/log.h"
#include "libflux/module.h"
#include "libflux/msg.h"
#include "libflux/reactor.h"
#include "libschema/schema.h"

#endif
