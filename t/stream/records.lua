-- Random records in Lua, for t/stream-records.t: read each record of a stream, and write it to another one.
--
--     records.lua FROM TO
local flux = require "flux"

local h = assert(flux.open())
local r = assert(h:stream_reader(arg[1]))
local w = assert(h:stream_writer(arg[2], {keep = 100}))
for _ in r:steps(60) do
  for _, name in ipairs(r:vars()) do
    assert(w:put(name, assert(r:get(name)), {format = assert(r:format(name))}))
  end
  assert(w:end_step(60))
end
io.read() -- until all has been read
w:close()
