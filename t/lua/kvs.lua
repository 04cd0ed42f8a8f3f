-- The key-value store: in a session of 2 brokers.
local flux = require "flux"
local tap = require "tap"
local is, ok, fails, raises = tap.is, tap.ok, tap.fails, tap.raises

local h = assert(flux.open())
local r = h:reactor()
local kv = h:kvs()

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, " ")
end

-- Values.
local version, rootref = kv:put("a.b", "hello\0world")
ok(math.type(version) == "integer" and type(rootref) == "string", "a commit has version and root")
is(kv:get("a.b"), "hello\0world", "bytes come back")
is(kv:put{["a.n"] = 42, ["a.f"] = 1.5, ["a.t"] = {1, {x = flux.null}}}, version + 1,
  "many values, one commit")
is(kv:get("a.n"), "42", "a number is its text")
is(kv:get("a.f"), "1.5", "a float too")
is(kv:get("a.t"), '[1,{"x":null}]', "a table is JSON")
is(kv:get("a.t", {json = true})[2].x, flux.null, "and comes back as one")
is(kv:put("a.e", ""), version + 2, "an empty value")
is(kv:get("a.e"), "", "comes back empty")
local all = {}
for i = 0, 255 do all[i + 1] = string.char(i) end
all = table.concat(all):rep(1000)
kv:put("a.all", all)
is(kv:get("a.all"), all, "a large one with all bytes")
is(kv:get("a.all", {offset = 1000, count = 3}), all:sub(1001, 1003), "a piece of it")
is(kv:get("a.all", {offset = #all - 2}), all:sub(-2), "its end")
is(kv:get("a.all", {offset = 10 * #all}), "", "behind its end")
is(kv:get_async("a.n"):get(10), "42", "without waiting")
local f = kv:put_async("a.n", 43)
is(f:get(10), version + 4, "a commit too")
fails("ENOENT", "no such key", kv:get("a.nope"))
fails("ENOENT", "later", kv:get_async("a.nope"):get(10))
fails("EISDIR", "a directory", kv:get("a"))
fails("EINVAL", "no key", kv:get("a..b"))
fails("ENAMETOOLONG", "a key that is too long", kv:get(("x"):rep(2000)))
fails("EPROTO", "no JSON", kv:get("a.b", {json = true}))
fails("EINVAL", "a table that is not JSON", kv:put("x", {print}))
raises("string, a number or a table", "a value that is none", kv.put, kv, "x", true)
raises("a value is a string", "no value", kv.put, kv, "x")
raises("are keys", "a table without keys", kv.put, kv, {1, 2})
raises("no option 'jsn'", "a misspelt option", kv.get, kv, "a.b", {jsn = true})
raises("timeout", "a time-out for the form that does not wait", kv.get_async, kv, "a.b", {timeout = 1})
raises("from 1 to", "a piece that is too large", kv.get, kv, "a.b", {count = 1 << 30})
raises("NUL byte", "a key with a NUL", kv.get, kv, "a\0b")
fails("EMSGSIZE", "a value that is too large", kv:put("x", ("x"):rep((16 << 20) + 1)))

-- Directories.
local entries = kv:entries("a", {values = true})
is(sorted(entries), "all b e f n t", "the entries of a directory")
is(entries.b.value, "hello\0world", "with values")
is(entries.all.size, #all, "and sizes")
is(kv:entries("a").b.value, nil, "or without")
is(kv:entries().a.type, "dir", "of the root")
local seen = {}
for name, kind, size, value in assert(kv:dir("a", {values = true})) do
  seen[name] = kind .. size .. (name == "n" and value or "")
end
is(seen.n, "value243", "an iterator")
is(sorted(seen), "all b e f n t", "over all")
seen = 0
for name, kind, size, value in kv:dir() do
  if name == "a" then seen = seen + (value == nil and 1 or 100) end
end
is(seen, 1, "of the root, without values")
fails("ENOENT", "no such directory", kv:dir("nope"))
fails("ENOTDIR", "no directory", kv:dir("a.b"))
ok(kv:mkdir("d.e.f"), "directories are made")
is(next(kv:entries("d.e.f")), nil, "empty")
fails("ENOTEMPTY", "one that is not empty stays", kv:unlink("d"))
ok(kv:unlink("d", {recursive = true}), "unless that is wanted")
fails("ENOENT", "it is gone", kv:entries("d"))
ok(kv:unlink("d"), "unlinking nothing is not an error")
fails("ENOENT", "unless that is wanted", kv:unlink("d", {must_exist = true}))

-- Links.
ok(kv:symlink("link", "a.b"), "a link")
is(kv:readlink("link"), "a.b", "leads there")
is(kv:get("link"), "hello\0world", "and is followed")
is(kv:info("link").type, "value", "also by info")
is(kv:info("link", {link = true}).type, "link", "or not")
fails("EINVAL", "what is not a link", kv:readlink("a.b"))
kv:symlink("loop", "loop")
fails("ELOOP", "a loop", kv:get("loop"))

-- By reference.
ok(kv:copy("a", "copy"), "a directory is copied")
is(sorted(kv:entries("copy")), "all b e f n t", "with all in it")
ok(kv:move("copy", "moved.here"), "and moved")
fails("ENOENT", "away", kv:entries("copy"))
is(kv:get("moved.here.n"), "43", "to there")
fails("ENOENT", "what is not there cannot be", kv:copy("nope", "x"))
fails("EINVAL", "nor a directory into itself", kv:move("moved", "moved.here.deep"))
ok(kv:append("log", "one,") and kv:append("log", "two,"), "bytes are added")
is(kv:get("log"), "one,two,", "at the end")
raises("string expected", "what is not a string cannot be", kv.append, kv, "log", {})

-- Transactions.
local t = kv:txn()
is(t:put("t.a", 1):put("t.b", 2):mkdir("t.d"):append("t.a", "0"), t, "operations are chained")
is(t:count(), 4, "and counted")
fails("ENOENT", "nothing happened yet", kv:get("t.a"))
ok(t:commit(), "commit")
is(kv:get("t.a"), "10", "all of it happened")
ok(t:clear():count() == 0 and t:commit(), "an empty one")
fails("EINVAL", "a bad key", t:put("a..b", 1))
is(t:count(), 0, "is not in it")
local info = assert(kv:info("t.a"))
is(info.value .. info.type .. info.size, "10value2", "info has all")
ok(info.tag:find("^value%-%x+$"), "also the tag", info.tag)
ok(kv:txn():guard("t.a", info.tag):put("t.a", "11"):commit(), "a guard that holds")
fails("EAGAIN", "one that does not", kv:txn():put("t.b", "x"):guard("t.a", info.tag):commit())
is(kv:get("t.b"), "2", "nothing of that happened")
ok(kv:txn():guard("t.new"):put("t.new", 1):commit(), "a guard that it is not there")
fails("EAGAIN", "which is then wrong", kv:txn():guard("t.new", nil):put("t.new", 2):commit())
fails("EINVAL", "a tag that is none", kv:txn():guard("t.a", "what?"))
is(kv.guard, nil, "a guard alone does not exist")

-- Versions.
local v, ref = kv:version()
is(kv:put("v", 1), v + 1, "versions count")
is(kv:wait_version(v + 1, 10), v + 1, "one that is there")
fails("ETIMEDOUT", "one that is not", kv:wait_version(v + 2, 0.02))
f = kv:wait_version_async(v + 2)
fails("ETIMEDOUT", "nor later", f:wait(0.02))
kv:put("v", 2)
is(f:get(10), v + 2, "until it is")
raises("not in the range", "a negative version", kv.wait_version, kv, -1)

-- Fences.
local other = assert(flux.open())
local f1 = kv:txn():put("f.a", 1):fence_async("lua-fence", 2)
fails("ETIMEDOUT", "a fence waits for all", f1:wait(0.02))
local v2 = other:kvs():txn():put("f.b", 2):fence("lua-fence", 2)
is(f1:get(10), v2, "who all get the same version")
is(kv:get("f.a") .. kv:get("f.b"), "12", "and all they put")
ok(kv:fence("lua-fence-1", 1), "a fence of one without changes")
ok(kv:fence("lua-fence-here", 1, {ranks = "0"}), "a fence of a rank that is there")
fails("EINVAL", "a fence of ranks that are none", kv:fence("lua-fence-bad", 1, {ranks = "x"}))
fails("EINVAL", "a fence without a name", kv:fence("", 1))
raises("not in the range", "a fence of none", kv.fence, kv, "x", 0)
f1 = kv:fence_async("lua-fence-3", 3)
local f2 = other:kvs():fence_async("lua-fence-3", 3)
f2:wait(0.02)
other:close()
fails("ECONNABORTED", "a participant that leaves ends it", f1:get(10))

-- Watching.
kv:put("w", 0)
local results = {}
for result in assert(kv:watch("w")):results(10) do
  results[#results + 1] = result.absent and "absent" or result.value
  if #results == 3 then kv:unlink("w") end
  if #results == 4 then break end
  if #results < 3 then kv:put("w", #results) end
end
is(table.concat(results, " "), "0 1 2 absent", "watching by an iterator")
results = {}
local watch
watch = kv:watch("w2", function(result, sentence)
  results[#results + 1] = result.absent and "absent" or result.value
  if #results == 3 then
    watch:destroy()
    r:stop(#results)
  else
    kv:put_async("w2", #results)
  end
end)
is(r:run(), 3, "watching by a function")
is(table.concat(results, " "), "absent 1 2", "gets it all")
kv:put{["wd.a"] = 1, ["wd.b.c"] = 2}
watch = kv:watch("wd", {values = true})
local result = watch:get(10)
is(result.type .. sorted(result.entries) .. result.entries.a.value, "dira b1", "watching a directory")
kv:put("wd.d", 3)
watch:next()
is(sorted(watch:get(10).entries), "a b d", "that changes")
watch:destroy()
watch = kv:watch("wd", {diff = true, values = true})
local changes = {}
for _, c in ipairs(watch:get(10).changes) do changes[c.key] = c.change .. c.type end
is(changes["b.c"], "addedvalue", "what is different in a directory: all, at first")
watch:next()
kv:txn():put("wd.b.c", 4):unlink("wd.a"):commit()
changes = {}
for _, c in ipairs(watch:get(10).changes) do changes[c.key] = c.change .. (c.value or "") end
is(sorted(changes) .. changes["b.c"]:sub(1, 8), "a b.cchanged4", "then what changed below")
ok(changes.a:find("^removed"), "and what is gone", changes.a)
watch:destroy()
kv:put("wl", "one,")
watch = kv:watch("wl", {append = true})
is(watch:get(10).value, "one,", "watching a value grow")
kv:append("wl", "two,")
watch:next()
result = watch:get(10)
is(result.value .. tostring(result.whole), "two,false", "only what is new")
kv:put("wl", "x")
watch:next()
result = watch:get(10)
is(result.value .. tostring(result.whole), "xtrue", "unless it was replaced")
watch:destroy()
fails("EINVAL", "watching no key", kv:watch("a..b"))
raises("function expected", "with no function", kv.watch, kv, "a", {}, 5)

-- Namespaces.
is(h:namespace_create("lua-ns", {rank = 1}), true, "a namespace")
fails("EEXIST", "once", h:namespace_create("lua-ns"))
local ns = h:kvs("lua-ns")
is(ns:namespace(), "lua-ns", "has a name")
ok(ns:put("x", 5), "keys of its own")
is(ns:get("x"), "5", "and values")
fails("ENOENT", "that are nowhere else", kv:get("x"))
local found
for _, n in ipairs(h:namespaces()) do
  if n.name == "lua-ns" then found = n.rank .. tostring(n.lost) end
end
is(found, "1false", "it is in the list")
is(h:namespace_remove("lua-ns"), true, "removed")
fails("ENOENT", "it is gone", ns:get("x"))
fails("EINVAL", "a name that is none", h:kvs("a/b"))
fails("EINVAL", "a rank that is not there", h:namespace_create("x", {rank = 7}))
fails("EPERM", "the primary one stays", h:namespace_remove("primary"))
is(h:kvs("primary"):namespace(), "primary", "it has a name, too")
raises("from 0 to", "an owner that is none", h.namespace_create, h, "x", {owner = -5})

-- Snapshots.
kv:put("s", "before")
local snap = assert(kv:snapshot())
kv:put("s", "after")
is(snap:get("s"), "before", "a snapshot stays")
is(kv:get("s"), "after", "the store goes on")
is(kv:at(snap:rootref()):get("s"), "before", "its root can be named")
is(kv:rootref(), nil, "the store has none")
raises("past root", "it cannot be changed", snap.put, snap, "s", 1)
raises("past root", "nor watched", snap.watch, snap, "s")
for n = 1, 25 do kv:put("pages.k" .. n, n) end
seen = {}
for name in assert(kv:dir("pages", {page = 4})) do
  if seen[name] then seen.twice = true end
  seen[name] = true
  kv:put("pages.new" .. name, 1)
end
local count = 0
for _ in pairs(seen) do count = count + 1 end
is(count, 25, "pages of one root, whatever happens meanwhile")
count = 0
for _ in assert(kv:at(kv:snapshot():rootref()):dir("pages", {page = 7})) do count = count + 1 end
is(count, 50, "pages at a root")
fails("ENOENT", "pages of nothing", kv:dir("nope", {page = 4}))
snap:release()
raises("released", "a snapshot that was released", snap.get, snap, "s")
fails("EINVAL", "a root that is none", kv:at("nonsense"):get("s"))

-- Values in pieces.
local piece = all:rep(5):sub(1, 1 << 20)
local digests = assert(kv:store(piece)) .. assert(kv:store(piece)) .. assert(kv:store("end"))
ok(kv:put_chunks("big", 2 * #piece + 3, digests), "a value in pieces")
is(kv:info("big").size, 2 * #piece + 3, "has its size")
local parts = {}
for part in assert(kv:chunks("big", 300000)) do parts[#parts + 1] = part end
ok(table.concat(parts) == piece .. piece .. "end" and #parts > 6, "and comes back in pieces")
ok(kv:get("big") == piece .. piece .. "end", "or whole")
local writer = assert(kv:writer("written"))
for at = 1, #piece * 3, 70001 do assert(writer:write((piece .. piece .. piece):sub(at, at + 70000))) end
is(writer:size(), 3 * #piece, "a writer counts")
ok(math.type(writer:commit()) == "integer", "and commits")
ok(kv:get("written") == piece .. piece .. piece, "what was written")
is(kv:info("written", {brief = true}).size, 3 * #piece, "info without the value")
is(kv:info("written", {brief = true}).value, nil, "has none")
ok(writer:write("short") and writer:commit(), "a writer is used again")
is(kv:get("written"), "short", "for a short value")
writer:close()
raises("closed", "not when it was closed", writer.write, writer, "x")
fails("EINVAL", "nor for no key", kv:writer("a..b"))
local h3 = assert(flux.open())
writer = h3:kvs():writer("lost")
h3:rpc_async("broker.ping", {}):then_(function() h3:close() end)
local last, why
for _ = 1, 200 do
  last, why = pcall(writer.write, writer, piece)
  if not last then break end
end
ok(not last and why:find("closed"), "nor when a callback closed the handle", why)
fails("EINVAL", "digests of another number", kv:put_chunks("big", 5, "abc"))
fails("EINVAL", "a piece of nothing", kv:store(""))
fails("ENOENT", "pieces of nothing", kv:chunks("nope"))
fails("EISDIR", "pieces of a directory", kv:chunks("a"))
tap.done()
