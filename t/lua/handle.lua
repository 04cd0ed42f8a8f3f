-- Handles, requests, futures, events, attributes: in a session of 2 brokers.
local flux = require "flux"
local tap = require "tap"
local is, ok, fails, raises = tap.is, tap.ok, tap.fails, tap.raises

local h = assert(flux.open())
is(h:rank(), 0, "the rank")
is(h:size(), 2, "the size")
is(h:getattr("size"), "2", "an attribute")
fails("ENOENT", "an attribute that is not there", h:getattr("nope"))
is(h:setattr("lua.test", "x y"), true, "an attribute is set")
is(h:getattr("lua.test"), "x y", "and read")
fails("EPERM", "one that is fixed", h:setattr("rank", "7"))
is(h:attrs()["lua.test"], "x y", "all attributes")
fails("ENOENT", "no broker there", flux.open("local:///no/such/socket"))
fails("EINVAL", "no address", flux.open("what?"))
raises("table", "an address that is a table", flux.open, {})
raises("NUL byte", "an address with a NUL", flux.open, "local:///a\0b")

-- Requests.
local r = h:rpc("broker.ping", {n = 1, list = {"a", "b"}})
is(r.n, 1, "an answer is a table")
is(r.list[2], "b", "with what was sent")
is(h:rpc("broker.ping", {}, 1).rank, 1, "of the rank that was asked")
is(h:rpc("broker.ping", {}, {nodeid = 1}).rank, 1, "asked by an option")
is(h:rpc("broker.ping", "raw\0bytes"), "raw\0bytes", "bytes go both ways")
is(h:rpc("broker.ping"), true, "nothing at all is answered too")
is(h:rpc("broker.ping", {}, {noresponse = true}), true, "nobody waits")
fails("ENOSYS", "no such service", h:rpc("nope.ping", {}))
fails("EHOSTUNREACH", "no such rank", h:rpc("broker.ping", {}, 9))
fails("EINVAL", "a topic with a blank", h:rpc("a b"))
fails("EINVAL", "an empty topic", h:rpc(""))
fails("EINVAL", "a topic that is too long", h:rpc(("x"):rep(300)))
fails("EINVAL", "a payload that is not JSON", h:rpc("broker.ping", {print}))
raises("NUL byte", "a topic with a NUL", h.rpc, h, "a\0b")
raises("payload", "a payload that is a number", h.rpc, h, "broker.ping", 5)
raises("a rank", "a rank below 0", h.rpc, h, "broker.ping", {}, -1)
raises("no option 'timout'", "a misspelt option", h.rpc, h, "broker.ping", {}, {timout = 1})
raises("true or false", "an option of another type", h.rpc, h, "broker.ping", {}, {upstream = 1})
raises("seconds", "a time-out below 0", h.rpc, h, "broker.ping", {}, {timeout = -1})
raises("rpc_async", "a stream in the waiting form", h.rpc, h, "x", {}, {streaming = true})

-- Futures.
local f = assert(h:rpc_async("broker.ping", {n = 2}))
is(f:wait(10), true, "a future becomes ready")
is(f:ready(), true, "and says so")
is(f:get().n, 2, "and has the result")
is(f:get().n, 2, "twice")
fails("ENODATA", "there is one only", f:next())
f:destroy()
f:destroy()
raises("destroyed", "a destroyed future", f.get, f)
ok(tostring(f):find("ended"), "says so in words")
f = h:rpc_async("nope.x", {})
is(f:wait(), true, "waiting for an error is not an error")
fails("ENOSYS", "getting it is", f:get())
local called = 0
for n = 1, 3 do
  h:rpc_async("broker.ping", {n = n}, n % 2):then_(function(g)
    called = called + g:get().n
    if called == 6 then h:reactor():stop(5) end
  end)
end
collectgarbage()
is(h:reactor():run(), 5, "the loop returns what it was stopped with")
is(called, 6, "after all callbacks")
f = h:rpc_async("broker.ping", {n = 4})
f:then_(function() called = called + 1 end)
is(f:get(10).n, 4, "a future with a callback can be waited for")
is(called, 7, "its callback is called meanwhile")

-- A stream: what is logged.
assert(h:log("info", "a line for %s: %d", "the test", 42))
h:log_source("lua-test")
assert(h:log(3, "another"))
raises("levels are", "an unknown level", h.log, h, "loud", "x")
raises("not in the range", "a level out of range", h.log, h, 8, "x")
raises("no value", "a format without its argument", h.log, h, "info", "%d")

