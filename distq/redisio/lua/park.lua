-- Move ready and delayed items that nobody holds to the dead, by hand; their failure counts stay.
-- Returns how many were moved.
local ready, dirty, processing, delayed, failures, dead =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local time, why = ARGV[1], ARGV[2]
local items = { unpack(ARGV, 3) }
local call = redis.call
--- @include now
call('ZCARD', ready)
call('ZCARD', dirty)
call('ZCARD', delayed)
call('ZCARD', dead)
call('HLEN', failures)
local held = call('ZMSCORE', processing, unpack(items))
local now_text = string.format('%.0f', now)
--- @include failure
local parked = 0
for i, item in ipairs(items) do
  if not held[i] and call('ZREM', ready, item) + call('ZREM', delayed, item) > 0 then
    park(item)
    local count, crashes = read_failure(item)
    write_failure(item, count, crashes, now_text, 'parked', why)
    parked = parked + 1
  end
end
return parked
