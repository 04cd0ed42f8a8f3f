-- JSON from Lua values and back.
local flux = require "flux"
local tap = require "tap"
local is, ok, fails, raises = tap.is, tap.ok, tap.fails, tap.raises
local encode, decode = flux.json.encode, flux.json.decode

is(encode(1), "1", "an integer")
is(encode(math.mininteger), "-9223372036854775808", "the smallest integer")
is(decode(encode(math.maxinteger)), math.maxinteger, "the largest integer comes back")
is(encode(1.0), "1.0", "a float stays a float")
is(decode(encode(0.1)), 0.1, "0.1 comes back")
is(encode(0.1), "0.1", "0.1 is written short")
is(decode(encode(5e-324)), 5e-324, "the smallest float comes back")
is(decode(encode(1e300)), 1e300, "a large float comes back")
is(decode("[1e2]")[1], 100.0, "a number with an exponent is a float")
is(encode(true) .. encode(false) .. encode(flux.null), "truefalsenull", "constants")
is(decode("null"), flux.null, "null comes back")
is(encode("a\"b\\c\n\0\u{20ac}"), [["a\"b\\c\u000a\u0000]] .. "\u{20ac}\"", "a string with everything")
is(decode(encode("a\"b\\c\n\0\u{20ac}")), "a\"b\\c\n\0\u{20ac}", "which comes back")
is(decode([["\ud83d\ude00"]]), "\u{1f600}", "surrogates become one character")
is(encode({}), "{}", "an empty table is an object")
is(encode(flux.array{}), "[]", "an empty array is said to be one")
is(encode(flux.array()), "[]", "or made")
is(encode({1, 2, {x = 1}}), '[1,2,{"x":1}]', "an array")
is(encode(decode('{"a":[],"b":{}}').a), "[]", "an empty array stays one")
is(encode(decode('{"a":[],"b":{}}').b), "{}", "an empty object stays one")
is(#decode("[1,null,3]"), 3, "null keeps its place in an array")

fails("EINVAL", "a function", encode(print))
fails("EINVAL", "an object", encode(io.stdout))
fails("EINVAL", "not a number", encode(0 / 0))
fails("EINVAL", "infinity", encode({x = 1 / 0}))
fails("EINVAL", "what is not UTF-8", encode("\xff"))
fails("EINVAL", "a name that is not UTF-8", encode({["\xff"] = 1}))
fails("EINVAL", "a name with a NUL", encode({["a\0b"] = 1}))
fails("EINVAL", "holes", encode({1, nil, 3, [7] = 1}))
fails("EINVAL", "mixed keys", encode({1, 2, x = 3}))
fails("EINVAL", "mixed keys the other way", encode({x = 3, [2] = 1}))
fails("EINVAL", "a boolean key", encode({[true] = 1}))
fails("EINVAL", "a float key", encode({[1.5] = 1}))
fails("EINVAL", "an array with names", encode(flux.array{1, x = 2}))
raises("bad argument", "nothing at all", encode)
local _, why = encode({list = {1, 2, {bad = print}}})
ok(why:find("value.list[3].bad", 1, true), "the sentence names the place", why)

local cycle = {x = {}}
cycle.x.y = {cycle}
fails("EINVAL", "a cycle", encode(cycle))
ok(select(2, encode(cycle)):find("contains itself"), "is called one")
local twice = {}
is(encode({twice, twice}), "[{},{}]", "the same table twice is none")
local function deep(n)
  local t = {}
  for _ = 2, n do t = {t} end
  return t
end
ok(encode(deep(128)), "128 levels")
fails("EINVAL", "129 levels", encode(deep(129)))
ok(decode(string.rep("[", 128) .. string.rep("]", 128)), "128 levels to decode")
fails("EPROTO", "200 levels to decode", decode(string.rep("[", 200) .. string.rep("]", 200)))
fails("EPROTO", "100000 levels to decode", decode(string.rep("[", 100000)))

for _, text in ipairs{"", "{", "[1,]", "{\"a\":1,\"a\":2}", "1 2", "nul", "\"\xff\"", "{1:2}",
  "99999999999999999999", "1e999", "'a'", "[1]x", "\"\\ud800\""} do
  fails("EPROTO", "no JSON: " .. text:gsub("[^ -~]", "?"), decode(text))
end
raises("string expected", "a table to decode", decode, {})

-- Any table that was made of plain values comes back equal.
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b and math.type(a) == math.type(b)
  end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end
math.randomseed(tonumber(arg[1]) or 1)
local function random_value(depth)
  local r = math.random(depth > 4 and 5 or 7)
  if r == 1 then return math.random(0, 0x7fffffff) << 32 | math.random(0, 0x7fffffff) end
  if r == 2 then return math.random() * 10.0 ^ math.random(-300, 300) end
  if r == 3 then return math.random(2) == 1 end
  if r == 4 then return flux.null end
  if r == 5 then
    local s = {}
    for i = 1, math.random(0, 8) do s[i] = utf8.char(math.random(0, 0xd7ff)) end
    return table.concat(s)
  end
  local t = r == 6 and flux.array{} or {}
  for i = 1, math.random(0, 5) do
    t[r == 6 and i or "k" .. math.random(100)] = random_value(depth + 1)
  end
  return t
end
local bad
for _ = 1, 2000 do
  local v = random_value(0)
  local text = encode(v)
  if not text or not same(v, decode(text)) then bad = text or "?" end
end
ok(not bad, "2000 random values come back", bad)

-- Locales do not matter.
if os.setlocale("de_DE.UTF-8") then is(encode(1.5), "1.5", "a decimal comma elsewhere") end

collectgarbage() collectgarbage()
local before = collectgarbage("count")
for _ = 1, 20000 do decode(encode({a = {1, 2, 3}, b = "text"})) encode(cycle) decode("[1,") end
collectgarbage() collectgarbage()
ok(collectgarbage("count") - before < 50, "no memory of Lua's is lost", collectgarbage("count") - before)
tap.done()
