-- Objects that end in any order; nothing is lost, nothing crashes.
local flux = require "flux"
local tap = require "tap"
local is, ok = tap.is, tap.ok

-- What a finalizer has used is collected by the next cycle, so that a chain of objects (an
-- iterator, its watch, the handle, the reactor) takes as many cycles as it has links, and one more
-- where a cycle has begun.
local function full()
  for _ = 1, 8 do collectgarbage() end
end

-- Files are closed here, not whenever they are collected: they would be counted, or not, by chance.
local function contents(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

local function rss()
  return tonumber(contents("/proc/self/status"):match("\nVmRSS:%s+(%d+)"))
end

-- Counted by a child, without a pipe to it: this process may not have closed its other end yet.
local function descriptors()
  local pid = contents("/proc/self/stat"):match("^%d+")
  local _, _, n = os.execute("exit $(ls /proc/" .. pid .. "/fd | wc -l)")
  return n
end

-- Everything at once, in every state, dropped.
local function make()
  local h = assert(flux.open())
  local r = h:reactor()
  local kv = h:kvs()
  local objects = {
    h = h, r = r, kv = kv,
    f1 = h:rpc_async("broker.ping", {}),
    f2 = h:rpc_async("broker.ping", {}):then_(function() end),
    f3 = h:mrpc("broker.ping", {}, "all"),
    t1 = r:timer(100, function() end),
    t2 = r:timer(100, function() end, 5),
    d = r:defer(function() end),
    fd = r:fd(0, "r", function() end),
    on = h:on_event("x", function() end),
    txn = kv:txn():put("gc", "x"),
    w1 = kv:watch("gc"),
    w2 = kv:watch("gc", function() end),
    g = kv:get_async("gc"),
    wr = kv:writer("gc.w"),
  }
  objects.t2:stop()
  objects.wr:write(("x"):rep(100000))
  objects.it = objects.f3:results(10)
  objects.wit = objects.w1:results(10)
  h:subscribe("gc.")
  h:send_event("gc.x")
  return objects
end

make()
full()
local weak = setmetatable({}, {__mode = "v"})
for k, v in pairs(make()) do weak[k] = v end
full()
is(next(weak), nil, "what nobody refers to is collected, callbacks and all")

-- A callback keeps its objects as long as the loop may call it.
do
  local r = flux.reactor()
  do
    local h = assert(flux.open(nil, r))
    h:rpc_async("broker.ping", {n = 1}):then_(function(f) r:stop(f:get().n) end)
  end
  full()
  is(r:run(), 1, "a future with a callback lives by its loop")
  full()
  is(r:run(), 0, "and no longer than needed")
end

-- Each object outlives the others in turn; the rest is ended in random order.
math.randomseed(tonumber(arg[1]) or 1)
local enders = {
  h = "close", f1 = "destroy", f2 = "destroy", f3 = "destroy", t1 = "destroy", t2 = "destroy",
  d = "destroy", fd = "destroy", on = "remove", w1 = "destroy", w2 = "destroy", g = "destroy",
  txn = "clear", r = "close", wr = "close",
}
for _ = 1, 60 do
  local objects = make()
  local names = {}
  for name in pairs(objects) do names[#names + 1] = name end
  table.sort(names)
  for i = #names, 2, -1 do
    local j = math.random(i)
    names[i], names[j] = names[j], names[i]
  end
  for i = 1, #names - 1 do
    local object = objects[names[i]]
    if enders[names[i]] and math.random(2) == 1 then object[enders[names[i]]](object) end
    objects[names[i]] = nil
    if math.random(4) == 1 then collectgarbage() end
  end
  full()
end
ok(true, "objects end in any order")

-- Finalizers of scripts meet objects that were finalized.
do
  local objects = make()
  local met = {}
  setmetatable(objects, {__gc = function(t)
    for name, object in pairs(t) do
      met[#met + 1] = name
      pcall(function() return object.rank and object:rank() end)
      pcall(function() return object.get and object:get("x") end)
      pcall(function() return object.run and object:stop() or object:run() end)
      pcall(function() return object.start and object:start() end)
      pcall(function() return object.commit and object:commit() end)
      tostring(object)
    end
  end})
  objects = nil
  full()
  ok(#met > 10, "a finalizer that uses them all", #met)
end

-- Collected in callbacks.
do
  local h = assert(flux.open())
  local r = h:reactor()
  local n = 0
  local function step()
    collectgarbage()
    n = n + 1
    if n == 50 then return r:stop() end
    h:rpc_async("broker.ping", {}):then_(step)
    local other = flux.open(nil, r)
    other:rpc_async("broker.ping", {}):then_(function() end)
    if n % 2 == 0 then other:close() end
  end
  step()
  r:run()
  is(n, 50, "collections within callbacks")
end

-- Memory, of Lua's and C's, and descriptors.
local h = assert(flux.open())
local function work()
  for n = 1, 200 do
    h:rpc("broker.ping", {n = n, text = ("x"):rep(1000)})
    h:rpc_async("broker.ping", {})
    h:rpc_async("broker.ping", {}):then_(function() end)
    h:rpc("no.such", {print})
    h:mrpc("broker.ping", {}, "all"):destroy()
    h:publish("gc.e", {n = n})
    h:reactor():timer(0, function() end)
    h:kvs():put("gc.k", n)
    h:kvs():get("gc.k")
    pcall(h.rpc, h, "x", {}, "bad")
    h:kvs():txn():put("gc", ("y"):rep(20000))
  end
  for _ = 1, 3 do make() end
  local r = h:reactor()
  r:timer(0.01, function() r:stop() end)
  r:run()
  full()
end
work()
work()
local lua0, rss0, fd0 = collectgarbage("count"), rss(), descriptors()
for _ = 1, 10 do work() end
local lua1, rss1, fd1 = collectgarbage("count"), rss(), descriptors()
ok(lua1 - lua0 < 20, "no memory of Lua's is lost", lua0, lua1)
if not os.getenv("LD_PRELOAD") or os.getenv("LD_PRELOAD") == "" then
  ok(rss1 - rss0 < 1500, "no memory of C's is lost", rss0, rss1)
end
ok(fd1 <= fd0, "no descriptor is lost", fd0, fd1)

-- The state is closed with everything open, also from a callback.
Everything = {make(), make()}
Everything[1].r:timer(0, function() tap.done() end)
Everything[1].r:run()
