-- in: dead, delayed, dirty, failures, now
-- out: park, read_failure, write_failure
-- A failure record is `count crashes failed_at reason text`; reason - while the item lives, and behind it the claims
-- that crashed, `@fence,fence`, where there are any. What is none counts nothing, and its bytes are kept as the text.
local function read_failure(item)
  local record = call('HGET', failures, item)
  if not record then return 0, 0, '0', '-', '', '' end
  local count, crashes, failed_at, reason, text = string.match(record, '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  count, crashes = tonumber(count), tonumber(crashes)
  if not count or math.max(count, crashes) >= 2 ^ 53 then return 0, 0, '0', '-', string.sub(record, 1, 4096), '' end
  local bare_reason, claims_that_crashed = string.match(reason, '^(.+)@([%d,]+)$')
  return count, crashes, failed_at, bare_reason or reason, text, claims_that_crashed or ''
end
-- Of a suspect that lives no traceback is kept: a turn may look at a thousand of them.
local function write_failure(item, count, crashes, failed_at, reason, text, claims_that_crashed)
  if crashes >= 2 and reason == '-' then text = string.match(text, '^[^\n]*') end
  if claims_that_crashed ~= '' then reason = reason .. '@' .. claims_that_crashed end
  call('HSET', failures, item, string.format('%d %d %s %s ', count, crashes, failed_at, reason) .. text)
end
--- @include parked
-- Move to the dead, unless something newer is pending: that has a try of its own.
local function park(item, time_may_mend)
  if call('ZSCORE', dirty, item) or call('ZSCORE', delayed, item) then return false end
  call('ZADD', dead, time_may_mend and TIME_MAY_MEND + now or now, item)
  return true
end
