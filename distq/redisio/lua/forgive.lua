-- Remove the crashes that items got when their session lapsed: its process is alive, so they did not crash it.
-- `held` has the claims that the session had, (item, fence) each. A crash is removed if the failure record has the
-- fence of the claim, so it is removed once, and no other crash is. An item that was parked because of it becomes
-- pending. Items that the session still holds are put back later without a crash.
-- Returns how many crashes were removed.
local ready, dirty, processing, delayed, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, meta, wake, suspects = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local flows, arrivals, held_back = KEYS[10], KEYS[11], KEYS[12]
local time, session = ARGV[1], ARGV[2]
local held = { unpack(ARGV, 3) }
local call = redis.call
--- @include now
local number = string.match(session, '^%d+')
local stamp, record, fair_by = unpack(call('HMGET', meta, 'stamp', number, 'fair_by'))
--- @include stamp
for _, key in ipairs({ ready, suspects, dirty, processing, delayed, dead, held_back }) do call('ZCARD', key) end
local tokens = call('LLEN', wake)
--- @include by_flow
--- @include check_flows
call('HDEL', failures, '\0no item') -- if memory is full, Redis permits a removal first, and then all other writes
--- @include failure
--- @include enqueue
if record == 'lapsed' then call('HDEL', meta, number) end
-- Return the fences of the other crashes, and whether this fence is among the crashes.
local function without(fence, claims_that_crashed)
  local others, found = {}, false
  for each in string.gmatch(claims_that_crashed, '%d+') do
    if each == fence then found = true else others[#others + 1] = each end
  end
  return table.concat(others, ','), found
end
local forgiven, revived, names = 0, {}, {}
for i = 1, #held, 2 do
  local item, fence = held[i], held[i + 1]
  names[#names + 1] = item
  local count, crashes, failed_at, reason, text, claims_that_crashed = read_failure(item)
  local others, found = without(fence, claims_that_crashed)
  if found then
    forgiven, crashes = forgiven + 1, math.max(0, crashes - 1)
    if reason == 'crashes' and crashes < 3 then
      failed_at, reason, text = '0', '-', ''
      if call('ZSCORE', dead, item) then revived[#revived + 1] = item end
    end
    if count == 0 and crashes == 0 and reason == '-' then
      call('HDEL', failures, item)
    else
      write_failure(item, count, crashes, failed_at, reason, text, others)
    end
  end
end
if #revived > 0 then
  enqueue(revived, 0, false)
  call('HSET', meta, 'stamp', stamp)
end
--- @include look_again
if #names > 0 then look_again(names) end
return forgiven
