-- Streams: in a session of 2 brokers.
local flux = require "flux"
local tap = require "tap"
local is, ok, fails, raises = tap.is, tap.ok, tap.fails, tap.raises

local h = assert(flux.open())
local w = assert(h:stream_writer("lua.a", {keep = 2}))
fails("EEXIST", "a stream has one writer of a rank", h:stream_writer("lua.a"))
fails("EINVAL", "a bad name", h:stream_writer("a b"))
fails("ETIMEDOUT", "a stream that nobody writes", h:stream_reader("lua.none", {timeout = 0}))
raises("no option 'deep'", "an option that is not there", h.stream_reader, h, "lua.a", {deep = 1})
raises("0 or more", "an option of another type", h.stream_reader, h, "lua.a", {depth = -1})
raises("is a text", "a number where a text belongs", h.stream_reader, h, "lua.a", {group = 7})
fails("EINVAL", "a policy that is not there", h:stream_reader("lua.a", {policy = "never"}))
fails("EINVAL", "a reader that resumes without a group", h:stream_reader("lua.a", {resume = 5}))
fails("EINVAL", "a rank beyond the team", h:stream_reader("lua.a", {team = "t", rank = 2, size = 2}))
is(table.concat({h:stream_rank()}, " "), "0 1", "a process that was started alone")
fails("EINVAL", "a rank without a size", h:stream_writer("lua.b", {rank = 1}))
is(w:step(), 0, "the first step")

local function put_all(n)
  is(w:put("n", n), true, "a number is put")
  assert(w:put("half", n + 0.5))
  assert(w:put("small", n, {type = "u8"}))
  assert(w:put("truth", n == 0))
  assert(w:put("text", "step\0" .. n))
  assert(w:put("list", {1, 2, n}))
  assert(w:put("real", {1, 2.5, n}))
  assert(w:put("i16", {-1, n}, {type = "i16"}))
  assert(w:put("T", {1, 2, 3, 4, 5, 6}, {type = "f32", count = {2, 3}, shape = {2, 3}}))
  assert(w:put("part", {7, 8}, {count = {1, 2}, shape = {2, 2}, offset = {1, 0}, columns = true}))
  assert(w:put("none", {}))
end
put_all(0)
fails("EEXIST", "a variable is put twice", w:put("n", 1))
fails("ERANGE", "a value that is not one of the type", w:put("big", 256, {type = "u8"}))
fails("ERANGE", "an element that is not one", w:put("big", {1, -1}, {type = "u8"}))
fails("EINVAL", "an element that is not a number", w:put("big", {1, "x"}))
is(select(2, w:put("big", {1, "a"})),
   "variable 'big' in step 0 of stream 'lua.a': element 2: a string is not a number", "which is named")
is(select(2, w:put("big", 256, {type = "u8"})):match("^variable 'big' in step 0 of stream 'lua.a': ") ~= nil, true,
   "as is a value")
fails("EINVAL", "a piece outside of the array", w:put("out", {1}, {shape = {2}, offset = {2}}))
fails("EINVAL", "a bad name of a variable", w:put("a b", 1))
raises("another number of elements", "a wrong count", w.put, w, "x", {1, 2}, {count = {3}})
raises("different dimensions", "a wrong shape", w.put, w, "x", {1, 2}, {shape = {2, 2}})
raises("not a value", "nothing to be put", w.put, w, "x", nil)
raises("one of numbers", "a type that is not possible", w.put, w, "x", {1}, {type = "c64"})
raises("whole numbers", "a count that is not possible", w.put, w, "x", {1}, {count = {1.5}})
fails("EINVAL", "a bad name to be pinned", w:put("a b", 1, {pinned = true}))
assert(w:put("kept", 7, {pinned = true}))
is(w:end_step(), true, "the step is published")

local later = assert(h:stream_writer("lua.later", {depth = 1}))
is(later:define("n: a number"), true, "a writer describes its variables")
is(assert(h:rpc("stream.format", {name = "lua.later"})).format, "n: a number", "for the session")
local slow = assert(h:stream_reader("lua.later", {depth = 100}))
assert(later:put("n", 0))
is(later:end_step_later(), true, "a step is published if there is room")
assert(later:put("n", 1))
is(later:end_step_later(), false, "and waits if there is none")
fails("ETIMEDOUT", "it is awaited", later:wait_step(0))
assert(later:put("n", 2))
fails("EBUSY", "and no second one waits", later:end_step_later())
is(later:drop_step(), true, "which is dropped")
is(later:step(), 3, "with its number")
is(slow:begin_step(60), 0, "a reader gets the first step")
slow:end_step()
is(later:wait_step(60), true, "the step that was pending is published")
is(slow:begin_step(60), 1, "and read")
is(slow:get("n"), 1, "with what was put")
slow:end_step()
assert(later:put("n", 3))
is(later:end_step(60), true, "a step after the one that was dropped")
is(slow:begin_step(60), 3, "is the next one")
is(slow:get("n"), 3, "with its own value")
later:close()
slow:close()

