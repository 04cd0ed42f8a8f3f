-- Many processes count in one key, and none is lost:    lua5.3 counter.lua KEY [TIMES]
--
-- Each reads value and tag, and commits the next value on condition that the key still has that tag
-- (or is still absent); who comes second gets EAGAIN and reads again.
local flux = require "flux"
local kv = assert(flux.open()):kvs()
local key = assert(arg[1], "usage: counter.lua KEY [TIMES]")

local function increment()
  while true do
    local info, sentence, errno = kv:info(key)
    if not info and errno ~= flux.errno.ENOENT then return nil, sentence, errno end
    local value = info and math.tointeger(tonumber(info.value)) or 0
    local version
    version, sentence, errno = kv:txn():guard(key, info and info.tag):put(key, value + 1):commit()
    if version then
      return value + 1
    elseif errno ~= flux.errno.EAGAIN then
      return nil, sentence, errno
    end
    -- Somebody was faster.  This broker may not have heard of it yet: wait a moment for news.
    local current = assert(kv:version())
    kv:wait_version(current + 1, 0.01)
  end
end

local last
for _ = 1, tonumber(arg[2]) or 1 do last = assert(increment()) end
print(last)
