-- in: nothing
-- out: is_higher
-- Return whether an order has a higher priority than another.
local function is_higher(order, other)
  local _, exponent = math.frexp(tonumber(order))
  local _, other_exponent = math.frexp(tonumber(other))
  return exponent < other_exponent
end