-- Many ranks.
local ranks, rest = {}, 0
f = assert(h:mrpc("broker.ping", {}, "all"))
for rank, value in f:results(30) do
  ranks[#ranks + 1] = rank
  rest = rest + value.rank
end
table.sort(ranks)
is(table.concat(ranks, ","), "0,1", "all ranks answer")
is(rest, 1, "each with its own")
local failed
for rank, value, sentence, errno in h:mrpc("broker.ping", {}, {0, 5, 1}):results(30) do
  if not value then failed = rank .. " " .. flux.errno[errno] .. " " .. #sentence end
end
ok(failed and failed:find("^5 EHOSTUNREACH"), "one that fails says so in its turn", failed)
f = h:mrpc("broker.ping", {}, "0-1")
assert(f:wait(30))
local first = f:rank()
assert(f:next() and f:wait(30))
is(f:rank(), 1 - first, "by hand")
fails("ENODATA", "until there is no more", f:next())
fails("ENODATA", "which waiting says too", f:wait())
fails("EINVAL", "no rank at all", h:mrpc("broker.ping", {}, {}))
fails("EINVAL", "what is not a list", h:mrpc("broker.ping", {}, "3-1"))
fails("EINVAL", "more than there are", h:mrpc("broker.ping", {}, "0-1000000000"))
raises("integers", "a list of names", h.mrpc, h, "broker.ping", {}, {"x"})
raises("payload", "bytes for many", h.mrpc, h, "broker.ping", "raw", "all")

-- Events.
is(h:subscribe("lua."), true, "subscribed")
local seq = h:publish("lua.a", {n = 1})
ok(math.type(seq) == "integer", "publishing gives the number")
is(h:publish_async("lua.b", "bytes\0"):get(10), seq + 1, "also later")
is(h:send_event("lua.c"), true, "or does not wait")
h:publish("other.a")
local e = h:recv_event(10)
is(e.topic .. e.payload.n, "lua.a1", "an event")
is(e.seq, seq, "with its number")
is(e.rank, 0, "and publisher")
is(h:recv_event(10).payload, "bytes\0", "one with bytes")
is(h:recv_event(10).payload, nil, "one with nothing")
fails("ETIMEDOUT", "no more", h:recv_event(0.02))
fails("EINVAL", "a bad topic", h:publish(""))
fails("EINVAL", "a bad payload", h:publish("lua.x", {0 / 0}))
local seen = {}
local on = h:on_event("lua.x", function(ev) seen[#seen + 1] = ev.topic end)
local on2 = h:on_event("lua.", function(ev)
  seen[#seen + 1] = "2" .. ev.topic
  if ev.topic == "lua.y" then h:reactor():stop() end
end)
h:send_event("lua.x1", {})
h:send_event("lua.y", {})
is(h:reactor():run(), 0, "the loop handles events")
is(table.concat(seen, " "), "lua.x1 2lua.x1 2lua.y", "each function its own")
on:remove()
on:remove()
on2:remove()
h:publish("lua.x2")
is(h:recv_event(10).topic, "lua.x2", "what no function takes is queued again")
is(h:unsubscribe("lua."), true, "unsubscribed")
h:publish("lua.z")
fails("ETIMEDOUT", "nothing comes any more", h:recv_event(0.02))

-- The queue is bounded, and says when it overflowed.
assert(h:subscribe("flood"))
for n = 1, 9000 do h:send_event("flood", {n = n}) end
assert(h:publish("flood", {n = 0}))
local _, sentence, errno = h:recv_event(10)
is(errno, flux.errno.ENOBUFS, "too many events are an error")
local lost = tonumber(sentence:match("^(%d+)"))
is(h:recv_event(10).payload.n, lost + 1, "which says how many: the oldest")
local count = 1
while h:recv_event(0) do count = count + 1 end
is(count + lost, 9001, "the others are there")

-- Ending.
local g = assert(h:rpc_async("broker.ping", {}))
local kv = h:kvs()
h:close()
h:close()
raises("closed", "a closed handle", h.rank, h)
raises("closed", "and its future", g.get, g)
raises("closed", "and its store", kv.get, kv, "a")
ok(tostring(h):find("ended"), "says so in words")

-- Closing in a callback, while run() or a wait is under way.
h = assert(flux.open())
local reactor = h:reactor()
h:rpc_async("broker.ping", {}):then_(function() h:close() end)
is(reactor:run(), 0, "the loop ends when the only handle closes itself")
h = assert(flux.open())
h:rpc_async("broker.ping", {}):then_(function() h:close() end)
fails("ECANCELED", "a wait ends when the handle is closed", h:recv_event(10))
h = assert(flux.open())
f = h:rpc_async("broker.ping", {})
f:then_(function(x) x:destroy() end)
fails("ECANCELED", "or the future destroyed", f:wait(10))
h:close()
tap.done()
