-- Random calls with random arguments on objects in random states: errors are fine, a crash is not.
-- Arguments: seed, number of calls.
local flux = require "flux"
local tap = require "tap"
local seed, calls = tonumber(arg[1]) or 1, tonumber(arg[2]) or 20000
math.randomseed(seed)
local random = math.random

local methods = {}
local registry = debug.getregistry()
for _, class in ipairs{"handle", "reactor", "watcher", "future", "handler", "kvs", "txn", "writer",
  "stream_writer", "stream_reader"} do
  local names = {}
  for name in pairs(registry["flux." .. class].__index) do names[#names + 1] = name end
  table.sort(names)
  methods[class] = names
end

local pool = {}
local function keep(v)
  if type(v) == "userdata" or type(v) == "function" then
    pool[random(40)] = v
  end
end

local words = {"a", "a.b", ".", "", "broker.ping", "x.y", "all", "0-1", "rw", "r", "USR1", "info",
  "a\0b", "\xff\xfe", ("k"):rep(300), ("long."):rep(300), "primary", "ns1", "rank", "size", "%d%s%q",
  "dir-00", "sha256-00"}
local numbers = {0, 1, 2, -1, 3.5, 1e300, -1e300, 0 / 0, 1 / 0, math.maxinteger, math.mininteger,
  1 << 31, 1 << 32, 255, 0.001}
local options = {"nodeid", "timeout", "streaming", "noresponse", "upstream", "values", "page", "json",
  "offset", "count", "recursive", "must_exist", "append", "diff", "rank", "owner", "link", "wrong"}
local value, step
local depth = 0

-- A callback does what the script does, too: calls within calls, ends within waits.
local function callback(...)
  keep((...))
  if depth < 4 and random(3) == 1 then
    depth = depth + 1
    pcall(step)
    depth = depth - 1
  end
  if random(8) == 1 then error("torture") end
end

local function random_table(depth)
  local t = {}
  for _ = 1, random(0, 4) do
    local r = random(4)
    local k = r == 1 and random(5) or r == 2 and words[random(#words)] or options[random(#options)]
    t[k] = value(depth + 1)
  end
  if random(10) == 1 then t.self = t end
  return t
end

function value(depth)
  local r = random(13)
  if r <= 3 then return words[random(#words)] end
  if r <= 5 then return numbers[random(#numbers)] end
  if r == 6 then return random(2) == 1 end
  if r == 7 then return flux.null end
  if r == 8 and depth < 4 then return random_table(depth) end
  if r == 9 then return io.stdout end
  if r == 10 then return callback end
  if r == 11 then return nil end
  return pool[random(40)]
end

-- What could wait for long is given a short time; everything else is random.
local waits = {wait = 1, get = 1, recv_event = 1, results = 1, begin_step = 1, end_step = 1, drain = 1, steps = 1,
  wait_step = 1}
local function class_of(v)
  return type(v) == "userdata" and getmetatable(v) and tostring(getmetatable(v)):match("^flux%.([%w_]+)")
end

-- A loop may run for ever, and an RPC to a service that does not answer may wait for ever: a timer
-- ends the first, a time-out the second.
local function call(object, class, name)
  local args = {n = random(0, 4)}
  for i = 1, args.n do args[i] = value(0) end
  if class == "reactor" and name == "run" then
    local ok, t = pcall(object.timer, object, 0.002, function() object:stop() end)
    if not ok or not t then return end
    keep(object:idle(function(w) w:destroy() end))
    args.n = 0
  elseif class == "reactor" and (name == "signal" or name == "child" or name == "fd") then
    return pcall(object[name], object, name == "fd" and 0 or value(0), "", type)
  elseif waits[name] and class ~= "kvs" then
    args = {n = 1, random() / 500}
  elseif name == "wait_readers" then
    args = {n = 2, args[1], random() / 500}
  elseif name == "fence" or name == "wait_version" or name == "barrier" or name == "log_source" then
    name = name == "log_source" and name or name .. "_async"
  elseif class == "handle" and name == "rpc" then
    args = {n = 3, "broker.ping", args[1], {timeout = 0.01}}
  elseif name == "stream_writer" or name == "stream_reader" then
    args = {n = 2, "torture", {timeout = 0.01}}
  elseif class == "handle" and (name == "setattr" or name == "namespace_create" or
      name == "namespace_remove") then
    return
  elseif (name == "close" or name == "fail") and random(5) > 1 then
    return
  end
  return pcall(object[name], object, table.unpack(args, 1, args.n))
end

local good, failed, refused = 0, 0, 0
function step()
  local object = pool[random(40)]
  local class = class_of(object)
  if class then
    local names = methods[class]
    local results = table.pack(call(object, class, names[random(#names)]))
    if results[1] == false then
      refused = refused + 1
    elseif results[1] and results[2] == nil then
      failed = failed + 1
    else
      good = good + 1
    end
    for i = 2, results.n do keep(results[i]) end
  elseif type(object) == "function" and object ~= callback then
    pcall(object)
  end
end

for n = 1, calls do
  if n % 50 == 1 then
    keep(flux.open())
    keep(flux.open(nil, flux.reactor()))
    keep(flux.reactor())
    for i = 1, 40 do
      if class_of(pool[i]) == "handle" then
        pcall(pool[i].subscribe, pool[i], "")
        local ok, kv = pcall(pool[i].kvs, pool[i])
        if ok then keep(kv) end
        break
      end
    end
  end
  step()
  if random(20) == 1 then pool[random(40)] = nil end
  if random(200) == 1 then collectgarbage() end
  pcall(random(2) == 1 and flux.json.encode or flux.json.decode, value(0))
end
tap.ok(good > calls / 20 and refused > calls / 20, "seed " .. seed .. ": " .. good .. " calls went well, " ..
  failed .. " failed, " .. refused .. " were refused; the interpreter lives", good, failed, refused)
tap.done()
