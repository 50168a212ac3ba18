-- in: dead, delayed, dirty, failures, now
-- out: park, read_failure, write_failure
-- A failure record is `count crashes failed_at reason text`. The reason is - until the item is dead; the fences of the
-- claims that crashed, if any, follow it as `@fence,fence`. An invalid record has no counts, and its bytes become the
-- text.
local function read_failure(item)
  local record = call('HGET', failures, item)
  if not record then return 0, 0, '0', '-', '', '' end
  local count, crashes, failed_at, reason, text = string.match(record, '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  count, crashes = tonumber(count), tonumber(crashes)
  if not count or math.max(count, crashes) >= 2 ^ 53 then return 0, 0, '0', '-', string.sub(record, 1, 4096), '' end
  local bare_reason, claims_that_crashed = string.match(reason, '^(.+)@([%d,]+)$')
  return count, crashes, failed_at, bare_reason or reason, text, claims_that_crashed or ''
end
-- A suspect that is not dead keeps no traceback: a turn may read a thousand of them.
local function write_failure(item, count, crashes, failed_at, reason, text, claims_that_crashed)
  if crashes >= 2 and reason == '-' then text = string.match(text, '^[^\n]*') end
  if claims_that_crashed ~= '' then reason = reason .. '@' .. claims_that_crashed end
  call('HSET', failures, item, string.format('%d %d %s %s ', count, crashes, failed_at, reason) .. text)
end
--- @include parked
-- Make an item dead, unless it was added again or is delayed: then it gets another try.
local function park(item, waiting_may_help)
  if call('ZSCORE', dirty, item) or call('ZSCORE', delayed, item) then return false end
  call('ZADD', dead, waiting_may_help and WAITING_MAY_HELP + now or now, item)
  return true
end
