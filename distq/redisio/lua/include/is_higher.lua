-- in: nothing
-- out: is_higher
-- Whether an order is of a higher priority than another.
local function is_higher(order, other)
  local _, exponent = math.frexp(tonumber(order))
  local _, other_exponent = math.frexp(tonumber(other))
  return exponent < other_exponent
end
