-- The loop and its watchers; errors in callbacks; a broker that goes away (argument: the command
-- that ends the session, run by the test).
local flux = require "flux"
local tap = require "tap"
local is, ok, fails, raises = tap.is, tap.ok, tap.fails, tap.raises

-- Without a session.
local r = assert(flux.reactor())
is(r:run(), 0, "a loop with nothing to wait for ends")
local now = r:now()
local ticks = 0
local t
t = r:timer(0.01, function(w)
  ticks = ticks + 1
  if w ~= t then ticks = 100 end
  if ticks == 3 then w:stop() end
end, 0.01)
is(t:active(), true, "a timer is started when it is made")
is(r:run(), 0, "the loop ends when the last watcher stops")
is(ticks, 3, "a timer that repeats")
is(t:active(), false, "is stopped")
ok(r:now() - now >= 0.03 and r:now() - now < 5, "time passes", r:now() - now)
t:start(0, 0)
r:run()
is(ticks, 4, "a timer is started again with other times")
r:timer(0, function() r:stop(42) end)
r:timer(100, function() end)
is(r:run(), 42, "stop")
r:stop(43)
is(r:run(), 43, "stop before run")
r:close()
raises("closed", "a closed loop", r.run, r)
raises("destroyed", "its watcher", t.start, t)
raises("time is a number", "a time that is none", function()
  local x = flux.reactor()
  x:timer(0 / 0, print)
end)

