-- An order is one double: the exponent is the priority, the mantissa the µs since which the item is pending.
-- Lower comes first. Exact for |priority| <= 900 until the year 2112.
local ONE = 2 ^ 52
local function order(priority, since) return math.ldexp(ONE + since, -priority) end
local function priority_of(score)
  local _, exponent = math.frexp(score)
  return 53 - exponent
end
-- A delayed score is the due time, in ms rounded up so that it is never early, and the priority to come back with.
local function due_score(due, priority) return math.ceil(due / 1000) * 2048 + 1023 - priority end
local function split_due(score)
  local rest = score % 2048
  return (score - rest) / 2048 * 1000, 1023 - rest
end
