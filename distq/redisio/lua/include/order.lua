-- in: nothing
-- out: order
-- An order is one double: the exponent is the priority, the mantissa the time in µs since when the item is pending.
-- Lower comes first. Exact for |priority| <= 900 until the year 2112.
local ONE = 2 ^ 52
local function order(priority, since)
  -- as text: Redis would format the same number with 17 digits, which takes longer
  if priority == 0 then return string.format('%d', ONE + since) end
  return math.ldexp(ONE + since, -priority)
end
