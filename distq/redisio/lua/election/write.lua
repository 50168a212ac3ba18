-- Replace the record of an election if its version is still `seen`; otherwise do nothing.
-- Returns the version of the new record, or nil if the record has another version.
local lock = KEYS[1]
local time, seen, record = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call
local at -- `include/now` assigns it for traces; this script has none
--- @include now
local version = call('HGET', lock, 'version')
if (version or '') ~= seen then return false end

-- Versions grow by the clock, so they also grow after a failover that lost some of them.
local new = string.format('%.0f', math.max(now, (tonumber(version) or 0) + 1))
call('HSET', lock, 'version', new, 'record', record)
return new