local noted = assert(h:stream_writer("lua.attr", {keep = 1}))
local atom = 'record atom\nattr title "an atom"\nfield id u64\nfield at f32[3]\nattr units "nm"\n'
assert(noted:set_attribute("units", "K", "T"))
assert(noted:set_attribute("title", "heat"))
assert(noted:put("@T/factor", 2.5, {pinned = true}))
fails("EINVAL", "a bad name of an attribute", noted:set_attribute("a b", "x"))
fails("EEXIST", "an attribute that is set twice", noted:set_attribute("units", "C", "T"))
assert(noted:put("T", {1, 2}))
assert(noted:end_step())
assert(noted:put("T", {1, 2}))
assert(noted:put("a", {{id = 1, at = {1, 2, 3}}}, {format = atom}))
assert(noted:end_step())
local asks = assert(h:stream_reader("lua.attr"))
fails("EINVAL", "an attribute without a step", asks:attribute("units", "T"))
is(asks:begin_step(60), 1, "a reader that comes later")
is(asks:attribute("units", "T"), "K", "finds an attribute")
is(asks:attribute("title"), "heat", "and one of the stream")
is(asks:attribute("factor", "T", 0), 2.5, "and one that is a number")
is(asks:attribute("title", "a"), "an atom", "and one of a format of records")
is(asks:attribute("units", "a.at"), "nm", "and one of a field")
fails("ENOENT", "an attribute that is not there", asks:attribute("units", "a.id"))
fails("ENOENT", "an attribute of a field that is not there", asks:attribute("units", "a.at.x"))
fails("ENOENT", "an attribute that no variable has", asks:attribute("scale", "T"))
fails("EINVAL", "an attribute of a writer that is not there", asks:attribute("units", "T", 5))
noted:close()
asks:close()

local failing = assert(h:stream_writer("lua.fail", {keep = 1}))
local after = assert(h:stream_reader("lua.fail"))
assert(failing:end_step())
is(failing:fail(), true, "a writer fails")
is(after:begin_step(60), 0, "its reader gets what was ended")
fails("ECONNRESET", "and then an error", after:begin_step(60))
raises("was closed", "it cannot go on", failing.end_step, failing)
after:close()

