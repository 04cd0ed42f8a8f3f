-- What an analysis wants to know of each step; for t/stream-transform.t.
local sum = 0

transform(function(step)
    local T = step:get("T")
    sum = sum + T:sum()
    if step.number == 0 then
        return false
    end
    step:put("number", step.number)
    step:put("mean", T:mean())
    step:put("range", array("f64", { T:min(), T:max() }))
    step:put("histogram", T:histogram(4, T:min(), T:max()))
    local hot, where = T:threshold(T:max() - 1)
    step:put("hot", hot)
    step:put("where", where:convert("i32"))
    step:put("part", T:stride(4, 3))
    step:put("turned", T:box({ 1, 0 }, { 2, 3 }):transpose())
    step:put("columns", T:box({ 0, 0 }, { 2, 2 }):columns())
    step:put("sum", sum)
    step:put("scaled", T:box({ 0, 0 }, { 1, 2 }):scale(0.5, -1))
    local from, near = array("u32", { 0, 1, 1, 2 }, { 2, 2 }):adjacency(3)
    step:put("from", from)
    step:put("near", near)
    step:put("names", table.concat(step:names(), " "))
    step:put("last", T[#T - 1] == T:max())
end)
