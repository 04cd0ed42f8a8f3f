-- Where a field is hot: the values and their positions, and no step without any.
transform(function(step)
    local T = step:get("T")
    if T:max() < 100 then
        return false
    end
    local values, positions = T:threshold(100)
    step:put("values", values)
    step:put("positions", positions)
    step:put("mean", T:mean())
end)