local r = assert(h:stream_reader("lua.a"))
is(r:begin_step(60), 0, "a step is begun")
is(r:step(), 0, "and has a number")
is(r:epoch() + w:epoch(), 2, "and is of the first epoch, as its writer is")
is(r:writers(), 1, "and a writer")
is(table.concat(r:vars(), " "), "n half small truth text list real i16 T part none kept", "and variables")
is(r:get("n"), 0, "an integer")
is(r:get("half"), 0.5, "a float")
is(r:get("small"), 0, "a small integer")
is(r:get("truth"), true, "a truth value")
is(r:get("text"), "step\0000", "a text, with a NUL")
is(table.concat(r:get("list"), " "), "1 2 0", "a list of integers")
is(table.concat(r:get("real"), " "), "1.0 2.5 0.0", "a list of floats")
is(table.concat(r:get("i16"), " "), "-1 0", "a list of small integers")
is(#r:get("none"), 0, "an empty list")
is(table.concat(r:read("T"), " "), "1.0 2.0 3.0 4.0 5.0 6.0", "an array as a whole")
is(table.concat(r:read("T", {0, 1}, {2, 2}), " "), "2.0 3.0 5.0 6.0", "a part of it")
is(table.concat(r:read("T", {1, 0}, {1, 2}, {1, 2}), " "), "4.0 6.0", "with a stride")
fails("ENODATA", "elements that nobody has", r:read("part"))
for _, large in ipairs {1 << 40, 1 << 62} do
  fails("ERANGE", "a part for which no memory has room", r:read("T", {0, 0}, {large, 3}))
  fails("ERANGE", "and a request of it", r:schedule("T", {0, 0}, {large, 3}))
end
is(select(2, r:read("T", {0, 0}, {1 << 40, 3})):match("^step 0 of stream 'lua.a': ") ~= nil, true, "name stream and step")
fails("ERANGE", "a part outside of the array", r:read("T", {0, 0}, {3, 3}))
raises("2 dimensions", "a part of another shape", r.read, r, "T", {0}, {1})
raises("belong together", "half a part", r.read, r, "T", {0, 0})
is(r:schedule("T", {0, 1}, {2, 2}), 1, "a part is scheduled")
is(r:schedule("T", nil, nil, {1, 2}, {rank = 0}), 2, "what a writer has of an array, with a stride")
is(r:schedule("half", nil, nil, nil, {rank = 0}), 3, "a single value")
fails("ERANGE", "not a part outside of the array", r:schedule("T", {0, 0}, {3, 3}))
fails("EINVAL", "nor a box of what a writer has", r:schedule("T", {0, 0}, {1, 1}, nil, {rank = 0}))
local parts = assert(r:perform())
is(#parts .. ": " .. table.concat(parts[1], " ") .. ", " .. table.concat(parts[2], " ") .. ", " .. parts[3],
   "3: 2.0 3.0 5.0 6.0, 1.0 3.0 4.0 6.0, 0.5", "all are there when they were performed")
is(#r:perform(), 0, "once")
is(r:schedule("part"), 1, "elements that nobody has are scheduled")
fails("ENODATA", "and not there", r:perform())
is(#r:perform(), 0, "an error forgets the requests")
is(r:schedule("T"), 1, "what is scheduled ends with the step")
local info = r:inquire("part", 0)
is(info.type .. " " .. table.concat(info.offset) .. table.concat(info.count), "i64 1012", "what it is")
is(info.global and info.columns, true, "and how it is stored")
is(table.concat(r:inquire("T").shape, " "), "2 3", "the shape of an array")
fails("EINVAL", "an array that is not global", r:inquire("list"))
fails("ENOENT", "a variable that is not there", r:get("nope"))
fails("EINVAL", "a writer that is not there", r:get("n", 5))
is(r:end_step(), true, "a step is released")
fails("EINVAL", "once", r:end_step())
fails("EINVAL", "and not read any more", r:get("n"))
fails("ETIMEDOUT", "there is no other", r:begin_step(0.01))

local five = assert(h:stream_writer("lua.which", {keep = 5}))
for n = 0, 4 do
  assert(five:put("n", n))
  assert(five:end_step())
end
local some = assert(h:stream_reader("lua.which"))
is(some:begin_step(60, 1), 1, "a step is begun by its number")
is(some:get("n"), 1, "and has its own value")
is(some:begin_step(60, "next"), 2, "the next one")
raises("invalid option 'oldest'", "a step that is not named so", some.begin_step, some, 60, "oldest")
raises("the number of a step", "a number that no step has", some.begin_step, some, 60, -1)
is(some:get("n"), 2, "a wrong call does not release the step")
is(some:begin_step(60, "newest"), 4, "the newest one")
fails("ENOENT", "a step that was passed over", some:begin_step(60, 3))
some:close()
five:close()

-- Records.
local rw = assert(h:stream_writer("lua.r", {keep = 1}))
local atom = [[
  record bond
    field to u32
    field length f64
  record atom
    field id i64
    field n u8
    field bonds bond[n]
    field name string
    field tag char[4]
    field z c128
    field charge f32 optional
    field kind u8
    attr default "3"
    field next *atom
]]
local one = {id = 7, bonds = {{to = 1, length = 0.5}, {to = 2, length = 1}}, name = "C", tag = "ab", z = {1, 2},
  next = {id = 8, bonds = {}, name = "", tag = "", z = {0, 0}, charge = 0.5, kind = 4}}
is(rw:put("one", one, {format = atom}), true, "a record is put")
assert(rw:put("all", {one, one.next}, {format = atom}))
assert(rw:put("G", {{x = 1}, {x = 2}, {x = 3}}, {format = "record p\nfield x i16\n", shape = {3}}))
assert(rw:put("no", {}, {format = atom}))
local function bad(why, field, value)
  local rec = {}
  for k, v in pairs(one) do rec[k] = v end
  rec[field] = value
  local rc, text = rw:put("bad", rec, {format = atom})
  is(rc, nil, why)
  ok(string.find(text, "field [a-z.]*" .. field), "with the field " .. field)
end
bad("a record without a value", "id", nil)
bad("a number that the type does not have", "n", 300)
bad("an array of another size", "n", 3)
bad("a text where an array belongs", "bonds", "x")
bad("a number where a text belongs", "name", 5)
bad("a text that is too long", "tag", "abcde")
bad("a record where none belongs", "charge", {})
local ring = {id = 1, bonds = {}, name = "", tag = "", z = {0, 0}}
ring.next = ring
fails("E2BIG", "records inside each other without end", rw:put("bad", ring, {format = atom}))
fails("EINVAL", "a format that is not one", rw:put("bad", one, {format = "record r\n"}))
assert(rw:end_step())
local rr = assert(h:stream_reader("lua.r"))
assert(rr:begin_step(60))
local got = assert(rr:get("one"))
is(got.id .. got.n .. got.bonds[2].to .. got.bonds[2].length .. got.name, "7221.0C", "a record is read")
is(got.tag .. "|" .. got.z[2] .. got.kind, "ab\0\0|2.03", "with its texts, and defaults")
is(got.charge, nil, "without what is absent")
is(got.next.charge .. got.next.kind, "0.54", "and with the record that it points to")
is(#rr:get("all") .. rr:get("all")[2].id, "28", "an array of records")
is(rr:get("one", 0, {format = "record a\nfield id i64\nfield more string\n"}).more, "", "as another version")
fails("EINVAL", "one that loses something", rr:get("one", 0, {format = "record a\nfield id i8\n"}))
ok(string.find(rr:format("one"), "record atom size"), "the format of records")
is(rr:read("G", {1}, {2})[2].x, 3, "a part of a global array of records")
is(#rr:get("no"), 0, "no records")
rr:close()
rw:close()

-- Callbacks run while a call waits.
local called = 0
h:rpc_async("broker.ping", {}):then_(function() called = called + 1 end)
for n = 1, 3 do
  assert(w:put("n", n))
  assert(w:end_step())
end
local function text(stream)
  local seen = {}
  for step in stream:steps(60) do
    seen[#seen + 1] = step .. "=" .. stream:get("n")
  end
  return table.concat(seen, " ")
end

-- A group.
local a = assert(h:stream_reader("lua.a", {group = "g", key = "n"}))
local b = assert(h:stream_reader("lua.a", {group = "g", key = "n"}))
is(a:begin_step(60), 2, "a group begins with what is kept")
is(b:begin_step(60), 3, "each member with its own step")
is(table.concat(a:vars(), " ") .. " " .. table.concat(b:pinned(), " "), "n kept", "and with what was pinned before")
is(a:get("kept") + b:get("kept"), 14, "which has a value")
fails("ETIMEDOUT", "its steps are not done", w:drain(0))
a:close()
is(b:begin_step(60), 2, "a step that was not ended goes to another member")
is(b:end_step(), true, "which ends it")
is(w:drain(60), true, "now they are")
is(called, 1, "a response that came meanwhile was handled")
w:close()
is(text(r), "1=1 2=2 3=3", "a loop over all steps")
fails("ENODATA", "the end", r:begin_step())
is(text(b), "", "and of the group")
raises("was closed", "a stream that was closed", w.put, w, "n", 1)
ok(tostring(w):find("ended"), "says so in words")
is(w:close(), true, "closing it twice is not an error")

-- Members of a group that divide the records of a step.
w = assert(h:stream_writer("lua.part", {keep = 1}))
assert(w:put("r", {{id = 5}, {id = 6}, {id = 5}}, {format = "record r\nfield id u32"}))
assert(w:end_step())
r = assert(h:stream_reader("lua.part", {group = "g", by = "record", key = "id"}))
fails("EINVAL", "a member that shares otherwise", h:stream_reader("lua.part", {group = "g", key = "id"}))
fails("EINVAL", "a member that divides steps and stays", h:stream_reader("lua.part", {group = "h", by = "record", stay = true}))
is(r:begin_step(60), 0, "the only member has the step")
local own = assert(r:mine("r"))
is(#own .. ":" .. own[1][1] .. "-" .. own[1][2], "1:1-3", "and all its records")
fails("ENOENT", "a variable that is not there", r:mine("s"))
is(r:end_step(), true, "it ends them")
r:close()
w:close()

-- A reader that stays goes on with the next writer.
w = assert(h:stream_writer("lua.stay", {keep = 1}))
r = assert(h:stream_reader("lua.stay", {stay = true}))
for n = 0, 2 do
  assert(w:put("n", n))
  assert(w:end_step())
  is(r:begin_step(60), n, "a step of another writer")
  is(r:get("n"), n, "and its value")
  w:close()
  w = assert(h:stream_writer("lua.stay", {keep = 1}))
end
w:close()
r:close()

-- Transforms of either side.
local file = assert(io.open("half.lua", "w"))
file:write("transform(function(s) s:put('n', s:get('n'):scale(0.5)) return s:get('n')[0] ~= 1 end)\n")
file:close()
w = assert(h:stream_writer("lua.t", {transforms = "half.lua"}))
r = assert(h:stream_reader("lua.t", {transforms = "half.lua"}))
for n = 0, 2 do
  assert(w:put("n", n))
  assert(w:put("left", "behind"))
  assert(w:end_step())
end
w:close()
is(r:begin_step(60), 0, "a step that was transformed by its writer")
is(r:get("n"), 0.0, "and by its reader")
is(#r:vars(), 1, "has what they have put")
fails("ENODATA", "the others were dropped by one or the other", r:begin_step(60))
r:close()
fails("ENOENT", "a transform that is not there", h:stream_reader("lua.t", {transforms = "./none.so"}))
os.remove("half.lua")

-- A second stream, joined by step.
file = assert(io.open("both.lua", "w"))
file:write("transform(function(s) s:put('sum', s:get('n')[0] + s:get('n', 2)[0]) end)\n")
file:close()
w = assert(h:stream_writer("lua.j1"))
local w2 = assert(h:stream_writer("lua.j2"))
r = assert(h:stream_reader("lua.j1", {join = "lua.j2", transforms = "both.lua"}))
for n = 0, 1 do
  assert(w:put("n", n))
  assert(w:end_step())
end
fails("ETIMEDOUT", "a step that the other stream does not have yet", r:begin_step(0))
assert(w2:put("n", 10))
assert(w2:end_step())
is(r:begin_step(60), 0, "it has it")
is(r:get("sum"), 10, "and both are inputs")
assert(r:end_step())
w2:close()
fails("ENODATA", "the end of the other stream is that of both", r:begin_step(60))
r:close()
w:close()
os.remove("both.lua")

-- Writers that wait for readers, readers that a switch turns on, and transports.
fails("ETIMEDOUT", "a writer without its readers", h:stream_writer("lua.c", {readers = 1, timeout = 0}))
fails("EINVAL", "a name of a switch", h:stream_reader("lua.c", {switch = "a b"}))
fails("EINVAL", "a transport that is not there", h:stream_reader("lua.c", {transport = "pigeon"}))
fails("EINVAL", "a connection that is half secret", h:stream_writer("lua.c", {secure = "half"}))
fails("EINVAL", "a connection that is half shared", h:stream_writer("lua.c", {share = "half"}))
w = assert(h:stream_writer("lua.c", {transport = "tcp", secure = "yes", share = "no"}))
fails("ETIMEDOUT", "readers that do not come", w:wait_readers(1, 0))
raises("number of readers", "a wrong number of readers", w.wait_readers, w, -1)
r = assert(h:stream_reader("lua.c", {transport = "tcp", secure = "yes", share = "no"}))
local off = assert(h:stream_reader("lua.c", {switch = "lua.look"}))
is(w:wait_readers(2, 60), true, "readers have come")
assert(w:put("n", 3))
assert(w:end_step(60))
is(r:begin_step(60), 0, "a step comes by TCP")
is(r:get("n"), 3, "with its values")
fails("ETIMEDOUT", "a reader that is off gets none", off:begin_step(0))
r:close()
off:close()
w:close()

-- Several writers; what is not closed ends with the handle.
local two = {h:stream_writer("lua.b", {rank = 0, size = 2}), h:stream_writer("lua.b", {rank = 1, size = 2})}
r = assert(h:stream_reader("lua.b", {policy = "latest", depth = 4, bytes = 1e6}))
for rank = 0, 1 do
  assert(two[rank + 1]:put("x", {rank, rank + 10}, {shape = {4}, offset = {2 * rank}}))
  assert(two[rank + 1]:end_step(60))
end
is(r:begin_step(60), 0, "a step of two writers")
is(table.concat(r:read("x"), " "), "0 10 1 11", "is put together")
is(table.concat(r:get("x", 1), " "), "1 11", "or read by writer")
h:close()
raises("was closed", "the handle takes its streams with it", r.get, r, "x")
two, r, a, b = nil, nil, nil, nil
collectgarbage()
tap.done()
