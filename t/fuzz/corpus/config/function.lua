local n = 4
local function port(rank) return 8000 + 2 * rank end
for i = 1, n do assert(port(i) > 0) end
session {
    hosts = string.format("node[0-%d]", n - 1),
    address = function(rank, host) return "tcp://" .. host .. ":" .. port(rank) end,
    attrs = { a = ("x"):rep(3), b = math.floor(2.5), c = table.concat({ "x", "y" }, ",") },
}