r = flux.reactor()
local order = {}
r:defer(function(w) order[#order + 1] = "defer" if #order < 3 then w:start() end end)
r:run()
is(table.concat(order, " "), "defer defer defer", "a deferral that is started again")
local idles = 0
r:idle(function(w) idles = idles + 1 if idles == 5 then w:stop() end end)
r:run()
is(idles, 5, "an idle callback comes until it is stopped")
local un = r:timer(100, function() end)
un:unref()
is(r:run(), 0, "a watcher that does not count")
un:destroy()

-- Descriptors.
local file = assert(io.popen("echo hello; exec sleep 0.1", "r"))
local text
r:fd(file, "r", function(w, events)
  text = events .. " " .. file:read("l")
  w:destroy()
end)
r:run()
is(text, "r hello", "a file of the io library")
file:close()
raises("was closed", "a closed file", r.fd, r, file, "r", print)
fails("EBADF", "no descriptor", r:fd(987, "r", print))
raises("not in the range", "a negative descriptor", r.fd, r, -1, "r", print)
raises("events are", "unknown events", r.fd, r, 0, "x", print)
local out = assert(io.open("/dev/null", "w"))
local writable = 0
local w = r:fd(out, "", function(v) writable = writable + 1 v:set("") v:stop() end)
w:set("w")
r:run()
is(writable, 1, "events are set later")
raises("only a timer", "times for what is not a timer", w.start, w, 1)
raises("only a watcher", "events for what has none", un.set, r:defer(print), "r")

-- Signals, on the loop that has them.
fails("ENOTSUP", "signals want a loop of their own", r:signal("USR1", print))
fails("ENOTSUP", "children too", r:child(1, print))
r = assert(flux.reactor{signals = true})
fails("EBUSY", "there is one such loop", flux.reactor{signals = true})
local got
r:signal("USR1", function(v, number) got = number v:stop() end)
r:timer(0, function() os.execute("kill -USR1 " .. io.open("/proc/self/stat"):read("n")) end)
r:run()
is(got, 10, "a signal")
raises("cannot be caught", "one that cannot", r.signal, r, 9, print)
raises("unknown signal", "one that is none", r.signal, r, "FOO", print)
raises("not in the range", "a number that is none", r.signal, r, 1000, print)
r:close()
r = assert(flux.reactor{signals = true})
ok(r, "another one after that was closed")
r:close()

-- Errors.
r = flux.reactor()
local function inner() error("boom") end
r:timer(0, function() inner() end)
local good, why = pcall(r.run, r)
ok(not good and why:find("reactor.lua:%d+: boom") and why:find("stack traceback") and
  why:find("inner"), "an error comes out of run with its traceback", why)
is(r:run(), 0, "once")
r:timer(0, function() error({code = 7}) end)
good, why = pcall(r.run, r)
is(type(why) == "table" and why.code, 7, "an error that is an object stays one")
r:timer(0, function() error() end)
good, why = pcall(r.run, r)
ok(not good and type(why) == "string", "an error that is nil becomes a sentence", why)
r:timer(0, function() error("first") end)
r:timer(0, function() error("second") end)
good, why = pcall(r.run, r)
if not why:find("second") then why = why .. tostring(select(2, pcall(r.run, r))) end
ok(why:find("first") and why:find("second"), "two errors are both told", why)
r:timer(0, function() r:run() end)
raises("called from a callback", "run within run", r.run, r)
r:timer(0, function() r:close() end)
raises("called from a callback", "close within run", r.run, r)
r:timer(0, function() coroutine.yield() end)
local co = coroutine.wrap(function() return pcall(r.run, r) end)
good, why = co()
ok(not good and why:find("yield"), "a callback cannot yield", why)
r:timer(0, function() ticks = coroutine.running() end)
co = coroutine.create(function() return r:run() end)
is(select(2, coroutine.resume(co)), 0, "run in a coroutine")
is(ticks, co, "which the callbacks are in")
r:timer(0, function()
  local other = flux.reactor()
  other:timer(0, function() ticks = "other" end)
  other:run()
end)
r:run()
is(ticks, "other", "another loop within a callback")
local depth = 0
local function recurse() depth = depth + 1 return recurse() + 1 end
r:timer(0, recurse)
raises("overflow", "a stack that overflows", r.run, r)
depth = 0
local function nest()
  depth = depth + 1
  local x = flux.reactor()
  x:timer(0, nest)
  x:run()
end
r:timer(0, nest)
raises("nested too deeply", "loops nested too deeply", r.run, r)
collectgarbage()

-- With a session: an error of a callback in a blocking call.
local h = assert(flux.open())
h:rpc_async("broker.ping", {}):then_(function() error("in a wait") end)
good, why = pcall(h.rpc, h, "broker.ping", {}, 0)
ok(not good and why:find("in a wait"), "an error comes out of a blocking call", why)
is(h:rpc("broker.ping", {n = 1}).n, 1, "which works after that")
local inside
h:rpc_async("broker.ping", {}):then_(function()
  inside = h:rpc("broker.ping", {n = 2}).n
  h:reactor():stop()
end)
h:reactor():run()
is(inside, 2, "a blocking call in a callback")

-- Two handles on one loop.
r = flux.reactor()
local a, b = assert(flux.open(nil, r)), assert(flux.open(nil, r))
local both = {}
for name, x in pairs{a = a, b = b} do
  x:rpc_async("broker.ping", {}):then_(function()
    both[name] = true
    if both.a and both.b then r:stop() end
  end)
end
r:run()
ok(both.a and both.b, "two handles on one loop")
a:close()
is(b:rpc("broker.ping", {n = 3}).n, 3, "one lives on when the other is closed")
b:rpc_async("broker.ping", {}):then_(function() b:close() end)
is(r:run(), 0, "and the loop ends with the last")

-- The end of the session: shut down, the broker is gone.
h = assert(flux.open())
local h2 = assert(flux.open())
local lost = 0
h2:on_lost(function(x) lost = lost + (x == h2 and 1 or 100) end)
local f = h:rpc_async("kvs.wait-for-nobody", {})
f:wait()
if arg[1] then
  io.stderr:write("ready\n")
  local sentence, errno
  good, sentence, errno = h:reactor():run()
  is(errno, flux.errno.EPIPE, "the loop ends when the connection is lost")
  fails("EPIPE", "each time", h:reactor():run())
  fails("EPIPE", "requests fail", h:rpc("broker.ping", {}))
  fails("EPIPE", "events do not come", h:recv_event(1))
  is(h2:reactor():run(), 0, "a loop whose handle has a function for it ends well")
  is(lost, 1, "which was called")
end
tap.done()
