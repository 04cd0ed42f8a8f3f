-- A file of any size into the key-value store and out of it again, in little memory:
--    lua5.3 largefile.lua put KEY FILE
--    lua5.3 largefile.lua get KEY FILE
local flux = require "flux"
local kv = assert(flux.open()):kvs()
local command, key, path = table.unpack(arg)
local PIECE = 1 << 20

local function put()
  local file = assert(io.open(path, "rb"))
  local writer = assert(kv:writer(key))
  for data in file:lines(PIECE) do assert(writer:write(data)) end
  assert(writer:commit())
end

local function get()
  local file = assert(io.open(path, "wb"))
  for data in assert(kv:chunks(key, PIECE)) do assert(file:write(data)) end
  assert(file:close())
end

local run = {put = put, get = get}
if not run[command] or not path then
  io.stderr:write("usage: largefile.lua put|get KEY FILE\n")
  os.exit(2)
end
run[command]()
