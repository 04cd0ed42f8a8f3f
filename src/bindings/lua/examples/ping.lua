-- How long does it take to hear from each broker?    lua5.3 ping.lua [COUNT]
local flux = require "flux"
local h = assert(flux.open())
local r = h:reactor()

for round = 1, tonumber(arg[1]) or 1 do
  local waiting = h:size()
  for rank = 0, h:size() - 1 do
    local begin = r:now()
    local future = assert(h:rpc_async("broker.ping", {round = round}, rank))
    future:then_(function(f)
      local answer, sentence = f:get()
      if answer then
        print(string.format("rank %d: round %d, %.3f ms", answer.rank, answer.round, 1e3 * (r:now() - begin)))
      else
        print(string.format("rank %d: %s", rank, sentence))
      end
      waiting = waiting - 1
      if waiting == 0 then r:stop() end
    end, 10)
  end
  assert(r:run())
end
