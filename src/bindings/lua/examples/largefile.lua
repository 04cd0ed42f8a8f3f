-- A file of any size into the key-value store and out of it again, in little memory:
--    lua5.3 largefile.lua put KEY FILE
--    lua5.3 largefile.lua get KEY FILE
local flux = require "flux"
local kv = assert(flux.open()):kvs()
local command, key, path = table.unpack(arg)
local PIECE = 1 << 20

local function put()
  local file = assert(io.open(path, "rb"))
  local digests, size, futures = {}, 0, {}
  -- A few pieces at a time are under way.
  local function collect(most)
    while #futures > most do digests[#digests + 1] = assert(table.remove(futures, 1):get()) end
  end
  for data in file:lines(PIECE) do
    size = size + #data
    futures[#futures + 1] = assert(kv:store_async(data))
    collect(4)
  end
  collect(0)
  if size == 0 then return assert(kv:put(key, "")) end
  assert(kv:put_chunks(key, size, table.concat(digests)))
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
