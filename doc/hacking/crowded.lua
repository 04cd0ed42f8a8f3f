-- Of the stream that atoms.c writes: atoms that have neighbors, with two of their fields; and a record of all of them.
local summary = [[
    record summary
      field atoms u32
      field nearest f64 optional
]]
transform(function(step)
    local _, positions = step:get("atom.n"):threshold(1)
    local crowded = step:get("atom"):select(positions)
    local nearest
    for _, atom in ipairs(crowded:table()) do
        nearest = math.min(nearest or math.huge, table.unpack(atom.near))
    end
    step:put("crowded", crowded:fields("id", "near"))
    step:put("summary", records(summary, { atoms = #crowded, nearest = nearest }))
end)
