-- Put what the fleet itself wrote, (name, record) each, unless what is there is newer, or the stream has passed its
-- version: what it has passed may have been deleted since. Returns how many the stream had not passed.
local streams, cache, index = KEYS[1], KEYS[2], KEYS[3]
local stream = ARGV[1]
local records = { unpack(ARGV, 2) }
local call = redis.call
call('HLEN', cache)
call('ZCARD', index)
--- @include older
--- @include cached
local position = string.match(call('HGET', streams, stream) or '', '^%S+ (%S+) ') or ''
-- once all pages of a list are in, its version counts: what it did not show is about to go
local passed = string.match(position, '@(%d+)$') or string.match(position, '^%d*')
local ahead = {}
for i = 1, #records, 2 do
  if older(passed, read_head(records[i + 1])) then
    ahead[#ahead + 1], ahead[#ahead + 2] = records[i], records[i + 1]
  end
end
if #ahead > 0 then put_all(ahead, passed) end
return #ahead / 2
