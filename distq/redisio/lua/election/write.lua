-- Replace the record of an election if it is still the one that was seen, or do nothing.
-- Returns the version of the new record, or nothing where another is there by now.
local lock = KEYS[1]
local time, seen, record = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call
local at -- a trace has none of this
--- @include now
local version = call('HGET', lock, 'version')
if (version or '') ~= seen then return false end

-- Versions grow, by the clock also over a failover that lost some of them.
local new = string.format('%.0f', math.max(now, (tonumber(version) or 0) + 1))
call('HSET', lock, 'version', new, 'record', record)
return new
