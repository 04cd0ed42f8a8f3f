-- What happens below a directory of the key-value store:    lua5.3 watch.lua KEY [COUNT]
local flux = require "flux"
local reactor = assert(flux.reactor{signals = true})
local h = assert(flux.open(nil, reactor))
local key, left = assert(arg[1], "usage: watch.lua KEY [COUNT]"), tonumber(arg[2]) or math.huge

assert(h:kvs():watch(key, {diff = true, values = true}, function(result, sentence)
  if not result then error(sentence, 0) end
  if result.absent then print(key .. " is not there") end
  for _, c in ipairs(result.changes or {}) do
    print(string.format("%s %s.%s%s", c.change, key, c.key, c.value and " = " .. c.value or ""))
  end
  io.stdout:flush()
  left = left - 1
  if left == 0 then reactor:stop() end
end))
reactor:signal("INT", function() reactor:stop(130) end)
os.exit(assert(reactor:run()))
