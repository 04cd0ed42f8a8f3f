-- Lines from standard input go to all who listen:    lua5.3 chat.lua NAME
local flux = require "flux"
local reactor = assert(flux.reactor())
local h = assert(flux.open(nil, reactor))
local name = assert(arg[1], "usage: chat.lua NAME")

h:on_event("chat.", function(event)
  if event.topic == "chat.bye" then
    if event.payload.name == name then reactor:stop() end
    return
  end
  print(string.format("%s@%d: %s", event.payload.name, event.rank, event.payload.text))
end)
assert(h:subscribe("chat."))

io.stdin:setvbuf("no")
reactor:fd(io.stdin, "r", function(watcher)
  local text = io.read("l")
  if text then
    h:send_event("chat.line", {name = name, text = text})
  else
    watcher:stop()
    h:send_event("chat.bye", {name = name})
  end
end)
os.exit(assert(reactor:run()))
