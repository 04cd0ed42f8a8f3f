-- What the test scripts print: a line "ok ..." or "not ok ..." for each test (see t/lua/lib.sh).
local tap = {failed = 0}

-- Fit to be shown in a line or a few.
local function shown(v)
  local s = tostring(v)
  return (s:sub(1, 400):gsub("[^%g \n]", "?"):gsub("\n", "\n#   ")) .. (#s > 400 and "..." or "")
end

function tap.ok(condition, what, ...)
  if condition then
    print("ok " .. what)
  else
    tap.failed = tap.failed + 1
    print("not ok " .. what)
    for i = 1, select("#", ...) do
      print("#   " .. shown((select(i, ...))))
    end
    local where = debug.getinfo(2, "Sl")
    print("#   at " .. where.short_src .. ":" .. where.currentline)
  end
  return condition
end

function tap.is(got, want, what)
  local ok = got == want and math.type(got) == math.type(want)
  return tap.ok(ok, what, "got:  " .. tostring(got), "want: " .. tostring(want))
end

-- The call returned nil, a sentence, and this errno.
function tap.fails(want, what, ...)
  local flux = require "flux"
  local value, sentence, errno = ...
  local ok = value == nil and type(sentence) == "string" and #sentence > 5 and
    errno == flux.errno[want] and select("#", ...) == 3
  return tap.ok(ok, what, "got: " .. tostring(value) .. ", " .. tostring(sentence) .. ", " ..
    tostring(flux.errno[errno] or errno), "want: nil, a sentence, " .. want)
end

-- The function raises an error with this text in it.
function tap.raises(pattern, what, fn, ...)
  local ok, why = pcall(fn, ...)
  return tap.ok(not ok and tostring(why):find(pattern), what, "raised: " .. tostring(not ok and why))
end

function tap.done()
  io.stdout:flush()
  os.exit(tap.failed == 0, true)
end

return tap
